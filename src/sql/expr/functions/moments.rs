//! Functions of moments, days and times, in UTC.
//!
//! Owns: each of them. Promises: what is no moment gives NULL. Must not: know the clock.

use super::{Function, function, integer, text};
use crate::answer::ColumnKind::{DateTime, Long, String as Text, Time};
use crate::answer::Datum;
use crate::moment::{self, DAY_US, Parts, checked, days_in, moment_of, parts};
use crate::refusal::Refusal;

pub(super) const ALL: &[Function] = &[
    Function {
        gives: super::Gives::Kind(DateTime),
        ..function("from_unixtime", 1..=1, DateTime, |values| {
            Ok(of_unix(&values[0]))
        })
    },
    function("unix_timestamp", 1..=1, Long, |values| {
        let seconds = values[0].moment().map(|us| us.div_euclid(1_000_000));
        Ok(seconds.map_or(Datum::Null, Datum::Long))
    }),
    function("timediff", 2..=2, Time, |values| {
        Ok(difference(values).unwrap_or(Datum::Null))
    }),
    function("datediff", 2..=2, Long, |values| {
        let days = |at: usize| values[at].moment().map(|us| us.div_euclid(DAY_US));
        let days = days(0).zip(days(1)).map(|(one, other)| one - other);
        Ok(days.map_or(Datum::Null, Datum::Long))
    }),
    function("date_format", 2..=2, Text, |values| {
        let format = text(values, 1);
        let shown = values[0].moment().map(|us| formatted(us, &format));
        shown.map_or(Ok(Datum::Null), super::made)
    }),
    function("date_add", 3..=3, DateTime, |values| {
        Ok(moved(values).unwrap_or(Datum::Null))
    }),
    function("year", 1..=1, Long, |values| {
        of_moment(values, |parts| parts.year)
    }),
    function("quarter", 1..=1, Long, |values| {
        of_moment(values, |parts| (parts.month + 2) / 3)
    }),
    function("month", 1..=1, Long, |values| {
        of_moment(values, |parts| parts.month)
    }),
    function("day", 1..=1, Long, |values| {
        of_moment(values, |parts| parts.day)
    }),
    function("hour", 1..=1, Long, |values| {
        of_time(values, |ns| ns.abs() / 3_600_000_000_000)
    }),
    function("minute", 1..=1, Long, |values| {
        of_time(values, |ns| ns.abs() / 60_000_000_000 % 60)
    }),
    function("second", 1..=1, Long, |values| {
        of_time(values, |ns| ns.abs() / 1_000_000_000 % 60)
    }),
    function("microsecond", 1..=1, Long, |values| {
        of_time(values, |ns| ns.abs() / 1_000 % 1_000_000)
    }),
    function("dayofweek", 1..=1, Long, |values| {
        Ok(day_of_week(&values[0]).map_or(Datum::Null, |day| Datum::Long((day + 1) % 7 + 1)))
    }),
    function("weekday", 1..=1, Long, |values| {
        Ok(day_of_week(&values[0]).map_or(Datum::Null, Datum::Long))
    }),
    function("dayofyear", 1..=1, Long, |values| {
        of_moment(values, |parts| day_of_year(&parts))
    }),
];

/// Seconds since 1970, fractions kept.
#[allow(
    clippy::cast_possible_truncation,
    reason = "`checked` refuses what is far away"
)]
fn of_unix(seconds: &Datum) -> Datum {
    let us = match seconds {
        Datum::Long(seconds) => seconds.checked_mul(1_000_000),
        other => other.number().map(|seconds| (seconds * 1e6).round() as i64),
    };
    let us = us.filter(|us| *us >= 0).and_then(checked);
    us.map_or(Datum::Null, Datum::DateTime)
}

fn difference(values: &[Datum]) -> Option<Datum> {
    let is_time = |value: &Datum| match value {
        Datum::Time(_) => true,
        Datum::String(text) => moment::parse_moment(text).is_none(),
        _ => false,
    };
    const MOST_NS: i64 = (838 * 3_600 + 59 * 60 + 59) * 1_000_000_000;
    let ns = match (is_time(&values[0]), is_time(&values[1])) {
        (true, true) => {
            let of = |at: usize| match values[at].clone().cast(Time) {
                Datum::Time(ns) => Some(ns),
                _ => None,
            };
            of(0)?.saturating_sub(of(1)?)
        }
        (false, false) => values[0]
            .moment()?
            .saturating_sub(values[1].moment()?)
            .saturating_mul(1_000),
        _ => return None,
    };
    Some(Datum::Time(ns.clamp(-MOST_NS, MOST_NS)))
}

fn of_moment(values: &[Datum], part: fn(Parts) -> i64) -> Result<Datum, Refusal> {
    let us = values[0].moment();
    Ok(us.map_or(Datum::Null, |us| Datum::Long(part(parts(us)))))
}

fn of_time(values: &[Datum], part: fn(i64) -> i64) -> Result<Datum, Refusal> {
    Ok(match values[0].clone().cast(Time) {
        Datum::Time(ns) => Datum::Long(part(ns)),
        _ => Datum::Null,
    })
}

/// Monday is 0.
fn day_of_week(value: &Datum) -> Option<i64> {
    let days = value.moment()?.div_euclid(DAY_US);
    Some((days + 3).rem_euclid(7))
}

fn day_of_year(parts: &Parts) -> i64 {
    moment::days_of(parts.year, parts.month, parts.day) - moment::days_of(parts.year, 1, 1) + 1
}

/// A moment, a count and a unit.
fn moved(values: &[Datum]) -> Option<Datum> {
    let us = values[0].moment()?;
    let count = integer(values, 1)?;
    let months = |months: i64| {
        let of = parts(us);
        let all = of
            .year
            .checked_mul(12)?
            .checked_add(of.month - 1)?
            .checked_add(months)?;
        let (year, month) = (all.div_euclid(12), all.rem_euclid(12) + 1);
        let day = of.day.min(days_in(year, month));
        moment_of(Parts {
            year,
            month,
            day,
            ..of
        })
    };
    let by = |unit: i64| us.checked_add(count.checked_mul(unit)?);
    let moved = match text(values, 2).as_str() {
        "microsecond" => by(1),
        "second" => by(1_000_000),
        "minute" => by(60_000_000),
        "hour" => by(3_600_000_000),
        "day" => by(DAY_US),
        "week" => by(7 * DAY_US),
        "month" => months(count),
        "quarter" => months(count.checked_mul(3)?),
        "year" => months(count.checked_mul(12)?),
        _ => None,
    };
    moved.and_then(checked).map(Datum::DateTime)
}

/// As MySQL's DATE_FORMAT.
fn formatted(us: i64, format: &str) -> String {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    const DAYS: [&str; 7] = [
        "Monday",
        "Tuesday",
        "Wednesday",
        "Thursday",
        "Friday",
        "Saturday",
        "Sunday",
    ];
    let of = parts(us);
    let index = |number: i64| usize::try_from(number).unwrap_or(0);
    let month = MONTHS[index(of.month - 1) % 12];
    let weekday = (us.div_euclid(DAY_US) + 3).rem_euclid(7);
    let day = DAYS[index(weekday) % 7];
    let twelve = (of.hour + 11) % 12 + 1;
    let half = if of.hour < 12 { "AM" } else { "PM" };
    let mut shown = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            shown.push(character);
            continue;
        }
        let part = match characters.next() {
            None => break,
            Some('Y') => format!("{:04}", of.year),
            Some('y') => format!("{:02}", of.year % 100),
            Some('m') => format!("{:02}", of.month),
            Some('c') => of.month.to_string(),
            Some('d') => format!("{:02}", of.day),
            Some('e') => of.day.to_string(),
            Some('H') => format!("{:02}", of.hour),
            Some('k') => of.hour.to_string(),
            Some('h' | 'I') => format!("{twelve:02}"),
            Some('l') => twelve.to_string(),
            Some('i') => format!("{:02}", of.minute),
            Some('s' | 'S') => format!("{:02}", of.second),
            Some('f') => format!("{:06}", of.micros),
            Some('p') => half.to_owned(),
            Some('M') => month.to_owned(),
            Some('b') => month[..3].to_owned(),
            Some('W') => day.to_owned(),
            Some('a') => day[..3].to_owned(),
            Some('w') => ((weekday + 1) % 7).to_string(),
            Some('j') => format!("{:03}", day_of_year(&of)),
            Some('T') => format!("{:02}:{:02}:{:02}", of.hour, of.minute, of.second),
            Some('r') => format!("{twelve:02}:{:02}:{:02} {half}", of.minute, of.second),
            Some(other) => other.to_string(),
        };
        shown.push_str(&part);
    }
    shown
}
