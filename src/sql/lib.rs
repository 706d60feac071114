//! SQL on tables: parsing, planning and running of one statement, in MySQL's dialect.
//!
//! Owns: statements, their plans, functions, and the executor. Promises: a statement holds, reads and takes no more
//! than its limits; whatever it can't do is refused by its name, before anything is written. Must not: decide rights
//! (the caller's [`Door`] does), or know a wire. Alone names sqlparser.

mod answer;
mod context;
mod define;
mod door;
mod expr;
mod moment;
mod parse;
mod plan;
mod refusal;
mod run;
mod sql;
mod value;
mod work;
mod write;
mod written;

#[cfg(test)]
mod tests;

pub use answer::{Answer, Column, ColumnKind, Datum, Scanned, StatementKind};
pub use door::{Door, Need, Open};
pub use parse::kind_of;
pub use refusal::Refusal;
pub use sql::Sql;
