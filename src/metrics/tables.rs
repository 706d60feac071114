//! The list of metrics, continued: what tables have beside their rows.
//!
//! Owns: the texts, as `catalogue.rs` does. Must not: know how a handle is bound or shown.

use ::metrics::Label;

use super::Metric;
use super::groups::line;
use super::handles::{Counter, Gauge};
use super::registry::Registry;

groups! {
    "Streams" by ["partition"]
    /// Handles of the streams of tables in one partition.
    Streams {
        log_bytes: Gauge, "tideline_stream_log_bytes"
            "Bytes of the commit log that are kept for the streams of tables, or would be kept anyway.",
            "Rises to what is written in the hours of the longest stream.";
        log_fill: Gauge, "tideline_stream_log_fill_ratio"
            "The same as a share of what streams may hold in this partition: stream_log_bytes_max over the partitions.",
            "At 0.8 raise stream_log_bytes_max or shorten streams: at 1 the oldest changes go before their time.";
        cut: Counter, "tideline_stream_cut_total"
            "Looks at the log, one every 10 s, that found changes above the bound and let go of them before their time.",
            "Should be 0. Readers that had not come so far get OTSTrimmedDataAccess: raise stream_log_bytes_max or shorten streams.";
    }
}
