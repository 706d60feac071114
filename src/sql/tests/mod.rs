//! Statements on tables of a directory.

mod bed;
mod bounds;
mod random;
mod statements;
