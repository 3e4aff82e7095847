//! Why a request to the depot failed.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use domain::contract::depot::RefusalReason;
use egress::TransferError;

/// Characters of the depot's own sentence that are quoted.
pub(super) const MOST_MESSAGE: usize = 400;

/// Why a request failed. Contains neither the token nor an address.
#[derive(Debug, thiserror::Error)]
pub enum DepotError {
    /// The depot refused the request.
    #[error("the depot refuses it: {message}")]
    Refused {
        reason: RefusalReason,
        /// The depot's sentence.
        message: String,
    },
    /// No connection, or the connection was lost.
    #[error("the connection to the depot failed: {0}")]
    Transfer(TransferError),
    /// The depot neither read nor answered.
    #[error("the depot did nothing for {} s", .0.as_secs())]
    Silent(Duration),
    /// Not an answer of the protocol.
    #[error("the depot answers {0} without a reason; check that KUBEOPENCODE_DEPOT_URL is its address")]
    Status(u16),
    /// Not what the protocol prescribes.
    #[error("the answer of the depot cannot be read: {0}")]
    Unreadable(String),
    /// The bytes changed on their way or in the store.
    #[error("the bytes in the store are not those of their SHA-256")]
    Damaged,
    /// The manifest would be too long.
    #[error("the list of its {0} files is too long; keep fewer files, for example in one archive")]
    ManyFiles(u64),
    /// The token cannot be read.
    #[error("the token for the depot {path:?} cannot be read: {source}")]
    Token { path: PathBuf, source: io::Error },
    /// Downloaded bytes cannot be written.
    #[error("{path:?} cannot be written: {source}")]
    File { path: PathBuf, source: io::Error },
}

impl DepotError {
    /// Whether the same request may succeed later.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Refused { reason, .. } => reason.is_temporary(),
            Self::Transfer(_) | Self::Silent(_) => true,
            // A proxy in front of the depot, or a depot that starts.
            Self::Status(status) => matches!(status, 408 | 429 | 500..),
            Self::Unreadable(_) | Self::Damaged | Self::ManyFiles(_) | Self::Token { .. } | Self::File { .. } => false,
        }
    }

    /// Whether there is no such thing in the store.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { reason: RefusalReason::NotFound, .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_is_tried_again() {
        let refused = |reason| DepotError::Refused { reason, message: String::new() };
        let check = |error: DepotError, expected: bool| assert_eq!(error.is_temporary(), expected, "{error}");
        check(refused(RefusalReason::Unavailable), true);
        for reason in [RefusalReason::Conflict, RefusalReason::NotAllowed, RefusalReason::Unknown] {
            check(refused(reason), false);
        }
        check(DepotError::Transfer(TransferError::Connect("refused".to_owned())), true);
        for (status, expected) in [(502, true), (429, true), (404, false), (301, false)] {
            check(DepotError::Status(status), expected);
        }
        check(DepotError::Damaged, false);
    }
}
