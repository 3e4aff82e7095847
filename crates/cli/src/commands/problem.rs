//! Errors of commands, with a suggestion for the next step.

use std::{fmt, io};

use kube::core::Status;

use super::exit::Exit;

/// Why a command failed: a sentence, a next step where there is one, and the exit code.
#[derive(Debug)]
pub struct Problem {
    message: String,
    next: Option<String>,
    exit: Exit,
    broken_pipe: bool,
}

/// The result of a command.
pub type Answer<T> = Result<T, Problem>;

impl Problem {
    /// A failure without a more specific exit code.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), next: None, exit: Exit::Failed, broken_pipe: false }
    }

    /// Invalid or contradictory arguments.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, ..Self::new(message) }
    }

    /// A named object does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self { exit: Exit::NotFound, ..Self::new(message) }
    }

    /// No cluster can be reached.
    pub fn unreachable(message: impl Into<String>) -> Self {
        Self { exit: Exit::Unreachable, ..Self::new(message) }
    }

    /// Sets the suggested next step.
    #[must_use]
    pub fn next(self, step: impl Into<String>) -> Self {
        Self { next: Some(step.into()), ..self }
    }

    /// Sets the suggested next step, unless there is one.
    #[must_use]
    pub fn or_next(self, step: impl Into<String>) -> Self {
        if self.next.is_some() { self } else { self.next(step) }
    }

    /// Prefixes the message with the attempted action.
    #[must_use]
    pub fn while_doing(self, what: &str) -> Self {
        Self { message: format!("{what}: {}", self.message), ..self }
    }

    /// Replaces the exit code.
    #[must_use]
    pub fn with_exit(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// Whether the reader closed our output: `kubeopencode get tasks | head` is not a failure.
    pub fn is_broken_pipe(&self) -> bool {
        self.broken_pipe
    }

    pub fn next_step(&self) -> Option<&str> {
        self.next.as_deref()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        let broken_pipe = error.kind() == io::ErrorKind::BrokenPipe;
        Self { broken_pipe, ..Self::new(error.to_string()) }
    }
}

impl From<kube::Error> for Problem {
    fn from(error: kube::Error) -> Self {
        match &error {
            kube::Error::Api(status) => Self::from_status(status),
            kube::Error::Auth(cause) => Self {
                exit: Exit::Forbidden,
                ..Self::new(format!("cannot log in to the cluster: {}", innermost(cause)))
                    .next("check the user of the current context in your kubeconfig")
            },
            kube::Error::Service(_) | kube::Error::HyperError(_) | kube::Error::ReadEvents(_) => {
                Self::unreachable(format!("the cluster cannot be reached: {}", innermost(&error))).next(
                    "check that it runs and that --kubeconfig and --context name the right one; `kubeopencode up` starts one on this machine",
                )
            }
            _ => Self::new(innermost(&error)),
        }
    }
}

impl From<kube::runtime::watcher::Error> for Problem {
    fn from(error: kube::runtime::watcher::Error) -> Self {
        use kube::runtime::watcher::Error as Watch;
        match error {
            Watch::InitialListFailed(error) | Watch::WatchStartFailed(error) | Watch::WatchFailed(error) => {
                error.into()
            }
            Watch::WatchError(status) => Self::from_status(&status),
            Watch::NoResourceVersion => Self::new(error.to_string()),
        }
    }
}

impl Problem {
    /// Translates an error response of the API server.
    pub fn from_status(status: &Status) -> Self {
        let message = sentence(status);
        let problem = Self::new(message.clone());
        match status.code {
            401 => Self { exit: Exit::Forbidden, ..Self::new("the cluster does not know you") }
                .next("log in again, or check the user of the current context in your kubeconfig"),
            403 => Self { exit: Exit::Forbidden, ..problem }
                .next("ask an administrator for a Role that allows it; `kubeopencode doctor` lists what you may do"),
            // The path itself is unknown, which only happens without our definitions.
            404 if message.contains("the server could not find the requested resource")
                || message.contains("page not found") =>
            {
                Self { exit: Exit::NotFound, ..Self::new("the cluster does not know this kind") }
                    .next("install the definitions: kubeopencode crds | kubectl apply -f -")
            }
            404 => Self { exit: Exit::NotFound, ..problem }.next("check the name, and the namespace (-n)"),
            409 if status.reason == "AlreadyExists" => problem.next("choose another name, or delete that one first"),
            409 => problem.next("the object was changed meanwhile; try again, or use --force-conflicts with apply"),
            422 => problem.next("correct the named field and try again"),
            _ => problem,
        }
    }
}

/// The causes, each with its field; the message of the API server if there are none.
fn sentence(status: &Status) -> String {
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    if status.code != 422 || causes.is_empty() {
        return status.message.clone();
    }
    let one = |cause: &kube::core::response::StatusCause| {
        let rest = cause.message.strip_prefix("Invalid value: ").unwrap_or(&cause.message);
        let plain = ["\"object\": ", "\"array\": "].iter().find_map(|prefix| rest.strip_prefix(prefix));
        match cause.field.as_str() {
            "" | "<nil>" => plain.unwrap_or(&cause.message).to_owned(),
            field => format!("{field}: {}", plain.unwrap_or(&cause.message)),
        }
    };
    causes.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// The innermost cause says what happened; the outer ones only name the layers.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(status: Value, exit: Exit, message: &str, has_next: bool) {
        let status = serde_json::from_value(status).unwrap();
        let problem = Problem::from_status(&status);
        assert_eq!((problem.exit(), problem.to_string().as_str()), (exit, message));
        assert_eq!(problem.next_step().is_some(), has_next);
    }

    #[test]
    fn a_refusal_of_the_api_server_is_reported_with_a_next_step() {
        check(json!({"code": 404, "reason": "NotFound", "message": "no x"}), Exit::NotFound, "no x", true);
        check(json!({"code": 403, "reason": "Forbidden", "message": "no"}), Exit::Forbidden, "no", true);
        check(json!({"code": 401, "message": "Unauthorized"}), Exit::Forbidden, "the cluster does not know you", true);
        check(json!({"code": 500, "message": "boom"}), Exit::Failed, "boom", false);
        check(
            json!({"code": 422, "reason": "Invalid", "message": "long", "details": {"causes": [
                {"field": "spec", "message": "Invalid value: \"object\": either agentRef or templateRef must be specified"},
                {"field": "metadata.name", "message": "Required value"}]}}),
            Exit::Failed,
            "spec: either agentRef or templateRef must be specified; metadata.name: Required value",
            true,
        );
    }

    #[test]
    fn a_cluster_without_our_definitions_is_told_apart_from_a_missing_object() {
        check(
            json!({"code": 404, "reason": "NotFound", "message": "the server could not find the requested resource"}),
            Exit::NotFound,
            "the cluster does not know this kind",
            true,
        );
    }
}
