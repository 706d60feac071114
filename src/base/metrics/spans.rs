//! The metrics of spans that are sent to a collector.
//!
//! Owns: their texts. Promises: as `catalogue.rs`. Must not: have a label.

use ::metrics::Label;

use super::Metric;
use super::groups::line;
use super::handles::Counter;
use super::registry::Registry;

groups! {
    "Spans" by []
    /// Handles of spans.
    Spans {
        sent: Counter, "tideline_spans_sent_total"
            "Spans of traced calls that the collector of OpenTelemetry took.",
            "As the traced calls. Stays 0 without OTEL_EXPORTER_OTLP_ENDPOINT.";
        lost: Counter, "tideline_spans_lost_total"
            "Spans that the collector did not take.",
            "Should be 0. The log says what it answers.";
        dropped: Counter, "tideline_spans_dropped_total"
            "Spans that found no room in the queue, because the collector is slower than the calls.",
            "Should be 0. A faster collector, or a lower rate of sampling at the callers.";
    }
}
