//! The OpenCode session of a Task: its transcript, and what the agent asks permission for.

use std::sync::Arc;

use api::{Agent, Task};
use axum::{Json, extract::State};
use http::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt as _};
use kubeopencode_core::record;
use observe::Key;
use serde_json::{Value, json};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::{Caller, core_resource, ours},
    crud,
    error::{Answer, ApiError},
    extract::{At, Body, Part},
    logs, opencode,
    state::Server,
    wire::{Permission, PermissionReply, Permissions},
};

/// Routes under `/api/v1`.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new()
        .routes(routes!(session))
        .routes(routes!(messages))
        .routes(routes!(permissions))
        .routes(routes!(answer))
}

/// The session of a Task: as its Agent's server tells it, or what its log tells of it.
#[utoipa::path(get, path = "/namespaces/{namespace}/tasks/{name}/session", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path)), responses((status = 200, body = Value)))]
async fn session(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<Value>> {
    let (task, client) = logs::readable(&server, &caller, &at).await?;
    let lost = match from_agent(&server, &task, "").await {
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
    let lost = match from_agent(&server, &task, "/message").await {
        Ok(messages) => return Ok(Json(messages)),
        Err(lost) => lost,
    };
    let messages = from_log(&server, client, &task).await?;
    if messages.is_empty() { Err(lost) } else { Ok(Json(messages.into())) }
}

/// The session of a Task, or something of it, from the Agent that keeps it.
async fn from_agent(server: &Server, task: &Task, what: &str) -> Answer<Value> {
    let agent = agent_of(server, task)?;
    let id = session_id(server, &agent, task).await?;
    opencode::json(server, &agent, "GET", &format!("/session/{id}{what}"), None).await
}

/// The conversation as the log of a run tells it. It is there when nobody keeps the session any more, or never did.
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
    let permissions = asked(&server, &agent, &task).await?;
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
    // Only what this very Task asks: an id of another session is none of its business.
    if !asked(&server, &agent, &task).await?.iter().any(|permission| permission.id == id) {
        return Err(ApiError::not_found("nobody asks for this permission any more"));
    }
    let body = json!(reply);
    opencode::json(&server, &agent, "POST", &format!("/permission/{id}/reply"), Some(&body)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// What an agent asks tells as much as its log.
async fn may_read(server: &Server, caller: &Caller, at: &At) -> Answer<()> {
    server.reviews.require(caller, &core_resource("get", "pods/log", Some(&at.namespace), None)).await
}

/// The Agent of a Task.
fn agent_of(server: &Server, task: &Task) -> Answer<Arc<Agent>> {
    let Some(reference) = &task.spec.agent_ref else {
        return Err(ApiError::not_found("the Task has no session yet: its log tells nothing of one"));
    };
    let namespace = task.namespace().unwrap_or_default();
    let agent = server.world.agents.object(&Key::new(&namespace, &reference.name));
    agent.ok_or_else(|| ApiError::no_such("Agent", &namespace, &reference.name))
}

/// The id of a Task's session: from its status, or, while it runs, by the Task's identity in the session.
async fn session_id(server: &Server, agent: &Agent, task: &Task) -> Answer<String> {
    let known = task.status.as_ref().and_then(|status| status.session.as_ref()?.id.clone());
    if let Some(id) = known.filter(|id| is_id(id)) {
        return Ok(id);
    }
    let sessions = opencode::json(server, agent, "GET", "/session", None).await?;
    let id = newest_of(&sessions, &task.uid().unwrap_or_default());
    id.filter(|id| is_id(id)).ok_or_else(|| ApiError::not_found("the Task has no session yet"))
}

/// The newest of the sessions that carry the Task's UID.
fn newest_of(sessions: &Value, uid: &str) -> Option<String> {
    let of_task = |session: &&Value| session.pointer("/metadata/task/uid").and_then(Value::as_str) == Some(uid);
    let created = |session: &&Value| session.pointer("/time/created").and_then(Value::as_i64).unwrap_or_default();
    let newest = sessions.as_array()?.iter().filter(of_task).max_by_key(created)?;
    newest["id"].as_str().map(str::to_owned)
}

/// An id is put into a path.
fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= 128 && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// What is asked in the Task's session and those that it started.
async fn asked(server: &Server, agent: &Agent, task: &Task) -> Answer<Vec<Permission>> {
    let id = match session_id(server, agent, task).await {
        Err(error) if error.status == StatusCode::NOT_FOUND => return Ok(Vec::new()),
        id => id?,
    };
    let all = opencode::json(server, agent, "GET", "/permission", None).await?;
    let children = opencode::json(server, agent, "GET", &format!("/session/{id}/children"), None).await;
    let children = children.unwrap_or_default();
    let is_child = |session: &str| children.as_array().into_iter().flatten().any(|child| child["id"] == session);
    let all: Vec<Permission> = serde_json::from_value(all)
        .map_err(|_| ApiError::bad_gateway("the Agent's server asks in a way that this version does not know"))?;
    Ok(all
        .into_iter()
        .filter(|asked| is_id(&asked.id) && (asked.session_id == id || is_child(&asked.session_id)))
        .collect())
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
        assert_eq!(newest_of(&sessions, "u").as_deref(), Some("ses_2"));
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
