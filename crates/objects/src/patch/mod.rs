//! The patches of a PATCH request that are not server-side apply: JSON Patch, JSON merge patch, strategic merge patch.

mod json;
mod merge;
mod strategic;

pub use json::json_patch;
pub use merge::merge_patch;
pub use strategic::strategic_merge_patch;

use thiserror::Error;

/// Why a patch was refused. The message is the one of the Status.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PatchError {
    /// The patch is not one.
    #[error("{0}")]
    Malformed(String),
    /// A JSON Patch with more than 10,000 operations.
    #[error("The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {0}")]
    TooLong(usize),
    /// The patch does not apply to this object: a test failed, a path is missing. The API server keeps the detail to
    /// itself.
    #[error("the server rejected our request due to an error in our request")]
    Inapplicable {
        /// For our own logs.
        detail: String,
    },
    /// What the API server answers with an internal error, such as a missing merge key.
    #[error("{0}")]
    Unmergeable(String),
}

/// The most operations that a JSON Patch can have.
const MOST_OPERATIONS: usize = 10_000;

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

    /// The reason of the Status; the internal errors have none.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "BadRequest",
            Self::TooLong(_) => "RequestEntityTooLarge",
            Self::Inapplicable { .. } => "Invalid",
            Self::Unmergeable(_) => "",
        }
    }
}
