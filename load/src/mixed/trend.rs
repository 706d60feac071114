//! Whether something grows: the slope of a straight line through samples.
//!
//! Owns: that line. Promises: least squares over the second half of a run, when caches are warm and pools are filled.
//! Must not: be read as a leak by itself: what grows with the data is told beside it.

use crate::outcome::Samples;

/// How much it grows in an hour; `None` with fewer than ten samples in the second half.
#[must_use]
pub(crate) fn per_hour(samples: &Samples) -> Option<f64> {
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
    let count = half.len() as f64;
    let mean_at = half.iter().map(|(at, _)| at).sum::<f64>() / count;
    let mean = half.iter().map(|(_, value)| value).sum::<f64>() / count;
    let square: f64 = half.iter().map(|(at, _)| (at - mean_at).powi(2)).sum();
    let product: f64 = half
        .iter()
        .map(|(at, value)| (at - mean_at) * (value - mean))
        .sum();
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
