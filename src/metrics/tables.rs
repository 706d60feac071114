//! The list of the metrics of tables: streams, indexes and what else beside rows costs work in the background.
//!
//! Owns: the texts. Promises: as of `catalogue.rs`, whose page these end. Must not: know how a handle is bound or shown.

use ::metrics::Label;

use super::Metric;
use super::groups::line;
use super::handles::{Counter, Gauge};
use super::registry::Registry;

groups! {
    "Secondary indexes" by []
    /// Handles of what brings rows into indexes that were made later.
    Backfill {
        building: Gauge, "tideline_indexes_building"
            "Indexes into which rows from before them are being brought; reads of them are refused.",
            "Back to 0 after CreateIndex. If it stays, look at tideline_index_backfill_failures_total.";
        rows: Counter, "tideline_index_backfill_rows_total"
            "Rows that were looked at for an index that was made after them.",
            "The progress: an index is complete when it has risen by the rows of its table.";
        left_out: Counter, "tideline_index_backfill_left_out_total"
            "Rows among them that no index can hold: a value too long for a key, or more columns than its rows may have.",
            "Such rows are found in their table only. New ones are refused when they are written.";
        failures: Counter, "tideline_index_backfill_failures_total"
            "Steps that failed; they are tried again.",
            "Should be 0. The log has the error: a full disk, a stopped partition.";
    }
}
