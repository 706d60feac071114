//! Requests as frames and answers as values, for lean connections that ask for more than one thing.
//!
//! Owns: the JSON around requests and answers. Promises: what is neither a result nor a refusal of a request is told
//! as no answer, so that the caller reads it as a push. Must not: know which request an answer belongs to.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use crate::frame::put_text;
use crate::rpc::{Message, Refusal};

/// Appends a request to `out`, as a frame.
pub fn put_request(out: &mut Vec<u8>, id: u64, method: &str, params: &impl Serialize) {
    let text = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    put_text(out, text.to_string().as_bytes());
}

/// An answer to a request.
#[derive(Debug)]
pub struct Answer<'a> {
    /// The request's number.
    pub id: u64,
    /// What it came to.
    pub outcome: Result<&'a RawValue, Refusal>,
}

impl<'a> Answer<'a> {
    /// Reads one; `None` if the text is something else.
    #[must_use]
    pub fn read(text: &'a [u8]) -> Option<Answer<'a>> {
        #[derive(Deserialize)]
        struct Envelope<'a> {
            id: u64,
            #[serde(borrow)]
            result: Option<&'a RawValue>,
            error: Option<Refusal>,
        }
        // Pushes are many: they are told apart before a parser sees them.
        if text.starts_with(br#"{"jsonrpc":"2.0","method":"#) {
            return None;
        }
        let Envelope { id, result, error } = serde_json::from_slice(text).ok()?;
        let outcome = match (result, error) {
            (Some(result), None) => Ok(result),
            (None, Some(refusal)) => Err(refusal),
            _ => return None,
        };
        Some(Answer { id, outcome })
    }

    /// The result as a type.
    ///
    /// # Errors
    ///
    /// The refusal, or what does not fit the type, in words.
    pub fn result<R: DeserializeOwned>(&self) -> Result<R, String> {
        match &self.outcome {
            Ok(result) => serde_json::from_str(result.get())
                .map_err(|error| format!("unexpected result {result}: {error}")),
            Err(Refusal { code, data, .. }) => Err(format!("refused: {code} {}", data.reason)),
        }
    }
}

/// The result of `subscribe`.
#[derive(Debug, Deserialize)]
pub struct Subscribed {
    /// The timeline's history.
    pub epoch: String,
    /// Its last number.
    pub head: u64,
    /// The first of what is behind the position.
    pub messages: Vec<Message>,
    /// `ok`, or why the position does not stand any more.
    pub state: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_refusals_and_pushes_are_told_apart() {
        let text = br#"{"jsonrpc":"2.0","id":7,"result":{"epoch":"e","head":3,"messages":[],"state":"ok","more":false}}"#;
        let answer = Answer::read(text).expect("an answer");
        let subscribed: Subscribed = answer.result().expect("fits");
        assert_eq!((answer.id, subscribed.head), (7, 3));
        let text = br#"{"jsonrpc":"2.0","id":8,"error":{"code":503,"message":"m","data":{"reason":"busy","retry":true}}}"#;
        let answer = Answer::read(text).expect("an answer");
        assert_eq!(
            answer.result::<Subscribed>().expect_err("refused"),
            "refused: 503 busy"
        );
        for other in [
            &br#"{"jsonrpc":"2.0","method":"message","params":{}}"#[..],
            b"{}",
            b"",
        ] {
            assert!(Answer::read(other).is_none());
        }
    }

    #[test]
    fn a_request_is_one_frame() {
        let mut out = Vec::new();
        put_request(&mut out, 7, "ping", &json!({}));
        let text = String::from_utf8_lossy(&out);
        assert!(text.contains(r#""id":7"#) && text.ends_with('}'), "{text}");
    }
}
