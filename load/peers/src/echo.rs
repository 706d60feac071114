//! The floor that sockets set: a WebSocket echo with nothing behind it, under the frames of `append`.
//!
//! Owns: the echo, and how the generator speaks to it. Promises: it gets the frames that Tideline gets, from the same
//! generator. Must not: be a server of anything.

use std::io;
use std::net::SocketAddr;

use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use tideline_load::frame::{texts, upgrade};
use tideline_load::pipe::Pipe;
use tideline_load::random::Random;
use tideline_load::template::{SLOT_BASE, Template};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use crate::keyed::{Peer, Words};

/// Runs on threads of its own; ends with its handle.
pub(crate) struct Server {
    runtime: Option<Runtime>,
    address: SocketAddr,
}

impl Server {
    pub(crate) fn start() -> io::Result<Server> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("echo")
            .enable_all()
            .build()?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let handle = runtime.handle().clone();
        runtime.spawn(async move {
            let Ok(listener) = TcpListener::from_std(listener) else {
                return;
            };
            while let Ok((stream, _)) = listener.accept().await {
                handle.spawn(echo(stream));
            }
        });
        Ok(Server {
            runtime: Some(runtime),
            address,
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}/", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A runtime may not wait for its threads inside of another one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Sends back what comes, all that is there in one write. Ends with the connection, whatever ended it.
async fn echo(stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else {
        return;
    };
    while let Some(Ok(frame)) = socket.next().await {
        if !frame.is_text() || socket.feed(frame).await.is_err() {
            return;
        }
        while let Some(Some(Ok(more))) = socket.next().now_or_never() {
            if !more.is_text() || socket.feed(more).await.is_err() {
                return;
            }
        }
        if socket.flush().await.is_err() {
            return;
        }
    }
}

/// The echo as a peer.
pub(crate) struct Echo;

/// One connection.
pub(crate) struct Sending {
    template: Template,
    parts: Vec<u8>,
    sent: u64,
}

impl Words for Sending {
    fn put(&mut self, out: &mut Vec<u8>, slot: usize, timeline: u64) {
        let request = SLOT_BASE + slot as u64;
        self.template.stamp(out, &[request, timeline, self.sent]);
        self.sent += 1;
    }

    fn take(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        each: &mut dyn FnMut(usize, Option<String>),
    ) -> io::Result<usize> {
        let mut odd = None;
        let taken = texts(bytes, out, &mut self.parts, |text| match slot_of(text) {
            Some(slot) => each(slot, None),
            None => odd = Some(String::from_utf8_lossy(text).into_owned()),
        })?;
        match odd {
            None => Ok(taken),
            Some(text) => Err(io::Error::other(format!("not what was sent: {text:.200}"))),
        }
    }
}

/// The slot of a request that came back.
fn slot_of(text: &[u8]) -> Option<usize> {
    let rest = text.strip_prefix(b"{\"jsonrpc\":\"2.0\",\"id\":")?;
    let digits = std::str::from_utf8(rest.first_chunk::<4>()?).ok()?;
    usize::try_from(digits.parse::<u64>().ok()?.checked_sub(SLOT_BASE)?).ok()
}

impl Peer for Echo {
    const NAME: &'static str = "echo";
    type Words = Sending;

    async fn open(&self, address: &str, lane: usize, text: &str) -> io::Result<(Pipe, Sending)> {
        let (tag, seed) = (format!("peers-{lane}-"), Random::fresh_seed());
        let sending = Sending {
            template: Template::append("peers/", Some(&tag), text.len(), seed),
            parts: Vec::new(),
            sent: 0,
        };
        Ok((upgrade(address, None).await?, sending))
    }

    /// It holds nothing.
    async fn check(&self, _: &str, _: &[u32], _: &[u64]) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_comes_back_is_known_by_its_slot() {
        let text = br#"{"jsonrpc":"2.0","id":1015,"method":"message.append","params":{}}"#;
        assert_eq!(slot_of(text), Some(15));
        for odd in [
            &b""[..],
            b"{\"jsonrpc\":\"2.0\",\"id\":1",
            b"{\"jsonrpc\":\"2.0\",\"id\":0999}",
        ] {
            assert_eq!(slot_of(odd), None);
        }
    }
}
