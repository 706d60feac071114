//! Appends to a server that is not Tideline: the same generator, choice of timelines and counting as in the load
//! tool's `append`; in Redis' language (RESP2) as far as `XADD` and `XLEN` need it, and in that of NATS as far as
//! JetStream's acknowledgements do.
//!
//! Owns: both protocols. Promises: what was acknowledged must be there at the end; a refusal is a fault; any bytes are
//! a unit, a reason to wait for more, or an error, never a panic. Must not: allocate per request, so that these clients
//! cost no more than the one that drives Tideline: the official ones do.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use clap::{ValueEnum, value_parser};
use serde::Serialize;
use serde_json::{Value, json};
use tideline_load::client::generator::{Answer, Flow, Talk};
use tideline_load::client::pipe::{Pipe, Way};
use tideline_load::client::template::{NUMBER, SLOT, Template, timeline_name};
use tideline_load::exit::Stop;
use tideline_load::profile::Profile;
use tideline_load::random::Random;
use tideline_load::run::Run;

/// A protocol.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
enum Wire {
    Redis,
    Jetstream,
}

/// Messages to any of the timelines, in whichever protocol.
#[derive(clap::Args, Serialize)]
pub(crate) struct Messages {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) flow: Flow,
    #[arg(long, value_parser = value_parser!(u64).range(1..))]
    pub(crate) timelines: u64,
    #[arg(long)]
    pub(crate) size: usize,
}

/// The load.
#[derive(clap::Args, Serialize)]
pub(crate) struct Appends {
    #[command(flatten)]
    #[serde(flatten)]
    messages: Messages,
    #[arg(long)]
    wire: Wire,
}

impl Profile for Appends {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        let Messages {
            flow,
            timelines,
            size,
        } = &self.messages;
        let acked = Rc::new(RefCell::new(vec![0; *timelines as usize]));
        let acks = flow.recorder(run, "ack");
        let text = Random::new(run.seed).text(*size);
        let lost = |error| Stop::Unreachable(format!("{}: {error}", run.url));
        if self.wire == Wire::Jetstream {
            make_stream(&run.url).await.map_err(lost)?;
        }
        let open = async |number: usize| {
            let mut pipe = Pipe::connect(&run.url, Way::Plain).await?;
            if self.wire == Wire::Jetstream {
                let first = format!("{HELLO}SUB _INBOX.{number}.* 1\r\nPING\r\n");
                // The server's PONG says that it has the subscription.
                until(&mut pipe, &first, |unit| unit.line == b"PONG").await?;
            }
            let acked = Rc::clone(&acked);
            Ok((pipe, Lane::new(self.wire, run, acked, number, &text)))
        };
        flow.measure(run, &[Rc::clone(&acks)], open).await?;
        run.rate("appends_per_second", acks.count());
        let checked = match self.wire {
            Wire::Redis => check_redis(run, &acked.take()).await,
            Wire::Jetstream => check_stream(run, &acked.take()).await,
        };
        checked.map_err(lost)
    }
}

/// One connection.
struct Lane {
    wire: Wire,
    run: Rc<Run>,
    /// By timeline, of all connections.
    acked: Rc<RefCell<Vec<u32>>>,
    random: Random,
    request: Template,
    /// By slot: the timeline of what is on the way.
    timelines: Vec<u64>,
    /// Slots in the order of their requests: that of Redis' replies.
    waiting: VecDeque<usize>,
}

impl Lane {
    fn new(
        wire: Wire,
        run: &Rc<Run>,
        acked: Rc<RefCell<Vec<u32>>>,
        number: usize,
        text: &str,
    ) -> Lane {
        let size = text.len();
        let request = match wire {
            Wire::Redis => command(&["XADD", &format!("s:{NUMBER}"), "*", "v", text]),
            // Each publish has a reply subject of its own, on which the acknowledgement comes.
            Wire::Jetstream => {
                format!("PUB s.{NUMBER} _INBOX.{number}.{SLOT} {size}\r\n{text}\r\n")
            }
        };
        Lane {
            wire,
            run: Rc::clone(run),
            acked,
            random: Random::new(run.seed_of(number as u64)),
            request: Template::new(request),
            timelines: Vec::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Which request a unit answers, and whether the message is on disk; nothing if it answers none.
    fn answer(&mut self, unit: &Unit<'_>) -> io::Result<Option<(usize, bool)>> {
        if self.wire == Wire::Redis {
            let slot = self.waiting.pop_front();
            // Only the ID of an entry has a body.
            let slot = slot.ok_or_else(|| bad("a reply that nothing waits for", unit.line))?;
            return Ok(Some((slot, !unit.body.is_empty())));
        }
        let Some(subject) = unit.subject()? else {
            return Ok(None);
        };
        let digits = subject.rsplit(|byte| *byte == b'.').next();
        let slot = number(digits.unwrap_or_default());
        let slot = slot.ok_or_else(|| bad("an unknown subject", unit.line))?;
        // {"stream":"TIDE","seq":1}; an error comes first where there is one.
        Ok(Some((slot, unit.body.starts_with(b"{\"stream\":"))))
    }
}

impl Talk for Lane {
    fn put(&mut self, out: &mut Vec<u8>, slot: usize) {
        let timeline = self.random.below(self.acked.borrow().len() as u64);
        self.request.stamp(out, &[timeline, slot as u64]);
        self.waiting.push_back(slot);
        if slot >= self.timelines.len() {
            self.timelines.resize(slot + 1, 0);
        }
        self.timelines[slot] = timeline;
    }

    fn take(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        each: &mut dyn FnMut(Answer),
    ) -> io::Result<usize> {
        let mut taken = 0;
        while let Some(unit) = find(&bytes[taken..])? {
            taken += unit.length;
            if unit.line == b"PING" {
                out.extend_from_slice(PONG);
            }
            let Some((slot, is_stored)) = self.answer(&unit)? else {
                continue;
            };
            if !is_stored {
                let [line, body] = [unit.line, unit.body].map(String::from_utf8_lossy);
                let what = format_args!("refused: {line} {body}");
                self.run.checks.fault(what);
            } else if let Some(timeline) = self.timelines.get(slot) {
                self.acked.borrow_mut()[*timeline as usize] += 1;
            }
            let recorder = is_stored.then_some(0);
            each(Answer { slot, recorder });
        }
        Ok(taken)
    }
}

/// What a server of either kind says at once: a line, and a body if the line ends with its length.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unit<'a> {
    pub(crate) line: &'a [u8],
    pub(crate) body: &'a [u8],
    /// Of all of it.
    pub(crate) length: usize,
}

/// More than any that is asked for here.
const BODY_BYTES_MAX: usize = 1 << 20;
/// `INFO` of NATS is the longest line.
const LINE_BYTES_MAX: usize = 64 << 10;

/// The unit at the start of the bytes, if it is whole.
pub(crate) fn find(bytes: &[u8]) -> io::Result<Option<Unit<'_>>> {
    let Some(end) = memchr::memchr(b'\n', bytes) else {
        return match bytes.len() > LINE_BYTES_MAX {
            true => Err(bad("a line without end", b"")),
            false => Ok(None),
        };
    };
    let (line, after) = (bytes[..end].trim_ascii_end(), end + 1);
    // Redis' nil has the length -1, and no body.
    let is_long = line.starts_with(b"$") && line != b"$-1" || line.starts_with(b"MSG ");
    if !is_long {
        return Ok(Some(Unit {
            line,
            body: b"",
            length: after,
        }));
    }
    let digits = line.rsplit(|byte| b"$ ".contains(byte)).next();
    let size = number(digits.unwrap_or_default());
    let size = size.filter(|size| *size <= BODY_BYTES_MAX);
    let length = after + size.ok_or_else(|| bad("a length out of range", line))? + 2;
    let Some(body) = bytes.get(after..length) else {
        return Ok(None);
    };
    let body = body.strip_suffix(b"\r\n");
    let body = body.ok_or_else(|| bad("a body longer than its length", line))?;
    Ok(Some(Unit { line, body, length }))
}

impl<'a> Unit<'a> {
    /// The subject of a message of NATS; what refuses is an error.
    pub(crate) fn subject(&self) -> io::Result<Option<&'a [u8]>> {
        let mut words = self.line.split(|byte| *byte == b' ');
        match words.next().unwrap_or_default() {
            b"MSG" => Ok(words.next()),
            b"PING" | b"PONG" | b"INFO" | b"+OK" => Ok(None),
            _ => Err(bad("a refusal", self.line)),
        }
    }
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn bad(what: &str, line: &[u8]) -> io::Error {
    let line = String::from_utf8_lossy(line);
    io::Error::other(format!("the server sent {what}: {line:.200}"))
}

/// A command to Redis.
fn command(words: &[&str]) -> String {
    let word = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    let words: Vec<String> = words.iter().map(word).collect();
    format!("*{}\r\n{}", words.len(), words.concat())
}

/// Says something, and reads up to the unit that is wanted; returns its line and its body.
async fn until(
    pipe: &mut Pipe,
    said: &str,
    wanted: impl Fn(&Unit<'_>) -> bool,
) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let search = |bytes: &[u8]| {
        let mut taken = 0;
        while let Some(unit) = find(&bytes[taken..])? {
            taken += unit.length;
            if wanted(&unit) {
                return Ok(Some(((unit.line.to_vec(), unit.body.to_vec()), taken)));
            }
        }
        Ok(None)
    };
    pipe.ask(said.as_bytes(), search).await
}

/// Every stream of Redis holds as many entries as were acknowledged.
async fn check_redis(run: &Run, acked: &[u32]) -> io::Result<()> {
    let mut pipe = Pipe::connect(&run.url, Way::Plain).await?;
    for (number, expected) in (0..).zip(acked) {
        let name = timeline_name("s:", number);
        let (there, _) = until(&mut pipe, &command(&["XLEN", &name]), |_| true).await?;
        if there != format!(":{expected}").as_bytes() {
            let there = String::from_utf8_lossy(&there);
            let what = format_args!("{name}: {expected} acknowledged, {there} there");
            run.checks.fault(what);
        }
    }
    Ok(())
}

/// What a client says to NATS first.
pub(crate) const HELLO: &str = "CONNECT {\"verbose\":false,\"pedantic\":false,\"lang\":\"rust\",\"version\":\"1\",\"protocol\":1}\r\n";
/// The answer to its pings.
pub(crate) const PONG: &[u8] = b"PONG\r\n";

/// A request to JetStream, about the only stream.
async fn ask(address: &str, what: &str, body: &Value) -> io::Result<Value> {
    let (body, mut pipe) = (body.to_string(), Pipe::connect(address, Way::Plain).await?);
    let length = body.len();
    let publish = format!("PUB $JS.API.STREAM.{what}.TIDE _INBOX.ask {length}\r\n{body}\r\n");
    let asked = format!("{HELLO}SUB _INBOX.ask 1\r\n{publish}");
    let (_, answer) = until(&mut pipe, &asked, |unit| unit.line.starts_with(b"MSG ")).await?;
    Ok(serde_json::from_slice(&answer)?)
}

/// The stream that takes all subjects of the run.
async fn make_stream(address: &str) -> io::Result<()> {
    let stream = json!({"name": "TIDE", "subjects": ["s.>"], "storage": "file", "retention": "limits",
        "num_replicas": 1, "discard": "old", "max_consumers": -1, "max_msgs": -1, "max_bytes": -1});
    let made = ask(address, "CREATE", &stream).await?;
    match made.get("error") {
        Some(error) => Err(bad("a refusal", error.to_string().as_bytes())),
        None => Ok(()),
    }
}

/// The stream holds as many messages as were acknowledged.
async fn check_stream(run: &Run, acked: &[u32]) -> io::Result<()> {
    let expected: u64 = acked.iter().map(|count| u64::from(*count)).sum();
    let info = ask(&run.url, "INFO", &json!({})).await?;
    let there = info.pointer("/state/messages").and_then(Value::as_u64);
    if there != Some(expected) {
        let what = format_args!("the stream: {expected} acknowledged, {there:?} there");
        run.checks.fault(what);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use proptest::prelude::*;
    use tideline_load::run::setup::Setup;

    use super::*;

    #[test]
    fn each_unit_is_found_and_never_early() {
        let whole: [(&[u8], &[u8], &[u8]); 11] = [
            (b"+OK\r\n", b"+OK", b""),
            (b"-ERR no\r\n", b"-ERR no", b""),
            (b":12\r\n", b":12", b""),
            (b"$-1\r\n", b"$-1", b""),
            (b"$0\r\n\r\n", b"$0", b""),
            (b"$4\r\n1-\r\n\r\n", b"$4", b"1-\r\n"),
            (b"PING\r\n", b"PING", b""),
            (b"INFO {\"a\":1}\r\n", b"INFO {\"a\":1}", b""),
            (b"MSG a.b 1 2\r\nhi\r\n", b"MSG a.b 1 2", b"hi"),
            (b"MSG a.b 1 in.x 0\r\n\r\n", b"MSG a.b 1 in.x 0", b""),
            (b"+OK\n", b"+OK", b""),
        ];
        for (bytes, line, body) in whole {
            let length = bytes.len();
            let found = find(bytes).expect("legal").expect("whole");
            assert_eq!(found, Unit { line, body, length });
            for short in 0..length {
                assert_eq!(find(&bytes[..short]).expect("legal"), None);
            }
        }
        for wrong in [
            &b"$x\r\n"[..],
            b"$-2\r\n",
            b"$1\r\nabc",
            b"MSG a 1 x\r\n",
            b"MSG a 1 1\r\nabc",
        ] {
            assert!(find(wrong).is_err(), "{wrong:?}");
        }
        assert!(find(&[b'x'; LINE_BYTES_MAX + 1]).is_err());
    }

    /// A connection of four timelines, and what it says and hears.
    fn lane(wire: Wire) -> Lane {
        let setup = Setup::parse_from(["test", "--quiet"]);
        let run = Run::new(&setup, String::new(), None);
        Lane::new(wire, &run, Rc::new(RefCell::new(vec![0; 1])), 7, "value")
    }

    #[test]
    fn requests_carry_their_numbers_and_answers_find_back() {
        for (wire, request, said) in [
            (
                Wire::Redis,
                command(&["XADD", "s:000000000", "*", "v", "value"]),
                &b"$3\r\n1-0\r\n-OOM\r\n$3"[..],
            ),
            (
                Wire::Jetstream,
                "PUB s.000000000 _INBOX.7.0003 5\r\nvalue\r\n".to_owned(),
                b"PING\r\nMSG _INBOX.7.0003 1 14\r\n{\"stream\":\"T\"}\r\nMSG _INBOX.7.0004 1 4\r\nnope\r\nMS",
            ),
        ] {
            let (mut lane, mut out) = (lane(wire), Vec::new());
            lane.put(&mut out, 3);
            assert_eq!(out, request.as_bytes());
            lane.put(&mut Vec::new(), 4);
            let (mut seen, mut pongs) = (Vec::new(), Vec::new());
            let mut each = |answer: Answer| seen.push((answer.slot, answer.recorder));
            let taken = lane.take(said, &mut pongs, &mut each).expect("legal");
            assert_eq!(taken, said.len() - 2);
            assert_eq!(seen, [(3, Some(0)), (4, None)]);
            assert_eq!((lane.acked.borrow()[0], lane.run.checks.faults()), (1, 1));
            assert_eq!(pongs.is_empty(), wire == Wire::Redis);
            let surplus = lane.take(b"-ERR\r\n", &mut pongs, &mut |_| {});
            assert!(surplus.is_err(), "nothing waits for it, or it refuses");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            start in "([-+:$]|MSG |INFO |PING|[A-Z]{0,5})[a-z. ]{0,9}[0-9 -]{0,30}\r?\n?",
            rest in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            for bytes in [rest.clone(), [start.as_bytes(), &rest].concat()] {
                if let Ok(Some(unit)) = find(&bytes) {
                    prop_assert!(unit.length <= bytes.len());
                    let _ = unit.subject();
                }
            }
        }
    }
}
