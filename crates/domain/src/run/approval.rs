//! Requests of an agent to a person, and the condition that reports them.

use api::{
    conditions::{reasons, types},
    run::ApprovalMode,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{run::resolved::ResolvedTask, status, workload::pod::attaches};

/// Length of a request in a condition. The full text is shown where the request is answered.
const MAX_CHARS: usize = 120;
/// Length of a pattern or message in the audit of approvals, and number of patterns.
const MAX_RECORDED: usize = 500;
const MAX_PATTERNS: usize = 16;
/// A run of this many letters and digits counts as a key.
const KEY_CHARS: usize = 16;

/// A permission request or question of an agent that waits for a person, as OpenCode reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Asked {
    /// `per_…` or `que_…`.
    pub id: String,
    /// The session that waits.
    #[serde(rename = "sessionID")]
    pub session: String,
    /// Name of the permission; empty for a question.
    pub permission: String,
    /// Commands, paths or URLs of the request.
    pub patterns: Vec<String>,
    /// Details of the tool call.
    pub metadata: Value,
    /// Patterns that the answer "always" would allow.
    pub always: Vec<String>,
}

impl Asked {
    /// The request as text.
    pub fn what(&self) -> String {
        match (self.permission.as_str(), self.patterns.is_empty()) {
            ("", _) => "a question".to_owned(),
            (permission, true) => permission.to_owned(),
            (permission, false) => format!("{permission} ({})", self.patterns.join(", ")),
        }
    }

    /// The request in one line, for a status. Parts that look like a key are left out, because many can read a status
    /// (I7).
    pub fn describe(&self) -> String {
        shorten(&without_keys(&self.what()), MAX_CHARS)
    }
}

/// What a person decided about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    Once,
    Always,
    Reject,
}

/// The way an answer came, as the program that sent it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Via {
    Page,
    CommandLine,
    Api,
}

/// An answer to a request, as the audit of approvals keeps it. Parts that look like a key are left out (I7).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answered {
    pub request: String,
    pub permission: String,
    #[serde(default)]
    pub patterns: Vec<String>,
    pub decision: Decision,
    /// To the agent, with a rejection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// User name.
    pub by: String,
    pub via: Via,
}

impl Answered {
    pub fn new(asked: &Asked, decision: Decision, message: Option<&str>, by: &str, via: Via) -> Self {
        let recorded = |text: &str| shorten(&without_keys(text), MAX_RECORDED);
        let more = asked.patterns.len().saturating_sub(MAX_PATTERNS);
        let patterns = asked.patterns.iter().take(MAX_PATTERNS).map(|pattern| recorded(pattern));
        Self {
            request: asked.id.clone(),
            permission: shorten(&asked.permission, MAX_CHARS),
            patterns: patterns.chain((more > 0).then(|| format!("and {more} more"))).collect(),
            decision,
            message: message.map(recorded),
            by: by.to_owned(),
            via,
        }
    }
}

fn shorten(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A text in one line, with an ellipsis for each word that looks like a key.
fn without_keys(text: &str) -> String {
    let words = text.split_whitespace().map(|word| if looks_like_a_key(word) { "…" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// A permission rule of OpenCode. The last rule that matches wins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rule {
    /// Permission or `*`.
    pub permission: String,
    /// Pattern or `*`.
    pub pattern: String,
    /// `allow`, `ask` or `deny`.
    pub action: String,
}

impl Rule {
    fn new(permission: &str, pattern: &str, action: &str) -> Self {
        Self { permission: permission.to_owned(), pattern: pattern.to_owned(), action: action.to_owned() }
    }

    fn is_about_everything(&self) -> bool {
        self.permission == "*" && self.pattern == "*"
    }
}

/// Rules of a session in which every tool call waits for a person, from those of its agent; `None` if these ask
/// already. Denials stay. Subagents inherit denials from the session that starts them, but no questions, so they would
/// work without approval: they are denied.
pub fn ask_for_everything(agent: &[Rule]) -> Option<Vec<Rule>> {
    let last = agent.iter().rposition(Rule::is_about_everything);
    let asks = |at: usize| agent[at].action == "ask" && agent[at..].iter().all(|rule| rule.action != "allow");
    if last.is_some_and(asks) {
        return None;
    }
    let asked = |rule: &Rule| match rule.action.as_str() {
        "allow" => Rule { action: "ask".to_owned(), ..rule.clone() },
        _ => rule.clone(),
    };
    let first = [Rule::new("*", "*", "ask")].into_iter();
    Some(first.chain(agent.iter().map(asked)).chain([Rule::new("task", "*", "deny")]).collect())
}

fn looks_like_a_key(word: &str) -> bool {
    word.split(|char: char| !char.is_ascii_alphanumeric()).any(|run| {
        run.len() >= KEY_CHARS
            && run.bytes().any(|byte| byte.is_ascii_digit())
            && run.bytes().any(|byte| byte.is_ascii_alphabetic())
    })
}

/// Whether a run may ask a person: only on the server of an Agent, and only if the settings allow it.
pub fn may_ask(task: &ResolvedTask) -> bool {
    attaches(task) && task.agent.approval.mode != ApprovalMode::Never
}

/// Updates the condition AwaitingApproval. A Task that never asked gets none.
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
        Asked {
            id: "per_1".into(),
            session: "ses_1".into(),
            permission: permission.into(),
            patterns,
            ..Asked::default()
        }
    }

    #[test]
    fn the_audit_has_no_keys_and_fits_into_its_record() {
        let asked = asked("bash", &["curl -H X-Key:sk0123456789abcdef https://example.com", &"ä".repeat(5_000)]);
        let answered = Answered::new(&asked, Decision::Reject, Some("use\nabcdefgh12345678"), "maria", Via::Page);
        assert_eq!(answered.patterns[0], "curl -H … https://example.com");
        assert_eq!(answered.patterns[1].chars().count(), MAX_RECORDED + 1);
        assert_eq!(answered.message.as_deref(), Some("use …"));
        let json = serde_json::to_value(&answered).unwrap();
        let expected = serde_json::json!({ "request": "per_1", "permission": "bash", "patterns": answered.patterns,
            "decision": "reject", "message": "use …", "by": "maria", "via": "Page" });
        assert_eq!(json, expected);
        let many = vec!["\u{1}".repeat(5_000); 1_000];
        let asked = Asked { patterns: many, ..asked };
        let answered = Answered::new(&asked, Decision::Once, None, "maria", Via::Api);
        assert_eq!(answered.patterns.last().unwrap(), "and 984 more");
        assert!(serde_json::to_vec(&answered).unwrap().len() < 60 << 10);
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
        assert_eq!((long.chars().count(), long.ends_with('…')), (MAX_CHARS + 1, true));
    }

    #[test]
    fn whatever_is_allowed_is_asked_for_and_whatever_is_denied_stays_so() {
        let rules = |all: &[[&str; 3]]| all.iter().map(|[a, b, c]| Rule::new(a, b, c)).collect::<Vec<_>>();
        let check = |agent: &[[&str; 3]], expected: Option<&[[&str; 3]]>| {
            assert_eq!(ask_for_everything(&rules(agent)), expected.map(rules), "{agent:?}");
        };
        check(&[], Some(&[["*", "*", "ask"], ["task", "*", "deny"]]));
        check(
            &[["*", "*", "allow"], ["bash", "*", "deny"], ["bash", "git *", "allow"], ["read", "*.env", "ask"]],
            Some(&[
                ["*", "*", "ask"],
                ["*", "*", "ask"],
                ["bash", "*", "deny"],
                ["bash", "git *", "ask"],
                ["read", "*.env", "ask"],
                ["task", "*", "deny"],
            ]),
        );
        check(&[["*", "*", "allow"], ["*", "*", "ask"], ["bash", "*", "deny"]], None);
        check(
            &[["*", "*", "ask"], ["bash", "*", "allow"]],
            Some(&[["*", "*", "ask"], ["*", "*", "ask"], ["bash", "*", "ask"], ["task", "*", "deny"]]),
        );
    }

    #[test]
    fn the_condition_follows_what_is_asked() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let mut conditions = Vec::new();
        note(&mut conditions, &[], None, at(1));
        assert!(conditions.is_empty(), "it never asked");
        note(&mut conditions, &[asked("bash", &["ls"])], None, at(2));
        let shown = |conditions: &[Condition]| {
            let one = status::find(conditions, types::AWAITING_APPROVAL).unwrap();
            (one.status.clone(), one.message.clone(), one.last_transition_time.0.as_second())
        };
        assert_eq!(shown(&conditions), ("True".into(), "bash (ls)".into(), 2));
        note(&mut conditions, &[asked("bash", &["ls"]), asked("", &[])], None, at(3));
        assert_eq!(shown(&conditions), ("True".into(), "bash (ls) and 1 more".into(), 2));
        note(&mut conditions, &[], None, at(4));
        assert_eq!(shown(&conditions), ("False".into(), "nothing is asked any more".into(), 4));
        note(&mut conditions, &[], None, at(5));
        assert_eq!(shown(&conditions).2, 4);
    }
}
