//! The protocol of NATS, as far as publishing, subscribing and JetStream's acknowledgements need it.
//!
//! Owns: the framing of operations in both directions, and JetStream as a peer: each publish has a reply subject of its
//! own, on which the acknowledgement comes. Promises: any bytes are an operation, a reason to wait for more, or an
//! error, never a panic. Must not: allocate per message, so that this client costs no more than the one that drives
//! Tideline: written by hand, because the official client allocates and copies per message.

use std::io;

use serde_json::{Value, json};

use super::engine::{Answer, Peer, Talk};
use crate::pipe::Pipe;
use crate::random::Random;
use crate::template::{DIGITS, digits};

/// The server's own default limit.
const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// `INFO` is the longest line.
const LINE_BYTES_MAX: usize = 64 << 10;
const SLOT_DIGITS: usize = 4;
const STREAM: &str = "TIDE";

/// What a server says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// A message on a subject; its headers are cut off.
    Message {
        /// Where it was published.
        subject: &'a [u8],
        /// What was.
        payload: &'a [u8],
    },
    /// Wants `PONG`.
    Ping,
    /// The answer to ours.
    Pong,
    /// `INFO`, `+OK`.
    Noise,
    /// `-ERR`, with its text.
    Error(&'a [u8]),
}

/// The operation at the start of the bytes and its length, if it is whole.
pub(super) fn find(bytes: &[u8]) -> io::Result<Option<(Said<'_>, usize)>> {
    let Some(length) = memchr::memchr(b'\n', bytes) else {
        if bytes.len() > LINE_BYTES_MAX {
            return Err(bad("a line without end"));
        }
        return Ok(None);
    };
    let line = &bytes[..length];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let after = length + 1;
    let said = match line {
        [b'M', b'S', b'G', b' ', words @ ..] => return message(bytes, words, after, false),
        [b'H', b'M', b'S', b'G', b' ', words @ ..] => return message(bytes, words, after, true),
        b"PING" => Said::Ping,
        b"PONG" => Said::Pong,
        b"+OK" => Said::Noise,
        [b'I', b'N', b'F', b'O', b' ', ..] => Said::Noise,
        [b'-', b'E', b'R', b'R', why @ ..] => Said::Error(why.trim_ascii()),
        _ => return Err(bad("an operation that is not known")),
    };
    Ok(Some((said, after)))
}

/// `subject sid [reply] [header bytes] bytes`, then the payload.
fn message<'a>(
    bytes: &'a [u8],
    words: &'a [u8],
    after: usize,
    headers: bool,
) -> io::Result<Option<(Said<'a>, usize)>> {
    let mut words = words.split(|byte| *byte == b' ');
    let subject = words.next().unwrap_or_default();
    let mut last = words.rev();
    let mut size = || {
        let text = std::str::from_utf8(last.next()?).ok()?;
        text.parse().ok().filter(|size| *size <= PAYLOAD_BYTES_MAX)
    };
    let total: usize = size().ok_or_else(|| bad("a length out of range"))?;
    let skip = if headers { size() } else { Some(0) };
    let skip = skip.filter(|skip| *skip <= total);
    let skip = skip.ok_or_else(|| bad("headers out of range"))?;
    let Some(body) = bytes.get(after..after + total + 2) else {
        return Ok(None);
    };
    let Some(body) = body.strip_suffix(b"\r\n") else {
        return Err(bad("a payload that is longer than its length"));
    };
    let payload = &body[skip..];
    Ok(Some((
        Said::Message { subject, payload },
        after + total + 2,
    )))
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("NATS sent {what}"))
}

/// What a client says first.
pub(super) const HELLO: &[u8] =
    b"CONNECT {\"verbose\":false,\"pedantic\":false,\"lang\":\"rust\",\"version\":\"1\",\"protocol\":1,\
      \"headers\":true,\"no_responders\":true}\r\n";

/// A request with one answer.
pub(super) async fn ask(address: &str, subject: &str, body: &Value) -> io::Result<Value> {
    let body = body.to_string();
    let mut pipe = Pipe::connect(address).await?;
    let asked = format!(
        "SUB _INBOX.ask 1\r\nPUB {subject} _INBOX.ask {}\r\n{body}\r\n",
        body.len()
    );
    pipe.write(&[HELLO, asked.as_bytes()].concat()).await?;
    loop {
        while let Some((said, taken)) = find(pipe.bytes())? {
            match said {
                Said::Message { payload, .. } => return Ok(serde_json::from_slice(payload)?),
                Said::Error(why) => return Err(refused(why)),
                Said::Ping | Said::Pong | Said::Noise => pipe.take(taken),
            }
        }
        pipe.more().await?;
    }
}

pub(super) fn refused(why: &[u8]) -> io::Error {
    io::Error::other(format!("NATS refused: {}", String::from_utf8_lossy(why)))
}

/// A JetStream server and what is put on it.
pub(super) struct JetStream {
    /// `host:port`
    pub(super) address: String,
    /// Bytes of the payload.
    pub(super) size: usize,
    pub(super) seed: u64,
}

impl JetStream {
    /// Makes the stream that takes all subjects of the run, on disk.
    pub(super) async fn prepare(&self) -> io::Result<()> {
        let stream = json!({
            "name": STREAM, "subjects": ["s.>"], "storage": "file", "retention": "limits",
            "num_replicas": 1, "discard": "old", "max_consumers": -1, "max_msgs": -1, "max_bytes": -1,
        });
        let subject = format!("$JS.API.STREAM.CREATE.{STREAM}");
        let answer = ask(&self.address, &subject, &stream).await?;
        match answer.get("error") {
            None => Ok(()),
            Some(error) => Err(refused(error.to_string().as_bytes())),
        }
    }
}

/// Publishing over one connection, each message with its own reply subject.
pub(super) struct Publishing {
    operation: Vec<u8>,
    key_at: usize,
    slot_at: usize,
}

impl Publishing {
    fn new(lane: usize, size: usize, seed: u64) -> Publishing {
        let head = format!("PUB s.{:0DIGITS$}", 0);
        let reply = format!("{head} _INBOX.{lane}.{:0SLOT_DIGITS$}", 0);
        let payload = Random::new(seed).text(size);
        Publishing {
            key_at: head.len() - DIGITS,
            slot_at: reply.len() - SLOT_DIGITS,
            operation: format!("{reply} {size}\r\n{payload}\r\n").into_bytes(),
        }
    }
}

impl Talk for Publishing {
    fn put(&mut self, out: &mut Vec<u8>, slot: usize, key: u64, _number: u64) {
        let base = out.len();
        out.extend_from_slice(&self.operation);
        let operation = &mut out[base..];
        digits(&mut operation[self.key_at..self.key_at + DIGITS], key);
        let place = self.slot_at..self.slot_at + SLOT_DIGITS;
        digits(&mut operation[place], slot as u64);
    }

    fn take(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        each: &mut impl FnMut(Answer<'_>),
    ) -> io::Result<usize> {
        let mut taken = 0;
        while let Some((said, length)) = find(&bytes[taken..])? {
            match said {
                Said::Message { subject, payload } => {
                    let slot = slot_of(subject).ok_or_else(|| bad("an unknown subject"))?;
                    // {"stream":"TIDE","seq":1}; an error comes first where there is one.
                    let stored = payload.starts_with(b"{\"stream\":");
                    let refused = (!stored).then(|| String::from_utf8_lossy(payload));
                    each(Answer { slot, refused });
                }
                Said::Ping => out.extend_from_slice(b"PONG\r\n"),
                Said::Pong | Said::Noise => {}
                Said::Error(why) => return Err(refused(why)),
            }
            taken += length;
        }
        Ok(taken)
    }
}

/// The digits at the end of a reply subject.
fn slot_of(subject: &[u8]) -> Option<usize> {
    let (_, digits) = subject.split_last_chunk::<SLOT_DIGITS>()?;
    digits.iter().try_fold(0, |slot, digit| {
        let value = digit.is_ascii_digit().then(|| usize::from(digit - b'0'))?;
        Some(slot * 10 + value)
    })
}

impl Peer for JetStream {
    type Talk = Publishing;

    async fn open(&self, lane: usize) -> io::Result<(Pipe, Publishing)> {
        let mut pipe = Pipe::connect(&self.address).await?;
        let first = format!("SUB _INBOX.{lane}.* 1\r\nPING\r\n");
        pipe.write(&[HELLO, first.as_bytes()].concat()).await?;
        // The server's PONG says that the subscription stands; a PING of its own is answered with the first publish.
        loop {
            let found = find(pipe.bytes())?.map(|(said, taken)| (said == Said::Pong, taken));
            match found {
                Some((pong, taken)) => {
                    pipe.take(taken);
                    if pong {
                        break;
                    }
                }
                None => pipe.more().await?,
            }
        }
        Ok((pipe, Publishing::new(lane, self.size, self.seed)))
    }

    /// The stream holds as many messages as were acknowledged.
    async fn check(&self, acked: &[u32], _sample: &[u64]) -> io::Result<Vec<String>> {
        let expected: u64 = acked.iter().map(|count| u64::from(*count)).sum();
        let subject = format!("$JS.API.STREAM.INFO.{STREAM}");
        let info = ask(&self.address, &subject, &json!({})).await?;
        let there = info.pointer("/state/messages").and_then(Value::as_u64);
        let wrong = there != Some(expected);
        let fault = || format!("stream {STREAM}: {expected} acknowledged, {there:?} there");
        Ok(wrong.then(fault).into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_operation_is_found_and_never_early() {
        let message = |subject, payload| Said::Message { subject, payload };
        let whole = [
            (&b"PING\r\n"[..], Said::Ping),
            (b"PONG\r\n", Said::Pong),
            (b"+OK\r\n", Said::Noise),
            (b"INFO {\"a\":1}\r\n", Said::Noise),
            (b"-ERR 'Slow'\r\n", Said::Error(b"'Slow'")),
            (b"MSG a.b 1 2\r\nhi\r\n", message(b"a.b", b"hi")),
            (b"MSG a.b 1 in.x 0\r\n\r\n", message(b"a.b", b"")),
            (b"HMSG a 1 4 6\r\nN:1\nhi\r\n", message(b"a", b"hi")),
        ];
        for (bytes, said) in whole {
            let found = find(bytes).expect("legal").expect("whole");
            assert_eq!(found, (said, bytes.len()));
            for short in 0..bytes.len() {
                assert_eq!(find(&bytes[..short]).expect("legal"), None);
            }
        }
        for wrong in [
            &b"MSG a 1 x\r\n"[..],
            b"HMSG a 1 9 6\r\n",
            b"NO\r\n",
            b"MSG a 1 1\r\nabc",
        ] {
            assert!(find(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_stamped_publish_carries_its_numbers_and_its_answer_finds_back() {
        let mut publishing = Publishing::new(7, 5, 1);
        let mut out = b"x".to_vec();
        publishing.put(&mut out, 15, 1_234, 9);
        let payload = Random::new(1).text(5);
        let expected = format!("xPUB s.000001234 _INBOX.7.0015 5\r\n{payload}\r\n");
        assert_eq!(out, expected.as_bytes());
        let said = b"PING\r\nMSG _INBOX.7.0015 1 14\r\n{\"stream\":\"T\"}\r\nMSG _INBOX.7.0002 1 4\r\nnope\r\nMSG";
        let (mut seen, mut pongs) = (Vec::new(), Vec::new());
        let mut each = |answer: Answer<'_>| seen.push((answer.slot, answer.refused.is_some()));
        let taken = publishing.take(said, &mut pongs, &mut each);
        assert_eq!(taken.expect("legal"), said.len() - 3);
        assert_eq!(seen, [(15, false), (2, true)]);
        assert_eq!(pongs, b"PONG\r\n");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            start in "(H?MSG |INFO |-ERR|PING|[A-Z]{0,5})[a-z. ]{0,9}[0-9 -]{0,30}\r?\n?",
            rest in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            for bytes in [rest.clone(), [start.as_bytes(), &rest].concat()] {
                if let Ok(Some((_, length))) = find(&bytes) {
                    prop_assert!(length <= bytes.len());
                }
            }
        }
    }
}
