//! The leanest WebSocket client that the protocol allows, for the profiles that measure speed: ready-made frames out,
//! borrowed texts in.
//!
//! Owns: the handshake and the framing of one connection. Promises: each frame is legal; control frames are handled.
//! Must not: be used against proxies: its masking key is always zero, which is legal on the wire, costs the server the
//! same, and spares the load generator, which shares the machine with the server, copies and random numbers.

use std::fmt;
use std::io::{self, Cursor};

use tokio_tungstenite::tungstenite::http::Uri;
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Control, Data, OpCode};

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
#[derive(Debug)]
struct Found {
    opcode: OpCode,
    is_final: bool,
    /// Where its payload begins, from the first byte of the frame.
    payload: usize,
    /// Where the next frame begins.
    end: usize,
}

/// No message of the server is larger.
const FRAME_BYTES_MAX: u64 = 8 << 20;

/// Connects and upgrades; what follows the server's answer is still in the pipe.
pub async fn upgrade(url: &str) -> io::Result<Pipe> {
    let (uri, host) = place(url)?;
    ask(Pipe::connect(&host).await?, &uri, &host).await
}

fn bad(url: &dyn fmt::Display, text: &str) -> io::Error {
    io::Error::other(format!("{url}: {text}"))
}

/// Where an address leads: itself, and host and port.
pub(crate) fn place(url: &str) -> io::Result<(Uri, String)> {
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
        if let Some(at) = memchr::memmem::find(answer, b"\r\n\r\n") {
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
        Ok(Lean::on(upgrade(url).await?))
    }

    /// As `open`, with so little room for what has come that the server notices soon when nobody reads.
    pub async fn open_narrow(url: &str, receive_bytes: u32) -> io::Result<Lean> {
        let (uri, host) = place(url)?;
        let pipe = Pipe::connect_narrow(&host, receive_bytes).await?;
        Ok(Lean::on(ask(pipe, &uri, &host).await?))
    }

    fn on(pipe: Pipe) -> Lean {
        let (pongs, parts) = (Vec::new(), Vec::new());
        Lean { pipe, pongs, parts }
    }

    /// Writes frames that `put_text` made.
    pub async fn write(&mut self, frames: &[u8]) -> io::Result<()> {
        let pongs = std::mem::take(&mut self.pongs);
        self.pipe.write(&pongs).await?;
        self.pipe.write(frames).await
    }

    /// Waits for bytes, then hands every whole message that they complete to `each`, which must not read from another
    /// connection. Cancel-safe.
    ///
    /// # Errors
    ///
    /// The connection ended ([`close_code`] tells a goodbye), or the server sent what it may not.
    pub async fn read(&mut self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let Lean { pipe, pongs, parts } = self;
        let texts = |bytes: &[u8], pongs: &mut Vec<u8>| texts(bytes, pongs, parts, &mut each);
        pipe.exchange(pongs, texts).await
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
        // Behind what is there: its first frame may have left in part.
        out.append(pongs);
        let texts = |bytes: &[u8], out: &mut Vec<u8>| texts(bytes, out, parts, &mut each);
        pipe.exchange(out, texts).await
    }
}

/// Hands every whole text at the start of the bytes to `each`, answers pings into `pongs`, keeps the fragments of a
/// text in `parts`, and returns how many bytes that were.
pub fn texts(
    bytes: &[u8],
    pongs: &mut Vec<u8>,
    parts: &mut Vec<u8>,
    mut each: impl FnMut(&[u8]),
) -> io::Result<usize> {
    frames(bytes, |opcode, is_final, payload| {
        match opcode {
            OpCode::Data(Data::Text) if is_final => each(payload),
            OpCode::Data(Data::Text) => *parts = payload.to_vec(),
            OpCode::Data(Data::Continue) => {
                parts.extend_from_slice(payload);
                if is_final {
                    each(&std::mem::take(parts));
                }
            }
            OpCode::Control(Control::Ping) => put(pongs, OpCode::Control(Control::Pong), payload),
            OpCode::Control(Control::Pong) => {}
            _ => return Err(io::Error::other("a frame that was not expected")),
        }
        Ok(())
    })
}

/// Hands the payload of every whole data frame at the start of the bytes to `each`, for protocols that are streams and
/// care for no frames, and returns how many bytes that were.
pub fn streamed(bytes: &[u8], mut each: impl FnMut(&[u8])) -> io::Result<usize> {
    frames(bytes, |opcode, _, payload| {
        if matches!(opcode, OpCode::Data(_)) {
            each(payload);
        }
        Ok(())
    })
}

/// Hands every whole frame at the start of the bytes to `each`; a goodbye is the error.
fn frames(
    bytes: &[u8],
    mut each: impl FnMut(OpCode, bool, &[u8]) -> io::Result<()>,
) -> io::Result<usize> {
    let mut taken = 0;
    while let Some(found) = find(&bytes[taken..])? {
        let payload = &bytes[taken + found.payload..taken + found.end];
        if found.opcode == OpCode::Control(Control::Close) {
            let code = payload.first_chunk().map(|two| u16::from_be_bytes(*two));
            return Err(io::Error::other(Closed(code.unwrap_or(1005))));
        }
        each(found.opcode, found.is_final, payload)?;
        taken += found.end;
    }
    Ok(taken)
}

/// Appends a text frame with the masking key zero. Returns where its payload begins in `out`.
pub fn put_text(out: &mut Vec<u8>, payload: &[u8]) -> usize {
    put(out, OpCode::Data(Data::Text), payload);
    out.len() - payload.len()
}

fn put(out: &mut Vec<u8>, opcode: OpCode, payload: &[u8]) {
    let header = FrameHeader {
        opcode,
        mask: Some([0; 4]),
        ..FrameHeader::default()
    };
    // Writing into a vector can't fail.
    let _ = header.format(payload.len() as u64, out);
    out.extend_from_slice(payload);
}

/// The frame at the start of the bytes, if it is whole.
fn find(bytes: &[u8]) -> io::Result<Option<Found>> {
    let mut cursor = Cursor::new(bytes);
    let Some((header, length)) = FrameHeader::parse(&mut cursor).map_err(io::Error::other)? else {
        return Ok(None);
    };
    if header.mask.is_some() || header.rsv1 || header.rsv2 || header.rsv3 {
        let what = "a masked or reserved frame from the server";
        return Err(io::Error::other(what));
    }
    if length > FRAME_BYTES_MAX {
        return Err(io::Error::other("a frame above 8 MiB"));
    }
    let payload = cursor.position() as usize;
    let found = Found {
        opcode: header.opcode,
        is_final: header.is_final,
        payload,
        end: payload + length as usize,
    };
    Ok((bytes.len() >= found.end).then_some(found))
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
            let text = OpCode::Data(Data::Text);
            assert_eq!((found.opcode, found.is_final), (text, true));
            assert_eq!(found.end, frame.len());
            assert_eq!(&frame[found.payload..found.end], payload);
            let early = find(&frame[..frame.len() - 1]).expect("legal");
            assert!(early.is_none());
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
