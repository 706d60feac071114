//! Numbers with their units as tables show them.
//!
//! Owns: grouping and rounding. Promises: three digits or more, and no more than a figure is worth. Must not: know
//! results.

/// 1234567.4 → 1,234,567.
#[must_use]
pub fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A value with its unit.
#[must_use]
pub fn amount(value: f64, unit: &str) -> String {
    match value.abs() {
        1_000.0.. => format!("{} {unit}", grouped(value)),
        100.0..1_000.0 => format!("{value:.0} {unit}"),
        10.0..100.0 => format!("{value:.1} {unit}"),
        _ => format!("{value:.2} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_grouped_and_rounded() {
        assert_eq!(amount(1_234_567.4, "/s"), "1,234,567 /s");
        assert_eq!(amount(-100_000.0, "/s"), "-100,000 /s");
        assert_eq!(amount(999.0, "B"), "999 B");
        assert_eq!(amount(12.34, "ms"), "12.3 ms");
        assert_eq!(amount(1.234, "ms"), "1.23 ms");
    }
}
