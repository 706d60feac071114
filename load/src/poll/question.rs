//! Ready-made `sync` requests, and what their answers must be.
//!
//! Owns: the frames of each group of timelines, at the head and one message back. Promises: an answer is empty byte for
//! byte, or is parsed whole. Must not: allocate for a request or for an empty answer.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Standing;
use crate::frame::put_text;
use crate::rpc::{CallError, Message, request};

/// Request numbers are 1000 + slot, so that all have four digits.
const SLOT_BASE: u64 = 1_000;
/// More would need a fifth digit.
pub(super) const SLOTS_MAX: usize = 9_000;

const START: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":";
const EMPTY: &[u8] = b",\"result\":{\"timelines\":{},\"more\":false}}";

/// All requests.
pub(super) struct Questions {
    groups: Vec<Group>,
}

/// The requests for the timelines of one group.
struct Group {
    /// At all heads, and with one timeline a message back.
    frames: [Vec<u8>; 2],
    /// Where the digits of the slot stand.
    slot_at: [usize; 2],
    /// The timeline that has news, and its head.
    news: (String, u64),
}

/// What came.
#[derive(Debug)]
pub(super) enum Answer {
    /// Nothing new.
    Empty,
    /// Something.
    Full(Found),
}

#[derive(Debug, Deserialize)]
pub(super) struct Found {
    timelines: BTreeMap<String, News>,
    more: bool,
}

#[derive(Debug, Deserialize)]
struct News {
    messages: Vec<Message>,
    position: u64,
    head: u64,
    more: bool,
    state: String,
}

impl Questions {
    /// Groups of so many timelines; a remainder is in no group.
    pub(super) fn new(
        timelines: &[Standing],
        positions: usize,
        epochs: bool,
    ) -> Result<Questions, CallError> {
        let groups = timelines.chunks_exact(positions);
        let groups: Result<_, _> = groups.map(|group| Group::new(group, epochs)).collect();
        Ok(Questions { groups: groups? })
    }

    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Appends the request to `out`.
    pub(super) fn stamp(&self, out: &mut Vec<u8>, slot: usize, group: usize, news: bool) {
        let group = &self.groups[group];
        let which = usize::from(news);
        let at = out.len() + group.slot_at[which];
        out.extend_from_slice(&group.frames[which]);
        let mut number = SLOT_BASE + slot as u64;
        for digit in out[at..at + 4].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
    }

    /// Whether an answer that is not empty is the one message that was due.
    pub(super) fn compare(&self, found: &Found, group: usize, news: bool) -> Result<(), String> {
        let (name, head) = &self.groups[group].news;
        let fits = |one: &News| {
            let sequences = one.messages.iter().map(|message| message.sequence);
            sequences.eq([*head])
                && (one.position, one.head, one.more) == (*head, *head, false)
                && one.state == "ok"
        };
        let only = found.timelines.len() == 1 && !found.more;
        if news && only && found.timelines.get(name).is_some_and(fits) {
            return Ok(());
        }
        Err(format!("not the news of {name}: {found:.300?}"))
    }
}

impl Group {
    fn new(timelines: &[Standing], epochs: bool) -> Result<Group, CallError> {
        // Any of them will do; the middle one is neither the first nor the last that a server looks at.
        let chosen = &timelines[timelines.len() / 2];
        let mut frames = [Vec::new(), Vec::new()];
        let mut slot_at = [0, 0];
        for (which, frame) in frames.iter_mut().enumerate() {
            let position = |one: &Standing| {
                let back = u64::from(which == 1 && one.name == chosen.name);
                let after = one.head - back;
                let value = if epochs {
                    json!({ "after": after, "epoch": one.epoch })
                } else {
                    json!(after)
                };
                (one.name.clone(), value)
            };
            let positions: Map<String, Value> = timelines.iter().map(position).collect();
            let text = request(SLOT_BASE, "sync", json!({ "positions": positions }))?;
            slot_at[which] = put_text(frame, text.as_bytes()) + START.len();
        }
        Ok(Group {
            frames,
            slot_at,
            news: (chosen.name.clone(), chosen.head),
        })
    }
}

/// The slot that is answered, and with what.
pub(super) fn read_answer(text: &[u8]) -> Result<(usize, Answer), String> {
    if let Some([a, b, c, d, rest @ ..]) = text.strip_prefix(START)
        && rest == EMPTY
    {
        let digits = [a, b, c, d];
        let number = digits
            .iter()
            .fold(0, |number, digit| number * 10 + usize::from(**digit & 15));
        return Ok((number.wrapping_sub(SLOT_BASE as usize), Answer::Empty));
    }
    #[derive(Deserialize)]
    struct Reply {
        id: u64,
        result: Found,
    }
    let odd = |error: &dyn std::fmt::Display| {
        let text = String::from_utf8_lossy(text);
        format!("not an answer to a poll ({error}): {text:.300}")
    };
    let Reply { id, result } = serde_json::from_slice(text).map_err(|error| odd(&error))?;
    let slot = id
        .checked_sub(SLOT_BASE)
        .ok_or_else(|| odd(&"its number"))?;
    if result.timelines.is_empty() && !result.more {
        return Ok((slot as usize, Answer::Empty));
    }
    Ok((slot as usize, Answer::Full(result)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing() -> Vec<Standing> {
        let one = |number: u64| Standing {
            name: format!("t-{number}"),
            head: number + 1,
            epoch: "e".to_owned(),
        };
        (0..7).map(one).collect()
    }

    #[test]
    fn a_stamped_frame_asks_for_its_group_at_the_head_or_one_back() {
        for epochs in [false, true] {
            let questions = Questions::new(&standing(), 3, epochs).expect("JSON");
            assert_eq!(questions.groups(), 2);
            for news in [false, true] {
                let mut out = vec![9, 9];
                questions.stamp(&mut out, 15, 1, news);
                // The text begins behind a header of 6 or 8 bytes.
                let text = out.iter().position(|byte| *byte == b'{').expect("a text");
                let value: Value = serde_json::from_slice(&out[text..]).expect("JSON");
                assert_eq!(value["id"], 1_015);
                let after = |head: u64| match epochs {
                    true => json!({ "after": head, "epoch": "e" }),
                    false => json!(head),
                };
                let middle = 5 - u64::from(news);
                let expected = json!({ "t-3": after(4), "t-4": after(middle), "t-5": after(6) });
                assert_eq!(value["params"]["positions"], expected);
            }
        }
    }

    #[test]
    fn answers_are_empty_or_the_news_that_was_due() {
        let questions = Questions::new(&standing(), 3, false).expect("JSON");
        let empty = br#"{"jsonrpc":"2.0","id":1007,"result":{"timelines":{},"more":false}}"#;
        assert!(matches!(read_answer(empty), Ok((7, Answer::Empty))));
        let other = br#"{"id":1007,"jsonrpc":"2.0","result":{"more":false,"timelines":{}}}"#;
        assert!(matches!(read_answer(other), Ok((7, Answer::Empty))));
        let full = |name: &str, sequence: u64| {
            let message =
                json!({ "sequence": sequence, "timestamp": 1, "message_id": "m", "entry": {} });
            let news = json!({ "messages": [message], "position": sequence, "head": 5, "floor": 1,
                "change_head": 0, "epoch": "e", "more": false, "state": "ok" });
            let text = json!({ "jsonrpc": "2.0", "id": 1003, "result": { "timelines": { name: news }, "more": false } });
            match read_answer(text.to_string().as_bytes()) {
                Ok((3, Answer::Full(found))) => found,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(questions.compare(&full("t-4", 5), 1, true), Ok(()));
        for (found, group, news) in [
            (full("t-4", 5), 1, false),
            (full("t-4", 5), 0, true),
            (full("t-4", 4), 1, true),
            (full("t-3", 5), 1, true),
        ] {
            assert!(questions.compare(&found, group, news).is_err());
        }
        for odd in [&b"{}"[..], b"", br#"{"jsonrpc":"2.0","id":1,"error":{}}"#] {
            assert!(read_answer(odd).is_err());
        }
    }
}
