//! Cargo, from programs that cargo started.

use std::{env, process::Command};

/// Cargo, as a person would start it.
///
/// Cargo tells the programs that it runs about their package. Build scripts look at the same variables, so a cargo that
/// inherits them takes half of what is built for outdated.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_MANIFEST_") || text.starts_with("CARGO_PKG_") {
            command.env_remove(&name);
        }
    }
    command
}
