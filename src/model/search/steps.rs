//! Steps of the calendar: which one a time is in, and where the next one begins.
//!
//! Owns: the arithmetic. Promises: each time is in one step, and steps follow each other without a gap. Must not: know
//! a time zone but by its distance from UTC.

use super::date::{days_since_1970, month_of};

/// Steps of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DateSteps {
    /// Of what.
    pub unit: DateUnit,
    /// Of how many of it, 1 or more.
    pub count: i64,
    /// How far the clocks are that steps are counted by before UTC, ms.
    pub zone_ms: i64,
    /// How much later than a full unit a step begins, ms.
    pub offset_ms: i64,
}

/// What steps are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DateUnit {
    /// Months.
    Month,
    /// Weeks; they begin on Monday.
    Week,
    /// So many ms.
    Fixed(i64),
}

const DAY_MS: i64 = 86_400_000;
/// The first Monday of 1970.
const MONDAY_MS: i64 = 4 * DAY_MS;

impl DateSteps {
    /// When the step begins that a time is in, ms since 1970.
    #[must_use]
    pub fn begin(&self, ms: i64) -> i64 {
        let shift = self.zone_ms.saturating_sub(self.offset_ms);
        let local = ms.saturating_add(shift);
        let begin = match self.unit {
            DateUnit::Month => {
                let month = month_of(local.div_euclid(DAY_MS));
                of_month(month - month.rem_euclid(self.count))
            }
            DateUnit::Week => floor(local, (self.count.saturating_mul(7 * DAY_MS), MONDAY_MS)),
            DateUnit::Fixed(unit_ms) => floor(local, (self.count.saturating_mul(unit_ms), 0)),
        };
        begin.saturating_sub(shift)
    }

    /// When the step begins that comes behind the one that begins then.
    #[must_use]
    pub fn next(&self, begin: i64) -> i64 {
        let shift = self.zone_ms.saturating_sub(self.offset_ms);
        let next = match self.unit {
            DateUnit::Month => {
                let month = month_of(begin.saturating_add(shift).div_euclid(DAY_MS));
                return of_month(month.saturating_add(self.count)).saturating_sub(shift);
            }
            DateUnit::Week => self.count.saturating_mul(7 * DAY_MS),
            DateUnit::Fixed(unit_ms) => self.count.saturating_mul(unit_ms),
        };
        begin.saturating_add(next)
    }
}

/// When a month begins, by its number.
fn of_month(month: i64) -> i64 {
    let days = days_since_1970(month.div_euclid(12), month.rem_euclid(12) + 1, 1);
    days.saturating_mul(DAY_MS)
}

fn floor(ms: i64, (step_ms, begin_ms): (i64, i64)) -> i64 {
    let since = ms.saturating_sub(begin_ms);
    let into = since.rem_euclid(step_ms);
    since.saturating_sub(into).saturating_add(begin_ms)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::DateFormats;
    use super::*;

    fn steps() -> impl Strategy<Value = DateSteps> {
        let unit = prop_oneof![
            Just(DateUnit::Month),
            Just(DateUnit::Week),
            (1..100_000_000_i64).prop_map(DateUnit::Fixed),
        ];
        let shifts = (-50_400_000..50_400_000_i64, -90_000_000..90_000_000_i64);
        (unit, 1..40_i64, shifts).prop_map(|(unit, count, (zone_ms, offset_ms))| DateSteps {
            unit,
            count,
            zone_ms,
            offset_ms,
        })
    }

    proptest! {
        #[test]
        fn each_time_is_in_one_step(steps in steps(), ms in -4_000_000_000_000..4_000_000_000_000_i64) {
            let begin = steps.begin(ms);
            prop_assert!(begin <= ms && ms < steps.next(begin));
            prop_assert_eq!(steps.begin(begin), begin);
            prop_assert_eq!(steps.begin(steps.next(begin) - 1), begin);
            prop_assert_eq!(steps.begin(steps.next(begin)), steps.next(begin));
        }
    }

    #[test]
    fn steps_are_those_of_the_calendar() {
        let formats = DateFormats::new(&["yyyy-MM-dd HH:mm:ssX".to_owned()]);
        let ms = |text: &str| formats.read(text).unwrap();
        let hour = 3_600_000;
        for (unit, count, zone_ms, offset_ms, time, begin) in [
            (
                DateUnit::Month,
                1,
                0,
                0,
                "2024-02-29 23:00:00Z",
                "2024-02-01 00:00:00Z",
            ),
            (
                DateUnit::Month,
                3,
                0,
                0,
                "2024-02-29 23:00:00Z",
                "2024-01-01 00:00:00Z",
            ),
            (
                DateUnit::Month,
                12,
                8 * hour,
                0,
                "2024-12-31 16:00:00Z",
                "2025-01-01 00:00:00+08:00",
            ),
            (
                DateUnit::Month,
                1,
                0,
                hour,
                "2024-03-01 00:30:00Z",
                "2024-02-01 01:00:00Z",
            ),
            (
                DateUnit::Week,
                1,
                0,
                0,
                "2024-02-29 23:00:00Z",
                "2024-02-26 00:00:00Z",
            ),
            (
                DateUnit::Fixed(24 * hour),
                5,
                0,
                0,
                "1970-01-09 07:00:00Z",
                "1970-01-06 00:00:00Z",
            ),
            (
                DateUnit::Fixed(24 * hour),
                1,
                0,
                0,
                "1969-12-31 07:00:00Z",
                "1969-12-31 00:00:00Z",
            ),
        ] {
            let steps = DateSteps {
                unit,
                count,
                zone_ms,
                offset_ms,
            };
            assert_eq!(steps.begin(ms(time)), ms(begin), "{steps:?} {time}");
        }
    }
}
