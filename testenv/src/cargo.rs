//! Cargo, from programs that cargo started.

use std::{env, process::Command};

/// Cargo, as a person would start it.
///
/// Cargo sets variables about the package for the programs that it runs, and `xtask test` sets `RUSTC_BOOTSTRAP` to get
/// times from libtest. Build scripts read the same variables, so a cargo that inherits them rebuilds half of the
/// dependencies.
pub fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_MANIFEST_") || text.starts_with("CARGO_PKG_") || text == "RUSTC_BOOTSTRAP" {
            command.env_remove(&name);
        }
    }
    command
}
