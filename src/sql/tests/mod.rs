//! Statements on tables of a directory.
//!
//! Owns: the list of them. Must not: need a server.

mod bed;
mod bounds;
mod random;
mod statements;
