//! Which of a stored row's cells live: time to live and number of versions.
//!
//! Owns: the one rule that reads, writes and compaction go by. Promises: a pure function of the stored row, the options
//! and the time; a row whose cells have all expired is gone, a row that was written without any stays. Must not: look
//! at what a request asks for.

use super::super::Malformed;
use super::row::{Row, encode_cells};
use tideline_model::{Cell, TableOptions};

/// A stored row, judged.
#[derive(Debug, Default)]
pub(in super::super) struct Judged<'a> {
    /// Columns in the order of their names, versions newest first.
    pub(in super::super) living: Vec<Cell<'a>>,
    /// The same of the cells that don't: expired, or older than the newest versions that are kept.
    pub(in super::super) hidden: Vec<Cell<'a>>,
}

impl Judged<'_> {
    /// Whether the row is there.
    pub(in super::super) fn is_there(&self) -> bool {
        !self.living.is_empty() || self.hidden.is_empty()
    }
}

/// Judges a stored row.
pub(in super::super) fn judge<'a>(
    value: &'a [u8],
    options: &TableOptions,
    now_ms: i64,
) -> Result<Judged<'a>, Malformed> {
    let mut judged = Judged::default();
    walk(value, options, now_ms, |cell, lives| match lives {
        true => judged.living.push(cell),
        false => judged.hidden.push(cell),
    })?;
    Ok(judged)
}

/// What is left of a row without its hidden cells.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum Shortened {
    /// All of it.
    Same,
    /// This.
    Less(Vec<u8>),
    /// Nothing: the row is gone.
    Gone,
}

/// Takes the hidden cells out of a stored row.
pub(in super::super) fn shorten(
    value: &[u8],
    options: &TableOptions,
    now_ms: i64,
) -> Result<Shortened, Malformed> {
    let mut hidden = 0;
    walk(value, options, now_ms, |_, lives| {
        hidden += usize::from(!lives);
    })?;
    if hidden == 0 {
        return Ok(Shortened::Same);
    }
    let judged = judge(value, options, now_ms)?;
    if judged.living.is_empty() {
        return Ok(Shortened::Gone);
    }
    Ok(Shortened::Less(encode_cells(&judged.living)))
}

fn walk<'a>(
    value: &'a [u8],
    options: &TableOptions,
    now_ms: i64,
    mut each: impl FnMut(Cell<'a>, bool),
) -> Result<(), Malformed> {
    let (mut column, mut versions) = (None, 0);
    for cell in Row::parse(value)?.cells() {
        let cell = cell?;
        if column.replace(cell.name) != Some(cell.name) {
            versions = 0;
        }
        versions += 1;
        let lives = versions <= options.max_versions && !options.is_expired(cell.version, now_ms);
        each(cell, lives);
    }
    Ok(())
}
