//! One POST at a time on each connection: to Tideline's JSON-RPC, and to a server of the Durable Streams protocol.
//!
//! Owns: both requests. Promises: what was acknowledged must be there at the end, in each stream; a refusal is a fault.
//! Must not: follow a stream, or send a second request before the answer: that protocol's clients do not.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;
use tideline_load::client::generator::{Answer, Talk};
use tideline_load::client::http;
use tideline_load::client::pipe::{Pipe, Way};
use tideline_load::client::template::{NUMBER, Template, timeline_name};
use tideline_load::exit::Stop;
use tideline_load::profile::Profile;
use tideline_load::random::Random;
use tideline_load::run::Run;

use crate::appends::Messages;

/// Who is spoken to.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
enum Wire {
    /// Tideline: each message with an ID of the client, which the server remembers.
    Rpc,
    /// Durable Streams: bytes, without an ID.
    Streams,
    /// The same at Tideline, below a path of its own.
    Door,
}

/// The load.
#[derive(clap::Args, Serialize)]
pub(crate) struct Posts {
    #[command(flatten)]
    #[serde(flatten)]
    messages: Messages,
    #[arg(long)]
    wire: Wire,
}

const PREFIX: &str = "posts-";

impl Profile for Posts {
    async fn drive(&self, run: &Rc<Run>) -> Result<(), Stop> {
        let Messages {
            flow,
            timelines,
            size,
        } = &self.messages;
        let acked = Rc::new(RefCell::new(vec![0; *timelines as usize]));
        let acks = flow.recorder(run, "ack");
        let text = Random::new(run.seed).text(*size);
        let host = host(&run.url);
        let lost = |error| Stop::Unreachable(format!("{host}: {error}"));
        if self.wire != Wire::Rpc {
            let folder = self.wire.folder();
            make(host, folder, *timelines).await.map_err(lost)?;
        }
        let open = async |number: usize| {
            let pipe = Pipe::connect(host, Way::Plain).await?;
            let request = self.wire.append(host, &format!("{number}-"), &text);
            Ok((pipe, Lane::new(run, request, Rc::clone(&acked), number)))
        };
        flow.measure(run, &[Rc::clone(&acks)], open).await?;
        run.rate("appends_per_second", acks.count());
        let checked = self.check(run, host, &acked.take()).await;
        checked.map_err(lost)
    }
}

impl Posts {
    /// Every stream holds as much as was acknowledged.
    async fn check(&self, run: &Run, host: &str, acked: &[u64]) -> io::Result<()> {
        let mut pipe = Pipe::connect(host, Way::Plain).await?;
        for (number, expected) in (0..).zip(acked).filter(|(_, acked)| **acked > 0) {
            let name = timeline_name(PREFIX, number);
            let size = self.messages.size;
            let there = self.wire.count(&mut pipe, host, &name, size).await?;
            if there != Some(*expected) {
                let what = format_args!("{name}: {expected} acknowledged, {there:?} there");
                run.checks.fault(what);
            }
        }
        Ok(())
    }
}

impl Wire {
    /// Where streams are.
    fn folder(self) -> &'static str {
        match self {
            Wire::Door => "/v1/stream/",
            _ => "/",
        }
    }

    /// An append, with the places of the timeline's number and, where messages have IDs, of the message's.
    fn append(self, host: &str, tag: &str, text: &str) -> String {
        match self {
            Wire::Rpc => post(
                host,
                "/v1/rpc",
                "application/json",
                &format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"message.append","params":{{"timeline":"{PREFIX}{NUMBER}","entry":{{"text":"{text}"}},"message_id":"{tag}{NUMBER}"}}}}"#
                ),
            ),
            Wire::Streams | Wire::Door => {
                let path = format!("{}{PREFIX}{NUMBER}", self.folder());
                post(host, &path, "application/octet-stream", text)
            }
        }
    }

    /// How many messages a stream has.
    async fn count(
        self,
        pipe: &mut Pipe,
        host: &str,
        name: &str,
        size: usize,
    ) -> io::Result<Option<u64>> {
        match self {
            Wire::Rpc => {
                let asked = format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"timeline.get","params":{{"timeline":"{name}"}}}}"#
                );
                let asked = post(host, "/v1/rpc", "application/json", &asked);
                let head = |answer: http::Answer<'_>| {
                    let answer: Value = serde_json::from_slice(answer.body).ok()?;
                    answer.pointer("/result/head")?.as_u64()
                };
                http::ask(pipe, asked.as_bytes(), head).await
            }
            Wire::Streams | Wire::Door => {
                let folder = self.folder();
                let asked = format!("HEAD {folder}{name} HTTP/1.1\r\nhost: {host}\r\n\r\n");
                // Its end is a number of bytes, behind another number; Tideline's, of messages, before it.
                let find = |bytes: &[u8]| {
                    let found = http::Answer::head(bytes)?;
                    Ok(found.map(|(answer, length)| {
                        let end = answer.header("stream-next-offset");
                        let end = end.and_then(|end| end.split_once('_'));
                        let end = end.and_then(|(messages, bytes)| match self {
                            Wire::Door => messages.parse().ok(),
                            _ => Some(bytes.parse::<u64>().ok()? / size as u64),
                        });
                        (end, length)
                    }))
                };
                pipe.ask(asked.as_bytes(), find).await
            }
        }
    }
}

/// The address in a server's URL.
pub(crate) fn host(url: &str) -> &str {
    let address = url.split_once("://").map_or(url, |(_, address)| address);
    address.split('/').next().unwrap_or_default()
}

/// A request with a body of some type.
pub(crate) fn post(host: &str, path: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// Makes all streams, one after the other.
async fn make(host: &str, folder: &str, streams: u64) -> io::Result<()> {
    let mut pipe = Pipe::connect(host, Way::Plain).await?;
    for number in 0..streams {
        let name = timeline_name(PREFIX, number);
        let put = format!(
            "PUT {folder}{name} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/octet-stream\r\ncontent-length: 0\r\n\r\n"
        );
        let status = http::ask(&mut pipe, put.as_bytes(), |answer| answer.status).await?;
        if status != 201 {
            let what = format!("{name} can't be made: status {status}");
            return Err(io::Error::other(what));
        }
    }
    Ok(())
}

/// One connection.
struct Lane {
    run: Rc<Run>,
    /// By timeline, of all connections.
    acked: Rc<RefCell<Vec<u64>>>,
    random: Random,
    request: Template,
    sent: u64,
    /// The slot and the timeline of what is on the way.
    waiting: Option<(usize, u64)>,
}

impl Lane {
    fn new(run: &Rc<Run>, request: String, acked: Rc<RefCell<Vec<u64>>>, number: usize) -> Lane {
        Lane {
            run: Rc::clone(run),
            acked,
            random: Random::new(run.seed_of(number as u64)),
            request: Template::new(request),
            sent: 0,
            waiting: None,
        }
    }
}

impl Talk for Lane {
    const WINDOW_MAX: usize = 1;

    fn put(&mut self, out: &mut Vec<u8>, slot: usize) {
        let timeline = self.random.below(self.acked.borrow().len() as u64);
        self.request.stamp(out, &[timeline, self.sent]);
        self.sent += 1;
        self.waiting = Some((slot, timeline));
    }

    fn take(
        &mut self,
        bytes: &[u8],
        _out: &mut Vec<u8>,
        each: &mut dyn FnMut(Answer),
    ) -> io::Result<usize> {
        let Some((answer, length)) = http::Answer::find(bytes)? else {
            return Ok(0);
        };
        let Some((slot, timeline)) = self.waiting.take() else {
            return Err(io::Error::other("an answer that nothing waits for"));
        };
        // A refusal of JSON-RPC comes with status 200.
        let is_stored =
            answer.status < 300 && memchr::memmem::find(answer.body, b"\"error\"").is_none();
        match is_stored {
            true => self.acked.borrow_mut()[timeline as usize] += 1,
            false => {
                let (status, body) = (answer.status, String::from_utf8_lossy(answer.body));
                let what = format_args!("refused: status {status} {body:.200}");
                self.run.checks.fault(what);
            }
        }
        let recorder = is_stored.then_some(0);
        each(Answer { slot, recorder });
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use tideline_load::run::setup::Setup;

    use super::*;

    #[test]
    fn requests_carry_their_numbers_and_refusals_do_not_count() {
        let setup = Setup::parse_from(["test", "--quiet"]);
        let run = Run::new(&setup, String::new(), None);
        for (wire, asked, stored, refused) in [
            (
                Wire::Rpc,
                "POST /v1/rpc HTTP/1.1\r\nhost: a:1\r\ncontent-type: application/json\r\ncontent-length: 139\r\n\r\n\
                 {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"message.append\",\"params\":{\"timeline\":\"posts-000000000\",\
                 \"entry\":{\"text\":\"hi\"},\"message_id\":\"7-000000000\"}}",
                "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
                "HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n{\"error\":{}}",
            ),
            (
                Wire::Streams,
                "POST /posts-000000000 HTTP/1.1\r\nhost: a:1\r\ncontent-type: application/octet-stream\r\n\
                 content-length: 2\r\n\r\nhi",
                "HTTP/1.1 204 No Content\r\n\r\n",
                "HTTP/1.1 409 Conflict\r\ncontent-length: 0\r\n\r\n",
            ),
        ] {
            let acked = Rc::new(RefCell::new(vec![0; 1]));
            let request = wire.append(host("ws://a:1/v1/connect"), "7-", "hi");
            let mut lane = Lane::new(&run, request, Rc::clone(&acked), 7);
            let before = run.checks.faults();
            for (said, recorder) in [(stored, Some(0)), (refused, None)] {
                let mut out = Vec::new();
                lane.put(&mut out, 3);
                if recorder.is_some() {
                    assert_eq!(String::from_utf8_lossy(&out), asked);
                }
                let mut seen = Vec::new();
                let mut each = |answer: Answer| seen.push((answer.slot, answer.recorder));
                let short = &said.as_bytes()[..said.len() - 1];
                assert_eq!(lane.take(short, &mut out, &mut each).expect("legal"), 0);
                let taken = lane.take(said.as_bytes(), &mut out, &mut each);
                assert_eq!(taken.expect("legal"), said.len());
                assert_eq!(seen, [(3, recorder)]);
            }
            assert_eq!((acked.borrow()[0], run.checks.faults() - before), (1, 1));
            let mut surplus = |_| {};
            assert!(
                lane.take(stored.as_bytes(), &mut Vec::new(), &mut surplus)
                    .is_err()
            );
        }
        assert_eq!(host("127.0.0.1:5"), "127.0.0.1:5");
    }
}
