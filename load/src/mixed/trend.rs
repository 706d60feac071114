//! Whether something grows: the slope of a straight line through samples.
//!
//! Owns: that line. Promises: least squares over the second half of a run, when caches are warm and pools are filled.
//! Must not: judge it, or be taken for a leak by itself: memtables, caches and the log's retention grow up to their
//! bounds; a slope that stays after they are reached is the news.

use crate::outcome::Better::{Lower, Neither};
use crate::outcome::Samples;
use crate::run::Run;

/// A shorter run says nothing about growth, s.
const LONG: f64 = 1_800.0;

/// Enters what grew in a long run.
pub(super) fn tell(run: &Run) {
    for (what, of, unit, better) in [
        ("server_resident", "_bytes", "bytes/h", Lower),
        ("server_descriptor", "s", "1/h", Lower),
        ("server_written", "_bytes", "bytes/h", Neither),
        ("generator_resident", "_bytes", "bytes/h", Neither),
    ] {
        let samples = run.samples(&format!("{what}{of}"));
        let slope = samples.as_ref().and_then(per_hour);
        if let Some(slope) = slope.filter(|_| run.window().length().as_secs_f64() >= LONG) {
            run.figure(&format!("{what}_growth"), slope, unit, better);
        }
    }
}

/// How much it grows in an hour; `None` with fewer than ten samples in the second half.
fn per_hour(samples: &Samples) -> Option<f64> {
    let half = samples.at.last()? / 2.0;
    let from = samples.at.partition_point(|at| *at < half);
    let (at, value) = (&samples.at[from..], &samples.value[from..]);
    let middle = at.iter().sum::<f64>() / at.len() as f64;
    let sum = |of: &[f64]| {
        at.iter()
            .zip(of)
            .map(|(at, of)| (at - middle) * of)
            .sum::<f64>()
    };
    (at.len() >= 10).then(|| sum(value) / sum(at) * 3_600.0)
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
