//! Matches of a search in logs on the wire.

use jiff::Timestamp;
use serde::Serialize;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

/// What a search found in the logs of a Task.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct LogSearchResponse {
    /// The searched runs, the newest first.
    pub runs: Vec<RunMatches>,
    /// Why not everything was searched or listed; unset if it was.
    pub incomplete: Option<String>,
}

/// What a search found in the log of one run.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunMatches {
    /// Number of the run, the first being 1.
    pub epoch: i64,
    /// The first matching lines.
    pub matches: Vec<LogMatch>,
    /// Matching lines, including those that are not listed.
    pub match_count: u64,
    /// Searched lines.
    pub line_count: u64,
    /// What the log of this run lacks, as a sentence.
    pub missing: Option<String>,
}

/// A line of a log that matches.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct LogMatch {
    /// Number of the line in the log, the first being 1.
    pub line: u64,
    /// When the node received the line. A line without a time says that lines were left out.
    pub time: Option<Timestamp>,
    /// The line, or the part of it around the first match.
    pub text: String,
}
