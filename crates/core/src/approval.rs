//! What an agent asks a person, and what the status of its Task says about it.

use api::{
    conditions::{reasons, types},
    run::ApprovalMode,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Deserialize;

use crate::{pod::attaches, resolved::ResolvedTask, status};

/// A condition is read in a list: a longer request is shown whole by whoever answers it.
const MOST_CHARS: usize = 120;
/// A word with so many letters and digits in a row looks like a key.
const KEY_CHARS: usize = 16;

/// A request of an agent that waits for a person, as OpenCode tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Asked {
    /// `per_…` or `que_…`.
    pub id: String,
    /// The session that waits.
    #[serde(rename = "sessionID")]
    pub session: String,
    /// What is to be permitted; empty for a question.
    pub permission: String,
    /// On what.
    pub patterns: Vec<String>,
}

impl Asked {
    /// What is asked, in the agent's words.
    pub fn what(&self) -> String {
        match (self.permission.as_str(), self.patterns.is_empty()) {
            ("", _) => "a question".to_owned(),
            (permission, true) => permission.to_owned(),
            (permission, false) => format!("{permission} ({})", self.patterns.join(", ")),
        }
    }

    /// What is asked, in a line of a status. Many may read it, so what looks like a key is left out (I7).
    pub fn describe(&self) -> String {
        let what = self.what();
        let words = what.split_whitespace().map(|word| if looks_like_a_key(word) { "…" } else { word });
        let line = words.collect::<Vec<_>>().join(" ");
        if line.chars().count() <= MOST_CHARS {
            return line;
        }
        line.chars().take(MOST_CHARS).chain(['…']).collect()
    }
}

fn looks_like_a_key(word: &str) -> bool {
    word.split(|char: char| !char.is_ascii_alphanumeric()).any(|run| {
        run.len() >= KEY_CHARS
            && run.bytes().any(|byte| byte.is_ascii_digit())
            && run.bytes().any(|byte| byte.is_ascii_alphabetic())
    })
}

/// Whether a person may be asked in this run: on the server of an Agent, if the settings say so.
pub fn may_ask(task: &ResolvedTask) -> bool {
    attaches(task) && task.agent.approval.mode != ApprovalMode::Never
}

/// Puts into the conditions of a Task what is asked now. Nothing changes for a Task that never asked.
pub fn note(conditions: &mut Vec<Condition>, asked: &[Asked], generation: Option<i64>, now: Timestamp) {
    let (holds, reason, message) = match asked {
        [] if !status::holds(Some(conditions), types::AWAITING_APPROVAL) => return,
        [] => (false, reasons::ANSWERED, "nothing is asked any more".to_owned()),
        [one] => (true, reasons::ASKED, one.describe()),
        [first, others @ ..] => (true, reasons::ASKED, format!("{} and {} more", first.describe(), others.len())),
    };
    status::set(conditions, types::AWAITING_APPROVAL, holds, reason, message, generation, now);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(permission: &str, patterns: &[&str]) -> Asked {
        let patterns = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        Asked { id: "per_1".into(), session: "ses_1".into(), permission: permission.into(), patterns }
    }

    #[test]
    fn a_request_is_one_short_line_without_keys() {
        let check = |asked: Asked, expected: &str| assert_eq!(asked.describe(), expected);
        check(asked("bash", &["git push origin main"]), "bash (git push origin main)");
        check(asked("edit", &["/workspace/src/lib.rs", "b"]), "edit (/workspace/src/lib.rs, b)");
        check(asked("webfetch", &[]), "webfetch");
        check(asked("", &[]), "a question");
        check(asked("bash", &["curl -H 'x: sk-0123456789abcdefgh'\n| sh"]), "bash (curl -H 'x: … | sh)");
        check(asked("bash", &["TOKEN=ghp_0123456789abcdefgh true"]), "bash … true)");
        let long = asked("bash", &["word ".repeat(100).trim()]).describe();
        assert_eq!((long.chars().count(), long.ends_with('…')), (MOST_CHARS + 1, true));
    }

    #[test]
    fn the_condition_follows_what_is_asked() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let mut conditions = Vec::new();
        note(&mut conditions, &[], None, at(1));
        assert!(conditions.is_empty(), "it never asked");
        note(&mut conditions, &[asked("bash", &["ls"])], None, at(2));
        let told = |conditions: &[Condition]| {
            let one = status::find(conditions, types::AWAITING_APPROVAL).unwrap();
            (one.status.clone(), one.message.clone(), one.last_transition_time.0.as_second())
        };
        assert_eq!(told(&conditions), ("True".into(), "bash (ls)".into(), 2));
        note(&mut conditions, &[asked("bash", &["ls"]), asked("", &[])], None, at(3));
        assert_eq!(told(&conditions), ("True".into(), "bash (ls) and 1 more".into(), 2));
        note(&mut conditions, &[], None, at(4));
        assert_eq!(told(&conditions), ("False".into(), "nothing is asked any more".into(), 4));
        note(&mut conditions, &[], None, at(5));
        assert_eq!(told(&conditions).2, 4);
    }
}
