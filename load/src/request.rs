//! Requests of the native protocol as frames and their answers, for lean connections.
//!
//! Owns: the JSON around requests and answers, and the native protocol as a [`Talk`] of the generator. Promises: what is
//! neither a result nor a refusal of a request is no answer, so that the caller can read it as a push. Must not: know
//! what is asked (that is [`Ask`]).

use std::io;
use std::rc::Rc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::frame::{put_text, texts, upgrade};
use crate::generator::{self, Talk};
use crate::pipe::Pipe;
use crate::rpc::{Message, Refusal, request};
use crate::run::Run;
use crate::template::SLOT_BASE;

/// Appends a request to `out`, as a frame.
pub fn put_request(out: &mut Vec<u8>, id: u64, method: &str, params: &impl Serialize) {
    let text = request(id, method, params).expect("params are numbers, texts and maps of them");
    put_text(out, text.as_bytes());
}

/// An answer to a request.
#[derive(Debug)]
pub struct Answer<'a> {
    /// The request's number.
    pub id: u64,
    /// The result's JSON, or why there is none.
    pub outcome: Result<&'a [u8], Refusal>,
}

impl<'a> Answer<'a> {
    /// Reads one; `None` if the text is something else. A result in the usual order of members costs a few
    /// comparisons, anything else a parser.
    #[must_use]
    pub fn read(text: &'a [u8]) -> Option<Answer<'a>> {
        #[derive(Deserialize)]
        struct Envelope<'a> {
            id: u64,
            #[serde(borrow)]
            result: Option<&'a RawValue>,
            error: Option<Refusal>,
        }
        // Pushes are many, too.
        if text.starts_with(br#"{"jsonrpc":"2.0","method":"#) {
            return None;
        }
        if let Some(answer) = Answer::usual(text) {
            return Some(answer);
        }
        let Envelope { id, result, error } = serde_json::from_slice(text).ok()?;
        let outcome = match (result, error) {
            (Some(result), None) => Ok(result.get().as_bytes()),
            (None, Some(refusal)) => Err(refusal),
            _ => return None,
        };
        Some(Answer { id, outcome })
    }

    fn usual(text: &'a [u8]) -> Option<Answer<'a>> {
        let rest = text.strip_prefix(br#"{"jsonrpc":"2.0","id":"#)?;
        let count = rest
            .iter()
            .take(18)
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let (digits, rest) = rest.split_at(count);
        let value = |number, digit: &u8| number * 10 + u64::from(digit - b'0');
        let result = rest.strip_prefix(br#","result":"#)?.strip_suffix(b"}")?;
        Some(Answer {
            id: digits.iter().fold(0, value),
            outcome: Ok(result),
        })
    }

    /// The result as a type.
    ///
    /// # Errors
    ///
    /// The refusal, or what does not fit the type, in words.
    pub fn result<R: DeserializeOwned>(&self) -> Result<R, String> {
        match &self.outcome {
            Ok(result) => read(result),
            Err(Refusal { code, data, .. }) => Err(format!("refused: {code} {}", data.reason)),
        }
    }
}

/// A result's JSON as a type, or what does not fit.
pub fn read<R: DeserializeOwned>(result: &[u8]) -> Result<R, String> {
    serde_json::from_slice(result).map_err(|error| {
        let result = String::from_utf8_lossy(result);
        format!("unexpected result {result:.300}: {error}")
    })
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
    /// `ok`, or why the position is not valid any more.
    pub state: String,
}

/// What a connection asks of Tideline.
pub trait Ask {
    /// Appends the frame of a new request; its number is [`SLOT_BASE`] + `slot`.
    fn put(&mut self, out: &mut Vec<u8>, slot: usize);

    /// Checks what came of the request in `slot`, which was put before; enters a fault, if it is one. Returns the
    /// recorder that its latency goes to, if it counts.
    fn take(&mut self, slot: usize, outcome: Result<&[u8], Refusal>) -> Option<usize>;
}

/// A connection of the native protocol, for the generator.
pub struct Session<A> {
    /// What it asks.
    pub ask: A,
    run: Rc<Run>,
    parts: Vec<u8>,
    /// So many were used.
    slots: usize,
}

impl<A: Ask> Session<A> {
    /// Connects.
    pub async fn open(run: &Rc<Run>, ask: A) -> io::Result<(Pipe, Session<A>)> {
        let (run, parts, slots) = (Rc::clone(run), Vec::new(), 0);
        let pipe = upgrade(&run.url).await?;
        Ok((
            pipe,
            Session {
                ask,
                run,
                parts,
                slots,
            },
        ))
    }
}

impl<A: Ask> Talk for Session<A> {
    fn put(&mut self, out: &mut Vec<u8>, slot: usize) {
        self.slots = self.slots.max(slot + 1);
        self.ask.put(out, slot);
    }

    fn take(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        each: &mut dyn FnMut(generator::Answer),
    ) -> io::Result<usize> {
        let Session {
            ask,
            run,
            parts,
            slots,
        } = self;
        texts(bytes, out, parts, |text| {
            let answer = Answer::read(text).and_then(|Answer { id, outcome }| {
                let slot = usize::try_from(id.checked_sub(SLOT_BASE)?).ok()?;
                (slot < *slots).then_some((slot, outcome))
            });
            match answer {
                Some((slot, outcome)) => {
                    let recorder = ask.take(slot, outcome);
                    each(generator::Answer { slot, recorder });
                }
                None => {
                    let text = String::from_utf8_lossy(text);
                    run.checks
                        .fault(format_args!("not an answer to what was asked: {text:.200}"));
                }
            }
        })
    }
}

/// The element of a slot, made if it is not there.
pub fn at_slot<T: Clone + Default>(slots: &mut Vec<T>, slot: usize) -> &mut T {
    if slot >= slots.len() {
        slots.resize(slot + 1, T::default());
    }
    &mut slots[slot]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
    fn results_are_found_in_any_order_of_members() {
        let quick = br#"{"jsonrpc":"2.0","id":1007,"result":{"sequence":1}}"#;
        let other = br#"{"result":{"sequence":1},"id":1007,"jsonrpc":"2.0"}"#;
        for text in [&quick[..], other] {
            let answer = Answer::read(text).expect("an answer");
            assert_eq!(answer.id, 1_007);
            assert_eq!(answer.outcome.expect("granted"), br#"{"sequence":1}"#);
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
