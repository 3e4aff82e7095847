//! The stream of changes as server-sent events.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::State,
    response::{
        IntoResponse, Response, Sse,
        sse::{Event, KeepAlive},
    },
};
use futures::Stream;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::{Caller, is_still_authenticated, ours, revoked},
    edge::extract::Params,
    error::Answer,
    live::{feed::Published, list::list},
    metrics::OpenStream,
    state::{Server, shutdown_requested},
};

/// Interval of comments that keep idle streams open in proxies and browsers.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Routes under `/api/v1`.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(stream))
}

/// Which changes to send.
#[derive(Clone, Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
struct EventQuery {
    /// Only in this namespace.
    namespace: Option<String>,
    /// Only of these kinds, separated by commas.
    kinds: Option<String>,
    /// Resume after this change, as the header Last-Event-ID.
    last_event_id: Option<String>,
}

/// Changes of objects that the caller may see, as they happen.
#[utoipa::path(get, path = "/events/stream", tag = "events", params(EventQuery),
    responses((status = 200, content_type = "text/event-stream", body = String)))]
async fn stream(
    State(server): State<Arc<Server>>,
    caller: Caller,
    headers: HeaderMap,
    Params(query): Params<EventQuery>,
) -> Answer<Response> {
    let last = last_event_id(&headers, query.last_event_id);
    let kinds = list(query.kinds.as_deref());
    let namespace = query.namespace.filter(|namespace| !namespace.is_empty());
    let place = server.caches.feed.listen(last.as_deref());

    let events = async_stream::stream! {
        let _open = OpenStream::new(&server.metrics);
        let mut ending = server.ending.clone();
        let wanted = |change: &Published| {
            (kinds.is_empty() || kinds.iter().any(|kind| kind == change.kind))
                && namespace.as_ref().is_none_or(|namespace| *namespace == change.namespace)
        };
        let mut receiver = place.receiver;
        let hello = Event::default().event("hello").data(json!({ "id": place.id }).to_string());
        // A client that reconnects keeps its ID until it has received the changes it missed.
        yield if last.is_some() && !place.reset { hello } else { hello.id(&place.id) };
        if place.reset {
            yield reset();
        }
        let mut missed = place.missed.into_iter();
        // Rights are checked for each change; this ends the stream of a caller who is no longer authenticated while
        // nothing changes.
        let revoked = revoked(&server, &caller, &[]);
        tokio::pin!(revoked);
        loop {
            let change = if let Some(change) = missed.next() {
                change
            } else {
                tokio::select! {
                    change = receiver.recv() => match change {
                        Ok(change) => change,
                        Err(RecvError::Lagged(_)) => {
                            yield reset();
                            continue;
                        }
                        Err(RecvError::Closed) => break,
                    },
                    error = &mut revoked => {
                        yield end(&error.message);
                        break;
                    }
                    () = shutdown_requested(&mut ending) => break,
                }
            };
            if !wanted(&change) {
                continue;
            }
            match may_see(&server, &caller, &change).await {
                Ok(true) => yield Event::default().event("change").id(server.caches.feed.id(change.number)).data(&change.text),
                Ok(false) => {}
                // The caller is no longer authenticated: end the stream, so that they log in again.
                Err(error) => {
                    yield end(&error.message);
                    break;
                }
            }
        }
    };
    Ok(sse(events))
}

/// The last event of a stream that the server ends, with the reason.
fn end(message: &str) -> Event {
    Event::default().event("end").data(json!({ "message": message }).to_string())
}

fn reset() -> Event {
    Event::default().event("reset").data("{}")
}

/// Whether `caller` is still authenticated and may list the changed object. Both reviews are cached for some seconds.
async fn may_see(server: &Server, caller: &Caller, change: &Published) -> Answer<bool> {
    is_still_authenticated(server, caller).await?;
    server.reviews.may(caller, &ours("list", change.plural, Some(&change.namespace), None)).await
}

/// The last ID that a client received: from the header, or from the query for clients that cannot set headers.
pub fn last_event_id(headers: &HeaderMap, query: Option<String>) -> Option<String> {
    let header = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    header.or(query).filter(|id| !id.is_empty())
}

/// A stream of events that no proxy holds back.
pub fn sse(events: impl Stream<Item = Event> + Send + 'static) -> Response {
    let events = futures::StreamExt::map(events, Ok::<_, Infallible>);
    let mut response =
        Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT).text("heartbeat")).into_response();
    let headers = response.headers_mut();
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    headers.insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
