//! The OpenCode session of a Task: its transcript and its changes.

use std::sync::Arc;

use api::{Agent, Task};
use axum::{Json, extract::State};
use domain::{
    contract::record,
    run::{changes::Changes, session::opened_by},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt as _};
use observe::Key;
use opencode::{Client as OpenCode, Session};
use serde_json::{Value, json};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    agent_server::{self, failed},
    auth::Caller,
    edge::extract::At,
    error::{Answer, ApiError},
    live::logs,
    routes::artifact,
    state::Server,
    wire::TaskChangesResponse,
};

/// Routes under `/api/v1`.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(session)).routes(routes!(messages)).routes(routes!(changes))
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

/// The Agent of a Task.
pub(super) fn agent_of(server: &Server, task: &Task) -> Answer<Arc<Agent>> {
    let Some(reference) = &task.spec.agent_ref else {
        return Err(ApiError::not_found("the Task has no session yet"));
    };
    let namespace = task.namespace().unwrap_or_default();
    let agent = server.caches.agents.object(&Key::new(&namespace, &reference.name));
    agent.ok_or_else(|| ApiError::no_such("Agent", &namespace, &reference.name))
}

/// The id of a Task's session: from its status, or, while it runs, by the Task's identity in the session.
pub(super) async fn session_id(client: &OpenCode, agent: &Agent, task: &Task) -> Answer<String> {
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
pub(super) fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= 128 && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
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
