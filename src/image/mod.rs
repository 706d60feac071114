//! The image: a partition's sorted runs on LMDB.

mod rules;

pub use rules::{DropContext, Entry, Pieces, Rules, Verdict};
