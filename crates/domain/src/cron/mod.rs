//! When a CronTask is due, and which Tasks it creates then.
//!
//! Schedules have five fields, as in `crontab(5)`, or are one of `@hourly`, `@daily`, `@midnight`, `@weekly`,
//! `@monthly`, `@yearly`, `@annually`. Where both days are restricted, either is enough. We parse them ourselves
//! because no library gives these guarantees when clocks change:
//!
//! - A schedule that names hours means local times, and each happens once: a time that the clock skips runs at the
//!   first minute after the gap, one that the clock repeats runs the first time only.
//! - A schedule for every hour follows the clock: it runs in both of two repeated hours and fills no gap.

mod child;
mod civil;
mod clock;
mod parse;
mod plan;

use std::sync::LazyLock;

use api::conditions::reasons;
use jiff::{
    Timestamp,
    tz::{TimeZone, TimeZoneDatabase},
};

pub use child::{ChildTask, children, parent};
pub use plan::{CronPlan, Refusal, plan, refused, trigger_refusal};

/// Time zone database, built into the binary.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Due minutes, hours and days, each as a bit set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Schedule {
    minutes: u64,
    hours: u32,
    days: u32,
    months: u16,
    weekdays: u8,
    /// The day of the month is not restricted.
    any_day: bool,
    /// The day of the week is not restricted.
    any_weekday: bool,
}

/// A schedule in a time zone.
#[derive(Clone, Debug)]
pub struct Timetable {
    schedule: Schedule,
    zone: TimeZone,
}

/// A due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    pub at: Timestamp,
    /// Number of earlier due times without a Task, within ten years at most.
    pub missed: u64,
}

/// Why a schedule is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// Six or seven fields.
    #[error(
        "schedule '{0}' has more than five fields; write minute, hour, day of month, month, day of week (no seconds)"
    )]
    TooManyFields(String),
    /// Fewer than five fields.
    #[error(
        "schedule '{0}' has fewer than five fields; write minute, hour, day of month, month, day of week, such as '0 9 * * 1-5'"
    )]
    TooFewFields(String),
    /// An unknown word after `@`.
    #[error(
        "schedule '{0}' is not known; use @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually or five fields"
    )]
    UnknownMacro(String),
    /// A time zone inside the schedule.
    #[error("schedule '{0}' names a time zone; put it into spec.timeZone instead")]
    ZoneInSchedule(String),
    /// One field is invalid.
    #[error("{field} '{text}' of the schedule is not valid: {problem}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// The field as written.
        text: String,
        /// The error.
        problem: String,
    },
    /// A day that does not exist in any month.
    #[error("schedule '{0}' never comes: none of its months has such a day")]
    Never(String),
    /// An unknown time zone.
    #[error("timeZone '{0}' is not known; use an IANA name such as Europe/Berlin")]
    UnknownZone(String),
}

impl ScheduleError {
    /// Reason for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        reasons::INVALID_SCHEDULE
    }
}

impl Timetable {
    /// Reads a schedule. The time zone is UTC when unset.
    pub fn parse(schedule: &str, time_zone: Option<&str>) -> Result<Self, ScheduleError> {
        let zone = match time_zone.filter(|name| !name.is_empty()) {
            Some(name) => ZONES.get(name).map_err(|_| ScheduleError::UnknownZone(name.to_owned()))?,
            None => TimeZone::UTC,
        };
        Ok(Self { schedule: parse::parse(schedule)?, zone })
    }

    /// The first due time after `now`; `None` at the end of the calendar.
    pub fn next_after(&self, now: Timestamp) -> Option<Timestamp> {
        clock::next_after(&self.schedule, &self.zone, now)
    }

    /// The latest due time after `last` and not after `now`. The work does not grow with the number of due times in
    /// between.
    pub fn most_recent_due(&self, last: Timestamp, now: Timestamp) -> Option<Due> {
        let at = clock::last_until(&self.schedule, &self.zone, last, now)?;
        Some(Due { at, missed: clock::count(&self.schedule, &self.zone, last, at).saturating_sub(1) })
    }
}

#[cfg(test)]
mod tests;
