//! The product as images hold it. It has a name of its own so that linking it statically leaves the one alone that runs on
//! this machine.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubeopencode::main()
}
