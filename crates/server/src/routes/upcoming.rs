//! The next times of a schedule.

use std::sync::Arc;

use api::CronTask;
use axum::{Json, extract::State};
use domain::cron::Timetable;
use jiff::{
    Timestamp,
    tz::{TimeZone, TimeZoneDatabase},
};
use serde::Deserialize;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    auth::Caller,
    edge::extract::{At, Params},
    error::{Answer, ApiError},
    live::cache::now,
    routes::crud,
    state::Server,
    wire::{Upcoming, UpcomingTime, blocked},
};

/// Most times of one response.
const MOST: usize = 200;

/// Routes under `/api/v1`.
pub fn routes() -> OpenApiRouter<Arc<Server>> {
    OpenApiRouter::new().routes(routes!(of_cron_task)).routes(routes!(of_schedule))
}

/// Which times to list.
#[derive(Clone, Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
struct Window {
    /// How many times.
    #[param(minimum = 1, maximum = 200, default = 10)]
    count: Option<usize>,
    /// Zone of the local times; the CronTask's own when unset.
    time_zone: Option<String>,
    /// After this time; now when unset.
    #[param(value_type = Option<String>, format = DateTime)]
    from: Option<Timestamp>,
}

/// A schedule that is not an object yet.
#[derive(Clone, Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
struct Proposal {
    /// Five fields, or @hourly and the like.
    schedule: String,
    /// Zone of the schedule; UTC when unset.
    time_zone: Option<String>,
    /// How many times.
    #[param(minimum = 1, maximum = 200, default = 10)]
    count: Option<usize>,
}

/// Lists the next times of a CronTask.
#[utoipa::path(get, path = "/namespaces/{namespace}/crontasks/{name}/upcoming", tag = "crontasks",
    params(("namespace" = String, Path), ("name" = String, Path), Window), responses((status = 200, body = Upcoming)))]
async fn of_cron_task(
    State(server): State<Arc<Server>>,
    caller: Caller,
    at: At,
    Params(window): Params<Window>,
) -> Answer<Json<Upcoming>> {
    let cron: CronTask = crud::fetch(&server, &caller, &at.namespace, &at.name).await?;
    let blocked = blocked(&cron);
    let own = cron.spec.time_zone.as_deref();
    let shown = window.time_zone.as_deref().or(own);
    let times = times(&cron.spec.schedule, own, shown, window.from.unwrap_or_else(now), window.count)?;
    let listed = if blocked.is_some() { Vec::new() } else { times.times };
    Ok(Json(Upcoming { suspended: cron.spec.suspend.unwrap_or_default(), blocked, times: listed, ..times }))
}

/// Lists the next times of a schedule.
#[utoipa::path(get, path = "/upcoming", tag = "crontasks", params(Proposal), responses((status = 200, body = Upcoming)))]
async fn of_schedule(_: Caller, Params(query): Params<Proposal>) -> Answer<Json<Upcoming>> {
    let zone = query.time_zone.as_deref();
    times(&query.schedule, zone, zone, now(), query.count).map(Json)
}

/// Times of a schedule in `zone`, with local times of the zone `shown`.
fn times(
    schedule: &str,
    zone: Option<&str>,
    shown: Option<&str>,
    from: Timestamp,
    count: Option<usize>,
) -> Answer<Upcoming> {
    let count = count.unwrap_or(10);
    if !(1..=MOST).contains(&count) {
        return Err(ApiError::bad_parameter("count", format!("count is between 1 and {MOST}")));
    }
    let timetable = Timetable::parse(schedule, zone).map_err(|error| {
        let field = if matches!(error, domain::cron::ScheduleError::UnknownZone(_)) { "timeZone" } else { "schedule" };
        ApiError::invalid(field, error.to_string())
    })?;
    let name = shown.filter(|name| !name.is_empty()).unwrap_or("UTC");
    let clock = if name == "UTC" { Ok(TimeZone::UTC) } else { TimeZoneDatabase::bundled().get(name) };
    let clock = clock.map_err(|_| ApiError::invalid("timeZone", format!("'{name}' is not known; use an IANA name")))?;
    let mut after = from;
    let mut times = Vec::with_capacity(count);
    while let Some(at) = timetable.next_after(after).filter(|_| times.len() < count) {
        let local = at.to_zoned(clock.clone());
        times.push(UpcomingTime { at, local: local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string() });
        after = at;
    }
    Ok(Upcoming { schedule: schedule.to_owned(), time_zone: name.to_owned(), suspended: false, blocked: None, times })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_listed_in_any_zone() {
        let from: Timestamp = "2026-03-28T12:00:00Z".parse().unwrap();
        let upcoming = times("30 2 * * *", Some("Europe/Berlin"), Some("Europe/Berlin"), from, Some(2)).unwrap();
        let shown: Vec<_> = upcoming.times.iter().map(|time| (time.at.to_string(), time.local.clone())).collect();
        // On 29 March 2:30 does not exist there: it runs at the first minute after the gap.
        assert_eq!(shown[0], ("2026-03-29T01:00:00Z".to_owned(), "2026-03-29T03:00:00+02:00".to_owned()));
        assert_eq!(shown[1], ("2026-03-30T00:30:00Z".to_owned(), "2026-03-30T02:30:00+02:00".to_owned()));
    }

    #[test]
    fn an_error_names_its_field() {
        let field =
            |schedule, zone, count| times(schedule, zone, zone, now(), count).unwrap_err().fields[0].field.clone();
        assert_eq!(field("61 * * * *", None, None), "schedule");
        assert_eq!(field("* * * * *", Some("Moon/Base"), None), "timeZone");
        assert_eq!(field("* * * * *", None, Some(0)), "count");
    }
}
