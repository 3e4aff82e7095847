//! Repositories that an Agent follows by roll-out: look at them as often as was asked, and no oftener.

use std::collections::BTreeMap;

use api::{
    Agent, AgentStatus,
    conditions::{reasons, types},
    kinds::agent::GitSyncStatus,
};
use jiff::Timestamp;
use kubeopencode_core::{
    contexts::ContextPlan,
    git_sync::{next_look, rolls_out, take},
    status,
};
use observe::Key;

use crate::{
    context::{Context, now},
    registry::git_login,
    task::target::Target,
};

/// What was found in the repositories that an Agent follows.
#[derive(Debug, Default)]
pub struct Followed {
    statuses: Vec<GitSyncStatus>,
    waits: bool,
    problem: Option<String>,
    /// When to look again.
    pub next_look: Option<Timestamp>,
}

impl Followed {
    /// The commits that Pods should have, by the name of the context.
    pub fn commits(&self) -> BTreeMap<String, String> {
        self.statuses.iter().filter_map(|seen| Some((seen.name.clone(), seen.commit_hash.clone()?))).collect()
    }

    /// Puts what was found into the Agent's status.
    pub fn note(self, agent: &Agent, after: &mut AgentStatus) {
        let conditions = after.conditions.get_or_insert_default();
        if self.statuses.is_empty() && self.problem.is_none() {
            after.git_sync_statuses = None;
            status::remove(conditions, types::GIT_SYNC_PENDING);
            return;
        }
        let (holds, reason, message) = match (&self.problem, self.waits) {
            (Some(problem), _) => (true, reasons::REFERENCE_NOT_FOUND, problem.as_str()),
            (None, true) => (true, reasons::WAITING_FOR_TASKS, "a new commit waits until no Task runs"),
            (None, false) => (false, reasons::SYNCED, "the Pods have the newest commit"),
        };
        status::set(conditions, types::GIT_SYNC_PENDING, holds, reason, message, agent.metadata.generation, now());
        after.git_sync_statuses = Some(self.statuses);
    }
}

/// Looks at the repositories whose time has come.
pub async fn look(ctx: &Context, agent: &Agent, plan: &ContextPlan) -> Followed {
    let key = Key::of(agent);
    let status = agent.status.clone().unwrap_or_default();
    let waiting_since = status
        .conditions
        .as_deref()
        .and_then(|conditions| status::find(conditions, types::GIT_SYNC_PENDING))
        .filter(|condition| condition.status == "True")
        .map(|condition| condition.last_transition_time.0);
    let busy = ctx.queues.load(&Target::agent(key.clone())) > 0;
    let mut followed = Followed::default();
    for mount in plan.git.iter().filter(|mount| rolls_out(mount)) {
        let known = status.git_sync_statuses.iter().flatten().find(|known| known.name == mount.name);
        let due = next_look(mount, known);
        let mut seen = known.cloned();
        if now() >= due {
            let found = match git_login(ctx, &key, mount.secret.as_ref()).await {
                Ok(login) => ctx.remote.commit(&mount.repository, &mount.reference, login.as_ref()).await,
                Err(error) => Err(error),
            };
            match found {
                Ok(found) => {
                    let taken = take(&mount.name, known, &found, busy, waiting_since, now());
                    followed.waits |= taken.waits;
                    seen = Some(taken.status);
                }
                Err(error) => followed.problem = Some(format!("context '{}': {error}", mount.name)),
            }
        }
        let again = next_look(mount, seen.as_ref()).max(now() + jiff::SignedDuration::from_secs(10));
        followed.next_look = Some(followed.next_look.map_or(again, |earlier| earlier.min(again)));
        followed.statuses.extend(seen);
    }
    followed
}
