//! Reading `message` pushes at the price of a few comparisons a message.
//!
//! Owns: telling which messages a push carries. Promises: numbers are read for every message, and their order within
//! the push is checked for every message; whatever does not look exactly as expected goes through a JSON parser. Must
//! not: look into entries: profiles parse a sample of the pushes whole for that.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memchr;
use memchr::memmem::{Finder, FinderRev};
use serde::Deserialize;

/// What came that is no reply.
#[derive(Debug, PartialEq, Eq)]
pub enum Push<'a> {
    /// Messages of a timeline, without hole.
    Messages(Messages<'a>),
    /// Messages that do not follow on each other.
    Broken(Messages<'a>),
    /// Something else, or nothing that is known.
    Other,
}

/// The messages of one push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Messages<'a> {
    /// Whose they are.
    pub timeline: Cow<'a, str>,
    /// Number of the first one.
    pub first: u64,
    /// Number of the last one.
    pub last: u64,
    /// Commit time of the first one, ms.
    pub timestamp: u64,
}

const START: &[u8] = br#"{"jsonrpc":"2.0","method":"message","params":{"timeline":""#;
const EPOCH: &[u8] = br#"","epoch":""#;
const MESSAGES: &[u8] = br#"","messages":["#;
const SEQUENCE: &[u8] = br#"{"sequence":"#;
const TIMESTAMP: &[u8] = br#","timestamp":"#;
const HEAD: &[u8] = br#"],"head":"#;

/// Reads one push.
pub fn read(text: &[u8]) -> Push<'_> {
    match quick(text) {
        Some((messages, true)) => Push::Messages(messages),
        Some((messages, false)) => Push::Broken(messages),
        None => slow(text).unwrap_or(Push::Other),
    }
}

/// The messages, and whether each follows on the one before.
fn quick(text: &[u8]) -> Option<(Messages<'_>, bool)> {
    let rest = text.strip_prefix(START)?;
    let (name, rest) = rest.split_at(memchr(b'"', rest)?);
    if name.contains(&b'\\') {
        return None;
    }
    let rest = rest.strip_prefix(EPOCH)?;
    let mut rest = rest[memchr(b'"', rest)?..].strip_prefix(MESSAGES)?;
    let (first, timestamp) = opening(rest)?;
    let (mut last, mut follows) = (first, true);
    while let Some(length) = NEXT.find(rest) {
        // Behind the brace and the comma.
        rest = &rest[length + 2..];
        let (sequence, _) = opening(rest)?;
        follows &= sequence == last + 1;
        last = sequence;
    }
    // Behind the brace.
    if !is_tail(&rest[LAST.rfind(rest)? + 1..]) {
        return None;
    }
    let timeline = Cow::Borrowed(std::str::from_utf8(name).ok()?);
    let messages = Messages {
        timeline,
        first,
        last,
        timestamp,
    };
    Some((messages, follows))
}

// An escaped text cannot hold these patterns: it has no bare quotes. A nested object could; ours have none.
static NEXT: LazyLock<Finder> = LazyLock::new(|| Finder::new(br#"},{"sequence":"#));
static LAST: LazyLock<FinderRev> = LazyLock::new(|| FinderRev::new(br#"}],"head":"#));

/// `],"head":12}}` and nothing more.
fn is_tail(bytes: &[u8]) -> bool {
    let Some(rest) = bytes.strip_prefix(HEAD) else {
        return false;
    };
    number(rest).is_some_and(|(_, rest)| rest == b"}}")
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

#[derive(Deserialize)]
struct Notification<'a> {
    method: Cow<'a, str>,
    params: Params,
}

#[derive(Deserialize)]
struct Params {
    timeline: String,
    messages: Vec<One>,
}

#[derive(Deserialize)]
struct One {
    sequence: u64,
    timestamp: u64,
}

fn slow(text: &[u8]) -> Option<Push<'static>> {
    let read: Notification = serde_json::from_slice(text).ok()?;
    let Params { timeline, messages } = read.params;
    let (first, last) = (messages.first()?, messages.last()?);
    let follows = messages
        .windows(2)
        .all(|two| two[0].sequence + 1 == two[1].sequence);
    if read.method != "message" {
        return None;
    }
    let found = Messages {
        timeline: timeline.into(),
        first: first.sequence,
        last: last.sequence,
        timestamp: first.timestamp,
    };
    Some(if follows {
        Push::Messages(found)
    } else {
        Push::Broken(found)
    })
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
            timestamp: 1_767_225_600_000,
        }
    }

    #[test]
    fn what_stands_elsewhere_in_the_json_is_read_too() {
        let other = br#"{"params":{"head":8,"messages":[{"timestamp":5,"sequence":8}],"timeline":"a","epoch":"x"},
            "method":"message","jsonrpc":"2.0"}"#;
        let found = Messages {
            timestamp: 5,
            ..messages("a", 8, 8)
        };
        assert_eq!(read(other), Push::Messages(found));
        for odd in ["", "{}", "[", r#"{"id":5,"result":{}}"#] {
            assert_eq!(read(odd.as_bytes()), Push::Other);
        }
        let ended = br#"{"jsonrpc":"2.0","method":"subscription.ended","params":{"timeline":"a"}}"#;
        assert_eq!(read(ended), Push::Other);
    }

    #[test]
    fn a_gap_or_a_repetition_within_a_push_is_seen() {
        for sequences in [&[1, 3][..], &[1, 2, 2, 3], &[9, 8], &[99, 100, 102]] {
            let text = push("room", sequences, "text");
            let read = read(text.as_bytes());
            assert!(matches!(read, Push::Broken(_)), "{sequences:?}: {read:?}");
        }
    }

    #[test]
    fn messages_of_different_lengths_are_all_read() {
        let long = message(1, &"x".repeat(200));
        let short: Vec<String> = [2, 3, 3, 4].map(|one| message(one, "")).into();
        let text = format!(
            r#"{{"jsonrpc":"2.0","method":"message","params":{{"timeline":"a","epoch":"e","messages":[{long},{}],"head":4}}}}"#,
            short.join(",")
        );
        assert_eq!(read(text.as_bytes()), Push::Broken(messages("a", 1, 4)));
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
                prop_assert_eq!(slow(text.as_bytes()), Some(Push::Messages(expected.clone())));
                let quick = quick(text.as_bytes());
                prop_assert_eq!(quick.is_none(), name.contains('"'));
                prop_assert_eq!(read(text.as_bytes()), Push::Messages(expected));
            }
        }

        #[test]
        fn cut_or_changed_pushes_never_panic(at in 0..400usize, byte in any::<u8>()) {
            let mut text = push("room", &[8, 9, 10], "text").into_bytes();
            let at = at % text.len();
                read(&text.clone());
            read(&text[..at]);
            text[at] = byte;
            read(&text);
        }
    }
}
