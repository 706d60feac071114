//! The leanest WebSocket client that the protocol allows: ready-made frames out, borrowed texts in.
//!
//! Owns: the handshake and the framing of a connection. Promises: each frame is legal; control frames are handled.
//! Must not: be used against proxies: its masking key is always zero, which is legal on the wire, costs the server the
//! same, and spares the load generator, which shares the machine with the server, copies and random numbers.

use std::io::{self, Cursor};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Control, Data, OpCode};

use super::http::Answer;
use super::pipe::{Pipe, Way};
use super::secure::header;

/// How long one attempt to connect may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause between two attempts where there are several addresses.
const AGAIN: Duration = Duration::from_millis(20);
/// No message of the server is larger.
const FRAME_BYTES_MAX: u64 = 8 << 20;
const TEXT: OpCode = OpCode::Data(Data::Text);

/// The server said goodbye, with this code; 1005 if it gave none. Comes inside of an [`io::Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("closed by the server with {0}")]
pub struct Closed(pub u16);

/// The code of the server's goodbye, if that is what the error is.
#[must_use]
pub fn close_code(error: &io::Error) -> Option<u16> {
    let closed: &Closed = error.get_ref()?.downcast_ref()?;
    Some(closed.0)
}

/// The addresses of a cluster's nodes, with commas between.
pub(super) fn addresses(urls: &str) -> Vec<&str> {
    urls.split(',').map(str::trim).collect()
}

/// The `host:port` and the path of a `ws://` or `wss://` address; of several, the first.
pub(crate) fn place(urls: &str) -> io::Result<(String, &str)> {
    let url = addresses(urls)[0];
    let (rest, port) = match url.strip_prefix("ws://") {
        Some(rest) => (Some(rest), ":80"),
        None => (url.strip_prefix("wss://"), ":443"),
    };
    let rest = rest.filter(|rest| !rest.is_empty());
    let rest =
        rest.ok_or_else(|| io::Error::other(format!("{url}: no ws:// or wss:// address")))?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let port = if host.contains(':') { "" } else { port };
    Ok((format!("{host}{port}"), path))
}

/// Connects to the server behind such an address, over TLS if it says so.
pub(crate) async fn dial(url: &str, way: Way) -> io::Result<Pipe> {
    let (host, _) = place(url)?;
    let pipe = Pipe::connect(&host, way).await?;
    match url.starts_with("wss:") {
        true => pipe.secured(&host).await,
        false => Ok(pipe),
    }
}

/// Connects and upgrades; what follows the server's answer is still in the pipe. Of several addresses connections take
/// turns, and one that does not take a connection is left for the next one, again and again for a minute.
pub async fn upgrade(urls: &str, way: Way) -> io::Result<Pipe> {
    static TURNS: AtomicUsize = AtomicUsize::new(0);
    let (urls, late) = (addresses(urls), Instant::now() + PATIENCE);
    loop {
        let turn = TURNS.fetch_add(1, Ordering::Relaxed);
        match upgrade_at(urls[turn % urls.len()], way).await {
            Err(_) if urls.len() > 1 && Instant::now() < late => sleep(AGAIN).await,
            done => return done,
        }
    }
}

async fn upgrade_at(url: &str, way: Way) -> io::Result<Pipe> {
    let upgrading = async {
        let (host, path) = place(url)?;
        let mut pipe = dial(url, way).await?;
        // The key may be fixed: it guards against confused proxies and caches, and there are none here. So is what must
        // come back for it (RFC 6455, 1.3).
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Protocol: tideline.v1.json\r\n{}\r\n",
            header()
        );
        let upgraded = |bytes: &[u8]| match Answer::head(bytes)? {
            Some((answer, length)) if is_upgrade(&answer) => Ok(Some(((), length))),
            Some((_, length)) => {
                let answer = String::from_utf8_lossy(&bytes[..length]);
                Err(io::Error::other(format!("{url}: {}", answer.trim_end())))
            }
            None => Ok(None),
        };
        pipe.ask(request.as_bytes(), upgraded).await?;
        Ok(pipe)
    };
    timeout(PATIENCE, upgrading).await?
}

/// Whether an answer accepts the key, and the sub-protocol if it names one.
fn is_upgrade(answer: &Answer<'_>) -> bool {
    let named = |name: &str| name.eq_ignore_ascii_case("sec-websocket-protocol");
    let mut headers = answer.headers.iter();
    answer.status == 101
        && answer.header("sec-websocket-accept") == Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
        && headers.all(|(name, value)| !named(name) || *value == b"tideline.v1.json")
}

/// Hands every whole text at the start of the bytes to `each`, answers pings into `out`, keeps the fragments of a text
/// in `parts`, and returns how many bytes that were. A goodbye ([`close_code`]) and what the server may not send are
/// errors.
pub fn texts(
    bytes: &[u8],
    out: &mut Vec<u8>,
    parts: &mut Vec<u8>,
    mut each: impl FnMut(&[u8]),
) -> io::Result<usize> {
    frames(bytes, |header, payload| {
        match header.opcode {
            TEXT if header.is_final && parts.is_empty() => each(payload),
            TEXT if parts.is_empty() => *parts = payload.to_vec(),
            OpCode::Data(Data::Continue) if !parts.is_empty() => {
                parts.extend_from_slice(payload);
                if header.is_final {
                    each(&std::mem::take(parts));
                }
            }
            OpCode::Control(Control::Ping) => put(out, OpCode::Control(Control::Pong), payload),
            OpCode::Control(Control::Pong) => {}
            _ => return Err(io::Error::other("a frame that was not expected")),
        }
        Ok(())
    })
}

/// Hands the payload of every whole data frame at the start of the bytes to `each`, for protocols that are streams and
/// care for no frames, and returns how many bytes that were.
pub fn streamed(bytes: &[u8], mut each: impl FnMut(&[u8])) -> io::Result<usize> {
    frames(bytes, |header, payload| {
        if matches!(header.opcode, OpCode::Data(_)) {
            each(payload);
        }
        Ok(())
    })
}

/// Hands every whole frame at the start of the bytes to `each`; a goodbye is the error.
fn frames(
    bytes: &[u8],
    mut each: impl FnMut(&FrameHeader, &[u8]) -> io::Result<()>,
) -> io::Result<usize> {
    let mut rest = bytes;
    while let Some((header, payload, behind)) = find(rest)? {
        if header.opcode == OpCode::Control(Control::Close) {
            let code = payload.first_chunk().map(|two| u16::from_be_bytes(*two));
            return Err(io::Error::other(Closed(code.unwrap_or(1005))));
        }
        each(&header, payload)?;
        rest = behind;
    }
    Ok(bytes.len() - rest.len())
}

/// A frame's header, its payload, and what follows it.
type Found<'a> = (FrameHeader, &'a [u8], &'a [u8]);

/// The frame at the start of the bytes, if it is whole.
fn find(bytes: &[u8]) -> io::Result<Option<Found<'_>>> {
    let mut at = Cursor::new(bytes);
    let Some((header, length)) = FrameHeader::parse(&mut at).map_err(io::Error::other)? else {
        return Ok(None);
    };
    if header.rsv1 || header.rsv2 || header.rsv3 || header.mask.is_some() {
        let what = "a masked or reserved frame from the server";
        return Err(io::Error::other(what));
    }
    if length > FRAME_BYTES_MAX {
        return Err(io::Error::other("a frame above 8 MiB"));
    }
    let rest = &bytes[at.position() as usize..];
    let parts = rest.split_at_checked(length as usize);
    Ok(parts.map(|(payload, behind)| (header, payload, behind)))
}

/// Appends a text frame with the masking key zero. Returns where its payload begins in `out`.
pub fn put_text(out: &mut Vec<u8>, payload: &[u8]) -> usize {
    put(out, TEXT, payload);
    out.len() - payload.len()
}

fn put(out: &mut Vec<u8>, opcode: OpCode, payload: &[u8]) {
    let header = FrameHeader {
        opcode,
        mask: Some([0; 4]),
        ..FrameHeader::default()
    };
    let put = header.format(payload.len() as u64, out);
    put.expect("a vector takes all");
    out.extend_from_slice(payload);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn from_server(payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        let begins = put_text(&mut frame, payload);
        frame.drain(begins - 4..begins);
        frame[1] &= 0x7f;
        frame
    }

    #[test]
    fn each_length_form_is_found_and_never_early() {
        for length in [0, 1, 125, 126, 127, 65_535, 65_536, 70_000] {
            let payload = vec![b'x'; length];
            let frame = from_server(&payload);
            let found = find(&frame).expect("legal");
            let header = FrameHeader {
                opcode: TEXT,
                ..FrameHeader::default()
            };
            assert_eq!(found, Some((header, &payload[..], &[][..])));
            for end in (0..frame.len()).rev().take(20) {
                assert_eq!(find(&frame[..end]).expect("legal"), None);
            }
        }
    }

    #[test]
    fn fragments_are_put_together_and_pings_answered() {
        let (mut out, mut parts, mut heard) = (Vec::new(), Vec::new(), Vec::new());
        let bytes = b"\x01\x02ab\x89\x01p\x80\x01c\x81\x01d\x81\x05early";
        let mut take = |bytes: &[u8]| {
            texts(bytes, &mut out, &mut parts, |text| {
                heard.push(text.to_vec())
            })
        };
        assert_eq!(take(&bytes[..14]).expect("legal"), 13);
        assert!(take(b"\x88\x02\x0f\xa0").is_err_and(|bye| close_code(&bye) == Some(4000)));
        for odd in [
            &b"\x82\x00"[..],
            b"\xc1\x00",
            b"\x81\x80\0\0\0\0",
            b"\x83\x00",
            // A continuation without a beginning.
            b"\x80\x01c",
        ] {
            assert!(take(odd).is_err_and(|odd| close_code(&odd).is_none()));
        }
        assert!(take(b"\x81\x7f\0\0\0\0\x01\0\0\0").is_err(), "too long");
        assert_eq!(heard, [&b"abc"[..], b"d"]);
        assert_eq!(out, b"\x8a\x81\0\0\0\0p");
    }

    #[test]
    fn an_upgrade_accepts_the_key_and_our_protocol() {
        let is_head = |head: &str| {
            let head = Answer::head(head.as_bytes()).expect("legal");
            is_upgrade(&head.expect("whole").0)
        };
        let head = |status: &str, accept: &str, protocol: &str| {
            let head = format!(
                "HTTP/1.1 {status}\r\nSec-WebSocket-Accept: {accept}\r\nsec-websocket-protocol: {protocol}\r\n\r\n"
            );
            is_head(&head)
        };
        let (key, ours) = ("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "tideline.v1.json");
        assert!(head("101 Switching Protocols", key, ours));
        assert!(!head("200 OK", key, ours) && !head("101", "other", ours));
        assert!(!head("101", key, "tideline.v1.msgpack") && !is_head("HTTP/1.1 101\r\n\r\n"));
    }

    #[test]
    fn an_address_has_a_host_and_a_path() {
        let place = |url| place(url).ok();
        let is = |host: &str, path| Some((host.to_owned(), path));
        assert_eq!(place("ws://h:7/v1/x"), is("h:7", "/v1/x"));
        assert_eq!(place("ws://h"), is("h:80", ""));
        assert_eq!(place("wss://h/v1"), is("h:443", "/v1"));
        assert_eq!((place("http://h:7/"), place("ws://")), (None, None));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let (mut out, mut parts) = (Vec::new(), Vec::new());
            if let Ok(taken) = texts(&bytes, &mut out, &mut parts, |_| ()) {
                prop_assert!(taken <= bytes.len());
            }
        }
    }
}
