//! What the helper that removes directories from a shared workspace reports.

use serde::{Deserialize, Serialize};

/// UIDs of Tasks in one report: with them it fits into a termination message, which Kubernetes cuts at 4096 bytes.
pub const MOST_TASKS: usize = 64;
/// UIDs of other Tasks in one report, and of Tasks whose directories one Pod removes.
pub const MOST_LISTED: usize = MOST_TASKS / 2;
/// Sentences about trouble in one report.
pub const MOST_PROBLEMS: usize = 4;
/// Characters of such a sentence.
pub const LONGEST_PROBLEM: usize = 150;

/// The termination message of `workspace-clean`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CleanReport {
    /// Number of Tasks whose directories were removed.
    pub removed: u64,
    /// UIDs of other Tasks that have a directory there: the first [`MOST_LISTED`] of them, in their order.
    #[serde(default)]
    pub others: Vec<String>,
    /// UIDs of the Tasks whose directories could not be removed.
    #[serde(default)]
    pub failed: Vec<String>,
    /// Why, at most [`MOST_PROBLEMS`] sentences.
    #[serde(default)]
    pub problems: Vec<String>,
}

impl CleanReport {
    /// The UID after which the next report goes on; `None` if this one lists all.
    pub fn continues_after(&self) -> Option<&str> {
        self.others.get(MOST_LISTED - 1).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_report_fits_into_a_termination_message() {
        let uid = "1a2b3c4d-1111-2222-3333-0123456789ab".to_owned();
        let report = CleanReport {
            removed: u64::MAX,
            others: vec![uid.clone(); MOST_LISTED],
            failed: vec![uid; MOST_LISTED],
            problems: vec!["é".repeat(LONGEST_PROBLEM); MOST_PROBLEMS],
        };
        let text = serde_json::to_string(&report).unwrap();
        assert!(text.len() <= 4096, "{}", text.len());
    }
}
