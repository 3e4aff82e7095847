//! The options of `opencode run --attach` that a Task needs.

use crate::run_log::Format;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Arguments {
    pub server: String,
    pub title: Option<String>,
    /// A session to continue.
    pub session: Option<String>,
    /// Format of the log.
    pub format: Format,
    /// Working directory on the server; the server's own if unset.
    pub directory: Option<String>,
    /// Provider and model.
    pub model: Option<(String, String)>,
    pub variant: Option<String>,
    pub agent: Option<String>,
    /// The prompt; `None` reads it from a file or standard input.
    pub message: Option<String>,
    /// A file with the prompt.
    pub prompt_file: Option<String>,
    /// Approve every permission request.
    pub auto: bool,
    pub username: Option<String>,
    pub password: Option<String>,
}

/// Why the command line is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// An unknown option.
    #[error("unknown option {0}; usage: {USAGE}")]
    Unknown(String),
    /// An option that only the real client has.
    #[error("{0} is not supported by this client; use an attachImage with the real OpenCode for it")]
    Unsupported(String),
    /// An option without its value.
    #[error("{0} needs a value; usage: {USAGE}")]
    NoValue(String),
    /// An invalid value.
    #[error("{option} cannot be `{value}`; {expected}")]
    BadValue { option: &'static str, value: String, expected: &'static str },
    /// The option `--attach` is missing.
    #[error("this client only talks to a server: give --attach URL; usage: {USAGE}")]
    NoServer,
}

/// One line of help.
pub const USAGE: &str = "opencode run --attach URL [--title T] [--session ID] [--format default|json] [--dir D] \
                         [-m PROVIDER/MODEL] [--agent A] [--variant V] [--auto] [--prompt-file F] [message...]";

impl Arguments {
    /// Parses the command line, without the program's name; a leading `run` is skipped.
    pub fn parse<S: AsRef<str>>(words: &[S]) -> Result<Self, ArgumentError> {
        let mut arguments = Self::default();
        let mut message: Vec<&str> = Vec::new();
        let mut words = words.iter().map(AsRef::as_ref).peekable();
        if words.peek() == Some(&"run") {
            words.next();
        }
        while let Some(word) = words.next() {
            if word == "--" {
                message.extend(words.by_ref());
                break;
            }
            if !word.starts_with('-') || word == "-" {
                message.push(word);
                continue;
            }
            let (option, inline) = match word.split_once('=') {
                Some((option, value)) if word.starts_with("--") => (option, Some(value)),
                _ => (word, None),
            };
            let mut value = || inline.or_else(|| words.next()).ok_or_else(|| ArgumentError::NoValue(option.to_owned()));
            match option {
                "--attach" => value()?.clone_into(&mut arguments.server),
                "--title" => arguments.title = Some(value()?.to_owned()),
                "--session" | "-s" => arguments.session = Some(value()?.to_owned()),
                "--dir" => arguments.directory = Some(value()?.to_owned()),
                "--agent" => arguments.agent = Some(value()?.to_owned()),
                "--variant" => arguments.variant = Some(value()?.to_owned()),
                "--prompt-file" => arguments.prompt_file = Some(value()?.to_owned()),
                "--username" | "-u" => arguments.username = Some(value()?.to_owned()),
                "--password" | "-p" => arguments.password = Some(value()?.to_owned()),
                "--model" | "-m" => arguments.model = Some(model(value()?)?),
                "--format" => arguments.format = format(value()?)?,
                "--log-level" => {
                    value()?;
                }
                "--auto" | "--yolo" | "--dangerously-skip-permissions" => arguments.auto = true,
                "--print-logs" | "--thinking" | "--pure" => {}
                "--continue" | "-c" | "--fork" | "--share" | "--command" | "--file" | "-f" | "--port" => {
                    return Err(ArgumentError::Unsupported(option.to_owned()));
                }
                _ => return Err(ArgumentError::Unknown(option.to_owned())),
            }
        }
        if arguments.server.is_empty() {
            return Err(ArgumentError::NoServer);
        }
        // Joined without quotation marks, which the real client adds: the prompt stays as typed.
        arguments.message = (!message.is_empty()).then(|| message.join(" "));
        Ok(arguments)
    }
}

fn model(value: &str) -> Result<(String, String), ArgumentError> {
    match value.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
            Ok((provider.to_owned(), model.to_owned()))
        }
        _ => Err(ArgumentError::BadValue {
            option: "--model",
            value: value.to_owned(),
            expected: "write provider/model",
        }),
    }
}

fn format(value: &str) -> Result<Format, ArgumentError> {
    match value {
        "default" => Ok(Format::Readable),
        "json" => Ok(Format::Json),
        _ => Err(ArgumentError::BadValue {
            option: "--format",
            value: value.to_owned(),
            expected: "write default or json",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Arguments, ArgumentError> {
        Arguments::parse(words)
    }

    #[test]
    fn the_command_of_a_task_pod_is_understood() {
        let arguments =
            parse(&["run", "--attach", "http://agent:4096", "--title", "my task", "Fix  the \"bug\"\n"]).unwrap();
        assert_eq!(arguments.server, "http://agent:4096");
        assert_eq!(arguments.title.as_deref(), Some("my task"));
        assert_eq!(arguments.message.as_deref(), Some("Fix  the \"bug\"\n"));
    }

    #[test]
    fn every_form_of_an_option_works() {
        let arguments = parse(&[
            "--attach=http://h",
            "--format=json",
            "-m",
            "a/b/c",
            "-s",
            "ses_1",
            "--dir",
            "/w",
            "--agent",
            "plan",
            "--yolo",
            "one",
            "--",
            "--two",
        ])
        .unwrap();
        assert_eq!(arguments.format, Format::Json);
        assert_eq!(arguments.model, Some(("a".to_owned(), "b/c".to_owned())));
        assert_eq!(arguments.session.as_deref(), Some("ses_1"));
        assert_eq!(arguments.message.as_deref(), Some("one --two"));
        assert!(arguments.auto);
    }

    #[test]
    fn wrong_command_lines_are_explained() {
        for (words, part) in [
            (vec!["hello"], "--attach URL"),
            (vec!["--attach"], "needs a value"),
            (vec!["--attach", "x", "--nope"], "unknown option --nope"),
            (vec!["--attach", "x", "--continue"], "not supported"),
            (vec!["--attach", "x", "-m", "gpt"], "provider/model"),
            (vec!["--attach", "x", "--format", "xml"], "default or json"),
        ] {
            let error = parse(&words).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
