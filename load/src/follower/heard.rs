//! What comes to a follower: events, and the messages in them.
//!
//! Owns: how pushes and the answers to subscribes are read. Promises: of every message the number is read and compared
//! with the one before, at the price of a few comparisons; what does not look exactly as expected goes through a JSON
//! parser. Must not: look into entries: messages are parsed whole only when they are asked for.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use memchr::{memchr, memrchr};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::Place;
use crate::client::rpc::{Answer, Message, Refusal, number};

const START: &[u8] = br#"{"jsonrpc":"2.0","method":"message","params":{"timeline":""#;

// An escaped text cannot hold this: it has no bare quotes. A nested object could; ours have none.
static NEXT: LazyLock<Finder> = LazyLock::new(|| Finder::new(br#"},{"sequence":"#));

/// What came.
pub(crate) enum Event<'a> {
    /// A subscription began, behind the position that was asked for.
    Joined {
        timeline: usize,
        after: u64,
        head: u64,
    },
    /// Messages, from a reply (behind its `Joined`) or from a push.
    Heard(&'a Heard<'a>),
    /// A subscription or its end was refused; there is none now. The caller may ask again.
    Refused(&'a Refusal),
    /// The answer to the caller's own request, whose number was [`super::OWN`] + this.
    Answered(u64, &'a Answer<'a>, Instant),
    /// The server says that it shuts down.
    Draining,
    /// Something that is neither a reply nor messages.
    Other,
}

impl Event<'_> {
    /// What a caller makes of an event that it does not know: what it did not ask for is a fault.
    pub(crate) fn expected(&self) -> Result<(), String> {
        match self {
            Event::Joined { .. } | Event::Heard(_) => Ok(()),
            Event::Refused(refusal) => Err(format!("refused: {refusal}")),
            Event::Answered(..) => Err("an answer to what was not asked".into()),
            Event::Draining => Err("the server shuts down".into()),
            Event::Other => Err("neither a reply nor messages".into()),
        }
    }
}

/// What a push or the answer to a subscribe says of a timeline.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct News<'a> {
    #[serde(borrow)]
    pub(super) timeline: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) epoch: Cow<'a, str>,
    /// The timeline's last number.
    pub(super) head: u64,
    /// A JSON array.
    #[serde(borrow, deserialize_with = "raw")]
    pub(super) messages: &'a [u8],
    /// The rest up to the head follows as pushes; in answers only.
    pub(super) more: Option<bool>,
    /// How a subscribe went; in answers only.
    pub(super) state: Option<String>,
}

fn raw<'de, D: Deserializer<'de>>(from: D) -> Result<&'de [u8], D::Error> {
    <&RawValue>::deserialize(from).map(|raw| raw.get().as_bytes())
}

impl<'a> News<'a> {
    /// Reads a push of messages; `None` if it is something else.
    pub(super) fn pushed(text: &'a [u8]) -> Option<News<'a>> {
        #[derive(Deserialize)]
        struct Push<'a> {
            method: String,
            #[serde(borrow)]
            params: News<'a>,
        }
        News::quick(text).or_else(|| {
            let push: Push = serde_json::from_slice(text).ok()?;
            (push.method == "message").then_some(push.params)
        })
    }

    fn quick(text: &'a [u8]) -> Option<News<'a>> {
        let (timeline, rest) = quoted(text.strip_prefix(START)?)?;
        let (epoch, rest) = quoted(rest.strip_prefix(br#"","epoch":""#)?)?;
        let rest = rest.strip_prefix(br#"","messages":"#)?;
        let (messages, rest) = rest.split_at(memrchr(b']', rest)? + 1);
        let (head, rest) = number(rest.strip_prefix(br#","head":"#)?)?;
        (rest == b"}}").then_some(News {
            timeline: timeline.into(),
            epoch: epoch.into(),
            head,
            messages,
            more: None,
            state: None,
        })
    }
}

/// The text up to the next quote, and what follows from the quote on.
fn quoted(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (text, rest) = bytes.split_at(memchr(b'"', bytes)?);
    let plain = memchr(b'\\', text).is_none();
    let text = std::str::from_utf8(text).ok()?;
    plain.then_some((text, rest))
}

/// Messages of one timeline that came together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heard<'a> {
    pub(crate) timeline: usize,
    /// The numbers of the first and the last one.
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Commit time of the first one, ms.
    pub(crate) timestamp: u64,
    /// They are the next ones after those before, up to `last`. If not, the follower has entered the fault.
    pub(crate) in_order: bool,
    pub(crate) count: u64,
    /// They came live, not as what a subscription resumed with: they are above its first head.
    pub(crate) live: bool,
    /// When they came: read once for all that came together.
    pub(crate) now: Instant,
    messages: &'a [u8],
    /// Each message begins with its number, time and ID.
    usual: bool,
}

impl<'a> Heard<'a> {
    /// Those of an array that came to a place, whose position is behind them then.
    pub(super) fn read(
        place: &mut Place,
        messages: &'a [u8],
        live: bool,
        now: Instant,
    ) -> Result<Heard<'a>, String> {
        let mut heard = Heard {
            timeline: place.timeline,
            first: 0,
            last: place.position,
            timestamp: 0,
            in_order: true,
            count: 0,
            live,
            now,
            messages,
            usual: false,
        };
        let none = heard;
        let read = scan(messages, |sequence, timestamp, _| {
            heard.add(sequence, timestamp)
        });
        heard.usual = read.is_some();
        if !heard.usual {
            heard = none.slow()?;
        }
        heard.live &= heard.first > place.head;
        place.position = heard.last;
        Ok(heard)
    }

    fn slow(mut self) -> Result<Heard<'a>, String> {
        for message in self.messages()? {
            self.add(message.sequence, message.timestamp);
        }
        Ok(self)
    }

    fn add(&mut self, sequence: u64, timestamp: u64) {
        if self.count == 0 {
            (self.first, self.timestamp) = (sequence, timestamp);
        }
        self.in_order &= sequence == self.last + 1;
        self.last = sequence;
        self.count += 1;
    }

    /// The messages, parsed whole.
    pub(crate) fn messages(&self) -> Result<Vec<Message>, String> {
        serde_json::from_slice(self.messages).map_err(|odd| odd.to_string())
    }

    /// Hands number and ID of each message to `each`, in order, up to an error. An ID with an escape is one: the tool
    /// gives none.
    pub(crate) fn ids(
        &self,
        mut each: impl FnMut(u64, &str) -> Result<(), String>,
    ) -> Result<(), String> {
        if !self.usual {
            let messages = self.messages()?;
            let each = |one: &Message| each(one.sequence, &one.message_id);
            return messages.iter().try_for_each(each);
        }
        let mut done = Ok(());
        scan(self.messages, |sequence, _, id| {
            if done.is_ok() {
                let id = quoted(id).ok_or_else(|| "an ID with an escape".to_owned());
                done = id.and_then(|(id, _)| each(sequence, id));
            }
        });
        done
    }
}

/// Hands number and time of each message, and what begins with its ID, to `each`. `None` if one does not begin with
/// the three in this order.
fn scan(messages: &[u8], mut each: impl FnMut(u64, u64, &[u8])) -> Option<()> {
    let mut rest = messages.strip_prefix(b"[")?;
    loop {
        let (sequence, behind) = number(rest.strip_prefix(br#"{"sequence":"#)?)?;
        let (timestamp, behind) = number(behind.strip_prefix(br#","timestamp":"#)?)?;
        let id = behind.strip_prefix(br#","message_id":""#)?;
        each(sequence, timestamp, id);
        let Some(at) = NEXT.find(id) else {
            return Some(());
        };
        // Behind the brace and the comma.
        rest = &id[at + 2..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::follower::Stage;
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

    /// What a place behind `after` makes of the messages of a push.
    fn heard<'a>(news: &News<'a>, after: u64) -> Heard<'a> {
        let mut place = Place {
            timeline: 0,
            position: after,
            head: 0,
            stage: Stage::Live,
        };
        let heard = Heard::read(&mut place, news.messages, true, Instant::now());
        let heard = heard.expect("messages");
        assert_eq!(place.position, heard.last);
        heard
    }

    fn ids(heard: &Heard<'_>) -> Vec<String> {
        let mut ids = Vec::new();
        let read = heard.ids(|_, id| {
            ids.push(id.to_owned());
            Ok(())
        });
        read.expect("plain");
        ids
    }

    #[test]
    fn any_order_of_members_is_read_and_other_texts_are_not() {
        let other =
            br#"{"params":{"head":8,"messages":[{"timestamp":5,"message_id":"m","sequence":8}],
            "timeline":"a","epoch":"e1"}, "method":"message","jsonrpc":"2.0"}"#;
        let news = News::pushed(other).expect("a push");
        assert_eq!((&*news.timeline, &*news.epoch, news.head), ("a", "e1", 8));
        let heard = heard(&news, 7);
        assert_eq!((heard.first, heard.last, heard.timestamp), (8, 8, 5));
        assert!(heard.in_order && ids(&heard) == ["m"]);
        for odd in ["", "{}", "[", r#"{"id":5,"result":{}}"#] {
            assert_eq!(News::pushed(odd.as_bytes()), None);
        }
        let ended = br#"{"jsonrpc":"2.0","method":"subscription.ended","params":{"timeline":"a"}}"#;
        assert_eq!(News::pushed(ended), None);
    }

    #[test]
    fn a_gap_or_a_repetition_within_a_push_is_seen() {
        for sequences in [&[1, 3][..], &[1, 2, 2, 3], &[9, 8], &[99, 100, 102]] {
            let text = push("room", sequences, "text");
            let news = News::pushed(text.as_bytes()).expect("a push");
            let heard = heard(&news, sequences[0] - 1);
            assert!(!heard.in_order, "{sequences:?}: {heard:?}");
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
        let news = News::quick(text.as_bytes()).expect("usual");
        let heard = heard(&news, 0);
        assert_eq!((heard.first, heard.last, heard.count), (1, 4, 5));
        assert!(!heard.in_order);
        assert_eq!(ids(&heard), ["m-1"; 5]);
        assert_eq!(heard.messages().map(|all| all.len()), Ok(5));
    }

    #[test]
    fn a_message_without_time_or_id_is_an_error() {
        for lacking in [
            r#"[{"sequence":1,"timestamp":2}]"#,
            r#"[{"sequence":1,"message_id":"m"}]"#,
        ] {
            let mut place = Place {
                timeline: 0,
                position: 0,
                head: 0,
                stage: Stage::Live,
            };
            let read = Heard::read(&mut place, lacking.as_bytes(), false, Instant::now());
            assert!(read.is_err(), "{lacking}");
        }
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
                let news = News::pushed(text.as_bytes()).expect("a push");
                prop_assert_eq!(&*news.timeline, name.as_str());
                prop_assert_eq!(News::quick(text.as_bytes()).is_none(), name.contains('"'));
                let heard = heard(&news, first - 1);
                let none = Heard {
                    first: 0, last: first - 1, timestamp: 0, count: 0, usual: false, ..heard
                };
                let slow = none.slow().expect("messages");
                prop_assert!(heard.usual && heard.in_order && heard.count == count);
                prop_assert_eq!(Heard { usual: true, ..slow }, heard);
                prop_assert_eq!(ids(&heard), ids(&slow));
            }
        }

        #[test]
        fn cut_or_changed_pushes_never_panic(at in 0..400usize, byte in any::<u8>()) {
            let read = |text: &[u8]| {
                let mut place = Place { timeline: 0, position: 0, head: 0, stage: Stage::Live };
                if let Some(news) = News::pushed(text) {
                    let heard = Heard::read(&mut place, news.messages, true, Instant::now());
                    let _ = heard.and_then(|heard| heard.ids(|_, _| Ok(())));
                }
            };
            let mut text = push("room", &[8, 9, 10], "text").into_bytes();
            let at = at % text.len();
            read(&text);
            read(&text[..at]);
            text[at] = byte;
            read(&text);
        }
    }
}
