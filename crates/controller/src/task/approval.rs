//! Condition AwaitingApproval: set while an agent waits for the answer of a person.
//!
//! The Pod of a Task may not write the Task's status, so the controller polls the Agent's server for open requests:
//! every two seconds, with one or two small requests an Agent, and only while a Task runs there whose terms allow
//! approval requests.

use std::{collections::HashMap, sync::Arc, time::Duration};

use api::{Task, conditions::types};
use domain::{
    run::{
        approval::{self, Asked},
        session::opened_by,
        stage::Stage,
        target::Target,
        terms::RunTerms,
    },
    status,
};
use kube::ResourceExt as _;
use observe::{Key, Next};
use opencode::{Client, Session};
use tokio::time::Instant;

use crate::{
    agent::server::Error,
    shared::{Shared, now},
};

/// Interval of the polls. A person does not notice a shorter one.
const POLL: Duration = Duration::from_secs(2);
/// Requests that one poll handles; further ones wait for the next poll.
const MAX_REQUESTS: usize = 100;

/// Polls the Agent's server from now on if the terms of a running Task allow approval requests.
pub fn runs(shared: &Shared, task: &Task) {
    if let Some(agent) = Target::of(task).and_then(|target| target.agent_key())
        && may_ask(shared, task)
    {
        shared.work.approvals.add(agent);
    }
}

fn may_ask(shared: &Shared, task: &Task) -> bool {
    let platform = shared.platform();
    RunTerms::recorded(task, &platform).unwrap_or_else(|| RunTerms::unrecorded(task, &platform)).asks_approval
}

/// Polls the open requests of the Tasks on an Agent once.
pub async fn pass(shared: &Shared, key: &Key) -> Result<Next, Error> {
    let target = Target::agent(key.clone());
    let all = shared
        .tasks
        .queues
        .with(|index| index.unfinished_on(&target))
        .into_iter()
        .filter_map(|task| shared.cache.tasks.object(&task));
    let running: Vec<Arc<Task>> =
        all.filter(|task| matches!(Stage::of(task), Stage::Running { .. }) && may_ask(shared, task)).collect();
    let Some(agent) = shared.cache.agents.object(key).filter(|_| !running.is_empty()) else {
        shared.agents.servers.forget(key);
        return Ok(Next::Wait);
    };
    let again = Next::At(Instant::now() + POLL);
    let Some(server) = shared.agents.servers.cached(shared, &agent).await? else { return Ok(again) };
    let asked = server.asked().await.inspect_err(|error| {
        if *error == opencode::Error::Unauthorized {
            shared.agents.servers.forget(key);
        }
    })?;
    let mut by_task: HashMap<String, Vec<Asked>> = HashMap::new();
    for asked in asked.into_iter().take(MAX_REQUESTS) {
        if let Some(uid) = task_of(&server, &asked.session).await? {
            by_task.entry(uid).or_default().push(asked);
        }
    }
    for task in running {
        let asked = by_task.remove(&task.uid().unwrap_or_default()).unwrap_or_default();
        report(shared, &task, &asked).await?;
    }
    Ok(again)
}

/// UID of the Task that owns the session, directly or through a parent session.
async fn task_of(server: &Client, session: &str) -> Result<Option<String>, Error> {
    let about = opened(server, session).await?;
    Ok(about.as_ref().and_then(opened_by).map(|opened| opened.uid.to_owned()))
}

/// The session that a client opened: `session` itself or one of its ancestors.
pub(super) async fn opened(server: &Client, session: &str) -> Result<Option<Session>, Error> {
    let line = server.lineage(session).await?;
    Ok(line.into_iter().find(|session| opened_by(session).is_some() || session.parent.is_none()))
}

/// Updates the condition, if it changed.
async fn report(shared: &Shared, task: &Task, asked: &[Asked]) -> Result<(), Error> {
    let before = task.status.clone().unwrap_or_default();
    let mut after = before.clone();
    let mut conditions = after.conditions.take().unwrap_or_default();
    approval::note(&mut conditions, asked, task.metadata.generation, now());
    let waits = status::find(&conditions, types::AWAITING_APPROVAL).filter(|condition| condition.status == "True");
    let waits = waits.map(|condition| condition.message.clone());
    after.conditions = Some(conditions).filter(|conditions| !conditions.is_empty());
    let version = task.resource_version();
    match shared.write_status::<Task>(&Key::of(task), &before, &after, version.as_deref()).await {
        Ok(Some(written)) => {
            shared.insert_written_task(written);
            if let Some(message) = waits {
                shared.telemetry.events.normal(
                    task,
                    types::AWAITING_APPROVAL,
                    format!("the agent asks a person: {message}"),
                );
            }
            Ok(())
        }
        Ok(None) => Ok(()),
        // The cached Task is out of date or deleted; the next poll sees the new version.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
