//! What `/metrics` says at a moment, as numbers.
//!
//! Owns: reading Prometheus' text back. Promises: what is not in the text is 0, so a figure that does not exist yet
//! needs no case of its own. Must not: know a metric by name. Called by the rest of this module, every few seconds.

use std::collections::HashMap;

/// The figures of one scrape.
pub(super) struct Sample<'t> {
    lines: HashMap<&'t str, Vec<Line<'t>>>,
}

/// A figure with the labels that it has.
#[derive(Clone, Copy)]
pub(super) struct Line<'t> {
    labels: &'t str,
    pub(super) value: f64,
}

impl<'t> Sample<'t> {
    /// Reads what `Metrics::render` has made.
    pub(super) fn read(text: &'t str) -> Sample<'t> {
        let mut lines: HashMap<&str, Vec<Line<'_>>> = HashMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((figure, value)) = line.rsplit_once(' ') else {
                continue;
            };
            let (name, labels) = match figure.split_once('{') {
                Some((name, labels)) => (name, labels.trim_end_matches('}')),
                None => (figure, ""),
            };
            if let Ok(value) = value.parse() {
                lines.entry(name).or_default().push(Line { labels, value });
            }
        }
        Sample { lines }
    }

    /// All of a name.
    pub(super) fn each(&self, name: &str) -> &[Line<'t>] {
        self.lines.get(name).map_or(&[], Vec::as_slice)
    }

    /// Their sum.
    pub(super) fn sum(&self, name: &str) -> f64 {
        self.each(name).iter().map(|line| line.value).sum()
    }

    /// The largest of them.
    pub(super) fn max(&self, name: &str) -> f64 {
        self.each(name)
            .iter()
            .fold(0.0, |max, line| line.value.max(max))
    }

    /// The sum of those with this value of a label.
    pub(super) fn of(&self, name: &str, label: &str, value: &str) -> f64 {
        let is_of = |line: &&Line<'_>| line.label(label) == Some(value);
        let of = self.each(name).iter().filter(is_of);
        of.map(|line| line.value).sum()
    }
}

impl<'t> Line<'t> {
    /// The value of a label. No value of ours has a quotation mark or a comma in it.
    pub(super) fn label(&self, name: &str) -> Option<&'t str> {
        let mut labels = self.labels.split(',');
        labels.find_map(|label| {
            let (own, value) = label.split_once('=')?;
            (own == name).then(|| value.trim_matches('"'))
        })
    }

    /// Its labels, to tell it from others of its name.
    pub(super) fn labels(&self) -> &'t str {
        self.labels
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use tideline_base::metrics::Metrics;

    #[test]
    fn what_is_rendered_is_read() {
        let metrics = Arc::new(Metrics::default());
        let (one, other) = (metrics.partition(1), metrics.partition(12));
        one.commit.batches.increment(3);
        other.commit.batches.increment(4);
        other.memtables.bytes.set(1.5e9);
        metrics
            .families
            .request_seconds
            .of(&["ping"])
            .record(0.0004);
        let text = metrics.render();
        let sample = Sample::read(&text);
        assert_eq!(sample.sum("tideline_commit_batches_total"), 7.0);
        assert_eq!(sample.max("tideline_memtable_bytes"), 1.5e9);
        assert_eq!(
            sample.of("tideline_commit_batches_total", "partition", "1"),
            3.0
        );
        let bucket = "tideline_request_seconds_bucket";
        assert_eq!(sample.of(bucket, "le", "0.0005"), 1.0);
        assert_eq!(sample.of(bucket, "le", "0.0002"), 0.0);
        assert!(sample.each("tideline_none").is_empty());
    }
}
