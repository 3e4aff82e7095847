//! Parses the five fields into sets of minutes, hours and days.

use jiff::civil::date;

use super::{Schedule, ScheduleError};

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

struct Field {
    name: &'static str,
    min: u32,
    max: u32,
    /// Names of the values, from `min` on.
    names: &'static [&'static str],
}

const MINUTE: Field = Field { name: "minute", min: 0, max: 59, names: &[] };
const HOUR: Field = Field { name: "hour", min: 0, max: 23, names: &[] };
const DAY: Field = Field { name: "day of month", min: 1, max: 31, names: &[] };
const MONTH: Field = Field { name: "month", min: 1, max: 12, names: &MONTHS };
/// 0 and 7 are both Sunday.
const WEEKDAY: Field = Field { name: "day of week", min: 0, max: 7, names: &WEEKDAYS };

/// Values of a field as bits, and whether `*` admits all of them.
struct Values {
    bits: u64,
    any: bool,
}

pub(super) fn parse(text: &str) -> Result<Schedule, ScheduleError> {
    let text = text.trim();
    if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
        return Err(ScheduleError::ZoneInSchedule(text.to_owned()));
    }
    let written = match text {
        "@hourly" => "0 * * * *",
        "@daily" | "@midnight" => "0 0 * * *",
        "@weekly" => "0 0 * * 0",
        "@monthly" => "0 0 1 * *",
        "@yearly" | "@annually" => "0 0 1 1 *",
        _ if text.starts_with('@') => return Err(ScheduleError::UnknownMacro(text.to_owned())),
        _ => text,
    };
    let fields: Vec<&str> = written.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields.as_slice() else {
        let error = if fields.len() > 5 { ScheduleError::TooManyFields } else { ScheduleError::TooFewFields };
        return Err(error(text.to_owned()));
    };
    let (days, weekdays) = (DAY.read(day)?, WEEKDAY.read(weekday)?);
    let schedule = Schedule {
        minutes: MINUTE.read(minute)?.bits,
        hours: narrow(HOUR.read(hour)?.bits),
        days: narrow(days.bits),
        months: narrow(MONTH.read(month)?.bits),
        weekdays: narrow((weekdays.bits | weekdays.bits >> 7) & 0x7f),
        any_day: days.any,
        any_weekday: weekdays.any,
    };
    // Eight years from 2000 contain every month with every length.
    match schedule.first_at_or_after(date(2000, 1, 1).at(0, 0, 0, 0)) {
        Some(_) => Ok(schedule),
        None => Err(ScheduleError::Never(text.to_owned())),
    }
}

/// The bits of a field fit its type, by the ranges above.
fn narrow<T: TryFrom<u64> + Default>(bits: u64) -> T {
    T::try_from(bits).unwrap_or_default()
}

impl Field {
    fn read(&self, text: &str) -> Result<Values, ScheduleError> {
        let mut values = Values { bits: 0, any: false };
        for part in text.split(',') {
            let (first, last, step, any) = self.part(part).map_err(|problem| ScheduleError::Field {
                field: self.name,
                text: text.to_owned(),
                problem,
            })?;
            values.any |= any;
            let mut value = first;
            while value <= last {
                values.bits |= 1 << value;
                value += step;
            }
        }
        Ok(values)
    }

    /// One element of a list: `*`, `5`, `1-5`, each with an optional `/step`.
    fn part(&self, part: &str) -> Result<(u32, u32, u32, bool), String> {
        let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
        let step = step.map(read_step).transpose()?;
        if range == "*" || range == "?" {
            return Ok((self.min, self.last(), step.unwrap_or(1), step.is_none_or(|step| step == 1)));
        }
        let (first, last) = if let Some((first, last)) = range.split_once('-') {
            let (first, last) = (self.value(first)?, self.value(last)?);
            // Friday to Sunday: as the end of a range Sunday is 7.
            (first, if self.max == 7 && last == 0 && first > 0 { 7 } else { last })
        } else {
            let value = self.value(range)?;
            (value, if step.is_some() { self.last() } else { value })
        };
        if first > last {
            return Err(format!("'{range}' runs backwards"));
        }
        Ok((first, last, step.unwrap_or(1), false))
    }

    /// The last value that `*` includes; for weekdays 6, because 0 and 7 are the same day.
    fn last(&self) -> u32 {
        if self.max == 7 { 6 } else { self.max }
    }

    fn value(&self, text: &str) -> Result<u32, String> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let number = match named {
            Some(index) => u32::try_from(index).ok().map(|index| index + self.min),
            None => text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit())),
        };
        let Self { min, max, .. } = self;
        number
            .filter(|number| (min..=max).contains(&number))
            .ok_or_else(|| format!("'{text}' is not a number from {min} to {max}{}", self.or_name()))
    }

    fn or_name(&self) -> String {
        match (self.names.first(), self.names.last()) {
            (Some(first), Some(last)) => format!(" or a name from {first} to {last}"),
            _ => String::new(),
        }
    }
}

fn read_step(text: &str) -> Result<u32, String> {
    let step = text.parse().ok().filter(|step| (1..=1000).contains(step));
    step.ok_or_else(|| format!("'{text}' is no step; write a number from 1 on after '/'"))
}
