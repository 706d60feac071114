//! Reading `message` pushes at the price of a few comparisons a message.
//!
//! Owns: which messages a push carries. Promises: numbers are read for every message, and their order within the push
//! is checked for every message; what does not look exactly as expected goes through a JSON parser. Must not: look into
//! entries: a follower parses a push whole when its profile asks for that.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memchr;
use memchr::memmem::{Finder, FinderRev};
use serde::Deserialize;

/// The messages of one push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Messages<'a> {
    /// The timeline they belong to.
    pub(super) timeline: Cow<'a, str>,
    /// Its history.
    pub(super) epoch: Cow<'a, str>,
    /// Number of the first one.
    pub(super) first: u64,
    /// Number of the last one.
    pub(super) last: u64,
    /// Whether each is the one after the one before.
    pub(super) in_order: bool,
    /// Commit time of the first one, ms.
    pub(super) timestamp: u64,
    /// The timeline's last number.
    pub(super) head: u64,
}

const START: &[u8] = br#"{"jsonrpc":"2.0","method":"message","params":{"timeline":""#;
const EPOCH: &[u8] = br#"","epoch":""#;
const MESSAGES: &[u8] = br#"","messages":["#;
const SEQUENCE: &[u8] = br#"{"sequence":"#;
const TIMESTAMP: &[u8] = br#","timestamp":"#;
const HEAD: &[u8] = br#"],"head":"#;

// An escaped text cannot hold these patterns: it has no bare quotes. A nested object could; ours have none.
static NEXT: LazyLock<Finder> = LazyLock::new(|| Finder::new(br#"},{"sequence":"#));
static LAST: LazyLock<FinderRev> = LazyLock::new(|| FinderRev::new(br#"}],"head":"#));
static ID: LazyLock<Finder> = LazyLock::new(|| Finder::new(br#","message_id":""#));

/// Reads one push; `None` if it is something else than messages.
pub(super) fn read(text: &[u8]) -> Option<Messages<'_>> {
    quick(text).or_else(|| slow(text))
}

fn quick(text: &[u8]) -> Option<Messages<'_>> {
    let (timeline, rest) = quoted(text.strip_prefix(START)?)?;
    let (epoch, rest) = quoted(rest.strip_prefix(EPOCH)?)?;
    let mut rest = rest.strip_prefix(MESSAGES)?;
    let (first, timestamp) = opening(rest)?;
    let (mut last, mut in_order) = (first, true);
    while let Some(length) = NEXT.find(rest) {
        // Behind the brace and the comma.
        rest = &rest[length + 2..];
        let (sequence, _) = opening(rest)?;
        in_order &= sequence == last + 1;
        last = sequence;
    }
    // Behind the brace: `],"head":12}}` and nothing more.
    let tail = &rest[LAST.rfind(rest)? + 1..];
    let (head, tail) = number(tail.strip_prefix(HEAD)?)?;
    (tail == b"}}").then_some(Messages {
        timeline,
        epoch,
        first,
        last,
        in_order,
        timestamp,
        head,
    })
}

/// The text up to the next quote, and what follows from the quote on.
fn quoted(bytes: &[u8]) -> Option<(Cow<'_, str>, &[u8])> {
    let (text, rest) = bytes.split_at(memchr(b'"', bytes)?);
    let plain = memchr(b'\\', text).is_none();
    let text = std::str::from_utf8(text).ok()?;
    plain.then_some((Cow::Borrowed(text), rest))
}

/// Sequence and timestamp of the message that begins here.
fn opening(bytes: &[u8]) -> Option<(u64, u64)> {
    let (sequence, rest) = number(bytes.strip_prefix(SEQUENCE)?)?;
    let (timestamp, _) = number(rest.strip_prefix(TIMESTAMP)?)?;
    Some((sequence, timestamp))
}

/// The digits at the start, and what follows.
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (at, byte) in bytes.iter().enumerate().take(20) {
        if !byte.is_ascii_digit() {
            return (at > 0).then_some((value, &bytes[at..]));
        }
        value = value * 10 + u64::from(byte - b'0');
    }
    None
}

/// A push as the parser reads it, with messages as `M`.
#[derive(Deserialize)]
pub(super) struct Notification<'a, M> {
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) params: Params<'a, M>,
}

#[derive(Deserialize)]
pub(super) struct Params<'a, M> {
    #[serde(borrow)]
    timeline: Cow<'a, str>,
    #[serde(borrow)]
    epoch: Cow<'a, str>,
    pub(super) messages: Vec<M>,
    head: u64,
}

impl<'a, M: Deserialize<'a>> Notification<'a, M> {
    pub(super) fn parse(text: &'a [u8]) -> serde_json::Result<Notification<'a, M>> {
        serde_json::from_slice(text)
    }
}

#[derive(Deserialize)]
struct One {
    sequence: u64,
    timestamp: u64,
}

fn slow(text: &[u8]) -> Option<Messages<'_>> {
    let Notification { method, params } = Notification::<One>::parse(text).ok()?;
    let (first, last) = (params.messages.first()?, params.messages.last()?);
    let next = |two: &[One]| two[0].sequence + 1 == two[1].sequence;
    (method == "message").then(|| Messages {
        timeline: params.timeline.clone(),
        epoch: params.epoch.clone(),
        first: first.sequence,
        last: last.sequence,
        in_order: params.messages.windows(2).all(next),
        timestamp: first.timestamp,
        head: params.head,
    })
}

/// Hands the ID of each message of a push to `each`, in order. `None`: one does not look as expected.
pub(super) fn ids<'a>(text: &'a [u8], mut each: impl FnMut(&'a str)) -> Option<()> {
    let mut rest = text;
    while let Some(at) = ID.find(rest) {
        let (Cow::Borrowed(id), behind) = quoted(&rest[at + ID.needle().len()..])? else {
            return None;
        };
        each(id);
        rest = behind;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn message(sequence: u64, text: &str) -> String {
        let entry = json!({ "text": text });
        format!(
            r#"{{"sequence":{sequence},"timestamp":1767225600000,"message_id":"m-1","entry":{entry}}}"#
        )
    }

    fn push(timeline: &str, sequences: &[u64], text: &str) -> String {
        let messages: Vec<String> = sequences.iter().map(|one| message(*one, text)).collect();
        let (name, all) = (json!(timeline), messages.join(","));
        let head = sequences.last().copied().unwrap_or(0);
        format!(
            r#"{{"jsonrpc":"2.0","method":"message","params":{{"timeline":{name},"epoch":"e1","messages":[{all}],"head":{head}}}}}"#
        )
    }

    fn messages(timeline: &str, first: u64, last: u64) -> Messages<'static> {
        Messages {
            timeline: timeline.to_owned().into(),
            first,
            last,
            epoch: "e1".into(),
            in_order: true,
            timestamp: 1_767_225_600_000,
            head: last,
        }
    }

    #[test]
    fn any_order_of_members_is_read_and_other_texts_are_not() {
        let other = br#"{"params":{"head":8,"messages":[{"timestamp":5,"sequence":8}],"timeline":"a","epoch":"e1"},
            "method":"message","jsonrpc":"2.0"}"#;
        let found = Messages {
            timestamp: 5,
            ..messages("a", 8, 8)
        };
        assert_eq!(read(other), Some(found));
        for odd in ["", "{}", "[", r#"{"id":5,"result":{}}"#] {
            assert_eq!(read(odd.as_bytes()), None);
        }
        let ended = br#"{"jsonrpc":"2.0","method":"subscription.ended","params":{"timeline":"a"}}"#;
        assert_eq!(read(ended), None);
    }

    #[test]
    fn a_gap_or_a_repetition_within_a_push_is_seen() {
        for sequences in [&[1, 3][..], &[1, 2, 2, 3], &[9, 8], &[99, 100, 102]] {
            let text = push("room", sequences, "text");
            let read = read(text.as_bytes()).expect("messages");
            assert!(!read.in_order, "{sequences:?}: {read:?}");
        }
    }

    #[test]
    fn messages_of_different_lengths_are_all_read() {
        let long = message(1, &"x".repeat(200));
        let short: Vec<String> = [2, 3, 3, 4].map(|one| message(one, "")).into();
        let text = format!(
            r#"{{"jsonrpc":"2.0","method":"message","params":{{"timeline":"a","epoch":"e1","messages":[{long},{}],"head":4}}}}"#,
            short.join(",")
        );
        let found = Messages {
            in_order: false,
            ..messages("a", 1, 4)
        };
        assert_eq!(read(text.as_bytes()), Some(found));
        let mut found = Vec::new();
        ids(text.as_bytes(), |id| found.push(id)).expect("plain");
        assert_eq!(found, ["m-1"; 5]);
    }

    proptest! {
        #[test]
        fn the_quick_way_reads_what_the_parser_reads(
            name in "[a-z/\"ü]{1,9}", first in 1..2_000u64, count in 1..30u64,
            texts in proptest::collection::vec(".{0,40}", 3),
        ) {
            for text in texts {
                let sequences: Vec<u64> = (first..first + count).collect();
                let text = push(&name, &sequences, &text);
                let expected = messages(&name, first, first + count - 1);
                prop_assert_eq!(slow(text.as_bytes()), Some(expected.clone()));
                let quick = quick(text.as_bytes());
                prop_assert_eq!(quick.is_none(), name.contains('"'));
                prop_assert_eq!(read(text.as_bytes()), Some(expected));
            }
        }

        #[test]
        fn cut_or_changed_pushes_never_panic(at in 0..400usize, byte in any::<u8>()) {
            let mut text = push("room", &[8, 9, 10], "text").into_bytes();
            let at = at % text.len();
            read(&text);
            read(&text[..at]);
            text[at] = byte;
            read(&text);
        }
    }
}
