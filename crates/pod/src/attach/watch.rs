//! Interprets the events of a run. Pure: events and the time are arguments.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use serde_json::Value;

use domain::opencode::message::{Failure, Message, Part};
use domain::run::approval::Asked;
use opencode::Activity;
use opencode::events::Event;

use crate::budget::Meter;
use crate::run_log::{Log, Note};

/// A run has stalled after this many answers in a row without text or tool call: an endpoint that sends pages instead
/// of tokens would be called four times a second, forever.
const EMPTY_STEPS: u32 = 50;

#[derive(Debug)]
pub struct Watch {
    session: String,
    /// The session and those of its subagents.
    family: HashSet<String>,
    prompts: HashSet<String>,
    shown: HashSet<String>,
    asked: BTreeMap<String, (Asked, Instant)>,
    progress: Instant,
    step_has_content: bool,
    empty_steps: u32,
    pub meter: Meter,
    pub failure: Option<Failure>,
    /// Reason of the last retry of a model call.
    pub retry: Option<String>,
    /// The session reported that it stopped working; poll its state.
    pub idle_hint: bool,
    pub deleted: bool,
}

impl Watch {
    pub fn new(session: &str, now: Instant) -> Self {
        Self {
            session: session.to_owned(),
            family: HashSet::from([session.to_owned()]),
            prompts: HashSet::new(),
            shown: HashSet::new(),
            asked: BTreeMap::new(),
            progress: now,
            step_has_content: false,
            empty_steps: 0,
            meter: Meter::default(),
            failure: None,
            retry: None,
            idle_hint: false,
            deleted: false,
        }
    }

    /// Processes an event.
    pub fn observe(&mut self, event: &Event, now: Instant, log: &mut Log<'_>) {
        let properties = &event.properties;
        if event.kind == "session.created" {
            let parent = properties.pointer("/info/parentID").and_then(Value::as_str);
            let child = properties.pointer("/info/id").and_then(Value::as_str);
            if let (Some(parent), Some(child)) = (parent, child)
                && self.family.contains(parent)
            {
                self.family.insert(child.to_owned());
            }
            return;
        }
        let session = ["/sessionID", "/part/sessionID", "/info/sessionID"]
            .iter()
            .find_map(|path| properties.pointer(path)?.as_str())
            .unwrap_or_default();
        if !self.family.contains(session) {
            return;
        }
        let ours = session == self.session;
        match event.kind.as_str() {
            "message.updated" => {
                let info = &properties["info"];
                if info["role"] == "user"
                    && let Some(id) = info["id"].as_str()
                {
                    self.prompts.insert(id.to_owned());
                }
            }
            "message.part.delta" if properties["delta"].as_str().is_some_and(|delta| !delta.is_empty()) => {
                self.progressed(now);
            }
            "message.part.updated" => self.observe_part(&properties["part"], now, log),
            "session.status" if ours => match Activity::read(&properties["status"]) {
                Activity::Idle => self.idle_hint = true,
                Activity::Busy => self.idle_hint = false,
                Activity::Retry { attempt, message } => self.retrying(attempt, &message, log),
            },
            "session.idle" if ours => self.idle_hint = true,
            "session.deleted" if ours => self.deleted = true,
            "session.error" if ours => {
                let failure: Failure = serde_json::from_value(properties["error"].clone()).unwrap_or_default();
                // The first error names the cause; the next ones repeat it with a stack trace.
                if self.failure.is_none() {
                    log.note(&Note::Failure(&failure.text(), &properties["error"]));
                    self.failure = Some(failure);
                }
                self.idle_hint = true;
            }
            "permission.asked" | "question.asked" => {
                if let Ok(asked) = serde_json::from_value::<Asked>(properties.clone()) {
                    self.ask(asked, now);
                }
            }
            "permission.replied" | "question.replied" | "question.rejected" => {
                if let Some(id) = properties["requestID"].as_str() {
                    self.answered(id);
                }
                self.progressed(now);
            }
            _ => {}
        }
    }

    fn observe_part(&mut self, original: &Value, now: Instant, log: &mut Log<'_>) {
        let Ok(part) = serde_json::from_value::<Part>(original.clone()) else { return };
        if self.prompts.contains(&part.message) {
            return;
        }
        match part.kind.as_str() {
            "text" | "reasoning" if part.text.as_deref().is_some_and(|text| !text.is_empty()) => {
                self.progressed(now);
            }
            "tool" => self.progressed(now),
            "step-finish" => {
                self.empty_steps = if std::mem::take(&mut self.step_has_content) { 0 } else { self.empty_steps + 1 };
                self.meter.take(&part, original["sessionID"] == self.session);
            }
            _ => {}
        }
        self.show(&part, original, log);
    }

    /// Logs a part once, when it is finished, and the output of a tool call while it runs.
    fn show(&mut self, part: &Part, original: &Value, log: &mut Log<'_>) {
        let finished = match part.kind.as_str() {
            "text" | "reasoning" => part.time.end.is_some(),
            "tool" => part.ended_tool().is_some(),
            _ => true,
        };
        if finished && self.shown.insert(part.id.clone()) {
            log.note(&Note::Part(part, original));
        } else if !finished && !self.shown.contains(&part.id) {
            log.note(&Note::Running(part, original));
        }
    }

    /// Logs parts whose events were lost: the stream has no replay.
    pub fn show_missed(&mut self, messages: &[Message], log: &mut Log<'_>) {
        let answers = messages.iter().filter(|message| message.info.role == "assistant");
        for part in answers.flat_map(|message| &message.parts) {
            let half = matches!(part.kind.as_str(), "text" | "reasoning") && part.text.as_deref() == Some("");
            if !half && self.shown.insert(part.id.clone()) {
                log.note(&Note::Part(part, &serde_json::to_value(part).unwrap_or_default()));
            }
        }
    }

    /// Records a retry of a model call. It is no progress: a model that is down for the stall timeout is a stall.
    pub fn retrying(&mut self, attempt: u64, message: &str, log: &mut Log<'_>) {
        let text = format!("{attempt}: {message}");
        if self.retry.as_ref() != Some(&text) {
            log.note(&Note::Retry { attempt, message });
            self.retry = Some(text);
        }
        self.idle_hint = false;
    }

    fn progressed(&mut self, now: Instant) {
        self.progress = now;
        self.step_has_content = true;
        self.empty_steps = 0;
        self.retry = None;
    }

    /// Whether a session belongs to the run.
    pub fn knows(&self, session: &str) -> bool {
        self.family.contains(session)
    }

    /// Adds the session of a subagent that started while events were lost.
    pub fn adopt(&mut self, session: String) {
        self.family.insert(session);
    }

    /// Adds a request that needs an answer.
    pub fn ask(&mut self, asked: Asked, now: Instant) {
        if self.family.contains(&asked.session) {
            self.asked.entry(asked.id.clone()).or_insert((asked, now));
        }
    }

    /// Open requests, and since when.
    pub fn unanswered(&self) -> Vec<(Asked, Instant)> {
        self.asked.values().cloned().collect()
    }

    /// Removes a request that was answered, by us or by a person.
    pub fn answered(&mut self, id: &str) {
        self.asked.remove(id);
    }

    /// Records that the run waits for a person: that is no stall.
    pub fn waiting_for_a_person(&mut self, now: Instant) {
        self.progress = now;
    }

    /// Why the run has stalled; `None` while it makes progress.
    pub fn stalled(&self, now: Instant, limit: Duration) -> Option<String> {
        if self.empty_steps >= EMPTY_STEPS {
            return Some(format!(
                "the model answered {EMPTY_STEPS} times in a row without text or tool call; check the provider's baseURL"
            ));
        }
        if now.saturating_duration_since(self.progress) < limit {
            return None;
        }
        let cause = self.retry.as_deref().map(|retry| format!("; the model is being asked again ({retry})"));
        Some(format!("nothing happened for {} s{}", limit.as_secs(), cause.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::Redactor;
    use crate::run_log::Format;
    use serde_json::json;

    struct Case {
        watch: Watch,
        start: Instant,
        out: Vec<u8>,
    }

    impl Case {
        fn new() -> Self {
            let start = Instant::now();
            Self { watch: Watch::new("ses_1", start), start, out: Vec::new() }
        }

        fn event(&mut self, seconds: u64, kind: &str, properties: Value) -> &mut Self {
            let event = Event { kind: kind.to_owned(), properties };
            let mut log = Log::new(&mut self.out, Format::Readable, Redactor::default());
            self.watch.observe(&event, self.start + Duration::from_secs(seconds), &mut log);
            self
        }

        fn stalled(&self, seconds: u64) -> Option<String> {
            self.watch.stalled(self.start + Duration::from_secs(seconds), Duration::from_secs(100))
        }

        fn log(&self) -> String {
            String::from_utf8(self.out.clone()).unwrap()
        }
    }

    fn part(part: impl Into<Value>) -> Value {
        json!({"sessionID": "ses_1", "part": part.into()})
    }

    #[test]
    fn parts_are_shown_once_and_prompts_never() {
        let mut case = Case::new();
        let text =
            part(json!({"id": "p1", "messageID": "m1", "type": "text", "text": "Hi", "time": {"start": 1, "end": 2}}));
        case.event(0, "message.updated", json!({"sessionID": "ses_1", "info": {"id": "m0", "role": "user"}}))
            .event(
                0,
                "message.part.updated",
                part(json!({"id": "p0", "messageID": "m0", "type": "text", "text": "prompt"})),
            )
            .event(1, "message.part.updated", text.clone())
            .event(2, "message.part.updated", text);
        assert_eq!(case.log(), "Hi\n");
    }

    #[test]
    fn other_sessions_are_ignored_but_subagents_belong_to_the_run() {
        let mut case = Case::new();
        let asked = |session: &str| json!({"id": format!("per_{session}"), "sessionID": session, "permission": "bash"});
        case.event(0, "permission.asked", asked("ses_other"))
            .event(0, "session.error", json!({"sessionID": "ses_other", "error": {"name": "X"}}))
            .event(0, "session.idle", json!({"sessionID": "ses_other"}))
            .event(0, "session.created", json!({"info": {"id": "ses_child", "parentID": "ses_1"}}))
            .event(0, "permission.asked", asked("ses_child"))
            .event(0, "session.idle", json!({"sessionID": "ses_child"}));
        assert_eq!(case.watch.unanswered().len(), 1);
        assert_eq!(case.watch.failure, None);
        assert!(!case.watch.idle_hint);
    }

    #[test]
    fn a_subagent_that_started_unseen_is_heard_once_it_is_known() {
        let mut case = Case::new();
        let asked: Asked =
            serde_json::from_value(json!({"id": "per_1", "sessionID": "ses_late", "permission": "bash"})).unwrap();
        case.watch.ask(asked.clone(), case.start);
        assert!(case.watch.unanswered().is_empty() && !case.watch.knows("ses_late"));
        case.watch.adopt("ses_late".to_owned());
        case.watch.ask(asked, case.start);
        assert_eq!(case.watch.unanswered().len(), 1);
    }

    #[test]
    fn steps_of_subagents_count_and_those_of_others_do_not() {
        let mut case = Case::new();
        let limit = [(crate::env::BUDGET_MAX_TOKENS, "100")];
        case.watch.meter = Meter::new(crate::budget::allowance(&crate::env::tests::of(&limit)).unwrap());
        let step = |session: &str, reason: &str| {
            let part = json!({"id": session, "sessionID": session, "messageID": "m", "type": "step-finish",
                              "reason": reason, "tokens": {"input": 60, "output": 0}});
            json!({"sessionID": session, "part": part})
        };
        case.event(0, "session.created", json!({"info": {"id": "ses_child", "parentID": "ses_1"}}))
            .event(1, "message.part.updated", step("ses_other", "stop"))
            .event(1, "message.part.updated", step("ses_1", "tool-calls"));
        assert_eq!(case.watch.meter.exceeded(), None);
        case.event(2, "message.part.updated", step("ses_child", "stop"));
        assert!(case.watch.meter.exceeded().unwrap().contains("used 120 of 100 tokens"));
    }

    #[test]
    fn steps_without_content_and_retries_are_no_progress() {
        let mut case = Case::new();
        case.event(50, "message.part.delta", json!({"sessionID": "ses_1", "delta": "x"}));
        for second in 51..90 {
            case.event(second, "session.status", json!({"sessionID": "ses_1", "status": {"type": "busy"}})).event(
                second,
                "message.updated",
                json!({"sessionID": "ses_1", "info": {"id": "m", "role": "assistant"}}),
            );
        }
        case.event(
            120,
            "session.status",
            json!({"sessionID": "ses_1", "status": {"type": "retry", "attempt": 2, "message": "busy"}}),
        );
        assert_eq!(case.stalled(149), None);
        let why = case.stalled(150).unwrap();
        assert_eq!(why, "nothing happened for 100 s; the model is being asked again (2: busy)");
    }

    #[test]
    fn endless_empty_answers_are_a_stall_at_once() {
        let mut case = Case::new();
        for number in 0..EMPTY_STEPS {
            assert_eq!(case.stalled(1), None);
            case.event(1, "message.part.updated", part(json!({"id": format!("a{number}"), "type": "step-start"})))
                .event(
                    1,
                    "message.part.updated",
                    part(json!({"id": format!("b{number}"), "type": "step-finish", "reason": "unknown"})),
                );
        }
        assert!(case.stalled(1).unwrap().contains("baseURL"));
    }

    #[test]
    fn the_first_error_is_kept_and_shown() {
        let mut case = Case::new();
        let error =
            |text: &str| json!({"sessionID": "ses_1", "error": {"name": "UnknownError", "data": {"message": text}}});
        case.event(0, "session.error", error("Model not found")).event(0, "session.error", error("stack"));
        assert_eq!(case.log(), "[error] Model not found\n");
        assert!(case.watch.idle_hint);
    }

    #[test]
    fn an_answered_request_is_forgotten_and_a_person_is_no_stall() {
        let mut case = Case::new();
        case.event(
            0,
            "permission.asked",
            json!({"id": "per_1", "sessionID": "ses_1", "permission": "bash", "patterns": ["ls"]}),
        );
        let (asked, _) = case.watch.unanswered().remove(0);
        assert_eq!(asked.describe(), "bash (ls)");
        let later = case.start + Duration::from_secs(500);
        case.watch.waiting_for_a_person(later);
        assert_eq!(case.stalled(501), None);
        case.event(502, "permission.replied", json!({"sessionID": "ses_1", "requestID": "per_1", "reply": "once"}));
        assert!(case.watch.unanswered().is_empty());
    }
}
