//! Search for objects of every kind by name or title.

use std::{cmp::Reverse, sync::Arc};

use api::{
    Agent, AgentTemplate, AgentTool, AgentWorkflow, CronTask, Instruction, MCPServer, Model, ModelProvider, Registry,
    RemoteMCPServer, Task,
};
use axum::{Json, extract::State};
use jiff::Timestamp;
use kube::ResourceExt as _;
use serde::Deserialize;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::Caller,
    edge::extract::Params,
    error::{Answer, ApiError},
    live::list::{Match, is_found},
    routes::kind::Served,
    state::Server,
    wire::{SearchResponse, SearchResult},
};

/// Results of one response.
const RESULTS: usize = 20;
/// The longest name of an object has fewer characters.
const LONGEST: usize = 253;

/// Routes under `/api/v1`.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(search))
}

/// What to search for.
#[derive(Clone, Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
struct SearchQuery {
    /// Part of a name or of the title of a Task, case-insensitive.
    #[param(min_length = 1, max_length = 253)]
    text: String,
}

/// Searches the objects that the caller may list. At most 20 results, the best match first, then the newest.
#[utoipa::path(get, path = "/search", tag = "overview", params(SearchQuery),
    responses((status = 200, body = SearchResponse)))]
async fn search(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Params(query): Params<SearchQuery>,
) -> Answer<Json<SearchResponse>> {
    let text = query.text.trim().to_lowercase();
    if text.is_empty() || text.len() > LONGEST {
        return Err(ApiError::bad_parameter("text", format!("text has between 1 and {LONGEST} characters")));
    }
    let mut found = Vec::new();
    collect::<Task>(&server, &caller, &text, &mut found).await?;
    collect::<CronTask>(&server, &caller, &text, &mut found).await?;
    collect::<Agent>(&server, &caller, &text, &mut found).await?;
    collect::<AgentTemplate>(&server, &caller, &text, &mut found).await?;
    collect::<Registry>(&server, &caller, &text, &mut found).await?;
    collect::<ModelProvider>(&server, &caller, &text, &mut found).await?;
    collect::<Model>(&server, &caller, &text, &mut found).await?;
    collect::<Instruction>(&server, &caller, &text, &mut found).await?;
    collect::<RemoteMCPServer>(&server, &caller, &text, &mut found).await?;
    collect::<MCPServer>(&server, &caller, &text, &mut found).await?;
    collect::<AgentTool>(&server, &caller, &text, &mut found).await?;
    collect::<AgentWorkflow>(&server, &caller, &text, &mut found).await?;
    found.sort_by_key(|(rank, _)| *rank);
    found.truncate(RESULTS);
    Ok(Json(SearchResponse { results: found.into_iter().map(|(_, result)| result).collect() }))
}

type Rank = (Match, Reverse<Option<Timestamp>>);

/// Adds the best matches of a kind.
async fn collect<K: Served>(
    server: &Server,
    caller: &Caller,
    text: &str,
    found: &mut Vec<(Rank, SearchResult)>,
) -> Answer<()> {
    let visible = server.visible_or_nothing::<K>(caller, None).await?;
    let mut best = K::cache(&server.caches).scan(|objects| {
        let seen = objects.filter(|(key, _)| visible.shows(key));
        let mut ranked: Vec<(Rank, Arc<K>)> = seen
            .filter_map(|(_, object)| {
                let created = object.meta().creation_timestamp.as_ref().map(|time| time.0);
                Some(((is_found(&**object, text)?, Reverse(created)), Arc::clone(object)))
            })
            .collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        ranked.truncate(RESULTS);
        ranked
    });
    found.extend(best.drain(..).map(|(rank, object)| {
        let result = SearchResult {
            kind: K::KIND.to_owned(),
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            title: object.title(),
        };
        (rank, result)
    }));
    Ok(())
}
