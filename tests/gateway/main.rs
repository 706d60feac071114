//! The gateway through real sockets: frames, HTTP, sessions, dialects, limits.
//!
//! Owns: nothing; each room has its subject, `bed` has the server and its clients. Must not: test what one layer alone
//! can show.

mod bed;
#[path = "../client_frame/mod.rs"]
mod client_frame;
mod dialect;
mod follow;
mod frames;
mod http;
mod limits;
mod memory;
#[path = "../own_process/mod.rs"]
mod own_process;
mod sessions;
