//! While an agent asks a person: the status of its Task says so.
//!
//! The Pod of a Task has no right to write its status, so the Agent's server is asked what waits for an answer. Only
//! while a Task runs there whose settings let it ask, every other second, one or two small requests an Agent.

use std::{collections::HashMap, sync::Arc, time::Duration};

use api::{Task, conditions::types};
use kube::ResourceExt as _;
use kubeopencode_core::{
    approval::{self, Asked},
    session::opened_by,
    status,
};
use observe::{Key, Next};
use reqwest::StatusCode;
use serde_json::Value;
use tokio::time::Instant;

use super::{
    standing::Standing,
    target::{Target, TargetKind},
};
use crate::{
    agent::server::{Error, Server},
    context::{Context, now},
};

/// How often the server is asked. A person does not notice a shorter wait.
const LOOK: Duration = Duration::from_secs(2);
/// Requests that are looked at; more wait for the next look.
const MOST_ASKED: usize = 100;
/// Agents start others, but hardly ever so deeply.
const DEEPEST: usize = 8;

/// A Task runs: if it may ask, its Agent's server is watched.
pub fn runs(ctx: &Context, task: &Task) {
    if let Some(target) = Target::of(task)
        && target.kind == TargetKind::Agent
        && may_ask(ctx, task)
    {
        ctx.work.approvals.add(target.key);
    }
}

fn may_ask(ctx: &Context, task: &Task) -> bool {
    ctx.resolved(task).is_some_and(|resolved| approval::may_ask(&resolved))
}

/// One look at what the Tasks on an Agent ask.
pub async fn pass(ctx: &Context, key: &Key) -> Result<Next, Error> {
    let target = Target::agent(key.clone());
    let all = ctx.queues.everyone_on(&target).into_iter().filter_map(|task| ctx.seen.tasks.object(&task));
    let running: Vec<Arc<Task>> =
        all.filter(|task| matches!(Standing::of(task), Standing::Running { .. }) && may_ask(ctx, task)).collect();
    let Some(agent) = ctx.seen.agents.object(key).filter(|_| !running.is_empty()) else {
        ctx.servers.forget(key);
        return Ok(Next::Wait);
    };
    let again = Next::At(Instant::now() + LOOK);
    let Some(server) = ctx.servers.keep(ctx, &agent).await? else { return Ok(again) };
    let asked = server.asked().await.inspect_err(|error| {
        if matches!(error, Error::Refused(StatusCode::UNAUTHORIZED)) {
            ctx.servers.forget(key);
        }
    })?;
    let mut by_task: HashMap<String, Vec<Asked>> = HashMap::new();
    for asked in asked.into_iter().take(MOST_ASKED) {
        if let Some(uid) = task_of(&server, &asked.session).await? {
            by_task.entry(uid).or_default().push(asked);
        }
    }
    for task in running {
        let asked = by_task.remove(&task.uid().unwrap_or_default()).unwrap_or_default();
        say(ctx, &task, &asked).await?;
    }
    Ok(again)
}

/// UID of the Task whose session this is, or whose session started it.
async fn task_of(server: &Server, session: &str) -> Result<Option<String>, Error> {
    let about = opened(server, session).await?;
    Ok(about.as_ref().and_then(opened_by).map(|opened| opened.uid.to_owned()))
}

/// The session that a client opened and that `session` is, or came from.
pub(super) async fn opened(server: &Server, session: &str) -> Result<Option<Value>, Error> {
    let mut id = session.to_owned();
    for _ in 0..DEEPEST {
        let Some(about) = server.session(&id).await? else { return Ok(None) };
        match about["parentID"].as_str().filter(|_| opened_by(&about).is_none()) {
            Some(parent) => parent.clone_into(&mut id),
            None => return Ok(Some(about)),
        }
    }
    Ok(None)
}

/// Says in the status what is asked, if that is news.
async fn say(ctx: &Context, task: &Task, asked: &[Asked]) -> Result<(), Error> {
    let before = task.status.clone().unwrap_or_default();
    let mut after = before.clone();
    let mut conditions = after.conditions.take().unwrap_or_default();
    approval::note(&mut conditions, asked, task.metadata.generation, now());
    let waits = status::find(&conditions, types::AWAITING_APPROVAL).filter(|condition| condition.status == "True");
    let waits = waits.map(|condition| condition.message.clone());
    after.conditions = Some(conditions).filter(|conditions| !conditions.is_empty());
    let version = task.resource_version();
    match ctx.write_status::<Task>(&Key::of(task), &before, &after, version.as_deref()).await {
        Ok(Some(written)) => {
            ctx.learn_task(written);
            if let Some(message) = waits {
                ctx.events.normal(task, types::AWAITING_APPROVAL, format!("the agent asks a person: {message}"));
            }
            Ok(())
        }
        Ok(None) => Ok(()),
        // It changed since we looked, or is gone; the next look sees it.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
