//! What is written down and the code say the same: schemas, API.md, METRICS.md, dashboards, Tablestore's messages.
//!
//! Owns: nothing; each room has its pages. `TIDELINE_BLESS=1 cargo test --test contract` writes all but the dashboards
//! and the examples anew. Must not: start a server.

mod api;
mod grafana;
mod observe;
#[path = "../own_process/mod.rs"]
mod own_process;
mod schemas;
mod tablestore_proto;
