//! The native protocol as a [`Talk`] of the generator.
//!
//! Owns: the requests of a connection that are on the way. Promises: what is no answer to one of them is a fault; at a
//! cluster's nodes they go out again, as they were, where a connection is lost or refuses for now. Must not: know what
//! is asked (that is [`Ask`]).

use std::io;
use std::rc::Rc;

use super::frame::texts;
use super::generator;
use super::generator::Talk;
use super::pipe::{Pipe, Way};
pub(crate) use super::rpc::Outcome;
use super::rpc::{Answer, open};
use super::template::SLOT_BASE;
use crate::run::Run;

/// How the text begins in which a server says that it shuts down.
pub(crate) const DRAINING: &str = r#"{"jsonrpc":"2.0","method":"draining""#;

/// What a connection asks of Tideline, and the check of each answer.
pub(crate) trait Ask: Sized + 'static {
    /// What is kept of a request until its answer comes.
    type Asked;

    /// Appends the frame of a new request with this number.
    fn put(&mut self, out: &mut Vec<u8>, request: u64) -> Self::Asked;

    /// Checks what came of it; the error is a fault.
    fn take(&mut self, asked: Self::Asked, outcome: Outcome<'_>) -> Result<(), String>;
}

/// A connection of the native protocol, for the generator.
pub(crate) struct Session<A: Ask> {
    /// What it asks.
    pub(crate) ask: A,
    run: Rc<Run>,
    user: Option<String>,
    parts: Vec<u8>,
    /// By slot, with the frames that go out again, if they may.
    asked: Vec<Option<(A::Asked, Vec<u8>)>>,
}

impl<A: Ask> Session<A> {
    /// Opens connections, each with what `ask` makes for its number.
    pub(crate) fn each(
        run: &Rc<Run>,
        ask: impl Fn(usize) -> A,
    ) -> impl AsyncFnMut(usize) -> io::Result<(Pipe, Session<A>)> {
        Session::each_as(run, |_| None, ask)
    }

    /// As `each`, the connection of each number as this user, if it is one.
    pub(crate) fn each_as(
        run: &Rc<Run>,
        user: impl Fn(usize) -> Option<String>,
        ask: impl Fn(usize) -> A,
    ) -> impl AsyncFnMut(usize) -> io::Result<(Pipe, Session<A>)> {
        async move |number| {
            let session = Session {
                ask: ask(number),
                run: Rc::clone(run),
                user: user(number),
                parts: Vec::new(),
                asked: Vec::new(),
            };
            let pipe = open(&run.url, Way::Plain, session.user.as_deref()).await?;
            Ok((pipe, session))
        }
    }
}

impl<A: Ask> Talk for Session<A> {
    fn put(&mut self, out: &mut Vec<u8>, slot: usize) {
        let begun = out.len();
        let asked = self.ask.put(out, SLOT_BASE + slot as u64);
        let frame = match self.run.is_cluster() {
            true => out[begun..].to_vec(),
            false => Vec::new(),
        };
        if slot >= self.asked.len() {
            self.asked.resize_with(slot + 1, || None);
        }
        self.asked[slot] = Some((asked, frame));
    }

    fn take(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        each: &mut dyn FnMut(generator::Answer),
    ) -> io::Result<usize> {
        let mut refused = None;
        let read = texts(bytes, out, &mut self.parts, |text| {
            let answer = Answer::read(text).and_then(|Answer { id, outcome }| {
                let slot = usize::try_from(id.checked_sub(SLOT_BASE)?).ok()?;
                Some((slot, self.asked.get_mut(slot)?.take()?, outcome))
            });
            let Some((slot, (asked, frame), outcome)) = answer else {
                let text = String::from_utf8_lossy(text);
                if self.run.is_cluster() && text.starts_with(DRAINING) {
                    return;
                }
                let what = format_args!("not an answer to what was asked: {text:.200}");
                return self.run.checks.fault(what);
            };
            if let Some(refusal) = outcome
                .as_ref()
                .err()
                .filter(|refusal| refusal.may_repeat())
                && !frame.is_empty()
            {
                refused = Some(io::Error::other(refusal.to_string()));
                self.asked[slot] = Some((asked, frame));
                return;
            }
            let recorder = outcome.is_ok().then_some(0);
            each(generator::Answer { slot, recorder });
            if let Err(fault) = self.ask.take(asked, outcome) {
                self.run.checks.fault(fault);
            }
        });
        refused.map_or(read, Err)
    }

    async fn again(&mut self, lost: io::Error, out: &mut Vec<u8>) -> io::Result<Pipe> {
        if !self.run.is_cluster() {
            return Err(lost);
        }
        let pipe = open(&self.run.url, Way::Plain, self.user.as_deref()).await?;
        self.run.add("reconnects", 1);
        self.parts.clear();
        let asked = self.asked.iter().flatten();
        asked.for_each(|(_, frame)| out.extend_from_slice(frame));
        Ok(pipe)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::LocalSet;
    use tokio::time::Instant;

    use super::*;
    use crate::client::generator::Flow;
    use crate::client::pace::Gaps;
    use crate::client::rpc::put_request;
    use crate::run::setup::plain;

    const UPGRADED: &str = "HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

    /// Asks once, and counts what came.
    struct Once(Vec<bool>);

    impl Ask for Once {
        type Asked = ();

        fn put(&mut self, out: &mut Vec<u8>, request: u64) {
            put_request(
                out,
                request,
                "message.append",
                &json!({ "message_id": "m1" }),
            );
        }

        fn take(&mut self, (): (), outcome: Outcome<'_>) -> Result<(), String> {
            self.0.push(outcome.is_ok());
            Ok(())
        }
    }

    pub(in crate::client) async fn came(listener: &TcpListener) -> TcpStream {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        assert!(stream.read(&mut [0; 1_000]).await.expect("a handshake") > 0);
        stream.write_all(UPGRADED.as_bytes()).await.expect("sent");
        stream
    }

    pub(in crate::client) async fn frame(stream: &mut TcpStream) -> Vec<u8> {
        let mut bytes = vec![0; 1_000];
        let length = stream.read(&mut bytes).await.expect("a request");
        bytes.truncate(length);
        bytes
    }

    pub(in crate::client) async fn say(stream: &mut TcpStream, text: &str) {
        let frame = [&[0x81, 126, 0, text.len() as u8], text.as_bytes()].concat();
        stream.write_all(&frame).await.expect("sent");
    }

    #[tokio::test]
    async fn at_a_clusters_nodes_what_was_not_answered_goes_out_again() {
        let [dead, listener] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0"));
        let (dead, listener) = (dead.await.expect("a port"), listener.await.expect("a port"));
        let url = |of: &TcpListener| format!("ws://{}/", of.local_addr().expect("an address"));
        let urls = format!("{},{}", url(&dead), url(&listener));
        drop(dead);
        let run = Run::new(&plain(), urls, None);
        let flow = Flow {
            connections: 1,
            in_flight: 1,
            rate: None,
            gaps: Gaps::Fixed,
        };
        let recorder = flow.recorder(&run, "ack");
        run.window.begin(Instant::now());
        let asking = async {
            let open = Session::each(&run, |_| Once(Vec::new()));
            flow.start(&run, &[recorder], open).await.expect("started")
        };
        let serving = async {
            let mut first = came(&listener).await;
            let asked = frame(&mut first).await;
            drop(first);
            let mut second = came(&listener).await;
            assert_eq!(frame(&mut second).await, asked);
            let id = SLOT_BASE;
            let refused = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":503,"message":"","data":{{"reason":"outcome_unknown"}}}}}}"#
            );
            say(&mut second, &refused[..]).await;
            let mut third = came(&listener).await;
            assert_eq!(frame(&mut third).await, asked);
            run.end_early();
            say(
                &mut third,
                &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#),
            )
            .await;
            third
        };
        let both = async { tokio::join!(asking, serving) };
        let local = LocalSet::new();
        let (asked, _third) = local.run_until(both).await;
        for one in asked {
            let session = local.run_until(one).await.expect("through");
            assert_eq!(session.ask.0, [true]);
        }
        assert_eq!(run.checks.faults(), 0);
    }
}
