//! Moments, days and times of day, in UTC: from text and to text.
//!
//! Owns: the calendar. Promises: years 0 to 9999 and no others; pure. Must not: know the clock.

/// Microseconds of a day.
pub(crate) const DAY_US: i64 = 86_400_000_000;
/// The longest time, as of MySQL: 838:59:59.
const TIME_MAX_S: i64 = 838 * 3_600 + 59 * 60 + 59;

/// A moment in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) year: i64,
    pub(crate) month: i64,
    pub(crate) day: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
    pub(crate) micros: i64,
}

/// Days since 1970 of a day of the calendar.
pub(crate) fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The parts of a moment.
pub(crate) fn parts(us: i64) -> Parts {
    let (days, of_day) = (us.div_euclid(DAY_US), us.rem_euclid(DAY_US));
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let seconds = of_day / 1_000_000;
    Parts {
        year: year + era * 400 + i64::from(month <= 2),
        month,
        day: of_year - (153 * shifted + 2) / 5 + 1,
        hour: seconds / 3_600,
        minute: seconds / 60 % 60,
        second: seconds % 60,
        micros: of_day % 1_000_000,
    }
}

/// The moment of some parts, if there is one.
pub(crate) fn moment_of(parts: Parts) -> Option<i64> {
    let Parts {
        year,
        month,
        day,
        hour,
        minute,
        second,
        micros,
    } = parts;
    let fits = (0..=9_999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..60).contains(&second);
    if !fits {
        return None;
    }
    let seconds = days_of(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    Some(seconds * 1_000_000 + micros)
}

/// How many days a month has.
pub(crate) fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// A moment if it is one that has a text.
pub(crate) fn checked(us: i64) -> Option<i64> {
    const LOWEST_US: i64 = -62_167_219_200_000_000;
    const HIGHEST_US: i64 = 253_402_300_800_000_000;
    (LOWEST_US..HIGHEST_US).contains(&us).then_some(us)
}

/// Midnight of a moment's day, seconds since 1970.
pub(crate) fn midnight(us: i64) -> i64 {
    us.div_euclid(DAY_US) * 86_400
}

/// Reads `2026-01-31`, `2026-01-31 12:00:00.5`, `2026-01-31T12:00Z`, `20260131`, `20260131120000`.
pub(crate) fn parse_moment(text: &str) -> Option<i64> {
    let text = text.trim();
    let text = text.strip_suffix('Z').unwrap_or(text);
    if text.len() >= 8 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return moment_of_digits(text.parse().ok()?);
    }
    let (day, time) = match text.split_once([' ', 'T']) {
        Some((day, time)) => (day, time.trim()),
        None => (text, ""),
    };
    let mut numbers = day.split(['-', '/']);
    let mut next = |longest: usize| {
        let digits = numbers.next()?;
        let fits = (1..=longest).contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_digit());
        if fits {
            digits.parse::<i64>().ok()
        } else {
            None
        }
    };
    let (year, month, day) = (next(4)?, next(2)?, next(2)?);
    if numbers.next().is_some() {
        return None;
    }
    let ns = if time.is_empty() {
        0
    } else {
        parse_time(time)?
    };
    if !(0..DAY_US * 1_000).contains(&ns) || time.starts_with('-') {
        return None;
    }
    let midnight = Parts {
        year,
        month,
        day,
        hour: 0,
        minute: 0,
        second: 0,
        micros: 0,
    };
    Some(moment_of(midnight)? + ns / 1_000)
}

/// A moment of digits: `20260131` or `20260131120000`.
pub(crate) fn moment_of_digits(number: i64) -> Option<i64> {
    let (day, time) = match number {
        101..=99_991_231 => (number, 0),
        _ => (number / 1_000_000, number % 1_000_000),
    };
    if number < 101 {
        return None;
    }
    moment_of(Parts {
        year: day / 10_000,
        month: day / 100 % 100,
        day: day % 100,
        hour: time / 10_000,
        minute: time / 100 % 100,
        second: time % 100,
        micros: 0,
    })
}

/// Reads `12:30:00.25`, `12:30`, `-01:00:00`; a moment's text gives its time of day. In nanoseconds.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    let text = text.trim();
    if text.get(1..).is_some_and(|rest| rest.contains(['-', 'T'])) {
        return parse_moment(text).map(|us| us.rem_euclid(DAY_US) * 1_000);
    }
    let (is_negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut numbers = whole.split(':');
    let mut next = || {
        let digits = numbers.next()?;
        let fits =
            (1..=3).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        if fits {
            digits.parse::<i64>().ok()
        } else {
            None
        }
    };
    let (hour, minute) = (next()?, next()?);
    let second = next();
    let is_odd = numbers.next().is_some() || whole.matches(':').count() > 2;
    let second = match whole.matches(':').count() {
        1 => 0,
        _ => second?,
    };
    if is_odd || minute > 59 || second > 59 {
        return None;
    }
    let nanos: String = fraction
        .chars()
        .chain("000000000".chars())
        .take(9)
        .collect();
    let seconds = hour * 3_600 + minute * 60 + second;
    if seconds > TIME_MAX_S {
        return None;
    }
    let ns = seconds * 1_000_000_000 + nanos.parse::<i64>().ok()?;
    Some(if is_negative { -ns } else { ns })
}

/// `2026-01-31 12:00:00`, with microseconds if there are some.
pub(crate) fn text_of_moment(us: i64) -> String {
    let Parts {
        year,
        month,
        day,
        hour,
        minute,
        second,
        micros,
    } = parts(us);
    let text = format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}");
    match micros {
        0 => text,
        micros => format!("{text}.{micros:06}"),
    }
}

/// `2026-01-31`.
pub(crate) fn text_of_day(seconds: i64) -> String {
    let Parts {
        year, month, day, ..
    } = parts(seconds.saturating_mul(1_000_000));
    format!("{year:04}-{month:02}-{day:02}")
}

/// `12:00:00`, with microseconds if there are some.
pub(crate) fn text_of_time(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    let us = ns.unsigned_abs() / 1_000;
    let seconds = us / 1_000_000;
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let text = format!("{sign}{hour:02}:{minute:02}:{second:02}");
    match us % 1_000_000 {
        0 => text,
        micros => format!("{text}.{micros:06}"),
    }
}

/// A moment as a number of digits.
#[allow(clippy::cast_precision_loss, reason = "so does MySQL")]
pub(crate) fn digits_of_moment(us: i64) -> f64 {
    let parts = parts(us);
    let day = parts.year * 10_000 + parts.month * 100 + parts.day;
    let time = parts.hour * 10_000 + parts.minute * 100 + parts.second;
    (day * 1_000_000 + time) as f64 + parts.micros as f64 / 1e6
}

/// A time as a number of digits.
#[allow(clippy::cast_precision_loss, reason = "so does MySQL")]
pub(crate) fn digits_of_time(ns: i64) -> f64 {
    let seconds = ns.abs() / 1_000_000_000;
    let digits = seconds / 3_600 * 10_000 + seconds / 60 % 60 * 100 + seconds % 60;
    let number = digits as f64 + (ns.abs() % 1_000_000_000) as f64 / 1e9;
    if ns < 0 { -number } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_day_has_its_date() {
        for days in -719_528..2_932_896 {
            let day = parts(days * DAY_US);
            assert_eq!(days_of(day.year, day.month, day.day), days);
            assert!((1..=days_in(day.year, day.month)).contains(&day.day));
        }
    }

    #[test]
    fn texts_of_moments_are_read() {
        for (text, shown) in [
            ("2026-01-31", "2026-01-31 00:00:00"),
            ("2026-1-31 1:02:03.25", "2026-01-31 01:02:03.250000"),
            ("2026-01-31T23:59:59Z", "2026-01-31 23:59:59"),
            ("20260131", "2026-01-31 00:00:00"),
            ("20260131120000", "2026-01-31 12:00:00"),
            ("1969-12-31 23:59:59.5", "1969-12-31 23:59:59.500000"),
        ] {
            assert_eq!(
                parse_moment(text).map(text_of_moment).as_deref(),
                Some(shown)
            );
        }
        for text in [
            "",
            "2026-02-30",
            "2026-01-31 24:00:00",
            "x",
            "2026-01",
            "2026-01-31 -1:00",
        ] {
            assert_eq!(parse_moment(text), None, "{text}");
        }
        for (text, shown) in [
            ("1:02:03", "01:02:03"),
            ("-800:00:00.5", "-800:00:00.500000"),
        ] {
            assert_eq!(parse_time(text).map(text_of_time).as_deref(), Some(shown));
        }
    }
}
