//! Permission requests of an agent: what is asked, the answers, and the audit of who answered what.

use std::sync::Arc;

use api::{Agent, Task};
use axum::{Json, extract::State};
use domain::run::approval::{Answered, Via};
use http::{HeaderMap, StatusCode, header};
use opencode::{Asked, Client as OpenCode};
use store::{Run, Store};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::session::{agent_of, is_id, session_id};
use crate::{
    agent_server::{self, failed},
    auth::{self, Caller, core_resource, ours, random},
    edge::extract::{At, Body, Part},
    error::{Answer, ApiError},
    live::logs,
    routes::crud,
    state::Server,
    wire::{ApprovalResponse, Approvals, Permission, PermissionReply, Permissions},
};

/// How the command line names itself.
const COMMAND_LINE: &str = "kubeopencode-cli/";

/// Routes under `/api/v1`.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(permissions)).routes(routes!(answer)).routes(routes!(approvals))
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
    Ok(Json(Permissions { permissions: permissions.into_iter().map(Permission::from).collect() }))
}

/// Answers a permission request of this Task. The answer is recorded before the agent receives it.
#[utoipa::path(post, path = "/namespaces/{namespace}/tasks/{name}/permissions/{id}", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path), ("id" = String, Path)),
    request_body = PermissionReply, responses((status = 204)))]
async fn answer(
    State(server): State<Arc<Server>>,
    caller: Caller,
    at: At,
    Part(id): Part,
    headers: HeaderMap,
    Body(reply): Body<PermissionReply>,
) -> Answer<StatusCode> {
    let what = ours("update", "tasks", Some(&at.namespace), Some(&at.name));
    server.reviews.require(&caller, &what).await?;
    let task: Task = crud::fetch(&server, &caller, &at.namespace, &at.name).await?;
    may_read(&server, &caller, &at).await?;
    let agent = agent_of(&server, &task)?;
    let client = agent_server::client(&server, &agent).await?;
    // Only requests of this Task: those of other sessions must not be answered through it.
    let asked = asked(&client, &agent, &task).await?;
    let Some(asked) = asked.iter().find(|asked| asked.id == id) else {
        return Err(ApiError::not_found("this permission request is no longer open"));
    };
    let message = reply.message.as_deref();
    let answered = Answered::new(asked, reply.reply.into(), message, &caller.user.name, via(&caller, &headers));
    let audit = Audit::begin(&server, &task, &answered).await?;
    let sent = client.reply(&id, &reply.into()).await;
    if let Some(audit) = audit {
        audit.end(sent.as_ref().err()).await;
    }
    sent.map_err(|error| failed(&agent, &error))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Who answered which permission request, in all runs of this Task. The newest 1,000 answers.
#[utoipa::path(get, path = "/namespaces/{namespace}/tasks/{name}/approvals", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path)), responses((status = 200, body = Approvals)))]
async fn approvals(State(server): State<Arc<Server>>, caller: Caller, at: At) -> Answer<Json<Approvals>> {
    let (task, _) = logs::readable(&server, &caller, &at).await?;
    let (Some(store), Some(owner)) = (&server.options.results, logs::owner(&task)) else {
        return Ok(Json(Approvals { recorded: false, approvals: Vec::new() }));
    };
    let all = store.approvals(&owner).await;
    let all = all.map_err(|error| ApiError::internal("the recorded answers cannot be read", &error))?;
    let approvals = all.into_iter().map(ApprovalResponse::of).collect::<Result<_, _>>();
    let approvals = approvals.map_err(|error| ApiError::internal("a recorded answer cannot be read", &error))?;
    Ok(Json(Approvals { recorded: true, approvals }))
}

/// A permission request reveals as much as the log.
async fn may_read(server: &Server, caller: &Caller, at: &At) -> Answer<()> {
    server.reviews.require(caller, &core_resource("get", "pods/log", Some(&at.namespace), None)).await
}

/// The open permission requests of the Task's session and of its subagents.
async fn asked(client: &OpenCode, agent: &Agent, task: &Task) -> Answer<Vec<Asked>> {
    let id = match session_id(client, agent, task).await {
        Err(error) if error.status == StatusCode::NOT_FOUND => return Ok(Vec::new()),
        id => id?,
    };
    let asked = client.permissions_of(&id).await.map_err(|error| failed(agent, &error))?;
    Ok(asked.into_iter().filter(|asked| is_id(&asked.id)).collect())
}

/// The program that sent an answer.
fn via(caller: &Caller, headers: &HeaderMap) -> Via {
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    match &caller.via {
        _ if agent.starts_with(COMMAND_LINE) => Via::CommandLine,
        auth::Via::Session { .. } => Via::Page,
        auth::Via::Bearer | auth::Via::Anonymous => Via::Api,
    }
}

/// The record of an answer that is being sent.
struct Audit<'a> {
    store: &'a Store,
    run: Run,
    id: String,
}

impl<'a> Audit<'a> {
    /// Records an answer. `None` if this server has no store.
    async fn begin(server: &'a Server, task: &Task, answered: &Answered) -> Answer<Option<Self>> {
        let epoch = task.status.as_ref().and_then(|status| status.run_epoch).unwrap_or_default();
        let (Some(store), Some(task)) = (&server.options.results, logs::owner(task)) else { return Ok(None) };
        let unrecorded = |error: &dyn std::error::Error| {
            tracing::warn!(error = error.to_string(), "an answer to a permission request could not be recorded");
            ApiError::unavailable("the answer could not be recorded, so it was not sent; try again")
        };
        let entry = serde_json::to_vec(answered).map_err(|error| unrecorded(&error))?;
        let (run, id) = (Run { task, epoch }, random::text(12).map_err(|error| unrecorded(&error))?);
        store.record_approval(&run, &id, entry).await.map_err(|error| unrecorded(&error))?;
        Ok(Some(Self { store, run, id }))
    }

    /// Confirms the record, or removes it if the answer did not reach the agent.
    async fn end(self, error: Option<&opencode::Error>) {
        use opencode::Error;
        let done = match error {
            None => self.store.confirm_approval(&self.run, &self.id).await,
            // The agent may have received it.
            Some(Error::NoAnswer(_)) => return,
            Some(_) => self.store.withdraw_approval(&self.run, &self.id).await,
        };
        if let Err(error) = done {
            tracing::warn!(error = error.to_string(), "the record of an answer stays unconfirmed");
        }
    }
}
