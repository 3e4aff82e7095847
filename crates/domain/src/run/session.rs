//! Whether the session of a run on an Agent may outlive the run, and which sessions belong to the run.

use crate::{
    contract::{reason::Reason, report::RunReport},
    opencode::session::Session,
    run::{outcome::Ending, queue::TaskKey},
    workload::names,
};

/// Reasons after which the session has ended or does not exist.
const OVER: [Reason; 7] = [
    Reason::ModelError,
    Reason::LengthLimit,
    Reason::ContentFiltered,
    Reason::SessionAborted,
    Reason::NoAnswer,
    Reason::ContextOverflow,
    Reason::SessionGone,
];

/// Whether the session may still be active after a run that ended like this: only the client in the Pod aborts it, and
/// the client may have been killed or may have failed to reach the server.
pub fn may_go_on(ending: &Ending) -> bool {
    !ending.succeeded() && goes_on_after(ending.report.as_ref())
}

/// The same for a Pod that was deleted with its Task; `report` is what it left.
pub fn goes_on_after(report: Option<&RunReport>) -> bool {
    // Unknown without a report. With one, there is a session if the report names it.
    report.is_none_or(|report| report.session.is_some() && !OVER.contains(&report.reason))
}

/// The run whose client opened a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened<'a> {
    pub uid: &'a str,
    /// `None` if the metadata of the session do not contain it.
    pub epoch: Option<i64>,
}

/// The run that opened a session, by the session's metadata; `None` for a client that is not ours.
pub fn opened_by(session: &Session) -> Option<Opened<'_>> {
    let task = session.metadata.get("task")?;
    let epoch = task["epoch"].as_str().and_then(|epoch| epoch.parse().ok());
    Some(Opened { uid: task["uid"].as_str()?, epoch })
}

/// Whether a session belongs to run `epoch` of a Task. The session of another client is recognised by its title, which
/// all runs of a Task share: it counts only while no other run is active.
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
