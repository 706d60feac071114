//! Ready-made requests: built once, then only digits change.
//!
//! Owns: where the digits are. Promises: a stamped request is what an encoder would have made of the same values. Must
//! not: allocate per request, or know a protocol.

use std::ops::Range;

use serde_json::json;

use super::frame::put_text;

/// Digits of a timeline's number and of a message's.
pub const DIGITS: usize = 9;
/// The place of a number of so many digits in a template's text.
pub const NUMBER: &str = "\0\0\0\0\0\0\0\0\0";
/// The place of a request's number in a template's text.
pub const SLOT: &str = "\0\0\0\0";
/// Request numbers are 1000 + slot, so that all have four digits.
pub(crate) const SLOT_BASE: u64 = 1_000;

/// A timeline's name; the number is padded so that all names are of one length.
pub fn timeline_name(prefix: &str, number: u64) -> String {
    format!("{prefix}{number:0DIGITS$}")
}

/// A request, with places for numbers.
#[derive(Clone)]
pub struct Template {
    bytes: Vec<u8>,
    places: Vec<Range<usize>>,
}

impl Template {
    /// Each run of zero bytes is a place.
    pub fn new(text: impl Into<Vec<u8>>) -> Template {
        let (bytes, mut places, mut at) = (text.into(), Vec::new(), 0);
        for run in bytes.chunk_by(|a, b| (*a == 0) == (*b == 0)) {
            if run[0] == 0 {
                places.push(at..at + run.len());
            }
            at += run.len();
        }
        Template { bytes, places }
    }

    /// As `new`, in a WebSocket frame.
    pub fn framed(text: &str) -> Template {
        let (plain, mut bytes) = (Template::new(text), Vec::new());
        let start = put_text(&mut bytes, &plain.bytes);
        let behind = |place: Range<usize>| start + place.start..start + place.end;
        let places = plain.places.into_iter().map(behind).collect();
        Template { bytes, places }
    }

    /// `message.append` of a text: its places are that of the request's number, the timeline's number behind `prefix`,
    /// and the message's number behind `tag`, if messages carry the client's own ID.
    pub(crate) fn append(id: &str, prefix: &str, tag: Option<&str>, text: &str) -> Template {
        let quoted = json!(prefix).to_string();
        let name = quoted.strip_suffix('"').unwrap_or_default();
        let own = tag.map(|tag| format!(r#","message_id":"{tag}{NUMBER}""#));
        let own = own.unwrap_or_default();
        Template::framed(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"message.append","params":{{"timeline":{name}{NUMBER}","entry":{{"text":"{text}"}}{own}}}}}"#
        ))
    }

    /// Where in the request a text is.
    ///
    /// # Panics
    /// If the template was not made with it.
    pub(crate) fn place_of(&self, text: &str) -> Range<usize> {
        let mut windows = self.bytes.windows(text.len().max(1));
        let start = windows.position(|bytes| bytes.starts_with(text.as_bytes()));
        let start = start.expect("the template was made with it");
        start..start + text.len()
    }

    /// Appends the request with these numbers in its places, in order, to `out`.
    pub fn stamp(&self, out: &mut Vec<u8>, numbers: &[u64]) {
        let base = out.len();
        out.extend_from_slice(&self.bytes);
        for (place, number) in self.places.iter().zip(numbers) {
            let mut number = *number;
            for digit in out[base..][place.clone()].iter_mut().rev() {
                *digit = b'0' + (number % 10) as u8;
                number /= 10;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamped_frame_is_the_json_of_its_numbers() {
        for tag in [Some("run-7-"), None] {
            let template = Template::append(SLOT, "load-\"x/", tag, &"x".repeat(200));
            let mut out = vec![1, 2, 3];
            template.stamp(&mut out, &[1_015, 9_999, 123_456]);
            assert_eq!(out.len(), 3 + template.bytes.len());
            // FIN and text, masked, a 16-bit length, a key of zeros.
            assert_eq!(&out[3..5], [0x81, 0x80 | 126]);
            let value: serde_json::Value = serde_json::from_slice(&out[3 + 8..]).expect("JSON");
            assert_eq!(value["id"], 1_015);
            let params = &value["params"];
            assert_eq!(params["timeline"], timeline_name("load-\"x/", 9_999));
            assert_eq!(params["entry"]["text"].as_str().map(str::len), Some(200));
            let id = params.get("message_id").and_then(|id| id.as_str());
            assert_eq!(id, tag.map(|_| "run-7-000123456"));
        }
    }

    #[test]
    fn each_run_of_zero_bytes_is_a_place() {
        let template = Template::new(format!("{SLOT}PUB s.{NUMBER} {SLOT}"));
        let mut out = b"x".to_vec();
        template.stamp(&mut out, &[7, 1_234, 15]);
        assert_eq!(out, b"x0007PUB s.000001234 0015");
    }
}
