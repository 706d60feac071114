//! What all other crates stand on and none of them owns: IDs, orders, clocks, metrics, bounds, secrets, TLS.
//!
//! Owns: no state of a server. Promises: nothing here imports another crate of Tideline, or knows what a message is.
//! Must not: hold what one crate above could own.

pub mod bounds;
pub mod clock;
pub mod decode;
pub mod disk;
pub mod entry;
pub mod faults;
pub mod ids;
pub mod journal;
mod log_event;
pub mod metrics;
pub mod ordered;
pub mod request;
pub mod secret;
pub mod tls;
pub mod trace;
