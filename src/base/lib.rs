//! What all layers stand on and none of them owns: IDs, orders, clocks, metrics, bounds, secrets, TLS.
//!
//! Owns: no state of a server. Promises: nothing here imports another crate of Tideline, or knows what a message is.
//! Must not: become a place for what has a better one above.

pub mod bounds;
pub mod decode;
pub mod disk;
pub mod entry;
pub mod faults;
pub mod ids;
pub mod journal;
pub mod metrics;
pub mod ordered;
pub mod secret;
pub mod tls;
