//! The load tool as a library: clients of the wire, the checker of histories, and the profiles that use both.
//!
//! Owns: everything that looks at a Tideline server from outside. Promises: it knows only PROTOCOL.md and Tablestore's
//! API, so what it reports holds for any client. Must not: import anything of the server's crate but the encodings of
//! Tablestore's API (`wire::tablestore`, which the official SDKs hold on their own), or trust a reply that it can
//! check.

pub mod access_bench;
pub mod append;
mod audience;
pub mod bench;
pub mod checks;
pub mod cli;
pub mod compare;
pub mod connect;
pub mod crash;
pub mod exit;
pub mod figures;
mod follower;
pub mod frame;
pub mod generator;
mod groups;
pub mod growth;
mod history;
mod http;
mod irc;
pub mod machine;
pub mod mixed;
pub mod outcome;
pub mod pace;
pub mod pages;
pub mod people;
pub mod people_bench;
pub mod pictures;
pub mod pipe;
pub mod poll;
pub mod process;
pub mod profile;
pub mod random;
pub mod recorder;
pub mod replay;
pub mod report;
mod request;
pub mod room;
mod rpc;
pub mod run;
pub mod scenario;
mod secure;
pub mod setup;
pub mod slow;
pub mod storm;
pub mod table;
mod tally;
pub mod template;
pub(crate) mod trial;
pub mod watch;
