//! Whether the session of a run on an Agent may outlive the run, and which sessions belong to the run.

use crate::{
    contract::{reason::Reason, report::RunReport},
    opencode::session::Session,
    run::{outcome::Ending, queue::TaskKey},
    workload::names,
};

/// Reasons after which the server works no more: the session ended or is gone.
const OVER: [Reason; 7] = [
    Reason::ModelError,
    Reason::LengthLimit,
    Reason::ContentFiltered,
    Reason::SessionAborted,
    Reason::NoAnswer,
    Reason::ContextOverflow,
    Reason::SessionGone,
];

/// Whether the server may still work for a run that ended like this: only the client in its Pod aborts the session, and
/// that may have been killed before it could, or not have been heard.
pub fn may_go_on(ending: &Ending) -> bool {
    !ending.succeeded() && goes_on_after(ending.report.as_ref())
}

/// The same for a Pod that went with its Task; `report` is what it left.
pub fn goes_on_after(report: Option<&RunReport>) -> bool {
    // Without a report that is unknown. With one, there is a session if it names one.
    report.is_none_or(|report| report.session.is_some() && !OVER.contains(&report.reason))
}

/// The run whose client opened a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened<'a> {
    /// UID of its Task.
    pub uid: &'a str,
    /// Number of the run, if it is known.
    pub epoch: Option<i64>,
}

/// The run that opened a session, as the session's metadata say. A client that is not ours leaves none.
pub fn opened_by(session: &Session) -> Option<Opened<'_>> {
    let task = session.metadata.get("task")?;
    let epoch = task["epoch"].as_str().and_then(|epoch| epoch.parse().ok());
    Some(Opened { uid: task["uid"].as_str()?, epoch })
}

/// Whether a session belongs to run `epoch` of a Task. The session of another client is known by its title, which all
/// runs of a Task share: it counts only while no other of them runs.
pub fn is_of(session: &Session, task: &TaskKey, epoch: i64, runs_again: bool) -> bool {
    if let Some(opened) = opened_by(session) {
        return opened.uid == task.uid && opened.epoch.is_none_or(|of| of == epoch);
    }
    let title = names::session_title(&task.namespace, &task.name, &task.uid);
    !runs_again && session.title == title
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_session_goes_on_unless_its_client_saw_its_end() {
        let report = |reason: &str, session: Option<&str>| {
            let mut report = json!({"outcome": "Failed", "reason": reason});
            report["sessionID"] = json!(session);
            RunReport::read(&report.to_string())
        };
        let check = |report: Option<RunReport>, expected: bool| {
            assert_eq!(goes_on_after(report.as_ref()), expected, "{report:?}");
        };
        check(None, true);
        for reason in ["Stopped", "ServerLost", "NoProgress", "PermissionRejected", "CommandFailed", "Unheard"] {
            check(report(reason, Some("ses_1")), true);
            check(report(reason, None), false);
        }
        for reason in ["ModelError", "SessionAborted", "SessionGone", "LengthLimit", "NoAnswer"] {
            check(report(reason, Some("ses_1")), false);
        }
    }

    #[test]
    fn sessions_are_told_apart_by_task_and_run() {
        let task = TaskKey { namespace: "n".into(), name: "t".into(), uid: "0123456789".into() };
        let check = |session: Value, runs_again: bool, expected: bool| {
            let read: Session = serde_json::from_value(session.clone()).unwrap();
            assert_eq!(is_of(&read, &task, 2, runs_again), expected, "{session}");
        };
        let of = |uid: &str, epoch: &str| json!({"metadata": {"task": {"uid": uid, "epoch": epoch}}});
        check(of("0123456789", "2"), true, true);
        check(of("0123456789", "1"), false, false);
        check(of("other", "2"), false, false);
        let titled = json!({"title": "kubeopencode/n/t/01234567"});
        check(titled.clone(), false, true);
        check(titled, true, false);
        check(json!({"title": "what a person does"}), false, false);
        let mut of_another = of("other", "2");
        of_another["title"] = json!("kubeopencode/n/t/01234567");
        check(of_another, false, false);
    }
}
