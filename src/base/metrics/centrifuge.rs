//! The metrics of connections that speak the Centrifuge dialect.
//!
//! Owns: their texts. Promises: as `catalogue.rs`. Must not: have a label that a client sent.

use ::metrics::Label;

use super::Metric;
use super::groups::line;
use super::handles::{Counter, Gauge};
use super::registry::Registry;

groups! {
    "The Centrifuge dialect" by []
    /// Handles of the Centrifuge dialect.
    Centrifuge {
        connections: Gauge, "tideline_centrifuge_connections"
            "Connections of the Centrifuge dialect that have connected. Their commands are in tideline_requests_total, as the native methods that they come to.",
            "As tideline_connections, of which they are a part.";
        missed: Counter, "tideline_centrifuge_missed_total"
            "Joins and leaves that a connection did not get because it did not read.",
            "Clients on bad networks in large channels. They see who is there when they ask for presence.";
    }
}
