//! Walking over timelines by name, but only over those that somebody may read by name.
//!
//! Owns: the keys between which heads are read. Promises: what is not covered is skipped without being looked at,
//! however much it is. Must not: decide what is covered.

use bytes::Bytes;

use super::super::rows::tables::HEADS;
use tideline_model::Direction;
use tideline_model::access::Coverage;
use tideline_table::{Key, ReadError, View, scan};

/// The parts between two keys of heads that are covered, in order.
pub(in super::super) fn ranges(coverage: &Coverage, (from, to): (Key, Key)) -> Vec<(Key, Key)> {
    let bound = |bytes| Key::new(HEADS, &[], 0).text_from(bytes);
    let ranges = coverage.ranges().map(|(first, behind)| {
        let behind = behind.map_or_else(|| to.clone(), bound);
        (from.clone().max(bound(first)), to.clone().min(behind))
    });
    ranges.filter(|(from, to)| from < to).collect()
}

/// The same without the server's own names.
pub(in super::super) fn of_users(coverage: &Coverage, (from, to): (Key, Key)) -> Vec<(Key, Key)> {
    let own = Key::new(HEADS, &[], 8).string("$");
    let behind_own = Key::new(HEADS, &[], 8).string("%");
    let parts = [
        (from.clone(), to.clone().min(own)),
        (from.max(behind_own), to),
    ];
    let covered = |bounds| ranges(coverage, bounds);
    parts.into_iter().flat_map(covered).collect()
}

/// The covered heads between two keys, in a direction.
pub(in super::super) fn heads<'v>(
    view: &'v View,
    coverage: &Coverage,
    bounds: (Key, Key),
    direction: Direction,
) -> impl Iterator<Item = Result<(Bytes, Bytes), ReadError>> + use<'v> {
    let mut ranges = ranges(coverage, bounds);
    if direction == Direction::Backward {
        ranges.reverse();
    }
    let walk = move |(from, to): (Key, Key)| scan(view, &from, &to, direction);
    ranges.into_iter().flat_map(walk)
}
