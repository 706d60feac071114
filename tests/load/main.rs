//! The load tool's profiles and results, and the comparison with other servers' contestants, with small numbers.
//!
//! Owns: nothing; each room has its profiles. Must not: assert on speed.

mod access;
mod answers;
mod chat;
mod history;
mod peers;
mod people;
mod profiles;
mod results;
mod search;
mod slow;
mod storm;
mod table;
