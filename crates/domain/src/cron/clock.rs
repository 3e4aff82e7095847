//! A schedule in a time zone: the calendar, split where the clock changes.
//!
//! Between two changes a local time is the instant plus a constant, so each stretch is searched on the calendar alone.
//! The rules for skipped and repeated times apply at the borders.

use jiff::{
    Span, Timestamp, ToSpan as _,
    civil::DateTime,
    tz::{Offset, TimeZone},
};

use super::Schedule;

/// Every schedule that is ever due is due within this time.
const HORIZON_HOURS: i64 = 9 * 366 * 24;
/// Missed times further back are not counted.
const COUNT_HOURS: i64 = 10 * 366 * 24;

/// Time between two changes of the clock.
struct Stretch {
    start: Timestamp,
    /// The first instant after it; `None` if it never ends.
    end: Option<Timestamp>,
    /// Local time minus UTC.
    offset: Offset,
    /// Offset of the stretch before it.
    before: Offset,
}

impl Stretch {
    fn at(zone: &TimeZone, time: Timestamp) -> Self {
        let offset = zone.to_offset(time);
        // `preceding` excludes a change at the given instant.
        let start = zone.preceding(moved(time, 1.nanosecond())).next().map(|change| change.timestamp());
        let before = start.filter(|start| *start > Timestamp::MIN);
        Self {
            start: start.unwrap_or(Timestamp::MIN),
            end: zone.following(time).next().map(|change| change.timestamp()),
            offset,
            before: before.map_or(offset, |start| zone.to_offset(moved(start, (-1).nanoseconds()))),
        }
    }

    fn next(&self, zone: &TimeZone) -> Option<Self> {
        self.end.map(|end| Self::at(zone, end))
    }

    fn previous(&self, zone: &TimeZone) -> Option<Self> {
        let last = moved(self.start, (-1).nanoseconds());
        (last < self.start).then(|| Self::at(zone, last))
    }

    /// The first local time that counts. If the schedule names hours, repeated local times have run before.
    fn first_local(&self, schedule: &Schedule) -> DateTime {
        let (now, before) = (self.offset.to_datetime(self.start), self.before.to_datetime(self.start));
        if schedule.names_hours() { now.max(before) } else { now }
    }

    /// Its first minute, if local times were skipped right before it and one of them was due.
    fn makes_up(&self, schedule: &Schedule) -> Option<Timestamp> {
        let (from, until) = (self.before.to_datetime(self.start), self.offset.to_datetime(self.start));
        if !schedule.names_hours() || from >= until {
            return None;
        }
        let skipped = schedule.first_at_or_after(from)? < until;
        let second = self.start.as_second();
        let rest = (60 - second.rem_euclid(60)) % 60;
        skipped.then(|| moved(self.start, rest.seconds()))
    }

    fn holds(&self, time: Timestamp) -> bool {
        time >= self.start && self.end.is_none_or(|end| time < end)
    }

    /// The first time in it after `time`.
    fn first_after(&self, schedule: &Schedule, time: Timestamp) -> Option<Timestamp> {
        let from = self.offset.to_datetime(moved(time, 1.nanosecond())).max(self.first_local(schedule));
        let regular = schedule.first_at_or_after(from).and_then(|local| self.offset.to_timestamp(local).ok());
        let regular = regular.filter(|at| self.holds(*at));
        let made_up = self.makes_up(schedule).filter(|at| *at > time);
        [regular, made_up].into_iter().flatten().min()
    }

    /// The last time in it not after `time`.
    fn last_until(&self, schedule: &Schedule, time: Timestamp) -> Option<Timestamp> {
        let time = self.end.map_or(time, |end| time.min(moved(end, (-1).nanoseconds())));
        let regular = schedule
            .last_at_or_before(self.offset.to_datetime(time))
            .filter(|local| *local >= self.first_local(schedule))
            .and_then(|local| self.offset.to_timestamp(local).ok());
        let made_up = self.makes_up(schedule).filter(|at| *at <= time);
        [regular, made_up].into_iter().flatten().max()
    }

    /// How many times it has after `from` and not after `until`.
    fn count(&self, schedule: &Schedule, from: Timestamp, until: Timestamp) -> u64 {
        let first = self.offset.to_datetime(moved(from, 1.nanosecond())).max(self.first_local(schedule));
        let end = moved(until, 1.nanosecond());
        let end = self.end.map_or(end, |own| own.min(end));
        let regular = schedule.count(first, self.offset.to_datetime(end));
        let made_up = self.makes_up(schedule).filter(|at| *at > from && *at <= until);
        // A minute counts once, even if it is due itself and replaces skipped ones.
        let extra = made_up.filter(|at| !schedule.matches(self.offset.to_datetime(*at)));
        regular + u64::from(extra.is_some())
    }
}

/// The first time after `now`.
pub(super) fn next_after(schedule: &Schedule, zone: &TimeZone, now: Timestamp) -> Option<Timestamp> {
    let horizon = moved(now, HORIZON_HOURS.hours());
    let mut stretch = Stretch::at(zone, now);
    loop {
        if let Some(at) = stretch.first_after(schedule, now) {
            return Some(at);
        }
        stretch = stretch.next(zone).filter(|stretch| stretch.start <= horizon)?;
    }
}

/// The last time after `last` and not after `now`.
pub(super) fn last_until(schedule: &Schedule, zone: &TimeZone, last: Timestamp, now: Timestamp) -> Option<Timestamp> {
    let mut stretch = Stretch::at(zone, now);
    loop {
        if let Some(at) = stretch.last_until(schedule, now) {
            return Some(at).filter(|at| *at > last);
        }
        if stretch.start <= last {
            return None;
        }
        stretch = stretch.previous(zone)?;
    }
}

/// How many times there are after `from` and not after `until`.
pub(super) fn count(schedule: &Schedule, zone: &TimeZone, from: Timestamp, until: Timestamp) -> u64 {
    let from = from.max(moved(until, (-COUNT_HOURS).hours()));
    let mut stretch = Stretch::at(zone, from);
    let mut times = stretch.count(schedule, from, until);
    while let Some(next) = stretch.next(zone).filter(|next| next.start <= until) {
        times += next.count(schedule, from, until);
        stretch = next;
    }
    times
}

/// The moved time, within the bounds of the calendar.
fn moved(time: Timestamp, by: Span) -> Timestamp {
    let end = if by.is_negative() { Timestamp::MIN } else { Timestamp::MAX };
    time.checked_add(by).unwrap_or(end)
}
