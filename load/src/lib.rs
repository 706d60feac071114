//! The load tool as a library: clients of the wire, the checker of histories, and the profiles that use both.
//!
//! Owns: everything that looks at a Tideline server from outside. Promises: it knows only PROTOCOL.md and Tablestore's
//! API, so what it reports holds for any client. Must not: import anything of the server's crate but the encodings of
//! Tablestore's API (`wire::tablestore`, which the official SDKs hold on their own) and `tls::client`, or trust a reply
//! that it can check.

pub mod answers;
mod audience;
pub mod bench;
pub mod cli;
pub mod client;
pub mod exit;
mod follower;
pub mod growth;
mod irc;
pub mod outcome;
pub mod people;
pub mod people_bench;
pub mod profile;
pub mod random;
pub mod recording;
pub mod run;
pub mod search;
pub mod table;
mod texts;
pub(crate) mod trial;
