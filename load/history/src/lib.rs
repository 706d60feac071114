//! Histories: what clients asked, were answered and were shown, and what is stored in the end. One format, one checker.
//!
//! Owns: the format ([`Event`], [`Final`]: one JSON value a line), the rules V1 to V9, the names of what breaks them.
//! Promises: linear time; memory of about a hundred bytes for each stored message, and of what is open: calls without
//! an answer, subscriptions, transactions, members. Each violation has the lines that prove it. Must not: know a server
//! or a runtime: load profiles, tests and simulations all feed it.
//!
//! An append is answered with its sequence, so the order of all writes is given and nothing is searched for. The
//! checker is told what is stored first, then each event in the order of time; whoever wrote the history sees to it
//! that a call is in it before it is sent, and an answer after it came.

mod calls;
mod checker;
mod content;
mod cycles;
mod files;
mod order;
mod people;
mod record;
mod report;
mod shown;
mod state;
mod stored;
mod writer;

#[cfg(test)]
mod tests;

pub use checker::Checker;
pub use content::Digest;
pub use files::check_files;
pub use record::{Answer, Call, Conversation, Event, Final, Member, Message, What};
pub use report::{Anomaly, HistoryError, Place, Report, Violation};
pub use stored::Stored;
pub use writer::Writer;
