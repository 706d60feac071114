//! Whether something grows: the slope of a straight line through samples.
//!
//! Owns: that line. Promises: least squares over the second half of a run, when caches are warm and pools are filled.
//! Must not: judge it, or be taken for a leak by itself: memtables, caches and the log's retention grow up to their
//! bounds; a slope that stays after they are reached is the news.

use crate::outcome::Better::{self, Lower, Neither};
use crate::outcome::Samples;
use crate::run::Run;

/// A shorter run says nothing about growth, s.
const LONG: f64 = 1_800.0;
/// What is looked at, and the figure of it.
const GROWTH: [(&str, &str, Better); 4] = [
    ("server_resident_bytes", "server_resident_growth", Lower),
    ("server_descriptors", "server_descriptor_growth", Lower),
    ("server_written_bytes", "server_written_growth", Neither),
    (
        "generator_resident_bytes",
        "generator_resident_growth",
        Neither,
    ),
];

/// Enters what grew in a long run.
pub(super) fn tell(run: &Run) {
    let is_long = run.window().length().as_secs_f64() >= LONG;
    for (sample, figure, better) in GROWTH.into_iter().filter(|_| is_long) {
        let is_bytes = sample.ends_with("bytes");
        let unit = if is_bytes { "bytes/h" } else { "1/h" };
        if let Some(slope) = run.samples(sample).as_ref().and_then(per_hour) {
            run.figure(figure, slope, unit, better);
        }
    }
}

/// How much it grows in an hour; `None` with fewer than ten samples in the second half.
fn per_hour(samples: &Samples) -> Option<f64> {
    let half = samples.at.last()? / 2.0;
    let points = samples.at.iter().zip(&samples.value);
    let points: Vec<_> = points.filter(|(at, _)| **at >= half).collect();
    let count = points.len() as f64;
    let sum = |of: fn(f64, f64) -> f64| {
        points
            .iter()
            .map(|(at, value)| of(**at, **value))
            .sum::<f64>()
    };
    let (mean_at, mean) = (sum(|at, _| at) / count, sum(|_, value| value) / count);
    let rise = sum(|at, value| at * value) / count - mean_at * mean;
    let run = sum(|at, _| at * at) / count - mean_at * mean_at;
    (count >= 10.0 && run > 0.0).then(|| rise / run * 3_600.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_of_the_second_half() {
        let at: Vec<f64> = (0..40).map(f64::from).collect();
        // Rises steeply at first, then 2 a second.
        let value = at.iter().map(|at| {
            if *at < 15.0 {
                at * 100.0
            } else {
                1_000.0 + at * 2.0
            }
        });
        let samples = Samples {
            value: value.collect(),
            at,
        };
        let slope = per_hour(&samples).expect("enough samples");
        assert!((slope - 7_200.0).abs() < 1e-6, "{slope}");
        let few = Samples {
            at: vec![0.0, 1.0],
            value: vec![0.0, 1.0],
        };
        assert_eq!(per_hour(&few), None);
    }
}
