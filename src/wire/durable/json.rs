//! A body of JSON as messages.
//!
//! Owns: how a body is taken apart. Promises: each value keeps its digits and letters; only blanks around them go. Must
//! not: know what is done with them.

use bytes::Bytes;
use serde_json::value::RawValue;

use tideline_base::decode;

/// The messages of a body: the elements of an array, or the one value. Of more than `max` elements it gives the first
/// `max` and one more, enough to be refused. `None` = it is not JSON.
#[must_use]
pub fn messages(body: &[u8], max: usize) -> Option<Vec<Bytes>> {
    let is_array = body.trim_ascii_start().starts_with(b"[");
    if is_array {
        let all: Vec<&RawValue> = decode::from_slice(body).ok()?;
        let some = all.into_iter().take(max.saturating_add(1));
        return Some(some.map(|one| compact(one.get())).collect());
    }
    let one: &RawValue = decode::from_slice(body).ok()?;
    Some(vec![compact(one.get())])
}

/// The same value without blanks.
fn compact(text: &str) -> Bytes {
    let (mut is_in_text, mut is_escaped) = (false, false);
    let kept = text.bytes().filter(|byte| {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_in_text => is_escaped = true,
            b'"' => is_in_text = !is_in_text,
            b' ' | b'\t' | b'\n' | b'\r' if !is_in_text => return false,
            _ => {}
        }
        true
    });
    kept.collect::<Vec<u8>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_taken_apart_one_level() {
        let of = |body: &str| {
            let all = messages(body.as_bytes(), 2)?;
            Some(
                all.iter()
                    .map(|one| String::from_utf8(one.to_vec()).unwrap())
                    .collect::<Vec<_>>(),
            )
        };
        let texts =
            |all: &[&str]| Some(all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            of(" [ [1, 2], {\"a\" : \"b \\\" c\"} ]"),
            texts(&["[1,2]", "{\"a\":\"b \\\" c\"}"])
        );
        assert_eq!(of("[1, 2, 3, 4, 5]"), texts(&["1", "2", "3"]));
        assert_eq!(of("1.50"), texts(&["1.50"]));
        assert_eq!(of("[]"), texts(&[]));
        for bad in ["", "{", "[1,]", "1 2", "\u{1}"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
