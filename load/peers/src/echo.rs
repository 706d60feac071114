//! The floor that sockets set: a WebSocket echo with nothing behind it, under the frames of `append`.
//!
//! Owns: the echo, and how the generator speaks to it. Promises: it gets the frames that Tideline gets, from the same
//! generator. Must not: be a server of anything.

use std::io;

use futures_util::{StreamExt as _, TryStreamExt as _, future::ready};
use tideline_load::frame::{texts, upgrade};
use tideline_load::pipe::Pipe;
use tideline_load::random::Random;
use tideline_load::template::{MessageIds, SLOT_BASE, Template};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::appends::Words;

/// Starts one on this runtime; it ends with the handle. Also returns its address.
pub(crate) async fn serve() -> io::Result<(JoinSet<()>, String)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("ws://{}/", listener.local_addr()?);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(echo(stream));
        }
    });
    Ok((tasks, url))
}

/// Sends back what comes, all that is there in one write. Ends with the connection, whatever ended it.
async fn echo(stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let Ok(socket) = tokio_tungstenite::accept_async(stream).await else {
        return;
    };
    let (back, frames) = socket.split();
    let texts = frames.try_filter(|frame| ready(frame.is_text()));
    let _ = texts.forward(back).await;
}

/// One connection.
struct Sending {
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

pub(crate) async fn open(url: &str, lane: usize, text: &str) -> io::Result<(Pipe, Box<dyn Words>)> {
    let (tag, seed) = (format!("peers-{lane}-"), Random::fresh_seed());
    let sending = Sending {
        template: Template::append("peers/", &tag, text.len(), MessageIds::All, seed),
        parts: Vec::new(),
        sent: 0,
    };
    Ok((upgrade(url).await?, Box::new(sending)))
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
