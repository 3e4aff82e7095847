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
    /// The patch does not apply to this object: a test failed, a path is missing, or its copies are too large.
    /// kube-apiserver does not report the detail.
    #[error("the server rejected our request due to an error in our request")]
    Inapplicable {
        /// For logs.
        detail: String,
    },
    /// Errors that kube-apiserver reports as internal, such as a missing merge key.
    #[error("{0}")]
    Unmergeable(String),
}

/// Maximum nesting of a patched object: more than any real object has, and safe for recursive functions.
pub const MAX_DEPTH: usize = 400;
/// Maximum number of operations of a JSON Patch.
const MAX_OPERATIONS: usize = 10_000;
/// Maximum size of all copies of a JSON Patch, in bytes of JSON; kube-apiserver's default.
const MAX_COPIED: usize = 3 * 1024 * 1024;
/// Maximum number of items that the operations of a JSON Patch move or visit, about a second of work.
const MAX_STEPS: usize = 100_000_000;

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
