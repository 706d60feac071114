//! The metrics of messages that grow.
//!
//! Owns: their texts. Promises: as `catalogue.rs`. Must not: have a label that a client sent.

use ::metrics::Label;

use super::Metric;
use super::groups::line;
use super::handles::{Counter, Gauge};
use super::registry::Registry;

groups! {
    "Messages that grow" by []
    /// Handles of messages that grow.
    Growth {
        open: Gauge, "tideline_open_messages"
            "Messages that are open, up to 10,000 of a partition.",
            "Follows the answers that are being written. A timeline can have 1,000; then an append with `open` is refused.";
        parts: Counter, "tideline_parts_total"
            "Parts by which open messages grew, acknowledged; repeats are not counted.",
            "Load: tokens that come one by one are parts. Fewer and longer ones cost less.";
        pushes: Counter, "tideline_part_pushes_total"
            "Pushes of parts of open messages, each to one subscriber; one has several parts if its reader is slow.",
            "Against tideline_parts_total it shows how many readers an answer has, and whether they keep up.";
        kept_bytes: Gauge, "tideline_part_kept_bytes"
            "Bytes of parts that are kept for readers; beyond 32 MiB all are let go, and readers that lag read the store.",
            "Follows the answers that are written and read at the moment. At the bound readers are far behind, or there are very many.";
        abandoned: Counter, "tideline_abandoned_total"
            "Open messages that were closed because no part came for their idle time.",
            "Many = what writes answers dies or hangs, or its idle time is shorter than its pauses.";
    }
}
