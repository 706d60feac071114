//! A frame's payload in fewer bytes (`squeeze/mod.rs`).
//!
//! Owns: where copies are looked for, and the payload's length before the sequences (varint). Promises: what comes back
//! is what was there, and never more than the caller allows. Must not: know what keys and values mean. It looks where
//! the rows of one batch tend to be alike, and nowhere else: a search at every byte, as LZ4's, costs half as much again
//! and finds a fiftieth more.

use std::ops::Range;

use crate::squeeze;
use crate::squeeze::varint::{put_varint, varint_at};
use crate::squeeze::{COPY_MIN, WORD_BYTES, put_sequence, same, word};

/// After so many bytes of a value without a copy the rest of it is taken for new.
const MISSES_MAX: usize = 24;

/// Keys of one table begin alike, and their fourth byte often differs from other tables': the last entry of each such
/// byte is remembered.
const KINDS: usize = 16;
const KIND_BYTES: usize = 4;

/// A key often ends with an ID that the value before has, too. A word of it is looked for there: the last one in front
/// of the end mark of the key's last column.
const END_BYTES: usize = 2;

/// The search ends so far into that value.
const SEARCHED_BYTES: usize = 96;

/// Where an entry's key and value are.
#[derive(Clone, Copy, Default)]
struct Place {
    key: usize,
    key_end: usize,
    value: usize,
    end: usize,
}

/// Appends a payload, which is `buffer` from `from` on and has these keys and values, in order.
pub(super) fn squeeze(
    buffer: &[u8],
    from: usize,
    entries: impl Iterator<Item = (Range<usize>, Range<usize>)>,
    out: &mut Vec<u8>,
) {
    put_varint(out, buffer.len() - from);
    let mut writer = Sequences {
        buffer,
        from,
        literal: from,
        distance: 0,
        out,
    };
    let mut alike = [Place::default(); KINDS];
    let mut before = Place::default();
    for (key, value) in entries {
        let one = Place {
            key: key.start,
            key_end: key.end,
            value: value.start,
            end: value.end,
        };
        let kind = match key.len() < KIND_BYTES {
            true => 0,
            false => usize::from(buffer[key.start + KIND_BYTES - 1]) % KINDS,
        };
        let like = std::mem::replace(&mut alike[kind], one);
        if before.end > 0 {
            let like = if like.end > 0 { like } else { before };
            writer.entry(one, before, like);
        }
        before = one;
    }
    put_sequence(writer.out, &buffer[writer.literal..], 0, 0);
}

struct Sequences<'a> {
    buffer: &'a [u8],
    from: usize,
    /// Everything before is written.
    literal: usize,
    /// Of the last copy.
    distance: usize,
    out: &'a mut Vec<u8>,
}

impl Sequences<'_> {
    /// Looks for what an entry shares with the one before and with one that may be like it.
    #[inline]
    fn entry(&mut self, one: Place, before: Place, like: Place) {
        let stop = one.end.min(self.buffer.len() - WORD_BYTES);
        let mut at = self.literal.max(before.end);
        if at < one.key_end.min(stop) {
            at += self.copy(at.wrapping_sub(one.key - like.key), at);
        }
        let key_end = one.key_end.min(stop);
        // The beginning tells the kind and differs, the rest often does not.
        let rest = at.max(one.key + KIND_BYTES);
        let source = before.key + (rest - one.key);
        if rest < key_end && source < before.key_end {
            at = rest + self.copy(source, rest);
        }
        if at + WORD_BYTES + 2 * END_BYTES < key_end {
            at += self.copy_of_value(at, key_end - END_BYTES - WORD_BYTES, before);
        }
        let shift = one.value - like.value;
        at = at.max(one.key_end);
        let mut misses = 0;
        while at < stop && misses < MISSES_MAX {
            match self.copy(at.wrapping_sub(shift), at) {
                0 => {
                    at += 1;
                    misses += 1;
                }
                copied => {
                    at += copied;
                    misses = 0;
                }
            }
        }
    }

    /// Looks for the word of a key in the value before; gives how far behind `at` what they share ends, or 0.
    #[inline]
    fn copy_of_value(&mut self, at: usize, word_at: usize, before: Place) -> usize {
        let word = word(self.buffer, word_at);
        let last = (before.value + SEARCHED_BYTES).min(before.end.saturating_sub(WORD_BYTES));
        let mut found = before.value;
        while found < last && self::word(self.buffer, found) != word {
            found += 1;
        }
        if found >= last {
            return 0;
        }
        let mut first = word_at;
        while first > at && found > self.from && self.buffer[first - 1] == self.buffer[found - 1] {
            first -= 1;
            found -= 1;
        }
        first - at + self.copy(found, first)
    }

    /// Copies from `source` what is the same there and `at`, if that is a gain; gives how much.
    #[inline]
    fn copy(&mut self, source: usize, at: usize) -> usize {
        let is_behind = source >= self.from && source < at;
        match is_behind && four(self.buffer, source) == four(self.buffer, at) {
            true => self.copy_same(source, at),
            false => 0,
        }
    }

    /// The same, once it is known to be a gain. Not a part of its callers, which mostly find nothing.
    #[inline(never)]
    fn copy_same(&mut self, source: usize, at: usize) -> usize {
        let same = same(self.buffer, source, at);
        let distance = at - source;
        let literals = &self.buffer[self.literal..at];
        let told = if distance == self.distance {
            0
        } else {
            distance
        };
        put_sequence(self.out, literals, same, told);
        self.distance = distance;
        self.literal = at + same;
        same
    }
}

#[inline]
fn four(buffer: &[u8], at: usize) -> [u8; COPY_MIN] {
    let mut four = [0; COPY_MIN];
    four.copy_from_slice(&buffer[at..at + COPY_MIN]);
    four
}

/// The payload again; `None` if this is none, or one of more than `bytes_max`.
pub(super) fn unfold(squeezed: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
    let mut at = 0;
    let bytes = varint_at(squeezed, &mut at).filter(|bytes| *bytes <= bytes_max)?;
    let mut plain = Vec::new();
    squeeze::unfold(&squeezed[at..], &mut plain, bytes)?;
    Some(plain)
}
