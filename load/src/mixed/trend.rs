//! Whether something grows: the slope of a straight line through samples.
//!
//! Owns: that line. Promises: least squares over the second half of a run, when caches are warm and pools are filled.
//! Must not: judge it, or be taken for a leak by itself: memtables, caches and the log's retention grow up to their
//! bounds; a slope that stays after they are reached is the news.

use crate::outcome::{Better, Samples};
use crate::run::Run;

/// A shorter run says nothing about growth, s.
const LONG: f64 = 1_800.0;

/// Enters what grew in a long run.
pub(super) fn tell(run: &Run) {
    if run.window().length().as_secs_f64() < LONG {
        return;
    }
    for (sample, figure, unit, better) in [
        (
            "server_resident_bytes",
            "server_resident_growth",
            "bytes/h",
            Better::Lower,
        ),
        (
            "server_descriptors",
            "server_descriptor_growth",
            "1/h",
            Better::Lower,
        ),
        (
            "server_written_bytes",
            "server_written_growth",
            "bytes/h",
            Better::Neither,
        ),
        (
            "generator_resident_bytes",
            "generator_resident_growth",
            "bytes/h",
            Better::Neither,
        ),
    ] {
        if let Some(slope) = run.samples(sample).as_ref().and_then(per_hour) {
            run.figure(figure, slope, unit, better);
        }
    }
}

/// How much it grows in an hour; `None` with fewer than ten samples in the second half.
fn per_hour(samples: &Samples) -> Option<f64> {
    let last = samples.at.last().copied()?;
    let points = samples
        .at
        .iter()
        .copied()
        .zip(samples.value.iter().copied());
    let half: Vec<(f64, f64)> = points.filter(|(at, _)| *at >= last / 2.0).collect();
    if half.len() < 10 {
        return None;
    }
    let mean = |of: fn(&(f64, f64)) -> f64| half.iter().map(of).sum::<f64>() / half.len() as f64;
    let (mean_at, mean_value) = (mean(|point| point.0), mean(|point| point.1));
    let square: f64 = half.iter().map(|(at, _)| (at - mean_at).powi(2)).sum();
    let product = |(at, value): &(f64, f64)| (at - mean_at) * (value - mean_value);
    let product: f64 = half.iter().map(product).sum();
    (square > 0.0).then(|| product / square * 3_600.0)
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
