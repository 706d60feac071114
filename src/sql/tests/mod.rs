//! Statements on tables of a directory.

mod bed;
mod statements;
