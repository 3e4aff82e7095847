//! Full-text search in the logs of a Task, of all its runs.
//!
//! A log is read once from its beginning, in pieces, and only excerpts are collected: a search needs the same memory
//! whatever the length of the logs. It ends after a fixed time with what it found until then, and says so.

use std::{sync::Arc, time::Duration};

use api::Task;
use axum::{Json, extract::State};
use domain::run::log_search::{self, Wanted as Text};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _};
use serde::Deserialize;
use store::Line;
use tokio::time::{Instant, timeout_at};

use super::{Lines, epoch, kept::KeptLog, pod, query::Wanted, readable};
use crate::{
    auth::Caller,
    edge::extract::{At, Params},
    error::{Answer, ApiError},
    state::Server,
    wire::{LogMatch, LogSearchResponse, RunMatches},
};

/// A search ends after this time.
const LIMIT: Duration = Duration::from_secs(10);
/// Searches at the same time. Each keeps a core busy.
pub(crate) const AT_ONCE: usize = 4;
/// Listed matches, by default and at most.
const MATCHES: usize = 200;
const MOST_MATCHES: usize = 2_000;
/// Lines after which other requests have their turn.
const TURN: u64 = 1_000;

/// What to search for, and where.
#[derive(Clone, Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(super) struct LogSearchQuery {
    /// Text within one line, without colours and other control sequences.
    #[param(min_length = 1, max_length = 200)]
    q: String,
    /// Only this run, the first being 1; all runs when unset.
    #[param(minimum = 1)]
    epoch: Option<i64>,
    /// Which container; when unset, the one that failed to prepare the Pod, else `agent`.
    container: Option<String>,
    /// Distinguish upper and lower case.
    #[serde(default)]
    match_case: bool,
    /// Matches to list; 200 when unset.
    #[param(minimum = 1, maximum = 2000)]
    limit: Option<i64>,
}

/// Searches the logs of a Task: of the current run and of earlier ones. A search takes 10 seconds at most.
#[utoipa::path(get, path = "/namespaces/{namespace}/tasks/{name}/logs/search", operation_id = "searchLog", tag = "tasks",
    params(("namespace" = String, Path), ("name" = String, Path), LogSearchQuery),
    responses((status = 200, body = LogSearchResponse),
        (status = 429, description = "too many searches at the same time")))]
pub(super) async fn search(
    State(server): State<Arc<Server>>,
    caller: Caller,
    at: At,
    Params(query): Params<LogSearchQuery>,
) -> Answer<Json<LogSearchResponse>> {
    let text = Text::new(&query.q, query.match_case);
    let text = text.map_err(|error| ApiError::bad_parameter("q", error.to_string()))?;
    let limit = query.limit.map_or(Some(MATCHES), |limit| usize::try_from(limit).ok());
    let limit = limit.filter(|limit| (1..=MOST_MATCHES).contains(limit));
    let limit =
        limit.ok_or_else(|| ApiError::bad_parameter("limit", format!("limit is between 1 and {MOST_MATCHES}")))?;
    if query.epoch.is_some_and(|epoch| epoch < 1) {
        return Err(ApiError::bad_parameter("epoch", "the first run is 1"));
    }
    let wanted = Wanted::of_container(query.container.as_deref())?;
    let (task, client) = readable(&server, &caller, &at).await?;
    let current = epoch(&task);
    let runs: Vec<i64> = match query.epoch {
        Some(run) if run > current => {
            return Err(ApiError::not_found(format!("Task '{}' has no run {run} yet", at.name)));
        }
        Some(run) => vec![run],
        None => (1..=current).rev().collect(),
    };
    let deadline = Instant::now() + LIMIT;
    let Ok(Ok(_turn)) = timeout_at(deadline, server.log_searches.acquire()).await else {
        return Err(ApiError::too_many(5));
    };
    let pods: Api<Pod> = Api::namespaced(client, &at.namespace);
    let mut search = Search { text, room: limit, deadline };
    let mut found = LogSearchResponse { runs: Vec::with_capacity(runs.len()), incomplete: None };
    for run in runs {
        let (matches, whole) = search.run(&server, &pods, &task, run, &wanted).await?;
        found.runs.push(matches);
        if !whole {
            found.incomplete =
                Some(format!("the search ended after {} seconds; later lines were not searched", LIMIT.as_secs()));
            break;
        }
    }
    let counted: u64 = found.runs.iter().map(|run| run.match_count).sum();
    if found.incomplete.is_none() && search.room == 0 && counted > limit as u64 {
        found.incomplete = Some(format!("{counted} lines match, of which the first {limit} are listed"));
    }
    Ok(Json(found))
}

/// A search that is under way.
struct Search {
    text: Text,
    /// Matches that can still be listed.
    room: usize,
    deadline: Instant,
}

impl Search {
    /// Searches the log of a run. Returns what was found, and whether the whole log was searched.
    async fn run(
        &mut self,
        server: &Server,
        pods: &Api<Pod>,
        task: &Task,
        run: i64,
        wanted: &Wanted,
    ) -> Answer<(RunMatches, bool)> {
        let mut found = RunMatches { epoch: run, matches: Vec::new(), match_count: 0, line_count: 0, missing: None };
        let Ok(opened) = timeout_at(self.deadline, open(server, pods, task, run, wanted)).await else {
            return Ok((found, false));
        };
        let (mut lines, missing) = opened?;
        found.missing = missing;
        loop {
            let line = match timeout_at(self.deadline, lines.next()).await {
                Err(_) => return Ok((found, false)),
                Ok(None) => return Ok((found, true)),
                Ok(Some(line)) => line.map_err(|error| ApiError::internal("the log cannot be read", &error))?.1,
            };
            self.line(&line, &mut found);
            if found.line_count.is_multiple_of(TURN) {
                // Lines in memory are always ready, so neither the time limit nor other requests would have their turn.
                if Instant::now() >= self.deadline {
                    return Ok((found, false));
                }
                tokio::task::yield_now().await;
            }
        }
    }

    fn line(&mut self, line: &Line, found: &mut RunMatches) {
        found.line_count += 1;
        let shown = log_search::shown(&line.text);
        let Some(at) = self.text.find(&shown) else { return };
        found.match_count += 1;
        if self.room > 0 {
            self.room -= 1;
            found.matches.push(LogMatch {
                line: found.line_count,
                time: line.time,
                text: log_search::excerpt(&shown, at),
            });
        }
    }
}

/// The log of a run from its beginning, and what it lacks. The same lines as in the page, so that their numbers are equal.
async fn open(
    server: &Server,
    pods: &Api<Pod>,
    task: &Task,
    run: i64,
    wanted: &Wanted,
) -> Answer<(Lines, Option<String>)> {
    let pod = pod::of_run(pods, task, run).await?;
    let wanted = &wanted.of_pod(pod.as_ref());
    if let Some(pod) = &pod {
        pod::find(pod, &wanted.container)?;
    }
    let started = pod.filter(|pod| pod::status_of(pod, &wanted.container).is_some_and(pod::has_started));
    let kept = KeptLog::find(server, task, run, &wanted.container).await?;
    match (kept, started) {
        (Some(kept), pod) if kept.is_complete() || pod.is_none() => Ok((kept.lines(wanted, None), kept.lacks())),
        (_, Some(pod)) => Ok((pod::lines(pods, &pod, wanted, None).await?, None)),
        _ => {
            let missing = format!("run {run} of Task '{}' has no log", task.name_any());
            Ok((futures::stream::empty().boxed(), Some(missing)))
        }
    }
}
