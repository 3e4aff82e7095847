//! Why a run ended: one name, one exit code and one condition reason each.

use api::conditions::reasons;
use serde::{Deserialize, Serialize};

/// Exit code of a helper that was asked to stop, as a shell reports SIGTERM.
pub const STOPPED: u8 = 143;

/// One row of the table [`Reason::ALL`].
struct Entry {
    word: &'static str,
    exit_code: u8,
    status: Option<&'static str>,
    meaning: &'static str,
}

macro_rules! table {
    ($($(#[doc = $meaning:literal])+ $reason:ident => $exit:expr, $status:expr;)+) => {
        /// Why a run ended. The word is part of the report; a Task's status may use a more general one.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Reason {
            $($(#[doc = $meaning])+ $reason,)+
            /// A word that this version does not know. No helper writes it.
            #[default]
            #[serde(other)]
            Unknown,
        }

        impl Reason {
            /// Every reason that a helper may report.
            pub const ALL: &[Self] = &[$(Self::$reason),+];

            fn entry(self) -> Entry {
                match self {
                    $(Self::$reason => Entry {
                        word: stringify!($reason),
                        exit_code: $exit,
                        status: Some($status),
                        meaning: concat!($($meaning),+),
                    },)+
                    Self::Unknown => Entry { word: "Unknown", exit_code: 1, status: None, meaning: "" },
                }
            }
        }
    };
}

// reason => exit code, reason of the Task's condition
table! {
    /// The last answer is complete, has no error and ended with `stop`.
    Succeeded => 0, reasons::SUCCEEDED;
    /// The model or its provider answered with an error.
    ModelError => 1, reasons::MODEL_ERROR;
    /// Arguments or environment are invalid; nothing was started.
    BadInvocation => 2, reasons::NON_ZERO_EXIT;
    /// A permission or question needed a person and was rejected.
    PermissionRejected => 3, reasons::PERMISSION_REJECTED;
    /// The answer was cut at the model's output limit.
    LengthLimit => 4, reasons::LENGTH_LIMIT;
    /// The provider's content filter blocked the answer.
    ContentFiltered => 5, reasons::CONTENT_FILTERED;
    /// The session was aborted on the server.
    SessionAborted => 6, reasons::SESSION_ABORTED;
    /// The server is unreachable, frozen, or restarted and lost the run.
    ServerLost => 7, reasons::SERVER_LOST;
    /// No progress for the stall timeout, or the model returns only empty answers.
    NoProgress => 8, reasons::NO_PROGRESS;
    /// The session ended without a final answer.
    NoAnswer => 9, reasons::RESULT_MISSING;
    /// OpenCode failed: unknown model or agent, internal error.
    SessionError => 10, "SessionError";
    /// The conversation no longer fits the model's context.
    ContextOverflow => 11, "ContextOverflow";
    /// The session does not exist or was deleted.
    SessionGone => 12, reasons::SESSION_ABORTED;
    /// The server rejected the password.
    Unauthorized => 13, "Unauthorized";
    /// The server's configuration is invalid.
    ServerMisconfigured => 14, "ServerMisconfigured";
    /// The run used up its budget and was stopped.
    BudgetExceeded => 15, reasons::BUDGET_EXCEEDED;
    /// The command of the Task failed; the exit code is the command's own (128+n for signal n).
    CommandFailed => 1, reasons::NON_ZERO_EXIT;
    /// The command of the Task does not exist (127) or cannot be executed (126).
    CommandNotStarted => 127, reasons::NON_ZERO_EXIT;
    /// Stopped by SIGTERM or SIGINT; the session was aborted.
    Stopped => STOPPED, reasons::SESSION_ABORTED;
}

impl Reason {
    /// The word in the report.
    pub fn word(self) -> &'static str {
        self.entry().word
    }

    /// The exit code. The shim replaces that of [`Reason::CommandFailed`] and [`Reason::CommandNotStarted`] by the
    /// command's own.
    pub fn exit_code(self) -> u8 {
        self.entry().exit_code
    }

    /// The reason of the Task's condition; `None` for [`Reason::Unknown`].
    pub fn status(self) -> Option<&'static str> {
        self.entry().status
    }

    /// One sentence for the reference.
    pub fn meaning(self) -> &'static str {
        self.entry().meaning.trim()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn exit_codes_are_distinct() {
        // A command brings its own exit code, which may be any.
        let ours = Reason::ALL.iter().filter(|reason| **reason != Reason::CommandFailed);
        let codes: BTreeSet<u8> = ours.clone().map(|reason| reason.exit_code()).collect();
        assert_eq!(codes.len(), ours.count());
    }

    #[test]
    fn a_word_is_the_name_on_the_wire() {
        for reason in Reason::ALL {
            assert_eq!(serde_json::to_string(reason).unwrap(), format!("\"{}\"", reason.word()));
            assert!(reason.status().is_some() && !reason.meaning().is_empty(), "{reason:?}");
        }
    }

    #[test]
    fn an_unknown_word_is_read_as_unknown() {
        for word in ["UserStopped", "", "Unknown"] {
            let reason: Reason = serde_json::from_value(word.into()).unwrap();
            assert_eq!((reason, reason.status()), (Reason::Unknown, None), "{word}");
        }
    }
}
