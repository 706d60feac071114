//! The leanest WebSocket client that the protocol allows, for the profiles that measure speed: ready-made frames out,
//! borrowed texts in.
//!
//! Owns: the handshake and the framing of one connection. Promises: each frame is legal; control frames are handled.
//! Must not: be used where safety against proxies counts: its masking key is always zero, which is legal on the wire,
//! costs the server the same, and spares the load generator, which shares the machine with the server, the copying and
//! the random numbers.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use tokio_tungstenite::tungstenite::http::Uri;

use crate::pipe::Pipe;

/// One end of a connection.
pub struct Lean {
    pipe: Pipe,
    /// Answers to pings on their way out.
    pongs: Vec<u8>,
    /// What has come of a message in fragments.
    parts: Vec<u8>,
}

/// The server said goodbye, with this code; 1005 if it gave none. Comes inside of an [`io::Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed(pub u16);

impl fmt::Display for Closed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "closed by the server with {}", self.0)
    }
}

impl std::error::Error for Closed {}

/// The code of the server's goodbye, if that is what the error is.
#[must_use]
pub fn close_code(error: &io::Error) -> Option<u16> {
    let closed: &Closed = error.get_ref()?.downcast_ref()?;
    Some(closed.0)
}

/// A frame of the server as found in the buffer.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    opcode: u8,
    finished: bool,
    /// Where its payload begins, from the first byte of the frame.
    payload: usize,
    /// Where the next frame begins.
    end: usize,
}

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;

/// Connects and upgrades; what follows the server's answer is still in the pipe.
pub(crate) async fn upgrade(url: &str, buffer_bytes: usize) -> io::Result<Pipe> {
    let (uri, host) = place(url)?;
    ask(Pipe::connect(&host, buffer_bytes).await?, &uri, &host).await
}

fn bad(url: &dyn fmt::Display, text: &str) -> io::Error {
    io::Error::other(format!("{url}: {text}"))
}

/// Where an address leads: itself, and host and port.
fn place(url: &str) -> io::Result<(Uri, String)> {
    let uri: Uri = url.parse().map_err(|_| bad(&url, "not an address"))?;
    let host = address(&uri).ok_or_else(|| bad(&url, "not a ws:// address"))?;
    Ok((uri, host))
}

/// `host:port` of a `ws://` address.
#[must_use]
pub fn address(uri: &Uri) -> Option<String> {
    (uri.scheme_str() == Some("ws")).then_some(())?;
    Some(format!("{}:{}", uri.host()?, uri.port_u16().unwrap_or(80)))
}

async fn ask(mut pipe: Pipe, uri: &Uri, host: &str) -> io::Result<Pipe> {
    // The key may be fixed: it guards against confused proxies and caches, and there are none here.
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: tideline.v1.json\r\n\r\n",
        uri.path()
    );
    pipe.write(request.as_bytes()).await?;
    loop {
        let answer = pipe.bytes();
        if let Some(at) = answer.windows(4).position(|four| four == b"\r\n\r\n") {
            if !answer.starts_with(b"HTTP/1.1 101") {
                return Err(bad(uri, &String::from_utf8_lossy(&answer[..at])));
            }
            pipe.take(at + 4);
            return Ok(pipe);
        }
        pipe.more().await?;
    }
}

impl Lean {
    /// Connects and upgrades.
    pub async fn open(url: &str) -> io::Result<Lean> {
        Ok(Lean::on(upgrade(url, 1 << 10).await?))
    }

    /// As `open`, with so little room for what has come that the server notices soon when nobody reads.
    pub async fn open_narrow(url: &str, receive_bytes: u32) -> io::Result<Lean> {
        let (uri, host) = place(url)?;
        let pipe = Pipe::connect_narrow(&host, receive_bytes).await?;
        Ok(Lean::on(ask(pipe, &uri, &host).await?))
    }

    fn on(pipe: Pipe) -> Lean {
        Lean {
            pipe,
            pongs: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// Writes frames that `put_text` made.
    pub async fn write(&mut self, frames: &[u8]) -> io::Result<()> {
        poll_fn(|context| self.pipe.poll_drain(context, &mut self.pongs)).await?;
        self.pipe.write(frames).await
    }

    /// Waits for bytes, then hands every whole message that they complete to `each`, which must not read from another
    /// connection. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The connection ended ([`close_code`] tells a goodbye), or the server sent what it may not.
    pub async fn read(&mut self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        poll_fn(|context| self.poll_read(context, &mut each)).await
    }

    /// As `read`, and writes meanwhile what the socket takes of `out`, from its front. `out` holds whole frames that
    /// `put_text` made, and may be added to between two calls. Cancel-safe.
    ///
    /// # Errors
    ///
    /// As `read`.
    pub async fn exchange(
        &mut self,
        out: &mut Vec<u8>,
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        let Lean { pipe, pongs, parts } = self;
        poll_fn(|context| {
            // Behind what is there: its first frame may have left in part.
            out.append(pongs);
            if let Poll::Ready(Err(error)) = pipe.poll_drain(context, out) {
                return Poll::Ready(Err(error));
            }
            pipe.poll_feed(context, |bytes| texts(bytes, pongs, parts, &mut each))
        })
        .await
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        each: &mut impl FnMut(&[u8]),
    ) -> Poll<io::Result<()>> {
        let Lean { pipe, pongs, parts } = self;
        // A socket that takes no pong now is asked again with the next bytes.
        if let Poll::Ready(Err(error)) = pipe.poll_drain(context, pongs) {
            return Poll::Ready(Err(error));
        }
        pipe.poll_feed(context, |bytes| texts(bytes, pongs, parts, each))
    }
}

/// Hands every whole text at the start of the bytes to `each`, answers pings into `pongs`, keeps the fragments of a
/// text in `parts`, and tells how many bytes that were.
pub(crate) fn texts(
    bytes: &[u8],
    pongs: &mut Vec<u8>,
    parts: &mut Vec<u8>,
    mut each: impl FnMut(&[u8]),
) -> io::Result<usize> {
    let mut taken = 0;
    while let Some(found) = find(&bytes[taken..])? {
        let payload = &bytes[taken + found.payload..taken + found.end];
        match found.opcode {
            TEXT if found.finished => each(payload),
            TEXT => *parts = payload.to_vec(),
            CONTINUATION => {
                parts.extend_from_slice(payload);
                if found.finished {
                    each(&std::mem::take(parts));
                }
            }
            PING => put(pongs, PONG, payload),
            PONG => {}
            CLOSE => {
                let code = payload.first_chunk().map(|two| u16::from_be_bytes(*two));
                return Err(io::Error::other(Closed(code.unwrap_or(1005))));
            }
            _ => return Err(io::Error::other("a frame that was not expected")),
        }
        taken += found.end;
    }
    Ok(taken)
}

/// Hands the payload of every whole data frame at the start of the bytes to `each`, for protocols that are streams and
/// care for no frames, and tells how many bytes that were.
pub(crate) fn streamed(bytes: &[u8], mut each: impl FnMut(&[u8])) -> io::Result<usize> {
    let mut taken = 0;
    while let Some(found) = find(&bytes[taken..])? {
        let payload = &bytes[taken + found.payload..taken + found.end];
        match found.opcode {
            CONTINUATION | TEXT | BINARY => each(payload),
            CLOSE => return Err(io::Error::other("closed by the server")),
            _ => {}
        }
        taken += found.end;
    }
    Ok(taken)
}

/// Appends a text frame with the masking key zero. Returns where its payload begins in `out`.
pub fn put_text(out: &mut Vec<u8>, payload: &[u8]) -> usize {
    put(out, TEXT, payload);
    out.len() - payload.len()
}

fn put(out: &mut Vec<u8>, opcode: u8, payload: &[u8]) {
    out.push(FINAL | opcode);
    match payload.len() {
        length @ 0..126 => out.push(MASKED | length as u8),
        length @ 126..0x1_0000 => {
            out.push(MASKED | 126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            out.push(MASKED | 127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(payload);
}

/// The frame at the start of the bytes, if it is whole.
fn find(bytes: &[u8]) -> io::Result<Option<Found>> {
    let [first, second, rest @ ..] = bytes else {
        return Ok(None);
    };
    if second & MASKED != 0 || first & 0x70 != 0 {
        return Err(io::Error::other(
            "a masked or reserved frame from the server",
        ));
    }
    let (payload, length) = match (second & 0x7f, rest) {
        (126, [a, b, ..]) => (4, usize::from(u16::from_be_bytes([*a, *b]))),
        (127, [a, b, c, d, e, f, g, h, ..]) => {
            let length = u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
            let length = usize::try_from(length)
                .ok()
                .filter(|length| *length <= 8 << 20);
            (
                10,
                length.ok_or_else(|| io::Error::other("a frame above 8 MiB"))?,
            )
        }
        (126 | 127, _) => return Ok(None),
        (short, _) => (2, usize::from(short)),
    };
    let end = payload + length;
    let (opcode, finished) = (first & 0x0f, first & FINAL != 0);
    let found = Found {
        opcode,
        finished,
        payload,
        end,
    };
    Ok((bytes.len() >= end).then_some(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn from_server(payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        put_text(&mut frame, payload);
        let header = frame.len() - payload.len() - 4;
        frame.drain(header..header + 4);
        frame[1] &= 0x7f;
        frame
    }

    #[test]
    fn each_length_form_is_found_and_never_early() {
        for length in [0, 1, 125, 126, 127, 65_535, 65_536, 70_000] {
            let payload = vec![b'x'; length];
            let frame = from_server(&payload);
            let found = find(&frame).expect("legal").expect("whole");
            assert_eq!(
                (found.opcode, found.finished, found.end),
                (TEXT, true, frame.len())
            );
            assert_eq!(&frame[found.payload..found.end], payload);
            assert_eq!(find(&frame[..frame.len() - 1]).expect("legal"), None);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(Some(found)) = find(&bytes) {
                prop_assert!(found.payload <= found.end && found.end <= bytes.len());
            }
        }
    }
}
