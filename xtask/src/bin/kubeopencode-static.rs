//! The product for images, linked statically. Its name differs so that it never replaces the usual binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubeopencode::main()
}
