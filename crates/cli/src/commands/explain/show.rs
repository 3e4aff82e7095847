//! Renders an explanation as text.

use std::fmt::Write as _;

use api::{Task, TaskPhase, TaskStatus};
use domain::explain::{
    AgentExplanation, Cause, CronTaskExplanation, Level, ObjectName, QueueState, QuotaState, Setting, TaskExplanation,
};
use domain::run::stage::shown_phase;
use jiff::Timestamp;
use serde_json::Value;

use crate::commands::{
    columns,
    screen::{Screen, Tone, line, wrap},
    span,
    table::{Cell, Table},
    task::results,
};

/// Maximum number of listed Tasks that are ahead in the queue; the rest are counted.
const LISTED: usize = 10;
/// Maximum length of a value, also without a limited width.
const LONGEST_VALUE: usize = 100;

/// Renders the explanation of a Task.
pub fn show(explanation: &TaskExplanation, task: &Task, now: Timestamp, screen: &Screen) -> String {
    let reason = explanation.reason.as_deref();
    let mut page = title("Task", &explanation.task, shown_phase(task), reason, screen);
    why(&mut page, &explanation.chain, now, screen);
    queue(&mut page, explanation.queue.as_ref(), explanation.quota.as_ref(), true, now, screen);
    if !explanation.dependencies.is_empty() {
        heading(&mut page, "Depends on", screen);
        let mut table = Table::new(["TASK", "MUST BE", "IS", "MET"]);
        for dependency in &explanation.dependencies {
            let phase = dependency.phase.map_or("missing", TaskPhase::as_str);
            let met = if dependency.met { Cell::new("yes", Tone::Good) } else { Cell::new("no", Tone::Busy) };
            table.push(vec![
                dependency.task.as_str().into(),
                format!("{:?}", dependency.condition).into(),
                phase.into(),
                met,
            ]);
        }
        indent(&mut page, &table, screen);
    }
    if let Some(status) = &task.status {
        left(&mut page, status, now, screen);
    }
    settings(&mut page, &explanation.settings, explanation.settings_error.as_deref(), screen);
    next(&mut page, &explanation.next, screen);
    page
}

/// What the run left and used.
fn left(page: &mut String, status: &TaskStatus, now: Timestamp, screen: &Screen) {
    let tables = [results::artifacts(status, now), results::outputs(status), results::caches(status)];
    let published = results::publication(status);
    if published.is_none() && tables.iter().all(Table::is_empty) {
        return;
    }
    heading(page, "Results", screen);
    if let Some(published) = published {
        bullet(page, "", &published, screen);
    }
    for table in tables.iter().filter(|table| !table.is_empty()) {
        indent(page, table, screen);
    }
}

/// Renders the explanation of an Agent.
pub fn agent(explanation: &AgentExplanation, now: Timestamp, screen: &Screen) -> String {
    let phase = match explanation.phase {
        _ if explanation.ready => "Ready".to_owned(),
        Some(phase) => format!("{phase:?}"),
        None => "Pending".to_owned(),
    };
    let reason = explanation.chain.last().and_then(|cause| cause.reason.as_deref()).filter(|_| !explanation.ready);
    let mut page = title("Agent", &explanation.agent, &phase, reason, screen);
    why(&mut page, &explanation.chain, now, screen);
    queue(&mut page, Some(&explanation.queue), explanation.quota.as_ref(), false, now, screen);
    settings(&mut page, &explanation.settings, explanation.settings_error.as_deref(), screen);
    next(&mut page, &explanation.next, screen);
    page
}

/// Renders the explanation of a CronTask.
pub fn cron_task(explanation: &CronTaskExplanation, now: Timestamp, screen: &Screen) -> String {
    let state = match explanation {
        CronTaskExplanation { suspended: true, .. } => "Suspended",
        CronTaskExplanation { blocked: true, .. } => "Blocked",
        CronTaskExplanation { next_schedule_time: Some(_), .. } => "Scheduled",
        _ => "Not scheduled",
    };
    let reason = explanation.chain.first().and_then(|cause| cause.reason.as_deref());
    let mut page = title("CronTask", &explanation.cron_task, state, reason.filter(|reason| *reason != state), screen);
    why(&mut page, &explanation.chain, now, screen);
    next(&mut page, &explanation.next, screen);
    page
}

fn title(kind: &str, object: &ObjectName, phase: &str, reason: Option<&str>, screen: &Screen) -> String {
    let reason = reason.map(|reason| format!(" ({})", line(reason))).unwrap_or_default();
    let name = format!("{kind} {}/{}", object.namespace.as_deref().unwrap_or_default(), object.name);
    let painted = screen.paint(columns::tone("PHASE", phase), &format!("{phase}{reason}"));
    format!("{}: {painted}\n", screen.paint(Tone::Strong, &name))
}

fn why(page: &mut String, chain: &[Cause], now: Timestamp, screen: &Screen) {
    heading(page, "Why", screen);
    for (depth, cause) in chain.iter().enumerate() {
        page.push_str(&show_cause(cause, depth, now, screen));
    }
}

fn next(page: &mut String, steps: &[String], screen: &Screen) {
    if !steps.is_empty() {
        heading(page, "Next", screen);
        for step in steps {
            bullet(page, "- ", &line(step), screen);
        }
    }
}

fn show_cause(cause: &Cause, depth: usize, now: Timestamp, screen: &Screen) -> String {
    let (sign, tone) = match cause.level {
        Level::Info => ("·", Tone::Faint),
        Level::Wait => ("…", Tone::Busy),
        Level::Error => ("✗", Tone::Bad),
        Level::Done => ("✓", Tone::Good),
    };
    let reason = cause.reason.as_deref().map(|reason| format!("{}: ", line(reason))).unwrap_or_default();
    let since = cause.since.map(|since| format!(" ({} ago)", span::age(now.as_second() - since.as_second())));
    // Messages about a Task name it, or are about the explained Task.
    let about = cause.object.as_ref().filter(|object| object.kind.as_deref() != Some("Task"));
    let about = about.map(|object| format!("{}: ", line(&called(object)))).unwrap_or_default();
    let text = format!("{reason}{about}{}{}", line(&cause.message), since.unwrap_or_default());
    let margin = "  ".repeat(depth + 1);
    let width = screen.width.map(|width| width.saturating_sub(margin.len() + 2).max(20));
    let mut shown = String::new();
    for (at, text) in wrap(&text, width).iter().enumerate() {
        let sign = if at == 0 { screen.paint(tone, sign) } else { " ".to_owned() };
        let _ = writeln!(shown, "{margin}{sign} {text}");
    }
    shown
}

fn called(object: &ObjectName) -> String {
    format!("{} '{}'", object.kind.as_deref().unwrap_or("object"), object.name)
}

fn queue(
    page: &mut String,
    queue: Option<&QueueState>,
    quota: Option<&QuotaState>,
    of_task: bool,
    now: Timestamp,
    screen: &Screen,
) {
    if let Some(queue) = queue {
        heading(page, &format!("Queue of {}", called(&queue.target)), screen);
        let slots = match queue.max_concurrent_tasks {
            Some(most) => format!("{} of {most} slots in use", queue.running),
            None => format!("{} running, no limit", queue.running),
        };
        let place = match queue.position {
            Some(place) => format!("position {place} of {} waiting", queue.waiting),
            None if of_task => format!("{} waiting; this Task has no position yet", queue.waiting),
            None => format!("{} waiting", queue.waiting),
        };
        bullet(page, "", &format!("{place}; {slots}"), screen);
        let first = if of_task { "AHEAD" } else { "TASK" };
        let mut table = Table::new([first, "PHASE", "PRIORITY", "SINCE"]);
        for ahead in queue.ahead.iter().take(LISTED) {
            let since =
                ahead.start_time.or(ahead.created_at).map(|since| span::age(now.as_second() - since.as_second()));
            let tone = if ahead.phase == TaskPhase::Running { Tone::Good } else { Tone::Busy };
            table.push(vec![
                ahead.name.as_str().into(),
                Cell::new(ahead.phase.as_str(), tone),
                ahead.priority.to_string().into(),
                since.unwrap_or_default().into(),
            ]);
        }
        if !table.is_empty() {
            indent(page, &table, screen);
        }
    }
    if let Some(quota) = quota {
        let next = quota.next_start_at.map(|at| format!("; the next at {at}")).unwrap_or_default();
        let window = span::age(i64::from(quota.window_seconds));
        heading(page, "Quota", screen);
        bullet(
            page,
            "",
            &format!("{} of {} starts in {window} are used{next}", quota.used, quota.max_task_starts),
            screen,
        );
    }
}

fn settings(page: &mut String, settings: &[Setting], error: Option<&str>, screen: &Screen) {
    heading(page, "Settings", screen);
    if let Some(error) = error {
        bullet(page, "", &format!("not available: {}", line(error)), screen);
        return;
    }
    let mut table = Table::new(["SETTING", "VALUE", "FROM"]);
    for setting in settings {
        let value = match &setting.value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let value = crate::commands::screen::cut(&line(&value), LONGEST_VALUE);
        table.push(vec![setting.path.as_str().into(), value.into(), setting.origin_text.as_str().into()]);
    }
    if table.is_empty() {
        bullet(page, "", "all settings have their built-in default; --all lists them", screen);
    } else {
        indent(page, &table, screen);
    }
}

fn heading(page: &mut String, text: &str, screen: &Screen) {
    let _ = writeln!(page, "\n{}", screen.paint(Tone::Strong, text));
}

fn bullet(page: &mut String, sign: &str, text: &str, screen: &Screen) {
    let width = screen.width.map(|width| width.saturating_sub(2 + sign.len()).max(20));
    for (at, text) in wrap(text, width).iter().enumerate() {
        let margin = if at == 0 { sign.to_owned() } else { " ".repeat(sign.len()) };
        let _ = writeln!(page, "  {margin}{text}");
    }
}

fn indent(page: &mut String, table: &Table, screen: &Screen) {
    let narrower = Screen { width: screen.width.map(|width| width.saturating_sub(2)), ..*screen };
    for text in table.show(&narrower).lines() {
        let _ = writeln!(page, "  {text}");
    }
}
