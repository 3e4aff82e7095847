//! The query of a log request, and the IDs of lines.

use domain::run::progress;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use serde::Deserialize;
use store::{Position, Selection};

use crate::{
    edge::names,
    error::{Answer, ApiError},
    wire::duration,
};

/// The container in which the agent works; its log is archived.
pub(super) const AGENT: &str = "agent";
/// Maximum value of `tail`.
const LONGEST_TAIL: i64 = 1_000_000;

/// Which lines of which log.
#[derive(Clone, Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(super) struct LogQuery {
    /// Which container; when unset, the one that failed to prepare the Pod, else `agent`.
    container: Option<String>,
    /// Which run, the first being 1; the current one when unset.
    #[param(minimum = 1)]
    run: Option<i64>,
    /// Follow the log; true unless `format=text`.
    follow: Option<bool>,
    /// Only lines of the last duration (`10m`) or since this time (RFC 3339).
    since: Option<String>,
    /// Only the last lines.
    #[param(minimum = 0)]
    tail: Option<i64>,
    /// `text`: the plain log.
    #[param(inline)]
    pub(super) format: Option<Format>,
    /// Go on after this line, as the header Last-Event-ID.
    pub(super) last_event_id: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Format {
    Sse,
    Text,
}

/// A validated query.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) container: String,
    /// The caller chose no container.
    any_container: bool,
    pub(super) run: Option<i64>,
    pub(super) follow: bool,
    since: Option<Timestamp>,
    tail: Option<i64>,
}

impl Wanted {
    /// All lines of a container of the current run so far.
    pub(super) fn whole(container: &str) -> Self {
        Self {
            container: container.to_owned(),
            any_container: false,
            run: None,
            follow: false,
            since: None,
            tail: None,
        }
    }

    /// All lines so far of a container that a caller may have named.
    pub(super) fn of_container(container: Option<&str>) -> Answer<Self> {
        let container = container.map(str::to_owned);
        let query = LogQuery { container, follow: Some(false), ..LogQuery::default() };
        Self::read(&query, Timestamp::UNIX_EPOCH)
    }

    pub(super) fn read(query: &LogQuery, now: Timestamp) -> Answer<Self> {
        let container = query.container.clone().filter(|name| !name.is_empty());
        let any_container = container.is_none();
        let container = container.unwrap_or_else(|| AGENT.to_owned());
        names::object(&container).map_err(|_| ApiError::bad_parameter("container", "invalid container name"))?;
        let since = match query.since.as_deref().filter(|text| !text.is_empty()) {
            None => None,
            Some(text) => Some(if let Ok(time) = text.parse::<Timestamp>() {
                time
            } else {
                let ago = duration::parse("since", text).map_err(|_| {
                    ApiError::bad_parameter("since", "write a duration such as 10m, or an RFC 3339 time")
                })?;
                now.checked_sub(ago).unwrap_or(Timestamp::UNIX_EPOCH)
            }),
        };
        if query.tail.is_some_and(|tail| !(0..=LONGEST_TAIL).contains(&tail)) {
            return Err(ApiError::bad_parameter("tail", format!("tail is between 0 and {LONGEST_TAIL}")));
        }
        if query.run.is_some_and(|run| run < 1) {
            return Err(ApiError::bad_parameter("run", "the first run is 1"));
        }
        let follow = query.follow.unwrap_or(query.format != Some(Format::Text));
        Ok(Self { container, any_container, run: query.run, follow, since, tail: query.tail })
    }

    /// The same for the container of this Pod that a person wants to read, unless the caller chose one.
    #[must_use]
    pub(super) fn of_pod(&self, pod: Option<&Pod>) -> Self {
        let failed = pod.filter(|_| self.any_container).and_then(progress::failed_preparation);
        match failed {
            Some(failed) => Self { container: failed.name.clone(), ..self.clone() },
            None => self.clone(),
        }
    }

    /// The parameters for the node, to get the lines after `last`.
    pub(super) fn params(&self, last: Option<Position>) -> LogParams {
        LogParams {
            container: Some(self.container.clone()),
            follow: self.follow,
            timestamps: true,
            since_time: last.map(|last| last.time).or(self.since).map(whole_second),
            // A client that reconnects needs every line since.
            tail_lines: self.tail.filter(|_| last.is_none()),
            ..LogParams::default()
        }
    }

    /// The parameters for the archive, to get the lines after `last`.
    pub(super) fn selection(&self, last: Option<Position>) -> Selection {
        let tail = self.tail.filter(|_| last.is_none()).and_then(|tail| tail.try_into().ok());
        Selection { after: last, since: self.since.filter(|_| last.is_none()), tail }
    }
}

/// The start of the second: the Kubernetes API has no finer resolution, and kube would round up, past lines that are
/// needed.
fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_nanosecond().div_euclid(1_000_000_000).try_into().unwrap_or_default())
        .unwrap_or(time)
}

/// The ID of a line: the run, the timestamp of the node, and the position among the lines of that timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineId {
    pub(super) run: i64,
    pub(super) place: Position,
}

impl LineId {
    pub(super) fn parse(id: &str) -> Option<Self> {
        let (run, rest) = id.split_once(':')?;
        let (time, index) = rest.rsplit_once(':')?;
        let place = Position { time: time.parse().ok()?, index: index.parse().ok()? };
        Some(Self { run: run.parse().ok()?, place })
    }
}

impl std::fmt::Display for LineId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.run, self.place.time, self.place.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_asked_for_from_the_second_before() {
        let asked = |text: &str| whole_second(text.parse().unwrap()).to_string();
        assert_eq!(asked("2026-01-01T00:00:00.999Z"), "2026-01-01T00:00:00Z");
        assert_eq!(asked("1969-12-31T23:59:59.5Z"), "1969-12-31T23:59:59Z");
    }

    #[test]
    fn an_id_comes_back_as_it_was_and_nonsense_is_none() {
        let id = "2:2026-01-01T00:00:00.000000001Z:7";
        assert_eq!(LineId::parse(id).unwrap().to_string(), id);
        for id in ["", "1", "1:2:3", "x:2026-01-01T00:00:00Z:0", "1:2026-01-01T00:00:00Z:-1"] {
            assert_eq!(LineId::parse(id), None, "{id}");
        }
    }

    #[test]
    fn since_is_a_duration_or_a_time() {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let since = |text: &str| {
            Wanted::read(&LogQuery { since: Some(text.to_owned()), ..LogQuery::default() }, now)
                .map(|wanted| wanted.since)
        };
        assert_eq!(since("10m").unwrap().unwrap().to_string(), "2026-01-01T00:50:00Z");
        assert_eq!(since("2026-01-01T00:00:00Z").unwrap().unwrap().to_string(), "2026-01-01T00:00:00Z");
        assert!(since("yesterday").is_err());
        assert!(since("99999999999999999999999999h").is_err());
        assert_eq!(since("999999999h").unwrap(), Some(Timestamp::UNIX_EPOCH));
    }
}
