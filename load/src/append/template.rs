//! Ready-made append frames: built once per connection, then only digits change.
//!
//! Owns: where the digits of an append stand. Promises: a stamped frame is what a JSON encoder would have made of the
//! same values. Must not: allocate per message.

use serde_json::json;

use super::{MessageIds, timeline_name};
use crate::frame::put_text;
pub(crate) use crate::lanes::SLOT_BASE;
use crate::random::Random;

/// Digits of a timeline's number and of a message's.
pub(crate) const DIGITS: usize = 9;
/// One connection's frame.
pub(crate) struct Template {
    frame: Vec<u8>,
    slot_at: usize,
    timeline_at: usize,
    message_at: Option<usize>,
}

impl Template {
    /// Builds the frame. `tag` makes the message IDs of this connection and run unique.
    pub(crate) fn new(
        prefix: &str,
        tag: &str,
        size: usize,
        ids: MessageIds,
        seed: u64,
    ) -> Template {
        let name = timeline_name(prefix, 0);
        let mut params =
            json!({ "timeline": name, "entry": { "text": Random::new(seed).text(size) } });
        if ids == MessageIds::All {
            params["message_id"] = format!("{tag}{:0DIGITS$}", 0).into();
        }
        // Written by hand around the params, so that the slot's place is known.
        let head = format!("{{\"jsonrpc\":\"2.0\",\"id\":{SLOT_BASE}");
        let text = format!("{head},\"method\":\"message.append\",\"params\":{params}}}");
        let mut frame = Vec::new();
        let start = put_text(&mut frame, text.as_bytes());
        // The digits end where the quoted value ends.
        let after = |needle: String| {
            text.find(&needle)
                .map(|at| start + at + needle.len() - 1 - DIGITS)
        };
        let timeline_at = after(json!(name).to_string());
        let id = params.get("message_id").map(ToString::to_string);
        Template {
            slot_at: start + head.len() - 4,
            timeline_at: timeline_at.expect("the name was just put there"),
            message_at: id.and_then(after),
            frame,
        }
    }

    /// Appends the frame with these numbers to `out`.
    pub(crate) fn stamp(&self, out: &mut Vec<u8>, slot: usize, timeline: u64, message: u64) {
        let base = out.len();
        out.extend_from_slice(&self.frame);
        let frame = &mut out[base..];
        digits(
            &mut frame[self.slot_at..self.slot_at + 4],
            SLOT_BASE + slot as u64,
        );
        digits(
            &mut frame[self.timeline_at..self.timeline_at + DIGITS],
            timeline,
        );
        if let Some(at) = self.message_at {
            digits(&mut frame[at..at + DIGITS], message);
        }
    }
}

/// Writes a number right-aligned over the digits that are there.
pub(crate) fn digits(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// What a reply says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// Appended.
    Done(usize),
    /// Refused, with the reason.
    Refused(usize, String),
    /// A push, or nothing that belongs here.
    Odd,
}

/// Tells a reply's slot and whether it is a result. The common order of members costs a few comparisons; any other
/// order goes through a JSON parser.
pub(crate) fn read_reply(text: &[u8]) -> Reply {
    const START: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":";
    if let Some([a, b, c, d, rest @ ..]) = text.strip_prefix(START)
        && rest.starts_with(b",\"result\":")
    {
        let number = [a, b, c, d]
            .iter()
            .fold(0, |number, digit| number * 10 + usize::from(**digit & 15));
        return Reply::Done(number.wrapping_sub(SLOT_BASE as usize));
    }
    slow(text).unwrap_or(Reply::Odd)
}

fn slow(text: &[u8]) -> Option<Reply> {
    let value: serde_json::Value = serde_json::from_slice(text).ok()?;
    let id = value.get("id")?.as_u64()?.checked_sub(SLOT_BASE)?;
    let slot = usize::try_from(id).ok()?;
    if value.get("result").is_some() {
        return Some(Reply::Done(slot));
    }
    let reason = value.pointer("/error/data/reason")?.as_str()?;
    Some(Reply::Refused(slot, reason.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamped_frame_is_the_json_of_its_numbers() {
        for ids in [MessageIds::All, MessageIds::None] {
            let template = Template::new("load-\"x/", "run-7-", 200, ids, 1);
            let mut out = vec![1, 2, 3];
            template.stamp(&mut out, 15, 9_999, 123_456);
            assert_eq!(out.len(), 3 + template.frame.len());
            // FIN and text, masked, a 16-bit length, a key of zeros.
            assert_eq!(&out[3..5], [0x81, 0x80 | 126]);
            let value: serde_json::Value = serde_json::from_slice(&out[3 + 8..]).expect("JSON");
            assert_eq!(value["id"], 1_015);
            let params = &value["params"];
            assert_eq!(params["timeline"], timeline_name("load-\"x/", 9_999));
            assert_eq!(params["entry"]["text"].as_str().map(str::len), Some(200));
            let id = params.get("message_id").and_then(|id| id.as_str());
            assert_eq!(id, (ids == MessageIds::All).then_some("run-7-000123456"));
        }
    }

    #[test]
    fn replies_are_told_apart_in_any_order_of_members() {
        let quick = br#"{"jsonrpc":"2.0","id":1007,"result":{"sequence":1}}"#;
        assert_eq!(read_reply(quick), Reply::Done(7));
        let other = br#"{"result":{"sequence":1},"id":1007,"jsonrpc":"2.0"}"#;
        assert_eq!(read_reply(other), Reply::Done(7));
        let refused =
            br#"{"jsonrpc":"2.0","id":1003,"error":{"code":503,"data":{"reason":"busy"}}}"#;
        assert_eq!(read_reply(refused), Reply::Refused(3, "busy".into()));
        for odd in [&b""[..], b"{}", b"[", br#"{"id":5,"result":{}}"#] {
            assert_eq!(read_reply(odd), Reply::Odd);
        }
    }
}
