//! Statements on tables of a directory.

mod bed;
mod random;
mod statements;
