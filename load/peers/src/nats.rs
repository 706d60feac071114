//! The protocol of NATS, as far as publishing, subscribing and JetStream's acknowledgements need it.
//!
//! Owns: the framing of operations in both directions, and appends to JetStream: each publish has a reply subject of
//! its own, on which the acknowledgement comes. Promises: any bytes are an operation, a reason to wait for more, or an
//! error, never a panic. Must not: allocate per message, so that this client costs no more than the one that drives
//! Tideline; the official client does, which is why this is written by hand.

use std::io;

use serde_json::{Value, json};
use tideline_load::pipe::Pipe;
use tideline_load::template::{NUMBER, SLOT, Template};

use crate::appends::{self, Words};

/// The server's own default limit.
const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// `INFO` is the longest line.
const LINE_BYTES_MAX: usize = 64 << 10;
const STREAM: &str = "TIDE";

/// What a server says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said<'a> {
    /// A message: the subject that it was published on, and what was.
    Message(&'a [u8], &'a [u8]),
    /// Wants [`PONG`].
    Ping,
    /// The answer to ours.
    Pong,
    /// `INFO`, `+OK`.
    Noise,
}

/// The answer to a ping.
pub(crate) const PONG: &[u8] = b"PONG\r\n";
/// What a client says first.
pub(crate) const HELLO: &str = "CONNECT {\"verbose\":false,\"pedantic\":false,\"lang\":\"rust\",\"version\":\"1\",\"protocol\":1}\r\n";

/// The operation at the start of the bytes and its length, if it is whole. The server's `-ERR` is an error.
pub(crate) fn find(bytes: &[u8]) -> io::Result<Option<(Said<'_>, usize)>> {
    let Some(end) = memchr::memchr(b'\n', bytes) else {
        let endless = bytes.len() > LINE_BYTES_MAX;
        return if endless {
            Err(bad("a line without end"))
        } else {
            Ok(None)
        };
    };
    let (line, after) = (bytes[..end].trim_ascii_end(), end + 1);
    let mut words = line.split(|byte| *byte == b' ');
    let said = match words.next().unwrap_or_default() {
        b"MSG" => {
            // Subject, number of the subscription, perhaps a reply subject, bytes.
            let subject = words.next().unwrap_or_default();
            let size = words
                .next_back()
                .and_then(|word| std::str::from_utf8(word).ok());
            let size = size.and_then(|text| text.parse().ok());
            let size = size.filter(|size: &usize| *size <= PAYLOAD_BYTES_MAX);
            let end = after + size.ok_or_else(|| bad("a length out of range"))? + 2;
            let Some(body) = bytes.get(after..end) else {
                return Ok(None);
            };
            let payload = body.strip_suffix(b"\r\n");
            let payload = payload.ok_or_else(|| bad("a payload longer than its length"))?;
            return Ok(Some((Said::Message(subject, payload), end)));
        }
        b"PING" => Said::Ping,
        b"PONG" => Said::Pong,
        b"+OK" | b"INFO" => Said::Noise,
        _ => return Err(bad(&String::from_utf8_lossy(line))),
    };
    Ok(Some((said, after)))
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("NATS sent {what}"))
}

/// A request with one answer.
async fn ask(address: &str, subject: &str, body: &Value) -> io::Result<Value> {
    let (body, mut pipe) = (body.to_string(), Pipe::connect(address).await?);
    let length = body.len();
    let asked =
        format!("{HELLO}SUB _INBOX.ask 1\r\nPUB {subject} _INBOX.ask {length}\r\n{body}\r\n");
    pipe.write(asked.as_bytes()).await?;
    let answer = |said: &Said<'_>| match said {
        Said::Message(_, payload) => Some(serde_json::from_slice(payload)),
        _ => None,
    };
    Ok(until(&mut pipe, answer).await??)
}

/// Reads up to the operation that is wanted.
async fn until<T>(pipe: &mut Pipe, wanted: impl Fn(&Said<'_>) -> Option<T>) -> io::Result<T> {
    loop {
        while let Some((said, taken)) = find(pipe.bytes())? {
            let found = wanted(&said);
            pipe.take(taken);
            if let Some(found) = found {
                return Ok(found);
            }
        }
        pipe.more().await?;
    }
}

/// Publishing to JetStream over one connection.
struct Publishing(Template);

impl Publishing {
    fn new(lane: usize, text: &str) -> Publishing {
        let size = text.len();
        let operation = format!("PUB s.{NUMBER} _INBOX.{lane}.{SLOT} {size}\r\n{text}\r\n");
        Publishing(Template::new(operation))
    }
}

impl Words for Publishing {
    fn put(&mut self, out: &mut Vec<u8>, slot: usize, timeline: u64) {
        self.0.stamp(out, &[timeline, slot as u64]);
    }

    fn next(&mut self, bytes: &[u8]) -> io::Result<Option<(appends::Said, usize)>> {
        let Some((said, length)) = find(bytes)? else {
            return Ok(None);
        };
        let said = match said {
            Said::Message(subject, payload) => {
                let slot = slot_of(subject).ok_or_else(|| bad("an unknown subject"))?;
                // {"stream":"TIDE","seq":1}; an error comes first where there is one.
                let is_stored = payload.starts_with(b"{\"stream\":");
                let why = || Err(String::from_utf8_lossy(payload).into_owned());
                appends::Said::Appended(slot, if is_stored { Ok(()) } else { why() })
            }
            Said::Ping => appends::Said::Ping(PONG),
            Said::Pong | Said::Noise => appends::Said::Noise,
        };
        Ok(Some((said, length)))
    }
}

/// The digits at the end of a reply subject.
fn slot_of(subject: &[u8]) -> Option<usize> {
    let (_, digits) = subject.split_last_chunk::<{ SLOT.len() }>()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

pub(crate) async fn open(
    address: &str,
    lane: usize,
    text: &str,
) -> io::Result<(Pipe, Box<dyn Words>)> {
    if lane == 0 {
        // The stream that takes all subjects of the run.
        let stream = json!({"name": STREAM, "subjects": ["s.>"], "storage": "file", "retention": "limits",
            "num_replicas": 1, "discard": "old", "max_consumers": -1, "max_msgs": -1, "max_bytes": -1});
        let made = ask(address, &format!("$JS.API.STREAM.CREATE.{STREAM}"), &stream).await?;
        if let Some(error) = made.get("error") {
            return Err(bad(&error.to_string()));
        }
    }
    let mut pipe = Pipe::connect(address).await?;
    let first = format!("{HELLO}SUB _INBOX.{lane}.* 1\r\nPING\r\n");
    pipe.write(first.as_bytes()).await?;
    // The server's PONG says that it has the subscription.
    until(&mut pipe, |said| (*said == Said::Pong).then_some(())).await?;
    Ok((pipe, Box::new(Publishing::new(lane, text))))
}

/// The stream holds as many messages as were acknowledged.
pub(crate) async fn check(address: &str, acked: &[u32]) -> io::Result<Vec<String>> {
    let expected: u64 = acked.iter().map(|count| u64::from(*count)).sum();
    let subject = format!("$JS.API.STREAM.INFO.{STREAM}");
    let info = ask(address, &subject, &json!({})).await?;
    let there = info.pointer("/state/messages").and_then(Value::as_u64);
    let fault = || format!("stream {STREAM}: {expected} acknowledged, {there:?} there");
    Ok((there != Some(expected)).then(fault).into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_operation_is_found_and_never_early() {
        let whole = [
            (&b"PING\r\n"[..], Said::Ping),
            (b"PONG\r\n", Said::Pong),
            (b"+OK\r\n", Said::Noise),
            (b"INFO {\"a\":1}\r\n", Said::Noise),
            (b"MSG a.b 1 2\r\nhi\r\n", Said::Message(b"a.b", b"hi")),
            (b"MSG a.b 1 in.x 0\r\n\r\n", Said::Message(b"a.b", b"")),
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
            b"-ERR 'Slow'\r\n",
            b"NO\r\n",
            b"MSG a 1 1\r\nabc",
        ] {
            assert!(find(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_stamped_publish_carries_its_numbers_and_its_answer_finds_back() {
        let mut publishing = Publishing::new(7, "value");
        let mut out = b"x".to_vec();
        publishing.put(&mut out, 15, 1_234);
        assert_eq!(out, b"xPUB s.000001234 _INBOX.7.0015 5\r\nvalue\r\n");
        use appends::Said::{Appended, Ping};
        let mut next = |bytes: &[u8]| publishing.next(bytes).expect("legal");
        assert!(matches!(next(b"PING\r\n"), Some((Ping(PONG), 6))));
        let stored = b"MSG _INBOX.7.0015 1 14\r\n{\"stream\":\"T\"}\r\nMSG";
        assert!(matches!(next(stored), Some((Appended(15, Ok(())), 40))));
        let refused = b"MSG _INBOX.7.0002 1 4\r\nnope\r\n";
        assert!(matches!(next(refused), Some((Appended(2, Err(_)), 29))));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            start in "(MSG |INFO |-ERR|PING|[A-Z]{0,5})[a-z. ]{0,9}[0-9 -]{0,30}\r?\n?",
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
