//! Redis' protocol (RESP2), as far as `XADD` and `XLEN` need it: ready-made commands out, borrowed replies in.
//!
//! Owns: the framing. Promises: any bytes are a reply, a reason to wait for more, or an error, never a panic; a
//! connection's replies belong to its commands in order. Must not: allocate per command, so that this client costs no
//! more than the one that drives Tideline.

use std::collections::VecDeque;
use std::io;

use tideline_load::pipe::Pipe;
use tideline_load::template::{NUMBER, Template, timeline_name};

use crate::keyed::{Peer, Words};

/// More than any reply that is asked for here.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// A line (a status, an error, a number) is never this long.
const LINE_BYTES_MAX: usize = 4_096;

/// One reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply<'a> {
    /// `+OK` and its like.
    Status(&'a [u8]),
    /// `-ERR …`
    Error(&'a [u8]),
    /// `:7`
    Integer(i64),
    /// `$3…`; `None` is Redis' nil.
    Bulk(Option<&'a [u8]>),
}

/// The reply at the start of the bytes and its length, if it is whole.
pub(crate) fn find(bytes: &[u8]) -> io::Result<Option<(Reply<'_>, usize)>> {
    let Some(end) = memchr::memchr(b'\n', bytes) else {
        let endless = bytes.len() > LINE_BYTES_MAX;
        return if endless {
            Err(bad("a line without end"))
        } else {
            Ok(None)
        };
    };
    let (line, after) = (bytes[..end].strip_suffix(b"\r"), end + 1);
    let Some([kind, line @ ..]) = line else {
        return Err(bad("a line that ends with a bare LF"));
    };
    let number = || {
        let number = std::str::from_utf8(line)
            .ok()
            .and_then(|text| text.parse().ok());
        number.ok_or_else(|| bad("a number that is none"))
    };
    let reply = match kind {
        b'+' => Reply::Status(line),
        b'-' => Reply::Error(line),
        b':' => Reply::Integer(number()?),
        b'$' if number()? == -1 => Reply::Bulk(None),
        b'$' => {
            let length = usize::try_from(number()?).ok();
            let length = length.filter(|length| *length <= REPLY_BYTES_MAX);
            let end = after + length.ok_or_else(|| bad("a length out of range"))? + 2;
            let Some(body) = bytes.get(after..end) else {
                return Ok(None);
            };
            let body = body.strip_suffix(b"\r\n");
            let body = body.ok_or_else(|| bad("a body that is longer than its length"))?;
            return Ok(Some((Reply::Bulk(Some(body)), end)));
        }
        _ => return Err(bad("a kind of reply that was not asked for")),
    };
    Ok(Some((reply, after)))
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("Redis sent {what}"))
}

/// A command of these words.
fn command(words: &[&str]) -> String {
    let word = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    let words: Vec<String> = words.iter().map(word).collect();
    format!("*{}\r\n{}", words.len(), words.concat())
}

/// The rate in what `redis-benchmark --csv` prints: a line of titles, then one of values, the second of them the rate.
pub(crate) fn benchmark_rate(text: &str) -> Option<f64> {
    let values = text.lines().rev().find(|line| !line.trim().is_empty())?;
    // The first value is the command with all that is in it, quoted.
    let (_, rest) = values.split_once("\",\"")?;
    rest.split('"').next()?.parse().ok()
}

/// `XADD s:<number> * v <value>`, with a sync before each answer.
pub(crate) struct Redis;

/// One connection.
pub(crate) struct Adding {
    command: Template,
    /// Slots in the order of their replies.
    waiting: VecDeque<usize>,
}

impl Adding {
    fn new(text: &str) -> Adding {
        let key = format!("s:{NUMBER}");
        Adding {
            command: Template::new(command(&["XADD", &key, "*", "v", text])),
            waiting: VecDeque::new(),
        }
    }
}

impl Words for Adding {
    fn put(&mut self, out: &mut Vec<u8>, slot: usize, timeline: u64) {
        self.command.stamp(out, &[timeline]);
        self.waiting.push_back(slot);
    }

    fn take(
        &mut self,
        bytes: &[u8],
        _out: &mut Vec<u8>,
        each: &mut dyn FnMut(usize, Option<String>),
    ) -> io::Result<usize> {
        let mut taken = 0;
        while let Some((reply, length)) = find(&bytes[taken..])? {
            taken += length;
            let slot = self.waiting.pop_front();
            let slot = slot.ok_or_else(|| bad("a reply that nothing waits for"))?;
            let refused = match reply {
                Reply::Bulk(Some(_)) => None,
                Reply::Error(why) => Some(String::from_utf8_lossy(why).into_owned()),
                _ => Some("not the ID of an entry".to_owned()),
            };
            each(slot, refused);
        }
        Ok(taken)
    }
}

impl Peer for Redis {
    const NAME: &'static str = "redis";
    type Words = Adding;

    async fn open(&self, address: &str, _lane: usize, text: &str) -> io::Result<(Pipe, Adding)> {
        Ok((Pipe::connect(address).await?, Adding::new(text)))
    }

    /// Every sampled stream holds as many entries as were acknowledged.
    async fn check(&self, address: &str, acked: &[u32], sample: &[u64]) -> io::Result<Vec<String>> {
        let mut pipe = Pipe::connect(address).await?;
        let mut faults = Vec::new();
        for number in sample {
            let (name, expected) = (timeline_name("s:", *number), acked[*number as usize]);
            pipe.write(command(&["XLEN", &name]).as_bytes()).await?;
            let (length, taken) = loop {
                match find(pipe.bytes())? {
                    Some((Reply::Integer(length), taken)) => break (length, taken),
                    Some(_) => return Err(bad("no length for XLEN")),
                    None => pipe.more().await?,
                }
            };
            pipe.take(taken);
            if length != i64::from(expected) {
                faults.push(format!("{name}: {expected} acknowledged, {length} there"));
            }
        }
        Ok(faults)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_kind_of_reply_is_found_and_never_early() {
        let whole = [
            (&b"+OK\r\n"[..], Reply::Status(b"OK")),
            (b"-ERR no\r\n", Reply::Error(b"ERR no")),
            (b":12\r\n", Reply::Integer(12)),
            (b"$-1\r\n", Reply::Bulk(None)),
            (b"$0\r\n\r\n", Reply::Bulk(Some(b""))),
            (b"$4\r\n1-\r\n\r\n", Reply::Bulk(Some(b"1-\r\n"))),
        ];
        for (bytes, reply) in whole {
            let found = find(bytes).expect("legal").expect("whole");
            assert_eq!(found, (reply, bytes.len()));
            for short in 0..bytes.len() {
                assert_eq!(find(&bytes[..short]).expect("legal"), None);
            }
        }
        for wrong in [&b"*1\r\n"[..], b"$x\r\n", b"$-2\r\n", b"$1\r\nabc", b":\n"] {
            assert!(find(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_stamped_command_is_the_command_of_its_numbers() {
        let mut adding = Adding::new("value");
        let mut out = b"before".to_vec();
        adding.put(&mut out, 3, 1_234);
        let expected = command(&["XADD", "s:000001234", "*", "v", "value"]);
        assert_eq!(out, [b"before", expected.as_bytes()].concat());
        let mut seen = Vec::new();
        let replies = b"$3\r\n1-0\r\n-OOM\r\n";
        adding.waiting.push_back(4);
        let mut each = |slot, refused: Option<String>| seen.push((slot, refused.is_some()));
        let taken = adding.take(replies, &mut Vec::new(), &mut each);
        assert_eq!(taken.expect("legal"), replies.len());
        assert_eq!(seen, [(3, false), (4, true)]);
        let surplus = adding.take(b"+OK\r\n", &mut Vec::new(), &mut |_, _| {});
        assert!(surplus.is_err());
    }

    #[test]
    fn the_rate_of_redis_own_tool_is_read() {
        let text = "\"test\",\"rps\",\"avg\"\n\"XADD s * v x\",\"249314.39\",\"2.9\"\n";
        assert_eq!(benchmark_rate(text), Some(249_314.39));
        for odd in ["", "\"test\",\"rps\"", "x", "\n\n"] {
            assert_eq!(benchmark_rate(odd), None);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            kind in prop::sample::select(&b"+-:$*x"[..]),
            rest in proptest::collection::vec(any::<u8>(), 0..100),
            digits in "-?[0-9]{0,25}\r?\n?",
        ) {
            for middle in [&b""[..], digits.as_bytes()] {
                let bytes = [&[kind], middle, &rest].concat();
                if let Ok(Some((_, length))) = find(&bytes) {
                    prop_assert!(length <= bytes.len());
                }
            }
        }
    }
}
