//! Programs of the machine that the harness calls: `go`, `apt-get`, `ip` and the like.

use std::io::ErrorKind;
use std::process::{Command, ExitStatus};

/// A program of the machine is missing or failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program is not on the `PATH`.
    #[error("`{tool}` is not installed: {remedy}")]
    Missing {
        /// Its name.
        tool: String,
        /// How to get it.
        remedy: &'static str,
    },
    /// The program could not be started.
    #[error("cannot run `{tool}`")]
    Start {
        /// Its name.
        tool: String,
        /// Why.
        source: std::io::Error,
    },
    /// The program ran and failed.
    #[error("`{command}` failed, {status}:\n{output}")]
    Failed {
        /// The whole command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of its output.
        output: String,
    },
}

/// Runs `command` to its end and returns its standard output.
pub(crate) fn run(command: &mut Command) -> Result<String, Error> {
    let output = command.output().map_err(|source| not_started(command, source))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let printed = [output.stdout, output.stderr].concat();
    Err(Error::Failed {
        command: line(command),
        status: output.status,
        output: last_lines(&String::from_utf8_lossy(&printed), 20),
    })
}

/// The error for a command that could not be started.
pub(crate) fn not_started(command: &Command, source: std::io::Error) -> Error {
    let tool = command.get_program().to_string_lossy().into_owned();
    if source.kind() != ErrorKind::NotFound {
        return Error::Start { tool, source };
    }
    let remedy = match tool.as_str() {
        "go" => {
            "install Go 1.26 or newer from https://go.dev/dl, or set KUBEBUILDER_ASSETS to a directory with binaries"
        }
        "apt-get" | "dpkg-deb" => "a node takes containerd and runc from Debian packages, so it needs Debian or Ubuntu",
        "ip" => "apt-get install iproute2",
        "unshare" | "nsenter" => "apt-get install util-linux",
        _ => "install it and try again",
    };
    Error::Missing { tool, remedy }
}

/// The last `count` lines of `text`.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

fn line(command: &Command) -> String {
    let args = std::iter::once(command.get_program()).chain(command.get_args());
    args.map(|arg| arg.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_named_with_its_remedy() {
        let error = not_started(&Command::new("go"), ErrorKind::NotFound.into());
        assert!(error.to_string().starts_with("`go` is not installed: install Go"), "{error}");
    }

    #[test]
    fn a_failure_shows_the_command_and_the_end_of_its_output() {
        let error = run(Command::new("sh").args(["-c", "seq 100; exit 3"])).unwrap_err().to_string();
        assert!(error.contains("`sh -c seq 100; exit 3` failed, exit status: 3"), "{error}");
        assert!(error.ends_with("99\n100") && !error.contains("\n80\n"), "{error}");
    }
}
