//! Bytes in fewer bytes: what is said again is a copy of where it was said before. Payloads of frames are stored so
//! (`log/squeeze.rs`), and rows of runs (`image/rows/block.rs`).
//!
//! Owns: these bytes. Promises: what comes back is what was there, and never more than the caller allows; arbitrary
//! bytes never panic. Must not: search for copies: where they are likely depends on what is squeezed.
//!
//! ```text
//! sequence = literals and copies (4 bits each), [more literals], the literals, [more copies, distance]
//!            15 literals or copies = 15 and a varint more
//!            copies = 0: none; else so many bytes plus 3, from `distance` bytes back (varint; 0 = as far as last time)
//! ```

pub(crate) mod varint;

use varint::{put_varint, varint_at};

/// A shorter copy is no gain.
pub(crate) const COPY_MIN: usize = 4;

/// Bytes that are compared at once.
pub(crate) const WORD_BYTES: usize = 8;

/// What four bits hold.
const NIBBLE: usize = 15;

/// So many bytes are moved at once where there is room for them: to move fewer takes longer.
const STEP: usize = 16;

/// What unfolds to more than so many times its bytes gets its memory as it grows.
const GROWTH_EXPECTED: usize = 16;

/// Appends a sequence of literals, and of a copy of so many bytes (none = 0); a distance of 0 is that of the last copy.
#[inline]
pub(crate) fn put_sequence(out: &mut Vec<u8>, literals: &[u8], copied: usize, distance: usize) {
    let copies = if copied == 0 {
        0
    } else {
        copied - COPY_MIN + 1
    };
    let nibbles = literals.len().min(NIBBLE) << 4 | copies.min(NIBBLE);
    out.push(nibbles as u8);
    if literals.len() >= NIBBLE {
        put_varint(out, literals.len() - NIBBLE);
    }
    out.extend_from_slice(literals);
    if copies >= NIBBLE {
        put_varint(out, copies - NIBBLE);
    }
    if copies > 0 {
        put_varint(out, distance);
    }
}

/// How many bytes are the same at both places, of which the second one is the later.
#[inline]
pub(crate) fn same(buffer: &[u8], source: usize, at: usize) -> usize {
    let mut same = 0;
    while at + same + WORD_BYTES <= buffer.len() {
        let differs = word(buffer, source + same) ^ word(buffer, at + same);
        if differs != 0 {
            return same + differs.leading_zeros() as usize / 8;
        }
        same += WORD_BYTES;
    }
    while at + same < buffer.len() && buffer[source + same] == buffer[at + same] {
        same += 1;
    }
    same
}

#[inline]
pub(crate) fn word(buffer: &[u8], at: usize) -> u64 {
    let mut word = [0; WORD_BYTES];
    word.copy_from_slice(&buffer[at..at + WORD_BYTES]);
    u64::from_be_bytes(word)
}

/// Unfolds sequences behind what `plain` has already, and what they may copy from; `None` if they do not make it
/// exactly so long.
pub(crate) fn unfold(squeezed: &[u8], plain: &mut Vec<u8>, bytes: usize) -> Option<()> {
    let (mut at, mut to, mut distance) = (0, plain.len(), 0);
    let expected = to.saturating_add(squeezed.len().saturating_mul(GROWTH_EXPECTED));
    plain.resize(bytes.max(to).min(expected) + STEP, 0);
    while at < squeezed.len() {
        let nibbles = usize::from(squeezed[at]);
        at += 1;
        let literals = count(squeezed, nibbles >> 4, &mut at)?;
        let room = bytes.checked_sub(to)?;
        if literals > room || literals > squeezed.len() - at {
            return None;
        }
        make_room(plain, to + literals, bytes);
        match squeezed.get(at..at + STEP) {
            Some(step) if literals <= STEP => plain[to..to + STEP].copy_from_slice(step),
            _ => plain[to..to + literals].copy_from_slice(&squeezed[at..at + literals]),
        }
        (at, to) = (at + literals, to + literals);
        let copies = count(squeezed, nibbles & NIBBLE, &mut at)?;
        if copies == 0 {
            continue;
        }
        let copied = copies.checked_add(COPY_MIN - 1)?;
        distance = match varint_at(squeezed, &mut at)? {
            0 => distance,
            distance => distance,
        };
        if distance == 0 || distance > to || copied > bytes - to {
            return None;
        }
        make_room(plain, to + copied, bytes);
        copy(plain, to - distance, to, copied);
        to += copied;
    }
    plain.truncate(to);
    (to == bytes).then_some(())
}

#[inline]
fn count(squeezed: &[u8], nibble: usize, at: &mut usize) -> Option<usize> {
    match nibble {
        NIBBLE => varint_at(squeezed, at)?.checked_add(NIBBLE),
        count => Some(count),
    }
}

/// Room for so many bytes and one more step.
#[inline]
fn make_room(plain: &mut Vec<u8>, needed: usize, bytes: usize) {
    if needed + STEP > plain.len() {
        let doubled = plain.len().saturating_mul(2).min(bytes);
        plain.resize(doubled.max(needed) + STEP, 0);
    }
}

#[inline]
fn copy(plain: &mut [u8], source: usize, to: usize, copied: usize) {
    let distance = to - source;
    if copied <= STEP && distance >= STEP {
        let mut step = [0; STEP];
        step.copy_from_slice(&plain[source..source + STEP]);
        plain[to..to + STEP].copy_from_slice(&step);
    } else if copied <= distance {
        plain.copy_within(source..source + copied, to);
    } else {
        // What is copied reaches into itself.
        let mut done = 0;
        while done < copied {
            let step = (distance + done).min(copied - done);
            plain.copy_within(source..source + step, to + done);
            done += step;
        }
    }
}
