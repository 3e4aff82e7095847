//! The patch types other than server-side apply: JSON Patch, JSON merge patch, strategic merge patch.

mod json;
mod merge;
mod strategic;

pub use json::json_patch;
pub use merge::merge_patch;
pub use strategic::strategic_merge_patch;

use thiserror::Error;

/// Errors of a patch. The message is that of the Status.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PatchError {
    #[error("{0}")]
    Malformed(String),
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooLong(usize),
    /// The patch does not apply to this object: a test failed, or a path is missing. kube-apiserver does not report the
    /// detail.
    #[error("the server rejected our request due to an error in our request")]
    Inapplicable {
        /// For logs.
        detail: String,
    },
    /// Errors that kube-apiserver reports as internal, such as a missing merge key.
    #[error("{0}")]
    Unmergeable(String),
}

/// Maximum number of operations of a JSON Patch.
const MAX_OPERATIONS: usize = 10_000;

impl PatchError {
    /// The HTTP status.
    pub fn code(&self) -> u16 {
        match self {
            Self::Malformed(_) => 400,
            Self::TooLong(_) => 413,
            Self::Inapplicable { .. } => 422,
            Self::Unmergeable(_) => 500,
        }
    }

    /// The reason of the Status; internal errors have none.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "BadRequest",
            Self::TooLong(_) => "RequestEntityTooLarge",
            Self::Inapplicable { .. } => "Invalid",
            Self::Unmergeable(_) => "",
        }
    }
}
