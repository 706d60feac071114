//! The commands of the program beside `serve`.
//!
//! Owns: each a command's words, what it prints and its errors. Promises: what goes wrong is one line and an exit code.
//! Must not: do what the server does; they open a directory that no server uses, or ask a running server.

pub mod address;
pub mod doctor;
pub mod dump;
pub mod export;
pub mod keys;
pub mod partitions;
pub mod remote;
pub mod talk;
pub mod verify;
