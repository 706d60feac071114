//! Fossil deltas: how a text is made from the one before it, in the format of Fossil and SQLite.
//!
//! Owns: the format and the search for what both texts share. Promises: a delta is shorter than its target, and leads
//! to it; time and memory grow with the length of both texts, whatever is in them; of valid UTF-8 it makes valid UTF-8.
//! Must not: know publications.
//!
//! A delta is the length of the target and a line feed; then copies from the source (`LENGTH@OFFSET,`) and literal
//! bytes (`LENGTH:BYTES`); last the checksum of the target and `;`. Numbers are in the digits of [`DIGITS`].

/// The delta from a source to a target; `None` = it would not be shorter than the target.
pub(super) fn delta(source: &[u8], target: &[u8]) -> Option<Vec<u8>> {
    let blocks = Blocks::of(source);
    let mut out = Vec::new();
    number(&mut out, target.len());
    out.push(b'\n');
    // Up to where the target is in the delta, and where the search is.
    let (mut done, mut at) = (0, 0);
    while let Some(window) = target.get(at..at + BLOCK) {
        let Some(from) = blocks.find(window) else {
            at += 1;
            continue;
        };
        let back = same(source[..from].iter().rev(), target[done..at].iter().rev());
        let ahead = same(source[from..].iter(), target[at..].iter());
        let (mut start, mut end) = (at - back, at + ahead);
        while splits(target, start) && start < at - back + CONTINUED_MAX {
            start += 1;
        }
        while splits(target, end) && end > at + ahead - CONTINUED_MAX {
            end -= 1;
        }
        literal(&mut out, &target[done..start]);
        number(&mut out, end - start);
        out.push(b'@');
        number(&mut out, from + start - at);
        out.push(b',');
        (done, at) = (end, end);
    }
    literal(&mut out, &target[done..]);
    number(&mut out, checksum(target) as usize);
    out.push(b';');
    (out.len() < target.len()).then_some(out)
}

/// How many bytes are the same.
fn same<'b>(one: impl Iterator<Item = &'b u8>, other: impl Iterator<Item = &'b u8>) -> usize {
    one.zip(other)
        .take_while(|(one, other)| one == other)
        .count()
}

/// Whether a cut here would split a character of UTF-8.
fn splits(bytes: &[u8], at: usize) -> bool {
    bytes.get(at).is_some_and(|byte| byte & 0xc0 == 0x80)
}

fn literal(out: &mut Vec<u8>, bytes: &[u8]) {
    if !bytes.is_empty() {
        number(out, bytes.len());
        out.push(b':');
        out.extend_from_slice(bytes);
    }
}

fn number(out: &mut Vec<u8>, mut value: usize) {
    let from = out.len();
    loop {
        out.push(DIGITS[value % DIGITS.len()]);
        value /= DIGITS.len();
        if value == 0 {
            break;
        }
    }
    out[from..].reverse();
}

/// The sum of its big-endian words, the last one filled up with zeros.
fn checksum(bytes: &[u8]) -> u32 {
    bytes.chunks(4).fold(0, |sum: u32, chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        sum.wrapping_add(u32::from_be_bytes(word))
    })
}

/// Where a source has which block. Of blocks that fall together the first one counts: in a run of equal
/// ones most is still ahead of it.
struct Blocks<'s> {
    source: &'s [u8],
    /// The number of a block, plus one.
    by_hash: Vec<u32>,
}

impl Blocks<'_> {
    fn of(source: &[u8]) -> Blocks<'_> {
        let places = (2 * source.len() / BLOCK).next_power_of_two();
        let mut blocks = Blocks {
            source,
            by_hash: vec![0; places],
        };
        for (block, number) in source.chunks_exact(BLOCK).zip(1..) {
            let place = blocks.place(block);
            if blocks.by_hash[place] == 0 {
                blocks.by_hash[place] = number;
            }
        }
        blocks
    }

    /// Where in the source this is.
    fn find(&self, window: &[u8]) -> Option<usize> {
        let number = self.by_hash[self.place(window)].checked_sub(1)?;
        let from = number as usize * BLOCK;
        (&self.source[from..from + BLOCK] == window).then_some(from)
    }

    fn place(&self, block: &[u8]) -> usize {
        let (words, _) = block.as_chunks::<8>();
        let hash = words.iter().fold(0, |hash: u64, word| {
            (hash ^ u64::from_be_bytes(*word))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        });
        hash as usize & (self.by_hash.len() - 1)
    }
}

/// Shorter than this nothing is found again.
const BLOCK: usize = 16;
/// Bytes of a character of UTF-8 behind its first.
const CONTINUED_MAX: usize = 3;
const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A plain reader of the format.
    fn applied(source: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
        let mut rest = delta;
        let mut out = Vec::new();
        let (length, b'\n') = step(&mut rest)? else {
            return None;
        };
        loop {
            match step(&mut rest)? {
                (count, b'@') => {
                    let (from, b',') = step(&mut rest)? else {
                        return None;
                    };
                    out.extend_from_slice(source.get(from..from + count)?);
                }
                (count, b':') => {
                    out.extend_from_slice(rest.get(..count)?);
                    rest = &rest[count..];
                }
                (sum, b';') => {
                    let is_whole = rest.is_empty() && out.len() == length;
                    return (is_whole && checksum(&out) as usize == sum).then_some(out);
                }
                _ => return None,
            }
        }
    }

    /// A number and what is behind it.
    fn step(rest: &mut &[u8]) -> Option<(usize, u8)> {
        let digits = rest.iter().position(|byte| !DIGITS.contains(byte))?;
        let place = |byte: &u8| DIGITS.iter().position(|digit| digit == byte);
        let digits = rest[..digits].iter().map(place);
        let (count, value) = digits.fold((0, 0), |(count, value), digit| {
            (count + 1, value * 64 + digit.unwrap_or(0))
        });
        let sign = rest[count];
        *rest = &rest[count + 1..];
        Some((value, sign))
    }

    #[test]
    fn a_delta_is_in_the_format_of_fossil() {
        let source = b"a text of some length, of which little changes: 1";
        let target = b"a text of some length, of which little changes: 22";
        let delta = delta(source, target).unwrap();
        assert_eq!(&delta[..10], b"n\nl@0,2:22");
        assert_eq!(applied(source, &delta).unwrap(), target);
        let mut sum = Vec::new();
        number(&mut sum, checksum(b"abcde") as usize);
        assert_eq!(
            (checksum(b"abcde"), &sum[..]),
            (0xc662_6364, &b"36ObD_"[..])
        );
    }

    #[test]
    fn what_would_not_be_shorter_is_not_made() {
        assert_eq!(delta(b"", b""), None);
        assert_eq!(delta(b"", b"something that is all new"), None);
        assert_eq!(delta(b"0123456789abcdef", b"fedcba9876543210"), None);
        assert!(delta(&[0; 4096], &[0; 4096]).unwrap().len() < 16);
    }

    /// A text, and what it is after some edits.
    fn edited(piece: &'static str) -> impl Strategy<Value = (String, String)> {
        let edits = prop::collection::vec((any::<prop::sample::Index>(), 0..40usize, piece), 0..6);
        (prop::collection::vec(piece, 0..40), edits).prop_map(|(pieces, edits)| {
            let source = pieces.concat();
            let mut target: Vec<char> = source.chars().collect();
            for (at, gone, new) in edits {
                let at = at.index(target.len() + 1);
                let end = (at + gone).min(target.len());
                target.splice(at..end, new.chars());
            }
            (source, target.into_iter().collect())
        })
    }

    proptest! {
        #[test]
        fn a_delta_leads_to_its_target(
            (source, target) in prop_oneof![edited("[a-c]{0,30}"), edited("[aüß€😀𐍈]{0,20}")],
        ) {
            if let Some(delta) = delta(source.as_bytes(), target.as_bytes()) {
                prop_assert!(delta.len() < target.len());
                prop_assert!(std::str::from_utf8(&delta).is_ok());
                prop_assert_eq!(applied(source.as_bytes(), &delta), Some(target.into_bytes()));
            }
        }

        #[test]
        fn any_bytes_will_do(
            source in prop::collection::vec(0x7eu8..0x84, 0..300),
            cut in any::<prop::sample::Index>(),
            new in prop::collection::vec(any::<u8>(), 0..30),
        ) {
            let mut target = source.clone();
            let cut = cut.index(target.len() + 1);
            target.splice(cut..cut, new);
            if let Some(delta) = delta(&source, &target) {
                prop_assert_eq!(applied(&source, &delta), Some(target));
            }
        }
    }
}
