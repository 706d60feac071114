//! Times of RFC 3339, with any zone.
//!
//! Owns: reading and writing them. Must not: know the clock.

use std::time::{Duration, UNIX_EPOCH};

/// ms since 1970; `None` = no such time, or one before.
#[must_use]
pub fn time_ms(text: &str) -> Option<u64> {
    let (day, time) = text.split_once(['T', 't'])?;
    let at = time.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = time.split_at(at);
    let offset_ms: i64 = match zone {
        "Z" | "z" => 0,
        _ => {
            let number = |text: &str| {
                let is_plain = text.len() == 2 && text.bytes().all(|one| one.is_ascii_digit());
                text.parse::<i64>().ok().filter(|_| is_plain)
            };
            let (hours, minutes) = zone[1..].split_once(':')?;
            let (hours, minutes) = (number(hours)?, number(minutes)?);
            let ms = (hours * 60 + minutes) * 60_000;
            match hours < 24 && minutes < 60 {
                true if zone.starts_with('-') => -ms,
                true => ms,
                false => return None,
            }
        }
    };
    let local = humantime::parse_rfc3339(&format!("{day}T{time}Z")).ok()?;
    let local_ms = local.duration_since(UNIX_EPOCH).ok()?.as_millis();
    u64::try_from(i64::try_from(local_ms).ok()? - offset_ms).ok()
}

/// A time of RFC 3339, exact to a millisecond; one beyond the year 9999 as its last day.
#[must_use]
pub fn time_text(ms: u64) -> String {
    let at = UNIX_EPOCH + Duration::from_millis(ms.min(LAST_MS));
    humantime::format_rfc3339_millis(at).to_string()
}

/// The end of the year 9999.
const LAST_MS: u64 = 253_402_300_799_999;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_any_zone() {
        let ms = 1_767_225_600_123;
        for same in [
            "2026-01-01T00:00:00.123Z",
            "2026-01-01t00:00:00.123z",
            "2026-01-01T02:30:00.123+02:30",
            "2025-12-31T23:00:00.123-01:00",
        ] {
            assert_eq!(time_ms(same), Some(ms), "{same}");
        }
        assert_eq!(time_ms(&time_text(ms)), Some(ms));
        assert!(time_text(u64::MAX).starts_with("9999-12-31T"));
        for bad in [
            "",
            "tomorrow",
            "2026-01-01",
            "2026-01-01T00:00:00",
            "2026-13-01T00:00:00Z",
            "2026-01-01T00:00:00+2:00",
            "2026-01-01T00:00:00+24:00",
            "1960-01-01T00:00:00Z",
        ] {
            assert_eq!(time_ms(bad), None, "{bad}");
        }
    }
}
