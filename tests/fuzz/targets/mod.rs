//! The decoders, each as a function of bytes that panics if a promise is broken.
//!
//! Owns: the list, and the bound on memory. Promises: every decoder that sees bytes from outside or from the disk is in
//! it; those behind a crate's face are in the `fuzz` modules of the crates. Must not: search.

mod dialects;
mod disk;
mod sql;
mod tablestore;
mod texts;

use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Names the one decoder to run.
pub(crate) const ONLY: &str = "TIDELINE_FUZZ";

/// A decoder may take so many times its input, and so much whatever the input is.
const ROOM: (usize, usize) = (10, 64 << 10);
/// Those that may take more, and why.
const ROOMS: &[(&str, (usize, usize))] = &[
    // The commands of a batch are kept as places in it: two bytes of input are 16.
    ("centrifuge_api", (16, 64 << 10)),
    // Files of the operator's, read by a library.
    ("config", (160, 256 << 10)),
    ("directory_toml", (80, 64 << 10)),
    // The tables of kept pages.
    ("image_file", (10, 2 << 20)),
    // What the engine keeps of each value of an object, of two bytes, and what JSON is read into.
    ("search_objects", (400, 256 << 10)),
    // A word of one letter is a text and a place, in a list that grows.
    ("search_words", (80, 64 << 10)),
    // What one search, and one statement with what it answers, may hold whatever they ask for.
    ("search_query", (64, 80 << 20)),
    ("sql_statement", (64, 96 << 20)),
    // What was written, and so bounded there: a column of one byte is a value of 40, a cell of three bytes one of 64,
    // or a name and a value; lists that grow have twice that.
    ("people_rows", (100, 64 << 10)),
    ("table_key", (100, 64 << 10)),
    // Pieces of a byte each, which there are only here.
    ("table_pieces", (300, 64 << 10)),
    // A cell of one byte is one of 64, here in two lists.
    ("table_row", (250, 64 << 10)),
    // A compiled expression, and one that came out too large.
    ("tablestore_filter", (10, 2 << 20)),
    // As many as a batch may have.
    ("tablestore_request", (10, 40 << 20)),
    ("timeline_rows", (100, 64 << 10)),
];

/// A decoder.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    decode: fn(&[u8]),
}

impl Target {
    /// Gives it an input.
    ///
    /// # Panics
    /// If it breaks a promise, or takes more memory than the input is worth.
    pub(crate) fn run(&self, input: &[u8]) {
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        (self.decode)(input);
        let taken = MEMORY.peak_usage().saturating_sub(before);
        let room = ROOMS.iter().find(|(name, _)| *name == self.name);
        let (times, bytes) = room.map_or(ROOM, |(_, room)| *room);
        let most = times * input.len() + bytes;
        assert!(
            taken <= most,
            "{taken} bytes of memory for {} of input",
            input.len()
        );
    }
}

/// All of them, or the one that is asked for; each has run once, so that what is made at a first call is there.
pub(crate) fn all() -> Vec<Target> {
    let only = std::env::var(ONLY).ok();
    let own = [
        disk::TARGETS,
        dialects::TARGETS,
        sql::TARGETS,
        tablestore::TARGETS,
        texts::TARGETS,
    ];
    let lists = own.into_iter().chain(tideline_store::fuzz::TARGETS);
    let lists = lists.chain([
        tideline_table::fuzz::TARGETS,
        tideline_search::fuzz::TARGETS,
    ]);
    let lists = lists.chain(tideline_timelines::fuzz::TARGETS);
    let lists = lists.chain(tideline_gateway::fuzz::TARGETS);
    let mut found = Vec::new();
    for (name, decode) in lists.flatten() {
        if only.as_ref().is_none_or(|only| only == name) {
            decode(b"");
            decode(&[0; 64]);
            found.push(Target {
                name,
                decode: *decode,
            });
        }
    }
    assert!(!found.is_empty(), "{ONLY} names no decoder: {only:?}");
    found
}
