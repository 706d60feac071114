//! A timeline as a durable stream: conditions of its appends, its end, forks.
//!
//! Owns: what a stream keeps beside its messages: its producers and how far each has come, the last `Stream-Seq`,
//! which append closed it, when it ends, where it was forked. Promises: conditions are checked, and what they go by is
//! written, in the batch of the append itself, so they hold through any crash; a timeline that nobody uses so costs
//! nothing. Must not: number messages, or know HTTP.

mod append;
mod fork;
mod life;
mod make;
mod row;
mod verify;

pub use append::{Content, StreamAppend, StreamAppended, StreamPlace, StreamRefused};
pub use fork::{FORKS_MAX, Inherited};
pub(super) use life::is_of_end;
pub use life::{Life, Stream};
pub use make::NewStream;
pub use row::{Fork, Producer};

/// Producers that a stream remembers.
pub const PRODUCERS_MAX: u32 = 1_000;
