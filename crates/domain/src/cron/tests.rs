use std::collections::BTreeSet;

use jiff::{SignedDuration, ToSpan as _, civil::DateTime, tz::Offset};
use proptest::prelude::*;

use super::*;

fn instant(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn table(schedule: &str, zone: &str) -> Timetable {
    Timetable::parse(schedule, Some(zone)).unwrap()
}

/// The next times after `from`, as local times with their offsets.
#[track_caller]
fn check(schedule: &str, zone: &str, from: &str, expected: &[&str]) {
    let table = table(schedule, zone);
    let mut now = instant(from);
    let mut times = Vec::new();
    for _ in expected {
        now = table.next_after(now).unwrap();
        times.push(now.to_zoned(table.zone.clone()).strftime("%m-%d %H:%M%z").to_string());
    }
    assert_eq!(times, expected);
}

#[track_caller]
fn check_error(schedule: &str, message: &str) {
    let error = Timetable::parse(schedule, None).unwrap_err();
    assert_eq!((error.to_string().as_str(), error.reason()), (message, reasons::INVALID_SCHEDULE));
}

#[test]
fn the_five_fields_mean_what_crontab_means() {
    let start = "2026-01-01T00:00:00Z"; // a Thursday
    check("* * * * *", "UTC", start, &["01-01 00:01+0000", "01-01 00:02+0000"]);
    check("30 9 * * *", "UTC", start, &["01-01 09:30+0000", "01-02 09:30+0000"]);
    check(
        "*/20 8-9 * * *",
        "UTC",
        start,
        &["01-01 08:00+0000", "01-01 08:20+0000", "01-01 08:40+0000", "01-01 09:00+0000"],
    );
    check("5,1/30 0 * * *", "UTC", start, &["01-01 00:01+0000", "01-01 00:05+0000", "01-01 00:31+0000"]);
    check("0 0 * * mon-FRI", "UTC", start, &["01-02 00:00+0000", "01-05 00:00+0000"]);
    check(
        "0 0 * * 5-7",
        "UTC",
        start,
        &["01-02 00:00+0000", "01-03 00:00+0000", "01-04 00:00+0000", "01-09 00:00+0000"],
    );
    check("0 0 * * fri-sun", "UTC", start, &["01-02 00:00+0000", "01-03 00:00+0000", "01-04 00:00+0000"]);
    check("0 0 * * 4/2", "UTC", start, &["01-03 00:00+0000", "01-08 00:00+0000"]);
    check("0 0 * * 7", "UTC", start, &["01-04 00:00+0000", "01-11 00:00+0000"]);
    check("0 0 31 jan-mar ?", "UTC", start, &["01-31 00:00+0000", "03-31 00:00+0000"]);
    // Both days restricted: either is enough.
    check("0 0 3 * 1", "UTC", start, &["01-03 00:00+0000", "01-05 00:00+0000", "01-12 00:00+0000"]);
    // `*/2` restricts the day of the month, as it does for robfig/cron.
    check("0 0 */15 * 1", "UTC", start, &["01-05 00:00+0000", "01-12 00:00+0000", "01-16 00:00+0000"]);
    check("0 0 29 2 *", "UTC", start, &["02-29 00:00+0000"]);
    check("0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", &["02-29 00:00+0000"]);
}

#[test]
fn macros_stand_for_schedules() {
    for (name, schedule) in [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ] {
        assert_eq!(parse::parse(name), parse::parse(schedule), "{name}");
    }
}

#[test]
fn errors_tell_what_to_write() {
    check_error(
        "0 0 9 * * *",
        "schedule '0 0 9 * * *' has more than five fields; write minute, hour, day of month, month, day of week (no seconds)",
    );
    check_error(
        "0 9 * *",
        "schedule '0 9 * *' has fewer than five fields; write minute, hour, day of month, month, day of week, such as '0 9 * * 1-5'",
    );
    check_error(
        "@every 5m",
        "schedule '@every 5m' is not known; use @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually or five fields",
    );
    let message = "schedule 'CRON_TZ=Asia/Tokyo 0 9 * * *' names a time zone; put it into spec.timeZone instead";
    check_error("CRON_TZ=Asia/Tokyo 0 9 * * *", message);
    check_error("TZ=UTC 0 9 * * *", "schedule 'TZ=UTC 0 9 * * *' names a time zone; put it into spec.timeZone instead");
    check_error("60 * * * *", "minute '60' of the schedule is not valid: '60' is not a number from 0 to 59");
    check_error("* 24 * * *", "hour '24' of the schedule is not valid: '24' is not a number from 0 to 23");
    check_error("* * 0 * *", "day of month '0' of the schedule is not valid: '0' is not a number from 1 to 31");
    check_error(
        "* * * foo *",
        "month 'foo' of the schedule is not valid: 'foo' is not a number from 1 to 12 or a name from jan to dec",
    );
    check_error("5-1 * * * *", "minute '5-1' of the schedule is not valid: '5-1' runs backwards");
    let message = "minute '*/0' of the schedule is not valid: '0' is no step; write a number from 1 on after '/'";
    check_error("*/0 * * * *", message);
    check_error("1,,2 * * * *", "minute '1,,2' of the schedule is not valid: '' is not a number from 0 to 59");
    check_error("+1 * * * *", "minute '+1' of the schedule is not valid: '+1' is not a number from 0 to 59");
    for schedule in ["0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *"] {
        check_error(schedule, &format!("schedule '{schedule}' never comes: none of its months has such a day"));
    }
    let error = Timetable::parse("* * * * *", Some("Mars/Olympus")).unwrap_err();
    assert_eq!(error.to_string(), "timeZone 'Mars/Olympus' is not known; use an IANA name such as Europe/Berlin");
}

#[test]
fn zones_are_utc_when_unset() {
    let next = Timetable::parse("0 9 * * *", None).unwrap().next_after(instant("2026-07-01T00:00:00Z"));
    assert_eq!(next, Some(instant("2026-07-01T09:00:00Z")));
    check("0 9 * * *", "Asia/Tokyo", "2026-07-01T00:00:00Z", &["07-02 09:00+0900"]);
}

#[test]
fn a_local_time_that_the_clock_skips_runs_once_after_the_gap() {
    // Europe/Berlin, 29 March 2026: 02:00 becomes 03:00.
    let before = "2026-03-28T12:00:00Z";
    check("30 2 * * *", "Europe/Berlin", before, &["03-29 03:00+0200", "03-30 02:30+0200"]);
    check("*/15 2 * * *", "Europe/Berlin", before, &["03-29 03:00+0200", "03-30 02:00+0200"]);
    check("30 2,3 * * *", "Europe/Berlin", before, &["03-29 03:00+0200", "03-29 03:30+0200"]);
    check("0 2,3 * * *", "Europe/Berlin", before, &["03-29 03:00+0200", "03-30 02:00+0200"]);
    check(
        "0 */2 * * *",
        "Europe/Berlin",
        "2026-03-28T22:59:00Z",
        &["03-29 00:00+0100", "03-29 03:00+0200", "03-29 04:00+0200"],
    );
    // A gap at midnight: the day begins at 01:00.
    check("0 0 * * *", "Africa/Cairo", "2026-04-23T12:00:00Z", &["04-24 01:00+0300", "04-25 00:00+0300"]);
    // Half an hour only.
    check("10 2 * * *", "Australia/Lord_Howe", "2026-10-03T10:00:00Z", &["10-04 02:30+1100", "10-05 02:10+1100"]);
}

#[test]
fn a_local_time_that_the_clock_repeats_runs_once() {
    // Europe/Berlin, 25 October 2026: 03:00 becomes 02:00.
    let before = "2026-10-24T12:00:00Z";
    check("30 2 * * *", "Europe/Berlin", before, &["10-25 02:30+0200", "10-26 02:30+0100"]);
    check("0 */2 * * *", "Europe/Berlin", "2026-10-24T22:00:00Z", &["10-25 02:00+0200", "10-25 04:00+0100"]);
    // Asked in the second of the two hours.
    check("30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", &["10-26 02:30+0100"]);
}

#[test]
fn a_schedule_for_every_hour_follows_the_clock() {
    check("30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", &["03-29 01:30+0100", "03-29 03:30+0200"]);
    check(
        "*/30 * * * *",
        "Europe/Berlin",
        "2026-10-24T23:59:00Z",
        &["10-25 02:00+0200", "10-25 02:30+0200", "10-25 02:00+0100", "10-25 02:30+0100", "10-25 03:00+0100"],
    );
}

#[track_caller]
fn check_due(schedule: &str, last: &str, now: &str, expected: Option<(&str, u64)>) {
    let due = table(schedule, "UTC").most_recent_due(instant(last), instant(now));
    assert_eq!(due, expected.map(|(at, missed)| Due { at: instant(at), missed }));
}

#[test]
fn the_most_recent_time_is_due_and_earlier_ones_are_counted() {
    check_due("0 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:59:59Z", None);
    check_due("0 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z", Some(("2026-01-01T01:00:00Z", 0)));
    check_due("0 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T03:30:00Z", Some(("2026-01-01T03:00:00Z", 2)));
    check_due("0 0 1 1 *", "2020-06-01T00:00:00Z", "2026-06-01T00:00:00Z", Some(("2026-01-01T00:00:00Z", 5)));
    check_due("0 0 * * *", "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z", None);
}

#[test]
fn a_pause_of_any_length_costs_little() {
    let year = Some(("2026-01-01T00:00:00Z", 365 * 24 * 60 - 1));
    for _ in 0..100 {
        check_due("* * * * *", "2025-01-01T00:00:00Z", "2026-01-01T00:00:30Z", year);
    }
    let table = table("* * * * *", "Europe/Berlin");
    let due = table.most_recent_due(Timestamp::MIN, instant("2026-01-01T00:00:00Z")).unwrap();
    assert_eq!(due.missed + 1, 3660 * 24 * 60, "counting ends after ten years");
    assert!(table.next_after(Timestamp::MAX).is_none());
    assert!(table.most_recent_due(Timestamp::MIN, Timestamp::MIN).is_none());
}

/// All different clocks of the years 2020 to 2030: one zone of each, and its changes.
fn clocks() -> Vec<(TimeZone, Vec<Timestamp>)> {
    let (start, end) = (instant("2020-01-01T00:00:00Z"), instant("2031-01-01T00:00:00Z"));
    let mut seen: BTreeSet<Vec<(Timestamp, i32)>> = BTreeSet::new();
    let mut clocks = Vec::new();
    for name in ZONES.available() {
        let zone = ZONES.get(name.as_str()).unwrap();
        let changes: Vec<(Timestamp, i32)> = zone
            .following(start)
            .map(|change| (change.timestamp(), change.offset().seconds()))
            .take_while(|(at, _)| *at < end)
            .collect();
        if !changes.is_empty() && seen.insert(changes.clone()) {
            clocks.push((zone.clone(), changes.into_iter().map(|(at, _)| at).collect()));
        }
    }
    clocks
}

/// The rules at the top of the module, minute by minute, from the local clock alone.
fn by_the_rules(schedule: &Schedule, locals: &[(Timestamp, DateTime)]) -> Vec<Timestamp> {
    let mut times = Vec::new();
    let mut latest = locals[0].1;
    for pair in locals.windows(2) {
        let ((_, before), (at, local)) = (pair[0], pair[1]);
        let due = if schedule.names_hours() {
            let mut skipped = before + 1.minute();
            let mut makes_up = false;
            while skipped < local {
                makes_up |= schedule.matches(skipped);
                skipped += 1.minute();
            }
            makes_up || (local > latest && schedule.matches(local))
        } else {
            schedule.matches(local)
        };
        if due {
            times.push(at);
        }
        latest = latest.max(local);
    }
    times
}

/// Compares all queries with the rules, around one clock change.
fn check_around(zone: &TimeZone, change: Timestamp, schedules: &[Schedule]) {
    let minutes = -200..=200;
    let locals: Vec<(Timestamp, DateTime)> =
        minutes.map(|minute| change + SignedDuration::from_mins(minute)).map(|at| (at, zone.to_datetime(at))).collect();
    let (first, last) = (locals[0].0, locals[locals.len() - 1].0);
    for schedule in schedules {
        let expected = by_the_rules(schedule, &locals);
        let name = format!("{schedule:?} in {zone:?} around {change}");

        let mut forwards = Vec::new();
        let mut now = first;
        while let Some(next) = clock::next_after(schedule, zone, now).filter(|next| *next <= last) {
            forwards.push(next);
            now = next;
        }
        assert_eq!(forwards, expected, "forwards: {name}");

        let mut backwards = Vec::new();
        let mut now = last;
        while let Some(at) = clock::last_until(schedule, zone, first, now) {
            backwards.push(at);
            now = at - SignedDuration::from_secs(1);
        }
        backwards.reverse();
        assert_eq!(backwards, expected, "backwards: {name}");
        assert_eq!(clock::count(schedule, zone, first, last), expected.len() as u64, "counted: {name}");
    }
}

#[test]
fn every_change_of_every_clock_follows_the_rules() {
    let schedules: Vec<Schedule> = [
        "30 2 * * *",
        "0 0 * * *",
        "*/15 1-3 * * *",
        "0 */2 * * *",
        "59 23 * * *",
        "0 0,1,2,3,23 * * *",
        "*/30 * * * *",
        "15 * * * *",
        "7 2 * * 0",
    ]
    .iter()
    .map(|schedule| parse::parse(schedule).unwrap())
    .collect();
    let clocks = clocks();
    assert!(clocks.len() > 40, "{} different clocks", clocks.len());
    for (zone, changes) in &clocks {
        for change in changes {
            check_around(zone, *change, &schedules);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_schedule_at_any_change_follows_the_rules(
        minutes in 1..1_u64 << 60, hours in 1..1_u32 << 24, weekdays in 1..128_u8, pick in any::<prop::sample::Index>(),
    ) {
        static CLOCKS: LazyLock<Vec<(TimeZone, Vec<Timestamp>)>> = LazyLock::new(clocks);
        let schedule = Schedule { minutes, hours, weekdays, ..parse::parse("* * * * 1").unwrap() };
        let changes: Vec<(&TimeZone, Timestamp)> =
            CLOCKS.iter().flat_map(|(zone, changes)| changes.iter().map(move |at| (zone, *at))).collect();
        let (zone, change) = changes[pick.index(changes.len())];
        check_around(zone, change, &[schedule]);
    }

    #[test]
    fn without_changes_of_the_clock_counting_is_enumerating(
        minutes in 1..1_u64 << 60, hours in 1..1_u32 << 24, days in 2..1_u32 << 31, from in 0..100_000_i64, length in 0..10_000_i64,
    ) {
        let schedule = Schedule { minutes, hours, days, ..parse::parse("* * 1 * *").unwrap() };
        let zone = Offset::UTC.to_time_zone();
        let from = Timestamp::from_second(from * 61).unwrap();
        let until = from + SignedDuration::from_secs(length * 13);
        let mut times = 0;
        let mut now = from;
        while let Some(next) = clock::next_after(&schedule, &zone, now).filter(|next| *next <= until) {
            times += 1;
            now = next;
        }
        prop_assert_eq!(clock::count(&schedule, &zone, from, until), times);
    }
}
