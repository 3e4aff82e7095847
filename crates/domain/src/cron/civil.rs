//! A schedule on the calendar, without clock changes.

use jiff::{
    ToSpan as _,
    civil::{Date, DateTime},
};

use super::Schedule;

/// February 29 occurs at most eight years after the last one (1896, 1904), so a date that exists occurs within nine.
const HORIZON_YEARS: i16 = 9;

impl Schedule {
    /// Whether the schedule names hours, and so means local times. See the rules at the top of [`crate::cron`].
    pub(super) fn names_hours(&self) -> bool {
        self.hours != 0x00ff_ffff
    }

    /// Whether a minute is due.
    pub(super) fn matches(&self, time: DateTime) -> bool {
        self.matches_day(time.date()) && has(self.hours, time.hour()) && has64(self.minutes, time.minute())
    }

    /// The first minute that is due at or after `from`.
    pub(super) fn first_at_or_after(&self, from: DateTime) -> Option<DateTime> {
        let start = minute_up(from)?;
        let horizon = start.year().saturating_add(HORIZON_YEARS);
        let mut date = start.date();
        while date.year() <= horizon {
            if !self.matches_month(date) {
                date = date.last_of_month().tomorrow().ok()?;
                continue;
            }
            if self.matches_day(date) {
                let from = if date == start.date() { minute_of_day(start) } else { 0 };
                if let Some(minute) = (from..24 * 60).find(|minute| self.matches_minute(*minute)) {
                    return at(date, minute);
                }
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// The last minute that is due at or before `until`.
    pub(super) fn last_at_or_before(&self, until: DateTime) -> Option<DateTime> {
        let horizon = until.year().saturating_sub(HORIZON_YEARS);
        let mut date = until.date();
        while date.year() >= horizon {
            if !self.matches_month(date) {
                date = date.first_of_month().yesterday().ok()?;
                continue;
            }
            if self.matches_day(date) {
                let until = if date == until.date() { minute_of_day(until) } else { 24 * 60 - 1 };
                if let Some(minute) = (0..=until).rev().find(|minute| self.matches_minute(*minute)) {
                    return at(date, minute);
                }
            }
            date = date.yesterday().ok()?;
        }
        None
    }

    /// Number of minutes that are due from `from` on and before `until`. One step per day.
    pub(super) fn count(&self, from: DateTime, until: DateTime) -> u64 {
        let (Some(from), Some(until)) = (minute_up(from), minute_up(until)) else { return 0 };
        if from >= until {
            return 0;
        }
        let in_part = |date: Date, from: u16, until: u16| {
            let due = (from..until).filter(|minute| self.matches_minute(*minute));
            if self.matches_day(date) { due.count() as u64 } else { 0 }
        };
        if from.date() == until.date() {
            return in_part(from.date(), minute_of_day(from), minute_of_day(until));
        }
        let whole_day = u64::from(self.hours.count_ones() * self.minutes.count_ones());
        let mut due = in_part(from.date(), minute_of_day(from), 24 * 60);
        let mut date = from.date();
        while let Ok(next) = date.tomorrow() {
            date = next;
            if date >= until.date() {
                break;
            }
            due += if self.matches_day(date) { whole_day } else { 0 };
        }
        due + in_part(until.date(), 0, minute_of_day(until))
    }

    fn matches_month(&self, date: Date) -> bool {
        has(u32::from(self.months), date.month())
    }

    fn matches_day(&self, date: Date) -> bool {
        let day = has(self.days, date.day());
        let weekday = has(u32::from(self.weekdays), date.weekday().to_sunday_zero_offset());
        let on_day = if self.any_day || self.any_weekday { day && weekday } else { day || weekday };
        self.matches_month(date) && on_day
    }

    fn matches_minute(&self, minute_of_day: u16) -> bool {
        self.hours >> (minute_of_day / 60) & 1 == 1 && self.minutes >> (minute_of_day % 60) & 1 == 1
    }
}

fn has(bits: u32, value: i8) -> bool {
    u32::try_from(value).is_ok_and(|value| bits >> value & 1 == 1)
}

fn has64(bits: u64, value: i8) -> bool {
    u32::try_from(value).is_ok_and(|value| bits >> value & 1 == 1)
}

fn minute_of_day(time: DateTime) -> u16 {
    u16::try_from(time.hour()).unwrap_or(0) * 60 + u16::try_from(time.minute()).unwrap_or(0)
}

fn at(date: Date, minute_of_day: u16) -> Option<DateTime> {
    let (hour, minute) = (i8::try_from(minute_of_day / 60).ok()?, i8::try_from(minute_of_day % 60).ok()?);
    Some(date.at(hour, minute, 0, 0))
}

/// The time rounded up to a whole minute.
fn minute_up(time: DateTime) -> Option<DateTime> {
    let whole = time.date().at(time.hour(), time.minute(), 0, 0);
    if whole == time { Some(whole) } else { whole.checked_add(1.minute()).ok() }
}
