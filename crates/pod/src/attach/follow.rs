//! Follows a run to its end: events for the log, the server's state for the outcome, a timeout for everything.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use domain::contract::reason::Reason;
use domain::contract::report::RunReport;
use domain::opencode::changes::Changes;
use domain::opencode::message::Message;
use domain::run::approval::Asked;
use domain::run::judge::judge;
use opencode::events::{self, Signal};
use opencode::{Activity, Client, Error, Reply};
use tokio::sync::mpsc;

use super::missed;
use super::settings::{Approval, Settings};
use super::watch::Watch;
use crate::budget::Meter;
use crate::env;
use crate::place::{FileMode, PlaceError, Root};
use crate::run_log::{Log, Note};

/// Polling interval of the server's state, in addition to the events.
const POLL: Duration = Duration::from_secs(5);
/// The same after the events report the end of the run.
const POLL_AT_END: Duration = Duration::from_millis(250);
/// Period of the loop.
const TICK: Duration = Duration::from_millis(250);
/// An idle session completes its answer within this time, or never.
const UNFINISHED: Duration = Duration::from_secs(5);
/// The same after the session has reported an error, which is then the outcome.
const AFTER_ERROR: Duration = Duration::from_secs(2);
/// A server under load may take this long from accepting the prompt to its first activity.
const BEFORE_WORK: Duration = Duration::from_mins(1);
/// Timeout of collecting usage after the end.
const FACTS: Duration = Duration::from_secs(30);
/// Timeout of an abort request.
const ABORT: Duration = Duration::from_secs(5);

/// State of a run. It outlives [`Follow`], so that an interrupted run can be concluded.
#[derive(Debug)]
pub struct Course {
    pub session: String,
    /// IDs of messages from before our prompt.
    pub before: HashSet<String>,
    watch: Watch,
}

impl Course {
    /// A run in a session that already has these messages.
    pub fn new(session: String, before: HashSet<String>) -> Self {
        let watch = Watch::new(&session, Instant::now());
        Self { session, before, watch }
    }

    fn ours(&self, messages: Vec<Message>) -> Vec<Message> {
        messages.into_iter().filter(|message| !self.before.contains(&message.info.id)).collect()
    }
}

/// Follows one run.
pub struct Follow<'a, 'b> {
    client: &'a Client,
    settings: &'a Settings,
    course: &'a mut Course,
    log: &'a mut Log<'b>,
    contact: Instant,
    /// Since when the session is idle, and whether it had an answer then.
    idle_since: Option<(Instant, bool)>,
    connected: bool,
    /// Subagents may have started without an event.
    family_unsure: bool,
    /// Sessions with open requests that do not belong to this run.
    strangers: HashSet<String>,
    /// Events of steps may have been lost.
    missed: bool,
    /// Requests that were logged as waiting.
    logged: HashSet<String>,
}

impl<'a, 'b> Follow<'a, 'b> {
    /// Prepares to follow; open the event stream before the prompt is sent.
    pub fn new(client: &'a Client, settings: &'a Settings, course: &'a mut Course, log: &'a mut Log<'b>) -> Self {
        // A continued session may also continue its subagents.
        let family_unsure = !course.before.is_empty();
        course.watch.meter = Meter::new(settings.allowance);
        Self {
            client,
            settings,
            course,
            log,
            contact: Instant::now(),
            idle_since: None,
            connected: false,
            family_unsure,
            strangers: HashSet::new(),
            missed: false,
            logged: HashSet::new(),
        }
    }

    pub fn course(&self) -> &Course {
        self.course
    }

    /// Waits until the event stream is open, so that no event of the run is missed. The run also works without it.
    pub async fn connect(&mut self, signals: &mut mpsc::Receiver<Signal>) {
        if let Ok(Some(signal)) = tokio::time::timeout(events_start(self.settings.lost), signals.recv()).await {
            self.take(&signal);
        }
        self.family_unsure |= !self.connected;
        self.missed |= !self.connected;
    }

    pub async fn run(mut self, mut signals: mpsc::Receiver<Signal>) -> RunReport {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut next_look = Instant::now() + POLL;
        let accepted = Instant::now();
        loop {
            tokio::select! {
                signal = signals.recv() => {
                    if let Some(signal) = signal {
                        self.take(&signal);
                    }
                }
                _ = tick.tick() => {}
            }
            if self.course.watch.deleted {
                let gone = RunReport::new(Reason::SessionGone, "the session was deleted on the server");
                return self.conclude(gone, FACTS).await;
            }
            if self.family_unsure && self.connected {
                // With a timeout: events must be processed meanwhile.
                let _ = tokio::time::timeout(POLL, self.meet_children()).await;
            }
            self.answer_requests().await;
            let now = Instant::now();
            if let Some(cause) = self.course.watch.stalled(now, self.settings.stall) {
                abort(self.client, &self.course.session, ABORT * 2).await;
                return self.conclude(RunReport::new(Reason::NoProgress, cause), FACTS).await;
            }
            self.count_missed().await;
            if let Some(cause) = self.course.watch.meter.exceeded() {
                abort(self.client, &self.course.session, ABORT * 2).await;
                return self.conclude(RunReport::new(Reason::BudgetExceeded, cause), FACTS).await;
            }
            if self.course.watch.idle_hint {
                next_look = next_look.min(self.idle_since.map_or(now, |_| now + POLL_AT_END));
            }
            if now >= next_look {
                let patience = Patience { accepted, now };
                // Not longer than the timeout for an unreachable server, however long a single request may take.
                let limit = self.settings.lost.saturating_sub(self.contact.elapsed()).max(TICK);
                if let Ok(Some(outcome)) = tokio::time::timeout(limit, self.look(&patience)).await {
                    return self.conclude(outcome, FACTS).await;
                }
                next_look = Instant::now() + if self.course.watch.idle_hint { POLL_AT_END } else { POLL };
            }
            if self.contact.elapsed() >= self.settings.lost {
                // The server may be back in a moment, or receive the request although it does not answer.
                abort(self.client, &self.course.session, ABORT).await;
                let message = format!(
                    "the OpenCode server at {} was out of reach for {} s",
                    self.client.url(),
                    self.settings.lost.as_secs()
                );
                return self.finish(RunReport::new(Reason::ServerLost, message), &[]);
            }
        }
    }

    fn take(&mut self, signal: &Signal) {
        match signal {
            Signal::Connected => {
                self.contact = Instant::now();
                self.connected = true;
            }
            Signal::Event(event) => {
                self.contact = Instant::now();
                self.course.watch.observe(event, self.contact, self.log);
            }
            Signal::Lost(error) => {
                self.family_unsure = true;
                self.missed = true;
                if std::mem::take(&mut self.connected) {
                    self.log.note(&Note::Info(&format!("{error}; connecting again")));
                }
                // Without events, poll the state.
                self.course.watch.idle_hint |= matches!(error, Error::NotFound(_));
            }
        }
    }

    /// Counts steps whose events were lost, once the event stream is open again.
    async fn count_missed(&mut self) {
        if self.missed && self.connected && self.course.watch.meter.has_limits() {
            let Course { session, before, watch } = &mut *self.course;
            let is_ours = |message: &Message| !before.contains(&message.info.id);
            let counting = missed::count(self.client, session, is_ours, &mut watch.meter);
            // With a timeout: events must be processed meanwhile.
            self.missed = !matches!(tokio::time::timeout(POLL, counting).await, Ok(Ok(())));
        }
    }

    async fn answer_requests(&mut self) {
        let now = Instant::now();
        for (asked, since) in self.course.watch.unanswered() {
            let expired = now.saturating_duration_since(since) >= self.settings.approval_timeout;
            let question = asked.permission.is_empty();
            let (approve, text) = match self.settings.approval {
                Approval::Wait if !expired => {
                    if self.logged.insert(asked.id.clone()) {
                        self.log.note(&Note::Asked { what: &asked.what(), answer: "waits for a person" });
                    }
                    self.course.watch.waiting_for_a_person(now);
                    continue;
                }
                Approval::Wait => (false, "rejected: not answered in time"),
                Approval::Approve if question => (false, "rejected: no person can answer"),
                Approval::Approve => (true, "approved by the Task's policy"),
                Approval::Reject => (false, "rejected: no person can approve it"),
            };
            match answer(self.client, &asked, approve).await {
                // Not found: another client answered first.
                Ok(()) | Err(Error::NotFound(_)) => {
                    self.log.note(&Note::Asked { what: &asked.what(), answer: text });
                    self.course.watch.answered(&asked.id);
                }
                Err(error) => {
                    if self.logged.insert(asked.id.clone()) {
                        self.log.note(&Note::Info(&format!("{} is not answered yet: {error}", asked.what())));
                    }
                }
            }
        }
    }

    /// Polls the server's state. Returns the outcome if the run is over.
    async fn look(&mut self, patience: &Patience) -> Option<RunReport> {
        let activity = match self.client.activity(&self.course.session).await {
            Ok(activity) => activity,
            Err(Error::Unauthorized) => return Some(unauthorized()),
            // Unreachable: the loop measures the time since the last contact.
            Err(_) => return None,
        };
        self.contact = Instant::now();
        match activity {
            Activity::Busy => {
                self.idle_since = None;
                self.course.watch.idle_hint = false;
            }
            Activity::Retry { attempt, message } => {
                self.idle_since = None;
                self.course.watch.retrying(attempt, &message, self.log);
            }
            Activity::Idle => return self.look_at_idle(patience).await,
        }
        if let Ok(asked) = self.client.asked().await {
            let unknown =
                |asked: &Asked| !self.course.watch.knows(&asked.session) && !self.strangers.contains(&asked.session);
            if asked.iter().any(unknown) && self.meet_children().await {
                let others = asked.iter().filter(|asked| !self.course.watch.knows(&asked.session));
                self.strangers.extend(others.map(|asked| asked.session.clone()));
            }
            for asked in asked {
                self.course.watch.ask(asked, patience.now);
            }
        }
        None
    }

    /// Adds subagents that started while the events were lost. Returns whether the server listed them.
    async fn meet_children(&mut self) -> bool {
        let Ok(children) = self.client.descendants(&self.course.session).await else { return false };
        for child in children {
            self.course.watch.adopt(child.id);
        }
        self.family_unsure = false;
        true
    }

    /// Handles an idle session: finished, not started yet, or lost.
    async fn look_at_idle(&mut self, patience: &Patience) -> Option<RunReport> {
        let messages = match self.client.messages(&self.course.session).await {
            Ok(messages) => messages,
            Err(Error::NotFound(_)) => {
                return Some(RunReport::new(Reason::SessionGone, "the session does not exist any more on the server"));
            }
            Err(_) => return None,
        };
        let ours = self.course.ours(messages);
        let last = ours.iter().rfind(|message| message.info.role == "assistant");
        let finished = last.is_some_and(|last| last.info.error.is_some() || last.info.time.completed.is_some());
        if !finished && !self.is_over(last.is_some(), patience) {
            return None;
        }
        let judged = judge(&ours);
        // The two answers are not from the same moment: work may have started or continued in between.
        if judged.reason != Reason::Succeeded {
            let now = self.client.activity(&self.course.session).await;
            if !matches!(now, Ok(Activity::Idle)) {
                self.idle_since = None;
                return None;
            }
        }
        // Errors before the first answer (unknown model or agent) are only in the events.
        if !finished && let Some(failure) = &self.course.watch.failure {
            return Some(RunReport { usage: judged.usage, ..RunReport::from_failure(failure) });
        }
        Some(judged)
    }

    /// Whether an idle session without a complete answer will not complete one any more.
    fn is_over(&mut self, answered: bool, patience: &Patience) -> bool {
        let (since, _) = match self.idle_since {
            Some(known) if known.1 == answered => known,
            // A new answer: work started since the last poll, so the waiting time starts again.
            _ => *self.idle_since.insert((patience.now, answered)),
        };
        let patient = match (self.course.watch.failure.is_some(), answered) {
            (true, _) => AFTER_ERROR,
            (false, true) => UNFINISHED,
            (false, false) => BEFORE_WORK,
        };
        since.max(patience.accepted).elapsed() >= patient
    }

    /// Adds usage and missing lines of the log to an outcome, as far as the server answers within the limit.
    pub async fn conclude(mut self, outcome: RunReport, limit: Duration) -> RunReport {
        let (messages, facts) = tokio::time::timeout(limit, self.facts()).await.unwrap_or((Vec::new(), judge(&[])));
        self.finish(RunReport { usage: facts.usage, summary: facts.summary, ..outcome }, &messages)
    }

    /// Messages of this run, and their usage.
    async fn facts(&mut self) -> (Vec<Message>, RunReport) {
        let session = &self.course.session;
        let messages = self.client.messages(session).await.map(|all| self.course.ours(all)).unwrap_or_default();
        let mut facts = judge(&messages);
        let mut edits = Edits::default();
        edits.add(&messages);
        if let Ok(children) = self.client.descendants(session).await {
            for child in &children {
                facts.usage.add(&child.tokens, child.cost);
                if self.settings.edits_file.is_some() {
                    edits.add(&self.client.messages(&child.id).await.unwrap_or_default());
                }
            }
        }
        if let Some(path) = &self.settings.edits_file
            && let Err(error) = edits.write(path)
        {
            self.log.note(&Note::Info(&format!("the edited files are not listed: {error}")));
        }
        (messages, facts)
    }

    fn finish(self, outcome: RunReport, messages: &[Message]) -> RunReport {
        self.course.watch.show_missed(messages, self.log);
        RunReport { session: Some(self.course.session.clone()), ..outcome }
    }
}

/// Files that sessions edited by their tools.
#[derive(Default)]
struct Edits(BTreeSet<String>);

impl Edits {
    fn add(&mut self, messages: &[Message]) {
        self.0.extend(Changes::of(messages.iter()).files.into_iter().map(str::to_owned));
    }

    fn write(&self, path: &Path) -> Result<(), PlaceError> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(PlaceError::Outside(path.to_owned()));
        };
        let json = serde_json::json!(self.0).to_string();
        // The housekeeper may have another UID.
        Root::open(parent)?.write(name.as_ref(), &mut json.as_bytes(), FileMode::Exactly(0o644)).map(drop)
    }
}

struct Patience {
    accepted: Instant,
    now: Instant,
}

fn events_start(lost: Duration) -> Duration {
    lost.min(Duration::from_secs(10))
}

/// The outcome for a wrong password.
pub fn unauthorized() -> RunReport {
    let message = format!("{}; check {}", Error::Unauthorized, env::OPENCODE_SERVER_PASSWORD);
    RunReport::new(Reason::Unauthorized, message)
}

/// Aborts a session. Retries for at most `patience` if there is no answer.
pub async fn abort(client: &Client, session: &str, patience: Duration) -> bool {
    let trying = async {
        loop {
            match client.abort(session, ABORT).await {
                Ok(()) => return true,
                Err(error) if error.is_transient() => tokio::time::sleep(TICK).await,
                Err(_) => return false,
            }
        }
    };
    tokio::time::timeout(patience, trying).await.unwrap_or(false)
}

/// Answers a request. A question cannot be answered without a person, so it is always rejected.
async fn answer(client: &Client, asked: &Asked, approve: bool) -> Result<(), Error> {
    if asked.permission.is_empty() {
        return client.reject_question(&asked.id).await;
    }
    client.reply(&asked.id, &if approve { Reply::Once } else { Reply::Reject(None) }).await
}

/// Opens the event stream of a client.
pub fn signals(client: &Client) -> (mpsc::Receiver<Signal>, tokio::task::JoinHandle<()>) {
    events::follow(client.clone())
}
