//! The catalogue as a page for people: `docs/METRICS.md`.
//!
//! Owns: the page's text around the tables. Promises: whatever is in the catalogue is in the page, in its order, by
//! group. Must not: know a metric by name.

use std::fmt::Write as _;

use super::registry::BUCKETS;
use super::{Metric, groups_of_metrics};

/// The page.
#[must_use]
pub fn reference() -> String {
    let mut out = String::from(HEAD);
    for (title, metrics) in groups_of_metrics() {
        let _ = write!(
            out,
            "\n## {title}\n\n| metric | kind | what | when it moves |\n|---|---|---|---|\n"
        );
        for metric in *metrics {
            row(&mut out, metric);
        }
    }
    out.push_str(BUCKETS_HEAD);
    for (suffix, bounds) in BUCKETS {
        let bounds: Vec<_> = bounds.iter().map(f64::to_string).collect();
        let what = match suffix {
            "" => "everything else".to_owned(),
            suffix => format!("`…{suffix}`"),
        };
        let _ = writeln!(out, "| {what} | {} |", bounds.join(", "));
    }
    out
}

fn row(out: &mut String, metric: &Metric) {
    let Metric {
        name,
        kind,
        labels,
        help,
        moves,
    } = metric;
    let labels = match labels {
        [] => String::new(),
        labels => format!("{{{}}}", labels.join(", ")),
    };
    let kind = format!("{kind:?}").to_lowercase();
    let _ = writeln!(out, "| `{name}{labels}` | {kind} | {help} | {moves} |");
}

const HEAD: &str = "# Metrics

`GET /metrics` returns all of these in Prometheus' text format, each from the start. This page is made from
the files of `src/base/metrics/`: `TIDELINE_BLESS=1 cargo test --test contract` writes it anew.

Names follow Prometheus' conventions: base units (seconds, bytes), `_total` for what only rises, histograms as `_bucket`, `_sum` and
`_count`. No label holds the name of a user, a timeline or anything else that a client sent. `partition` is the number of a partition:
use `sum by (instance)` or `max by (instance)` for the whole server.

Gauges of queues, stores, the log and the feed's lag are read when Prometheus asks; nothing is sampled in between. One scrape runs at a
time, on a thread that may wait. A sample of a histogram takes 16 bytes until a scrape or, each second, the thread `metrics` counts it.
";

const BUCKETS_HEAD: &str = "
## Buckets of histograms

Quantiles come from `histogram_quantile` over the rate of `_bucket`. Upper bounds:

| unit | bounds |
|---|---|
";
