//! Repositories that an Agent follows by roll-out, polled at the interval of the spec.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use api::{
    Agent, AgentStatus,
    conditions::{reasons, types},
    kinds::agent::GitSyncStatus,
};
use domain::{
    agent::git_sync::{LastLook, Place, may_take, next_look, recall, rolls_out, take},
    run::{resolved::ResolvedAgent, target::Target},
    status,
    workload::contexts::{ContextPlan, GitMount},
};
use jiff::Timestamp;
use observe::Key;

use crate::{
    lookup::{Error, route},
    registry::git_credentials,
    shared::{Shared, now},
};

/// Results of the last polls of the repositories of all Agents. They are lost in a restart; the next poll restores
/// them.
#[derive(Debug, Default)]
pub struct LastLooks(Mutex<HashMap<Key, Looks>>);

/// The last polls of the repositories of an Agent, by context name.
type Looks = BTreeMap<String, (Place, LastLook)>;

impl LastLooks {
    fn of(&self, agent: &Key, context: &str) -> Option<(Place, LastLook)> {
        self.lock().get(agent)?.get(context).cloned()
    }

    fn note(&self, agent: &Key, looks: Looks) {
        if looks.is_empty() {
            self.lock().remove(agent);
        } else {
            self.lock().insert(agent.clone(), looks);
        }
    }

    /// Forgets a deleted Agent.
    pub fn forget(&self, agent: &Key) {
        self.lock().remove(agent);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Looks>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Commits of the repositories that an Agent follows.
#[derive(Debug, Default)]
pub struct Followed {
    statuses: Vec<GitSyncStatus>,
    waits: bool,
    problem: Option<String>,
    /// When the next poll is due.
    pub next_look: Option<Timestamp>,
}

impl Followed {
    /// The commits that Pods should have, by context name.
    pub fn commits(&self) -> BTreeMap<String, String> {
        self.statuses.iter().filter_map(|seen| Some((seen.name.clone(), seen.commit_hash.clone()?))).collect()
    }

    /// Writes the commits and the condition GitSyncPending into the Agent's status.
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

/// Polls the repositories that are due.
pub async fn look(shared: &Shared, agent: &Agent, resolved: &ResolvedAgent, plan: &ContextPlan) -> Followed {
    let key = Key::of(agent);
    let status = agent.status.clone().unwrap_or_default();
    let pending = status
        .conditions
        .as_deref()
        .and_then(|conditions| status::find(conditions, types::GIT_SYNC_PENDING))
        .filter(|condition| condition.status == "True" && condition.reason == reasons::WAITING_FOR_TASKS);
    let waiting_since = pending.map(|condition| condition.last_transition_time.0);
    // The condition holds what the process before this one saw.
    let remembered = if pending.is_some() { LastLook::Waits } else { LastLook::Taken };
    let busy = shared.tasks.queues.with(|index| index.load(&Target::agent(key.clone()))) > 0;
    let begun = now();
    let may_take = may_take(busy, waiting_since, begun);
    let mut followed = Followed::default();
    let mut looks = BTreeMap::new();
    for mount in plan.git.iter().filter(|mount| rolls_out(mount)) {
        let known = status.git_sync_statuses.iter().flatten().find(|known| known.name == mount.name);
        let (known, mut last) = recall(mount, known, shared.agents.looks.of(&key, &mount.name), &remembered);
        let mut seen = known.cloned();
        if next_look(mount, known, &last, may_take, begun) <= begun {
            match newest(shared, &key, resolved, mount).await {
                Ok(found) => {
                    let (status, taken) = take(&mount.name, known, &found, may_take, now());
                    (seen, last) = (Some(status), taken);
                }
                Err(error) => {
                    last = LastLook::Failed { at: now(), problem: format!("context '{}': {error}", mount.name) };
                }
            }
        }
        match &last {
            LastLook::Taken => {}
            LastLook::Waits => followed.waits = true,
            LastLook::Failed { problem, .. } => followed.problem = Some(problem.clone()),
        }
        let again = next_look(mount, seen.as_ref(), &last, may_take, now());
        followed.next_look = Some(followed.next_look.map_or(again, |earlier| earlier.min(again)));
        followed.statuses.extend(seen);
        looks.insert(mount.name.clone(), (Place::of(mount), last));
    }
    shared.agents.looks.note(&key, looks);
    followed
}

/// The current commit of a repository, looked up by the route of the Agent's Pods.
async fn newest(shared: &Shared, key: &Key, agent: &ResolvedAgent, mount: &GitMount) -> Result<String, Error> {
    let credentials = git_credentials(shared, key, mount.secret.as_ref()).await?;
    let route = route::of_agent(shared, key, agent).await?;
    shared.lookup.through(&route)?.commit(&mount.repository, &mount.reference, &credentials).await
}
