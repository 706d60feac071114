//! Epochs: what tells clients that a timeline is not the one that they knew.
//!
//! Owns: their text. Promises: it is of `[A-Za-z0-9]`, at most 25 long, and tells apart histories of the data
//! directory, partitions and incarnations. Must not: decide which incarnation a timeline is.

use super::super::Head;
use super::head::HeadRow;
use tideline_table::Origin;

/// The text of epochs of one data directory: its history, the timeline's root (the partition that owned it when the
/// directory was new, which never changes) and the incarnation.
#[derive(Clone, Debug)]
pub(in super::super) struct Epochs {
    /// Of the history; 11 digits.
    history: String,
    origin: Origin,
}

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

impl Epochs {
    pub(in super::super) fn new(origin: Origin) -> Epochs {
        let history = Digits::new(xxhash_rust::xxh3::xxh3_64(&origin.history.0), 11);
        Epochs {
            history: history.as_str().to_owned(),
            origin,
        }
    }

    pub(in super::super) fn text(&self, timeline: impl AsRef<[u8]>, incarnation: u64) -> String {
        let mut text = String::with_capacity(32);
        text.push_str(&self.history);
        text.push_str(self.root(timeline.as_ref()).as_str());
        text.push_str(Digits::new(incarnation, 1).as_str());
        text
    }

    /// Whether `text` is that epoch's; makes none.
    pub(in super::super) fn is(&self, text: &str, timeline: &str, incarnation: u64) -> bool {
        let rest = text.strip_prefix(self.history.as_str());
        let rest = rest.and_then(|rest| rest.strip_prefix(self.root(timeline.as_bytes()).as_str()));
        rest == Some(Digits::new(incarnation, 1).as_str())
    }

    /// What clients see of a head.
    pub(in super::super) fn head(&self, timeline: &str, head: &HeadRow) -> Head {
        Head {
            epoch: self.text(timeline, head.incarnation),
            head: head.last,
            floor: head.floor,
            change_head: head.change,
        }
    }

    fn root(&self, timeline: &[u8]) -> Digits {
        Digits::new(u64::from(self.origin.root(timeline).0), 3)
    }
}

/// A number to the base 62.
struct Digits {
    digits: [u8; 11],
    first: usize,
}

impl Digits {
    /// With zeros in front up to `width` digits.
    fn new(mut number: u64, width: usize) -> Digits {
        let mut digits = [b'0'; 11];
        let mut first = digits.len();
        while number > 0 {
            first -= 1;
            digits[first] = DIGITS[(number % 62) as usize];
            number /= 62;
        }
        let first = first.min(digits.len() - width);
        Digits { digits, first }
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.digits[self.first..]).expect("digits are ASCII")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use tideline_base::ids::HistoryId;

    proptest! {
        #[test]
        fn epochs_are_short_and_apart(
            history: [u8; 16],
            roots in 2u16..,
            timeline in "\\PC{1,9}",
            other in "\\PC{1,9}",
            a: u64,
            b: u64,
        ) {
            let origin = Origin { history: HistoryId(history), roots };
            let epochs = Epochs::new(origin);
            let text = epochs.text(&timeline, a);
            prop_assert!((15..=25).contains(&text.len()), "{}", text);
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric()));
            prop_assert_eq!(text == epochs.text(&timeline, b), a == b);
            prop_assert!(epochs.is(&text, &timeline, a));
            prop_assert_eq!(epochs.is(&text, &timeline, b), a == b);
            let root = |name: &str| origin.root(name.as_bytes());
            prop_assert_eq!(epochs.is(&text, &other, a), root(&timeline) == root(&other));
            prop_assert!(!epochs.is(&text[1..], &timeline, a));
        }
    }
}
