//! The one binary of KubeOpenCode.

use std::{
    panic,
    process::{self, ExitCode},
};

fn main() -> ExitCode {
    // Abort on panic, as the release profile does, so that tests do not survive errors that end the product.
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |what| {
        report(what);
        process::abort();
    }));
    kubeopencode::main()
}
