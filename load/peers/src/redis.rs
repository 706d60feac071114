//! Redis' protocol (RESP2), as far as `XADD` and `XLEN` need it: ready-made commands out, borrowed replies in.
//!
//! Owns: the framing. Promises: any bytes are a reply, a reason to wait for more, or an error, never a panic; a
//! connection's replies belong to its commands in order. Must not: allocate per command, so that this client costs no
//! more than the one that drives Tideline.

use std::collections::VecDeque;
use std::io;

use tideline_load::pipe::Pipe;
use tideline_load::template::{NUMBER, Template, timeline_name};

use crate::appends::{Said, Words};

/// More than any reply that is asked for here.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// A line (a status, an error, a number) is never this long.
const LINE_BYTES_MAX: usize = 4_096;

/// A reply's kind (`$` is a text, `-` an error), what it says, and its length.
type Reply<'a> = (u8, &'a [u8], usize);

/// The reply at the start of the bytes, if it is whole.
fn find(bytes: &[u8]) -> io::Result<Option<Reply<'_>>> {
    let Some(end) = memchr::memchr(b'\n', bytes) else {
        let endless = bytes.len() > LINE_BYTES_MAX;
        return if endless {
            Err(bad("a line without end"))
        } else {
            Ok(None)
        };
    };
    let (line, after) = (bytes[..end].strip_suffix(b"\r"), end + 1);
    match line {
        Some([kind @ (b'+' | b'-' | b':'), line @ ..]) => Ok(Some((*kind, line, after))),
        Some(b"$-1") => Ok(Some((b'-', b"nothing", after))),
        Some([b'$', digits @ ..]) => {
            let length = std::str::from_utf8(digits)
                .ok()
                .and_then(|text| text.parse().ok());
            let length = length.filter(|length: &usize| *length <= REPLY_BYTES_MAX);
            let end = after + length.ok_or_else(|| bad("a length out of range"))? + 2;
            let Some(body) = bytes.get(after..end) else {
                return Ok(None);
            };
            let body = body.strip_suffix(b"\r\n");
            let body = body.ok_or_else(|| bad("a body that is longer than its length"))?;
            Ok(Some((b'$', body, end)))
        }
        _ => Err(bad("a kind of reply that was not asked for")),
    }
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

/// `XADD s:<number> * v <value>` over one connection, with a sync before each answer.
struct Adding {
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

    fn next(&mut self, bytes: &[u8]) -> io::Result<Option<(Said, usize)>> {
        let Some((kind, said, length)) = find(bytes)? else {
            return Ok(None);
        };
        let slot = self.waiting.pop_front();
        let slot = slot.ok_or_else(|| bad("a reply that nothing waits for"))?;
        // Only the ID of an entry is a text.
        let refused = || Err(String::from_utf8_lossy(said).into_owned());
        let outcome = if kind == b'$' { Ok(()) } else { refused() };
        Ok(Some((Said::Appended(slot, outcome), length)))
    }
}

pub(crate) async fn open(address: &str, text: &str) -> io::Result<(Pipe, Box<dyn Words>)> {
    Ok((Pipe::connect(address).await?, Box::new(Adding::new(text))))
}

/// Every stream holds as many entries as were acknowledged.
pub(crate) async fn check(address: &str, acked: &[u32]) -> io::Result<Vec<String>> {
    let mut pipe = Pipe::connect(address).await?;
    let mut faults = Vec::new();
    for (number, expected) in (0..).zip(acked) {
        let name = timeline_name("s:", number);
        pipe.write(command(&["XLEN", &name]).as_bytes()).await?;
        let taken = loop {
            if let Some((kind, said, taken)) = find(pipe.bytes())? {
                if kind != b':' || said != expected.to_string().as_bytes() {
                    let said = String::from_utf8_lossy(said);
                    faults.push(format!("{name}: {expected} acknowledged, {said} there"));
                }
                break taken;
            }
            pipe.more().await?;
        };
        pipe.take(taken);
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_kind_of_reply_is_found_and_never_early() {
        let whole = [
            (&b"+OK\r\n"[..], b'+', &b"OK"[..]),
            (b"-ERR no\r\n", b'-', b"ERR no"),
            (b":12\r\n", b':', b"12"),
            (b"$-1\r\n", b'-', b"nothing"),
            (b"$0\r\n\r\n", b'$', b""),
            (b"$4\r\n1-\r\n\r\n", b'$', b"1-\r\n"),
        ];
        for (bytes, kind, said) in whole {
            let found = find(bytes).expect("legal").expect("whole");
            assert_eq!(found, (kind, said, bytes.len()));
            for short in 0..bytes.len() {
                assert_eq!(find(&bytes[..short]).expect("legal"), None);
            }
        }
        for wrong in [
            &b"*1\r\n"[..],
            b"$x\r\n",
            b"$-2\r\n",
            b"$1\r\nabc",
            b"\r\n",
            b"+\n",
        ] {
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
        adding.waiting.push_back(4);
        let first = adding.next(b"$3\r\n1-0\r\n-OOM\r\n").expect("legal");
        assert!(matches!(first, Some((Said::Appended(3, Ok(())), 9))));
        let second = adding.next(b"-OOM\r\n").expect("legal");
        assert!(matches!(second, Some((Said::Appended(4, Err(_)), 6))));
        assert!(adding.next(b"+OK\r\n").is_err(), "nothing waits for it");
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
                if let Ok(Some((_, _, length))) = find(&bytes) {
                    prop_assert!(length <= bytes.len());
                }
            }
        }
    }
}
