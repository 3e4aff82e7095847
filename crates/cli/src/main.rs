//! The one binary of KubeOpenCode.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubeopencode::main()
}
