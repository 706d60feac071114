//! Figures as people read them.
//!
//! Owns: their units. Promises: a figure has two or three digits that count, and says its unit. Must not: know what is
//! counted.

/// A time, from its seconds.
pub(super) fn span(seconds: f64) -> String {
    let seconds = seconds.max(0.0);
    let (many, unit) = match seconds {
        ..120.0 => (seconds, "s"),
        ..7_200.0 => (seconds / 60.0, "min"),
        ..172_800.0 => (seconds / 3_600.0, "h"),
        _ => (seconds / 86_400.0, "days"),
    };
    format!("{} {unit}", many.round())
}

/// An amount of memory or disk.
pub(super) fn bytes(bytes: u64) -> String {
    let (mut many, mut units) = (bytes as f64, ["B", "KB", "MB", "GB", "TB"].iter());
    let mut unit = units.next();
    while many >= 1_000.0 && units.len() > 0 {
        (many, unit) = (many / 1_000.0, units.next());
    }
    let decimals = usize::from(many < 100.0 && bytes >= 1_000);
    format!("{many:.decimals$} {}", unit.unwrap_or(&""))
}

/// A number of things.
pub(super) fn count(many: f64) -> String {
    format!("{}", many.round())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_units_that_fit_them() {
        let spans = [0.4, 119.0, 120.0, 7_000.0, 90_000.0, 864_000.0].map(span);
        assert_eq!(
            spans,
            ["0 s", "119 s", "2 min", "117 min", "25 h", "10 days"]
        );
        let sizes = [
            0,
            999,
            1_000,
            65_536,
            58_900_000_000,
            123_456_789_000_000_000,
        ]
        .map(bytes);
        assert_eq!(
            sizes,
            ["0 B", "999 B", "1.0 KB", "65.5 KB", "58.9 GB", "123457 TB"]
        );
        assert_eq!(count(12.0), "12");
    }
}
