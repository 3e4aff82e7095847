//! Numbers for the dashboard, from memory.

use std::sync::Arc;

use api::{Agent, CronTask, Task, TaskPhase, kinds::task::TokenUsage};
use axum::{Json, extract::State};
use domain::run::{outcome::is_stopped, target::Target};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use observe::Key;
use serde::Deserialize;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::Caller,
    edge::{extract::Params, names},
    error::Answer,
    live::cache::{Caches, now},
    routes::kind::{Served as _, by_age},
    state::Server,
    wire::{
        AgentLoad, AgentTotals, Bucket, CronTotals, Due, Slots, Summary, TaskResponse, TaskTotals, UsageTotals, blocked,
    },
};

const RECENT: usize = 10;
const DUE: usize = 5;

/// Routes under `/api/v1`.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(summary))
}

/// Scope of the totals.
#[derive(Clone, Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
struct SummaryQuery {
    /// Only this namespace.
    namespace: Option<String>,
    /// hour: the last 24 hours; day: the last 30 days.
    #[param(inline)]
    buckets: Option<Step>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
enum Step {
    #[default]
    Hour,
    Day,
}

impl Step {
    fn seconds(self) -> i64 {
        match self {
            Self::Hour => 3600,
            Self::Day => 86400,
        }
    }

    fn count(self) -> usize {
        match self {
            Self::Hour => 24,
            Self::Day => 30,
        }
    }
}

/// Totals for the dashboard, of objects that the caller may see.
#[utoipa::path(get, path = "/summary", tag = "overview", params(SummaryQuery), responses((status = 200, body = Summary)))]
async fn summary(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Params(query): Params<SummaryQuery>,
) -> Answer<Json<Summary>> {
    let namespace = query.namespace.filter(|namespace| !namespace.is_empty());
    if let Some(namespace) = &namespace {
        names::namespace(namespace)?;
    }
    let namespace = namespace.as_deref();
    let visible = server.visible::<Task>(&caller, namespace).await?;
    let tasks = server.caches.tasks.filter(|key, _| visible.shows(key));
    let visible = server.visible_or_nothing::<Agent>(&caller, namespace).await?;
    let agents = server.caches.agents.filter(|key, _| visible.shows(key));
    let visible = server.visible_or_nothing::<CronTask>(&caller, namespace).await?;
    let crons = server.caches.cron_tasks.filter(|key, _| visible.shows(key));
    let now = now();
    Ok(Json(Summary {
        tasks: totals(&tasks, now),
        usage: usage(&tasks, query.buckets.unwrap_or_default(), now),
        agents: agent_totals(&server.caches, agents),
        cron_tasks: cron_totals(&crons),
        recent: recent(tasks, now),
    }))
}

fn totals(tasks: &[Arc<Task>], now: Timestamp) -> TaskTotals {
    let mut totals = TaskTotals { total: tasks.len(), ..TaskTotals::default() };
    for task in tasks {
        *totals.by_phase.entry(task.phase().to_owned()).or_default() += 1;
        let status = task.status.as_ref();
        let reason = || status.and_then(|status| status.reason.clone()).unwrap_or_else(|| "Unknown".to_owned());
        let asks = status.into_iter().flat_map(|status| status.conditions.iter().flatten());
        let asks =
            asks.into_iter().any(|condition| condition.type_ == "AwaitingApproval" && condition.status == "True");
        totals.awaiting_approval += usize::from(asks);
        let ended = status.and_then(|status| status.completion_time.as_ref()).map(|time| now.duration_since(time.0));
        let within = |hours| ended.is_some_and(|ago| ago <= SignedDuration::from_hours(hours));
        match status.and_then(|status| status.phase).unwrap_or_default() {
            TaskPhase::Pending | TaskPhase::Queued => *totals.waiting_by_reason.entry(reason()).or_default() += 1,
            TaskPhase::Completed if status.is_some_and(is_stopped) => totals.stopped_24h += usize::from(within(24)),
            TaskPhase::Completed => totals.completed_24h += usize::from(within(24)),
            TaskPhase::Failed => {
                if within(24) {
                    totals.failed_24h += 1;
                    *totals.failed_by_reason_24h.entry(reason()).or_default() += 1;
                }
                if within(24 * 7) {
                    *totals.failed_by_reason_7d.entry(reason()).or_default() += 1;
                }
            }
            TaskPhase::Running => {}
        }
    }
    totals
}

/// Tokens and cost of a Task, cost in millionths.
fn used(task: &Task) -> (TokenUsage, i64) {
    let status = task.status.as_ref();
    let usage = status.and_then(|status| status.usage.as_ref());
    let summary = status.and_then(|status| status.session.as_ref()?.summary.as_ref());
    let tokens = usage.and_then(|usage| usage.tokens).or_else(|| summary.and_then(|summary| summary.token_usage));
    let cost =
        usage.and_then(|usage| usage.cost.as_deref()).or_else(|| summary.and_then(|summary| summary.cost.as_deref()));
    (tokens.unwrap_or_default(), cost.map_or(0, millionths))
}

/// A decimal number in millionths; invalid text is 0.
fn millionths(text: &str) -> i64 {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part: String = part.chars().chain("000000".chars()).take(6).collect();
    let whole = whole.parse::<i64>().unwrap_or_default();
    whole.saturating_mul(1_000_000).saturating_add(part.parse().unwrap_or_default())
}

fn decimal(millionths: i64) -> String {
    format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000)
}

fn usage(tasks: &[Arc<Task>], step: Step, now: Timestamp) -> UsageTotals {
    let length = step.seconds();
    let last = now.as_second().div_euclid(length) * length;
    let count = i64::try_from(step.count()).unwrap_or(1);
    let first = last - (count - 1) * length;
    let start = |index: usize| first + i64::try_from(index).unwrap_or(0) * length;
    let mut buckets: Vec<(Bucket, i64)> = (0..step.count())
        .filter_map(|index| {
            let start = Timestamp::from_second(start(index)).ok()?;
            Some((Bucket { start, tokens: 0, cost: String::new(), completed: 0, failed: 0, stopped: 0 }, 0))
        })
        .collect();
    let (mut all, mut cost) = (TokenUsage::default(), 0_i64);
    for task in tasks {
        let (tokens, spent) = used(task);
        all.input += tokens.input;
        all.output += tokens.output;
        all.reasoning += tokens.reasoning;
        all.cache += tokens.cache;
        cost = cost.saturating_add(spent);
        let status = task.status.as_ref();
        let Some(ended) = status.and_then(|status| status.completion_time.as_ref()) else { continue };
        let index = usize::try_from((ended.0.as_second() - first).div_euclid(length)).ok();
        let Some((bucket, in_bucket)) = index.and_then(|index| buckets.get_mut(index)) else { continue };
        bucket.tokens += tokens.input + tokens.output + tokens.reasoning + tokens.cache;
        *in_bucket = in_bucket.saturating_add(spent);
        match status.and_then(|status| status.phase) {
            Some(TaskPhase::Failed) => bucket.failed += 1,
            _ if status.is_some_and(is_stopped) => bucket.stopped += 1,
            _ => bucket.completed += 1,
        }
    }
    let buckets = buckets.into_iter().map(|(bucket, cost)| Bucket { cost: decimal(cost), ..bucket }).collect();
    UsageTotals { tokens: all, cost: decimal(cost), buckets }
}

fn agent_totals(caches: &Caches, mut agents: Vec<Arc<Agent>>) -> AgentTotals {
    agents.sort_by_key(|agent| Key::of(&**agent));
    let item = |agent: &Arc<Agent>| {
        let load = caches.load(&Target::agent(Key::of(&**agent)));
        AgentLoad {
            namespace: agent.namespace().unwrap_or_default(),
            name: agent.name_any(),
            phase: agent.status.as_ref().and_then(|status| status.phase),
            ready: agent.status.as_ref().and_then(|status| status.ready).unwrap_or_default(),
            slots: Slots { used: load.running, total: caches.slots(agent) },
            queue_length: load.waiting,
        }
    };
    let items: Vec<AgentLoad> = agents.iter().map(item).collect();
    AgentTotals {
        total: items.len(),
        ready: items.iter().filter(|agent| agent.ready).count(),
        suspended: agents.iter().filter(|agent| agent.spec.suspend).count(),
        items,
    }
}

fn cron_totals(crons: &[Arc<CronTask>]) -> CronTotals {
    let due = |cron: &&Arc<CronTask>| {
        let at = cron.status.as_ref()?.next_schedule_time.as_ref()?.0;
        let wanted = cron.spec.suspend != Some(true) && blocked(cron).is_none();
        wanted.then(|| Due { namespace: cron.namespace().unwrap_or_default(), name: cron.name_any(), at })
    };
    let mut next: Vec<Due> = crons.iter().filter_map(|cron| due(&cron)).collect();
    next.sort_by_key(|due| due.at);
    next.truncate(DUE);
    let suspended = crons.iter().filter(|cron| cron.spec.suspend == Some(true)).count();
    let blocked = crons.iter().filter(|cron| blocked(cron).is_some()).count();
    CronTotals { total: crons.len(), suspended, blocked, next }
}

fn recent(mut tasks: Vec<Arc<Task>>, now: Timestamp) -> Vec<TaskResponse> {
    if tasks.len() > RECENT {
        tasks.select_nth_unstable_by(RECENT, |a, b| by_age(&**b, &**a));
        tasks.truncate(RECENT);
    }
    tasks.sort_by(|a, b| by_age(&**b, &**a));
    tasks.iter().map(|task| TaskResponse::short(task, now)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ended(phase: &str, reason: &str, at: &str, cost: &str) -> Arc<Task> {
        let task = json!({
            "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "metadata": {"name": "a", "namespace": "n"},
            "spec": {"agentRef": {"name": "dev"}},
            "status": {"phase": phase, "reason": reason, "completionTime": at,
                "usage": {"tokens": {"input": 10, "output": 5}, "cost": cost}},
        });
        Arc::new(serde_json::from_value(task).unwrap())
    }

    #[test]
    fn what_ended_is_counted_in_the_hour_in_which_it_ended() {
        let now: Timestamp = "2026-01-02T10:30:00Z".parse().unwrap();
        let tasks = [
            ended("Completed", "Succeeded", "2026-01-02T10:00:00Z", "0.5"),
            ended("Completed", "UserStopped", "2026-01-02T10:29:59Z", "0.25"),
            ended("Failed", "ModelError", "2026-01-02T09:59:59Z", "1"),
            ended("Failed", "ModelError", "2025-12-30T00:00:00Z", "2.000001"),
        ];
        let usage = usage(&tasks, Step::Hour, now);
        assert_eq!(usage.cost, "3.750001");
        assert_eq!((usage.tokens.input, usage.tokens.output), (40, 20));
        assert_eq!(usage.buckets.len(), 24);
        let last = &usage.buckets[23];
        assert_eq!((last.start.to_string().as_str(), last.completed, last.stopped), ("2026-01-02T10:00:00Z", 1, 1));
        assert_eq!((last.cost.as_str(), last.tokens), ("0.750000", 30));
        assert_eq!(usage.buckets[22].failed, 1);
        let totals = totals(&tasks, now);
        assert_eq!(totals.failed_by_reason_24h["ModelError"], 1);
        assert_eq!(totals.failed_by_reason_7d["ModelError"], 2);
        assert_eq!((totals.completed_24h, totals.stopped_24h, totals.failed_24h), (1, 1, 1));
    }

    #[test]
    fn a_suspended_or_blocked_crontask_promises_no_run() {
        let cron = |name: &str, suspend: bool, blocked: &str| {
            let condition = json!({"type": "Blocked", "status": blocked, "reason": "RetentionLimitReached",
                "message": "", "lastTransitionTime": "2026-01-02T10:00:00Z"});
            let cron = json!({
                "apiVersion": "kubeopencode.io/v1alpha1", "kind": "CronTask",
                "metadata": {"name": name, "namespace": "n"},
                "spec": {"schedule": "@daily", "suspend": suspend, "taskTemplate": {"spec": {"description": "x"}}},
                "status": {"nextScheduleTime": "2026-01-03T00:00:00Z", "conditions": [condition]},
            });
            Arc::new(serde_json::from_value::<CronTask>(cron).unwrap())
        };
        let totals = cron_totals(&[cron("a", false, "True"), cron("b", true, "False"), cron("c", false, "False")]);
        let names: Vec<_> = totals.next.iter().map(|due| due.name.as_str()).collect();
        assert_eq!((names, totals.suspended, totals.blocked), (vec!["c"], 1, 1));
    }

    #[test]
    fn money_is_counted_exactly() {
        for (text, expected) in [("1", 1_000_000), ("0.1", 100_000), ("0.0000019", 1), ("", 0), ("x.y", 0)] {
            assert_eq!(millionths(text), expected, "{text}");
        }
        assert_eq!(decimal(1_000_001), "1.000001");
    }
}
