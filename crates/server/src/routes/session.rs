//! The OpenCode session of a Task: its transcript, its changes, and what the agent asks permission for.

use std::sync::Arc;

use api::{Agent, Task};
use axum::{Json, extract::State};
use domain::{
    contract::record,
    run::{changes::Changes, session::opened_by},
};
use http::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt as _};
use observe::Key;
use opencode::{Client as OpenCode, Session};
use serde_json::{Value, json};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    agent_server::{self, failed},
    auth::{Caller, core_resource, ours},
    edge::extract::{At, Body, Part},
    error::{Answer, ApiError},
    live::logs,
    routes::{artifact, crud},
    state::Server,
    wire::{Permission, PermissionReply, Permissions, TaskChangesResponse},
};

/// Routes under `/api/v1`.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new()
        .routes(routes!(session))
        .routes(routes!(messages))
        .routes(routes!(changes))
        .routes(routes!(permissions))
        .routes(routes!(answer))
}

/// The session of a Task, from its Agent's server or from its log.
#[utoipa::path(get, path = "/namespaces/{namespace}/tasks/{name}/session", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path)), responses((status = 200, body = Value)))]
async fn session(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<Value>> {
    let (task, client) = logs::readable(&server, &caller, &at).await?;
    let lost = match from_agent(&server, &task, async |client, id| client.raw_session(&id).await).await {
        Ok(session) => return Ok(Json(session)),
        Err(lost) => lost,
    };
    let messages = from_log(&server, client, &task).await?;
    let Some(first) = messages.iter().find(|message| message["info"]["role"] == "assistant") else { return Err(lost) };
    let info = &first["info"];
    Ok(Json(json!({ "id": info["sessionID"], "title": at.name, "time": { "created": info["time"]["created"] } })))
}

/// The messages of that session.
#[utoipa::path(get, path = "/namespaces/{namespace}/tasks/{name}/session/messages", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path)), responses((status = 200, body = Value)))]
async fn messages(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<Value>> {
    let (task, client) = logs::readable(&server, &caller, &at).await?;
    let lost = match from_agent(&server, &task, async |client, id| client.raw_messages(&id).await).await {
        Ok(messages) => return Ok(Json(messages)),
        Err(lost) => lost,
    };
    let messages = from_log(&server, client, &task).await?;
    if messages.is_empty() { Err(lost) } else { Ok(Json(messages.into())) }
}

/// The changes of the current run in its workspace. A run has them when it has ended.
#[utoipa::path(get, path = "/namespaces/{namespace}/tasks/{name}/changes", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path)), responses((status = 200, body = TaskChangesResponse)))]
async fn changes(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<TaskChangesResponse>> {
    let (task, client) = logs::readable(&server, &caller, &at).await?;
    let pods: Api<Pod> = Api::namespaced(client, &at.namespace);
    let records = logs::records(&server, &pods, &task).await?;
    let changes = Changes::of_records(&records);
    let changes = changes.ok_or_else(|| ApiError::not_found("no changes are recorded for this run"))?;
    Ok(Json(TaskChangesResponse::of(changes, artifact::patch_bytes(&server, &task).await?)))
}

/// The session of a Task, or its messages, from the Agent that keeps it.
async fn from_agent(
    server: &Server,
    task: &Task,
    get: impl AsyncFnOnce(OpenCode, String) -> Result<Value, opencode::Error>,
) -> Answer<Value> {
    let agent = agent_of(server, task)?;
    let client = agent_server::client(server, &agent).await?;
    let id = session_id(&client, &agent, task).await?;
    get(client, id).await.map_err(|error| failed(&agent, &error))
}

/// The conversation from the log of a run, which is available without the session.
async fn from_log(server: &Server, client: Client, task: &Task) -> Answer<Vec<Value>> {
    let pods: Api<Pod> = Api::namespaced(client, &task.namespace().unwrap_or_default());
    let records = logs::records(server, &pods, task).await?;
    Ok(record::messages(task.spec.description.as_deref().unwrap_or_default(), records))
}

/// What the agent asks permission for in this Task.
#[utoipa::path(get, path = "/namespaces/{namespace}/tasks/{name}/permissions", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path)), responses((status = 200, body = Permissions)))]
async fn permissions(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<Permissions>> {
    let task: Task = crud::fetch(&server, &caller, &at.namespace, &at.name).await?;
    let finished = task.status.as_ref().and_then(|status| status.phase).is_some_and(api::TaskPhase::is_finished);
    if finished || task.spec.agent_ref.is_none() {
        return Ok(Json(Permissions { permissions: Vec::new() }));
    }
    may_read(&server, &caller, &at).await?;
    let agent = agent_of(&server, &task)?;
    let client = agent_server::client(&server, &agent).await?;
    let permissions = asked(&client, &agent, &task).await?;
    Ok(Json(Permissions { permissions }))
}

/// Answers a permission request of this Task.
#[utoipa::path(post, path = "/namespaces/{namespace}/tasks/{name}/permissions/{id}", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path), ("id" = String, Path)),
    request_body = PermissionReply, responses((status = 204)))]
async fn answer(
    State(server): State<Arc<Server>>,
    caller: Caller,
    at: At,
    Part(id): Part,
    Body(reply): Body<PermissionReply>,
) -> Answer<StatusCode> {
    let what = ours("update", "tasks", Some(&at.namespace), Some(&at.name));
    server.reviews.require(&caller, &what).await?;
    let task: Task = crud::fetch(&server, &caller, &at.namespace, &at.name).await?;
    may_read(&server, &caller, &at).await?;
    let agent = agent_of(&server, &task)?;
    let client = agent_server::client(&server, &agent).await?;
    // Only requests of this Task: those of other sessions must not be answered through it.
    if !asked(&client, &agent, &task).await?.iter().any(|permission| permission.id == id) {
        return Err(ApiError::not_found("this permission request is no longer open"));
    }
    client.reply(&id, &reply.into()).await.map_err(|error| failed(&agent, &error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// A permission request reveals as much as the log.
async fn may_read(server: &Server, caller: &Caller, at: &At) -> Answer<()> {
    server.reviews.require(caller, &core_resource("get", "pods/log", Some(&at.namespace), None)).await
}

/// The Agent of a Task.
fn agent_of(server: &Server, task: &Task) -> Answer<Arc<Agent>> {
    let Some(reference) = &task.spec.agent_ref else {
        return Err(ApiError::not_found("the Task has no session yet"));
    };
    let namespace = task.namespace().unwrap_or_default();
    let agent = server.caches.agents.object(&Key::new(&namespace, &reference.name));
    agent.ok_or_else(|| ApiError::no_such("Agent", &namespace, &reference.name))
}

/// The id of a Task's session: from its status, or, while it runs, by the Task's identity in the session.
async fn session_id(client: &OpenCode, agent: &Agent, task: &Task) -> Answer<String> {
    let known = task.status.as_ref().and_then(|status| status.session.as_ref()?.id.clone());
    if let Some(id) = known.filter(|id| is_id(id)) {
        return Ok(id);
    }
    let sessions = client.sessions(None).await.map_err(|error| failed(agent, &error))?;
    let id = newest_of(&sessions, &task.uid().unwrap_or_default());
    id.filter(|id| is_id(id)).map(str::to_owned).ok_or_else(|| ApiError::not_found("the Task has no session yet"))
}

/// The newest of the sessions that carry the Task's UID.
fn newest_of<'a>(sessions: &'a [Session], uid: &str) -> Option<&'a str> {
    let of_task = sessions.iter().filter(|session| opened_by(session).is_some_and(|opened| opened.uid == uid));
    of_task.max_by(|a, b| a.time.created.total_cmp(&b.time.created)).map(|session| session.id.as_str())
}

/// Whether a text is an id, which may become part of a path.
fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= 128 && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The open permission requests of the Task's session and of its subagents.
async fn asked(client: &OpenCode, agent: &Agent, task: &Task) -> Answer<Vec<Permission>> {
    let id = match session_id(client, agent, task).await {
        Err(error) if error.status == StatusCode::NOT_FOUND => return Ok(Vec::new()),
        id => id?,
    };
    let asked = client.permissions_of(&id).await.map_err(|error| failed(agent, &error))?;
    Ok(asked.into_iter().filter(|asked| is_id(&asked.id)).map(Permission::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_found_by_the_tasks_identity() {
        let sessions = json!([
            {"id": "ses_1", "metadata": {"task": {"uid": "u"}}, "time": {"created": 1}},
            {"id": "ses_2", "metadata": {"task": {"uid": "u"}}, "time": {"created": 2}},
            {"id": "ses_3", "metadata": {"task": {"uid": "other"}}, "time": {"created": 3}},
            {"id": "ses_4", "time": {"created": 4}},
        ]);
        let sessions: Vec<Session> = serde_json::from_value(sessions).unwrap();
        assert_eq!(newest_of(&sessions, "u"), Some("ses_2"));
        assert_eq!(newest_of(&sessions, "none"), None);
    }

    #[test]
    fn an_id_cannot_leave_its_path() {
        assert!(is_id("ses_01AbZ"));
        for id in ["", "../x", "a/b", "a?b", "a%2f"] {
            assert!(!is_id(id), "{id}");
        }
    }
}
