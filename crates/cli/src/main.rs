//! The one binary of KubeOpenCode.

use std::{
    panic,
    process::{self, ExitCode},
};

fn main() -> ExitCode {
    // As a release does: a build for tests is not to survive what would end the product.
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |what| {
        report(what);
        process::abort();
    }));
    kubeopencode::main()
}
