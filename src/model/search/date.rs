//! How dates are written: Java's patterns, strictly.
//!
//! Owns: the patterns that a field may have, and reading a date by them. Promises: a date is read only if it is written
//! with as many digits as its pattern has letters, and is one of the calendar. Must not: know a clock or local times:
//! without a zone a date is in UTC.

/// A pattern that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DateFormat(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    /// So many digits of a second.
    Fraction(usize),
    /// `Z`, or hours and minutes with a colon or without.
    Zone,
    Literal(char),
    /// An integer alone: so many ms are so many of it.
    Epoch(i64, i64),
}

impl DateFormat {
    /// The pattern, if each of its letters is known.
    pub(super) fn parse(pattern: &str) -> Option<DateFormat> {
        match pattern {
            "epoch_millis" => return Some(DateFormat(vec![Part::Epoch(1, 1)])),
            "epoch_second" => return Some(DateFormat(vec![Part::Epoch(1_000, 1)])),
            "epoch_micros" => return Some(DateFormat(vec![Part::Epoch(1, 1_000)])),
            "epoch_nanos" => return Some(DateFormat(vec![Part::Epoch(1, 1_000_000)])),
            _ => {}
        }
        let (mut parts, mut rest) = (Vec::new(), pattern);
        while let Some(first) = rest.chars().next() {
            if first == '\'' {
                let quoted;
                (quoted, rest) = rest[1..].split_once('\'')?;
                let text = if quoted.is_empty() { "'" } else { quoted };
                parts.extend(text.chars().map(Part::Literal));
                continue;
            }
            let run = rest.len() - rest.trim_start_matches(first).len();
            let count = run / first.len_utf8();
            parts.push(match (first, count) {
                ('y' | 'u', 4) => Part::Year,
                ('M', 2) => Part::Month,
                ('d', 2) => Part::Day,
                ('H', 2) => Part::Hour,
                ('m', 2) => Part::Minute,
                ('s', 2) => Part::Second,
                ('S', 1..=9) => Part::Fraction(count),
                ('X' | 'Z', _) => Part::Zone,
                (letter, _) if letter.is_ascii_alphabetic() => return None,
                (other, _) => {
                    parts.extend(std::iter::repeat_n(Part::Literal(other), count));
                    rest = &rest[run..];
                    continue;
                }
            });
            rest = &rest[run..];
        }
        (!parts.is_empty()).then_some(DateFormat(parts))
    }

    /// The date in a text, ms since 1970.
    fn read(&self, text: &str) -> Option<i64> {
        let (mut year, mut month, mut day, mut time_ms) = (1970, 1, 1, 0);
        let mut rest = text;
        for part in &self.0 {
            match part {
                Part::Year => year = digits(&mut rest, 4)?,
                Part::Month => month = digits(&mut rest, 2)?,
                Part::Day => day = digits(&mut rest, 2)?,
                Part::Hour => time_ms += below(digits(&mut rest, 2)?, 24)? * 3_600_000,
                Part::Minute => time_ms += below(digits(&mut rest, 2)?, 60)? * 60_000,
                Part::Second => time_ms += below(digits(&mut rest, 2)?, 60)? * 1_000,
                Part::Fraction(count) => {
                    let (count, scale) = (*count, 10_i64.pow(u32::try_from(*count).ok()?));
                    time_ms += digits(&mut rest, count)? * 1_000 / scale;
                }
                Part::Zone => time_ms -= zone(&mut rest)?,
                Part::Literal(expected) => rest = rest.strip_prefix(*expected)?,
                Part::Epoch(ms, each) => {
                    return Some(
                        text.parse::<i64>()
                            .ok()?
                            .checked_mul(*ms)?
                            .div_euclid(*each),
                    );
                }
            }
        }
        let is_there = (1..=12).contains(&month) && (1..=days_of(year, month)).contains(&day);
        let days = (rest.is_empty() && is_there).then(|| days_since_1970(year, month, day))?;
        Some(days * 86_400_000 + time_ms)
    }
}

/// The formats of a field, any of which a date may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DateFormats(Vec<DateFormat>);

impl DateFormats {
    /// Those of a field that was checked.
    #[must_use]
    pub fn new(patterns: &[String]) -> DateFormats {
        let formats = patterns.iter();
        DateFormats(formats.filter_map(|one| DateFormat::parse(one)).collect())
    }

    /// The date in a text, ms since 1970: by the first format that it has, or an integer.
    #[must_use]
    pub fn read(&self, text: &str) -> Option<i64> {
        let read = self.0.iter().find_map(|format| format.read(text));
        read.or_else(|| self.of_integer(text.parse().ok()?))
    }

    /// The date of an integer, ms unless a format says else.
    #[must_use]
    pub fn of_integer(&self, number: i64) -> Option<i64> {
        let epoch = self.0.iter().find_map(|format| match format.0[..] {
            [Part::Epoch(ms, each)] => Some((ms, each)),
            _ => None,
        });
        let (ms, each) = epoch.unwrap_or((1, 1));
        Some(number.checked_mul(ms)?.div_euclid(each))
    }
}

fn digits(rest: &mut &str, count: usize) -> Option<i64> {
    let (number, behind) = rest.split_at_checked(count)?;
    *rest = behind;
    let are_digits = number.bytes().all(|byte| byte.is_ascii_digit());
    are_digits.then(|| number.parse().ok())?
}

fn below(number: i64, end: i64) -> Option<i64> {
    (number < end).then_some(number)
}

/// How far the clocks of a zone are before UTC, ms: `Z`, `+08:00` or `-0530`.
#[must_use]
pub fn zone_ms(text: &str) -> Option<i64> {
    let mut rest = text;
    zone(&mut rest).filter(|_| rest.is_empty())
}

/// The offset from UTC, ms.
fn zone(rest: &mut &str) -> Option<i64> {
    if let Some(behind) = rest.strip_prefix('Z') {
        *rest = behind;
        return Some(0);
    }
    let sign = match rest.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    *rest = &rest[1..];
    let hours = below(digits(rest, 2)?, 24)?;
    *rest = rest.strip_prefix(':').unwrap_or(rest);
    let minutes = match rest.is_empty() {
        true => 0,
        false => below(digits(rest, 2)?, 60)?,
    };
    Some(sign * (hours * 60 + minutes) * 60_000)
}

fn days_of(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The month that a day is in, counted in days since 1970: months since that of January in year 0.
pub(super) fn month_of(day: i64) -> i64 {
    // As below, from the first of March in year 0 on.
    let day = day + 719_468;
    let (ages, day) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    12 * (400 * ages + year) + (5 * day + 2) / 153 + 2
}

/// Days of the Gregorian calendar.
pub(super) fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March, so that the day of a leap year is the last one.
    let (year, month) = match month {
        1 | 2 => (year - 1, month + 9),
        _ => (year, month - 3),
    };
    let before = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    before + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_as_they_are_written_or_not_at_all() {
        for (pattern, text, expected) in [
            ("yyyy-MM-dd", "1970-01-02", Some(86_400_000)),
            ("yyyy-MM-dd", "2024-02-29", Some(1_709_164_800_000)),
            ("yyyy-MM-dd", "2023-02-29", None),
            ("yyyy-MM-dd", "2024-2-29", None),
            ("yyyy-MM-dd", "2024-02-29 ", None),
            ("yyyy-MM-dd HH:mm:ss", "1969-12-31 23:59:59", Some(-1_000)),
            (
                "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
                "1970-01-01T00:00:01.234567",
                Some(1_234),
            ),
            (
                "yyyy-MM-dd'T'HH:mm:ssX",
                "1970-01-01T08:00:00+08:00",
                Some(0),
            ),
            ("yyyy-MM-dd'T'HH:mm:ssX", "1970-01-01T00:00:00Z", Some(0)),
            ("HH", "24", None),
            ("epoch_second", "7", Some(7_000)),
            ("epoch_micros", "-7", Some(-1)),
            ("epoch_nanos", "7000001", Some(7)),
        ] {
            let format = DateFormat::parse(pattern).unwrap();
            assert_eq!(format.read(text), expected, "{pattern} {text}");
        }
        for unknown in ["", "yyyy-MMM-dd", "yy", "G", "'"] {
            assert_eq!(DateFormat::parse(unknown), None, "{unknown}");
        }
        let formats = DateFormats::new(&["yyyy-MM-dd".to_owned(), "epoch_second".to_owned()]);
        assert_eq!(
            (formats.read("1970-01-02"), formats.of_integer(3)),
            (Some(86_400_000), Some(3_000))
        );
        assert_eq!(DateFormats::default().read("12"), Some(12));
    }
}
