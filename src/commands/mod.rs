//! Commands that work on a directory that no server uses, on a running server, or (`doctor`) on the machine.
//!
//! Owns: what each does, what it prints, and what it fails with. Promises: a failure ends with one line on standard
//! error and an exit code. Must not: do what the server does.

pub mod address;
pub mod backup;
pub mod cluster;
pub mod doctor;
pub mod dump;
pub mod export;
pub mod keys;
pub mod output;
pub mod partitions;
pub mod remote;
pub mod repair;
pub mod restore;
pub mod secrets;
pub mod talk;
pub mod verify;
