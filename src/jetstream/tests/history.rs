//! What must hold, seen from outside: of what nodes printed, and of the stream as it is at the end.
//!
//! Owns: the promises, in its own words; the rule of void frames is written here once more. Promises: the first thing
//! that is wrong is the error. Must not: use the code that it checks.

use std::collections::{BTreeMap, BTreeSet};

use tideline_base::ids::Position;
use tideline_cluster::Content;
use tideline_jetstream::Frame;

use crate::node::{Line, write_of};

/// What was seen.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) frames: usize,
    pub(crate) voids: usize,
    pub(crate) claims: usize,
    pub(crate) acked: usize,
    pub(crate) refused: usize,
    pub(crate) reads: usize,
}

/// A write that was acknowledged.
struct Acked {
    us: u64,
    at: u64,
    wrote_us: u64,
}

/// Judges a stream and what all nodes printed.
pub(crate) fn judge(
    frames: &[(Position, Option<Frame>)],
    nodes: &[Vec<Line>],
) -> Result<Seen, String> {
    let mut seen = Seen {
        frames: frames.len(),
        ..Seen::default()
    };
    // By write, where it is in effect; by position, the checksum and whether it is.
    let mut writes: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut places: BTreeMap<u64, (u32, bool)> = BTreeMap::new();
    let mut term = 0;
    for (position, frame) in frames {
        let frame = frame
            .as_ref()
            .ok_or_else(|| format!("no frame at {position}"))?;
        let is_void = frame.sealed.term < term;
        term = term.max(frame.sealed.term);
        places.insert(position.0, (frame.sealed.crc, is_void));
        seen.voids += usize::from(is_void);
        if is_void {
            continue;
        }
        seen.claims += usize::from(matches!(frame.sealed.content, Content::Claim(_)));
        if let Some(write) = write_of(frame) {
            writes.entry(write).or_default().push(position.0);
        }
    }
    if let Some((write, at)) = writes.iter().find(|(_, at)| at.len() > 1) {
        return Err(format!("{write} is in effect at {at:?}"));
    }
    let acked = acknowledgements(nodes)?;
    seen.acked = acked.len();
    for (write, Acked { at, .. }) in &acked {
        if writes.get(write) != Some(&vec![*at]) {
            let found = writes.get(write);
            return Err(format!(
                "{write} was acknowledged at {at}, and is in effect at {found:?}"
            ));
        }
    }
    for line in nodes.iter().flatten() {
        if let Some(write) = line.text.strip_prefix("refused ") {
            seen.refused += 1;
            if let Some(at) = writes.get(write) {
                return Err(format!(
                    "{write} was refused as not written, and is at {at:?}"
                ));
            }
        }
    }
    took_the_same(nodes, &places)?;
    seen.reads = in_order(&acked, nodes)?;
    Ok(seen)
}

fn acknowledgements(nodes: &[Vec<Line>]) -> Result<BTreeMap<String, Acked>, String> {
    let mut wrote: BTreeMap<&str, u64> = BTreeMap::new();
    for line in nodes.iter().flatten() {
        if let Some(write) = line.text.strip_prefix("wrote ") {
            wrote.insert(write, line.us);
        }
    }
    let mut acked = BTreeMap::new();
    let mut positions = BTreeSet::new();
    for line in nodes.iter().flatten() {
        let words = line.text.strip_prefix("acked ");
        let Some((write, at)) = words.and_then(|words| words.split_once(' ')) else {
            continue;
        };
        let at = at.parse().map_err(|_| format!("{line:?}"))?;
        let wrote_us = *wrote
            .get(write)
            .ok_or_else(|| format!("nobody wrote {write}"))?;
        let one = Acked {
            us: line.us,
            at,
            wrote_us,
        };
        if acked.insert(write.to_owned(), one).is_some() {
            return Err(format!("{write} was acknowledged twice"));
        }
        if !positions.insert(at) {
            return Err(format!("two writes were acknowledged at {at}"));
        }
    }
    Ok(acked)
}

/// Every node took what the stream has, in order, without a gap.
fn took_the_same(nodes: &[Vec<Line>], places: &BTreeMap<u64, (u32, bool)>) -> Result<(), String> {
    for lines in nodes {
        let mut last = None;
        for line in lines {
            let words: Vec<&str> = line.text.split(' ').collect();
            if words[0] == "begins" {
                last = None;
            }
            let ["took", at, _term, crc, is_void] = words[..] else {
                continue;
            };
            let at: u64 = at.parse().map_err(|_| format!("{line:?}"))?;
            let is_next = last.is_none_or(|last: u64| at == last + 1);
            let place = places
                .get(&at)
                .map(|(crc, is_void)| (crc.to_string(), is_void.to_string()));
            if !is_next || place != Some((crc.to_owned(), is_void.to_owned())) {
                return Err(format!(
                    "a node took {} behind {last:?}; there is {place:?}",
                    line.text
                ));
            }
            last = Some(at);
        }
    }
    Ok(())
}

/// What was acknowledged before a write came has a lower position, and a read shows it.
fn in_order(acked: &BTreeMap<String, Acked>, nodes: &[Vec<Line>]) -> Result<usize, String> {
    let mut by_time: Vec<(u64, u64)> = acked.values().map(|one| (one.us, one.at)).collect();
    by_time.sort_unstable();
    let mut highest = 0;
    let floors: Vec<(u64, u64)> = by_time
        .iter()
        .map(|(us, at)| {
            highest = highest.max(*at);
            (*us, highest)
        })
        .collect();
    let before = |us: u64| {
        let index = floors.partition_point(|(at_us, _)| *at_us < us);
        index.checked_sub(1).map_or(0, |index| floors[index].1)
    };
    for (write, one) in acked {
        let floor = before(one.wrote_us);
        if one.at <= floor {
            return Err(format!(
                "{write} came after {floor} was acknowledged, and is at {}",
                one.at
            ));
        }
    }
    let mut reads = 0;
    for line in nodes.iter().flatten() {
        let words: Vec<&str> = line.text.split(' ').collect();
        let ["read", view, asked] = words[..] else {
            continue;
        };
        let number = |word: &str| word.parse::<u64>().map_err(|_| format!("{line:?}"));
        let (view, floor) = (number(view)?, before(number(asked)?));
        reads += 1;
        if view < floor {
            return Err(format!(
                "a read showed {view} when {floor} was acknowledged"
            ));
        }
    }
    Ok(reads)
}
