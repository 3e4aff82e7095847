//! The parts of OpenCode's sessions that we read.

use serde::Deserialize;
use serde_json::Value;

use super::message::{Tokens, lenient};

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Session {
    /// `ses_…`.
    pub id: String,
    /// Set by the client that created the session.
    #[serde(deserialize_with = "lenient")]
    pub title: String,
    /// The session whose agent started this one as a subagent.
    #[serde(rename = "parentID")]
    pub parent: Option<String>,
    /// Set by the client that created the session.
    pub metadata: Value,
    #[serde(deserialize_with = "lenient")]
    pub time: SessionTime,
    /// Cost of the whole session, in dollars.
    #[serde(deserialize_with = "lenient")]
    pub cost: f64,
    /// Tokens of the whole session.
    #[serde(deserialize_with = "lenient")]
    pub tokens: Tokens,
}

/// Times of a session, in milliseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct SessionTime {
    pub created: f64,
}
