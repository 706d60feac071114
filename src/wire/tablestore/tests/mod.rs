//! Tests of Tablestore's wire, with the official SDKs' own bytes where there are any.
//!
//! Promises: one file per subject. Must not: need a table or a clock.

mod filter;
mod operation;
mod plainbuffer;
mod reply;
mod search;
mod series;
mod signature;
