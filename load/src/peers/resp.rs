//! Redis' protocol (RESP2), as far as `XADD` and `XLEN` need it: ready-made commands out, borrowed replies in.
//!
//! Owns: the framing and where a command's digits stand. Promises: any bytes are a reply, a reason to wait for more, or
//! an error, never a panic; a connection's replies belong to its commands in order. Must not: allocate per command, so
//! that this client costs no more than the one that drives Tideline.

use std::collections::VecDeque;
use std::io;

use super::engine::{Answer, Peer, Talk};
use crate::pipe::Pipe;
use crate::random::Random;
use crate::template::{DIGITS, digits};

/// More than any reply that is asked for here.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// A line (a status, an error, a number) is never this long.
const LINE_BYTES_MAX: usize = 4_096;

/// One reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply<'a> {
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
pub(super) fn find(bytes: &[u8]) -> io::Result<Option<(Reply<'_>, usize)>> {
    let Some((&kind, rest)) = bytes.split_first() else {
        return Ok(None);
    };
    let Some(length) = rest.iter().position(|byte| *byte == b'\n') else {
        if rest.len() > LINE_BYTES_MAX {
            return Err(bad("a line without end"));
        }
        return Ok(None);
    };
    let Some(line) = rest[..length].strip_suffix(b"\r") else {
        return Err(bad("a line that ends with a bare LF"));
    };
    let after = 1 + length + 1;
    let number = || -> io::Result<i64> {
        let text = std::str::from_utf8(line).ok();
        let number = text.and_then(|text| text.parse().ok());
        number.ok_or_else(|| bad("a number that is none"))
    };
    let reply = match kind {
        b'+' => Reply::Status(line),
        b'-' => Reply::Error(line),
        b':' => Reply::Integer(number()?),
        b'$' => match number()? {
            -1 => Reply::Bulk(None),
            length => {
                let length = usize::try_from(length)
                    .ok()
                    .filter(|length| *length <= REPLY_BYTES_MAX)
                    .ok_or_else(|| bad("a length out of range"))?;
                let Some(body) = bytes.get(after..after + length + 2) else {
                    return Ok(None);
                };
                let Some(body) = body.strip_suffix(b"\r\n") else {
                    return Err(bad("a body that is longer than its length"));
                };
                return Ok(Some((Reply::Bulk(Some(body)), after + length + 2)));
            }
        },
        _ => return Err(bad("a kind of reply that was not asked for")),
    };
    Ok(Some((reply, after)))
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("Redis sent {what}"))
}

/// Appends a command.
fn put(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// The rate in what `redis-benchmark --csv` prints: a line of titles, then one of values, the second of them the rate.
pub(super) fn benchmark_rate(text: &str) -> Option<f64> {
    let values = text.lines().rev().find(|line| !line.trim().is_empty())?;
    // The first value is the command with all that is in it, quoted.
    let (_, rest) = values.split_once("\",\"")?;
    rest.split('"').next()?.parse().ok()
}

fn key(number: u64) -> String {
    format!("s:{number:0DIGITS$}")
}

/// A Redis server and what is put on it.
pub(super) struct Redis {
    /// `host:port`
    pub(super) address: String,
    /// Bytes of the value.
    pub(super) size: usize,
    pub(super) seed: u64,
}

/// `XADD s:<number> * v <value>` over one connection.
pub(super) struct Adding {
    command: Vec<u8>,
    key_at: usize,
    /// Whose reply comes next.
    waiting: VecDeque<usize>,
}

impl Adding {
    fn new(size: usize, seed: u64) -> Adding {
        let (name, value) = (key(0), Random::new(seed).text(size));
        let mut command = Vec::new();
        put(
            &mut command,
            &[b"XADD", name.as_bytes(), b"*", b"v", value.as_bytes()],
        );
        let at = command
            .windows(name.len())
            .position(|part| part == name.as_bytes())
            .expect("the key was just put there");
        Adding {
            key_at: at + name.len() - DIGITS,
            command,
            waiting: VecDeque::new(),
        }
    }
}

impl Talk for Adding {
    fn put(&mut self, out: &mut Vec<u8>, slot: usize, key: u64, _number: u64) {
        let base = out.len() + self.key_at;
        out.extend_from_slice(&self.command);
        digits(&mut out[base..base + DIGITS], key);
        self.waiting.push_back(slot);
    }

    fn take(
        &mut self,
        bytes: &[u8],
        _out: &mut Vec<u8>,
        each: &mut impl FnMut(Answer<'_>),
    ) -> io::Result<usize> {
        let mut taken = 0;
        while let Some((reply, length)) = find(&bytes[taken..])? {
            taken += length;
            let slot = self.waiting.pop_front();
            let slot = slot.ok_or_else(|| bad("a reply that nothing waits for"))?;
            let refused = match reply {
                Reply::Bulk(Some(_)) => None,
                Reply::Error(why) => Some(String::from_utf8_lossy(why)),
                _ => Some("not the ID of an entry".into()),
            };
            each(Answer { slot, refused });
        }
        Ok(taken)
    }
}

impl Peer for Redis {
    type Talk = Adding;

    async fn open(&self, _lane: usize) -> io::Result<(Pipe, Adding)> {
        let pipe = Pipe::connect(&self.address).await?;
        Ok((pipe, Adding::new(self.size, self.seed)))
    }

    /// Every sampled stream holds as many entries as were acknowledged.
    async fn check(&self, acked: &[u32], sample: &[u64]) -> io::Result<Vec<String>> {
        let mut pipe = Pipe::connect(&self.address).await?;
        let mut faults = Vec::new();
        for number in sample {
            let (name, expected) = (key(*number), i64::from(acked[*number as usize]));
            let mut out = Vec::new();
            put(&mut out, &[b"XLEN", name.as_bytes()]);
            pipe.write(&out).await?;
            let (length, taken) = loop {
                match find(pipe.bytes())? {
                    Some((Reply::Integer(length), taken)) => break (length, taken),
                    Some(_) => return Err(bad("no length for XLEN")),
                    None => pipe.more().await?,
                }
            };
            pipe.take(taken);
            if length != expected {
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
        let mut adding = Adding::new(5, 1);
        let mut out = b"before".to_vec();
        adding.put(&mut out, 3, 1_234, 9);
        let mut expected = b"before".to_vec();
        let value = Random::new(1).text(5);
        let words: [&[u8]; 5] = [b"XADD", b"s:000001234", b"*", b"v", value.as_bytes()];
        put(&mut expected, &words);
        assert_eq!(out, expected);
        let mut seen = Vec::new();
        let mut each = |answer: Answer<'_>| seen.push((answer.slot, answer.refused.is_some()));
        let replies = b"$3\r\n1-0\r\n-OOM\r\n";
        adding.waiting.push_back(4);
        let taken = adding.take(replies, &mut Vec::new(), &mut each);
        assert_eq!(taken.expect("legal"), replies.len());
        assert_eq!(seen, [(3, false), (4, true)]);
        let surplus = adding.take(b"+OK\r\n", &mut Vec::new(), &mut |_| {});
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
