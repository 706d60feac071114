//! Durable Streams' protocol, as far as it is bytes: offsets, content types, JSON taken apart, cursors, events.
//!
//! Owns: how a timeline's sequences and messages are said in that protocol. Promises: offsets of one stream are in the
//! order of their text; bytes come back as they came; what natively appended messages hold is shown as compact JSON.
//! Must not: know HTTP's connections, or the caller.

mod json;
mod part;
mod time;

use std::fmt::Write as _;

use bytes::Bytes;

use super::centrifuge::{Published, shown};
use super::failure::Failure;
use super::limits::Limits;
use super::messages::entry::Columns;
use super::messages::message::Message;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

use tideline_base::decode;

pub use json::messages;
pub use part::Part;
pub use time::{time_ms, time_text};

/// The content type of a stream that says none.
pub const OCTETS: &str = "application/octet-stream";
/// The content type of streams whose messages are JSON values.
pub const JSON: &str = "application/json";

/// From where a reader reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offset {
    /// After this sequence, of the history with this [`tag`]; 0 = from the start, of any.
    After(u64, u64),
    /// From what comes next.
    Now,
}

impl Offset {
    /// Reads one; `None` = no stream gave it.
    #[must_use]
    pub fn read(text: &str) -> Option<Offset> {
        match text {
            "-1" => return Some(Offset::After(0, 0)),
            "now" => return Some(Offset::Now),
            _ => {}
        }
        let (sequence, tag) = text.split_once('_')?;
        let number = |part: &str| {
            let is_plain = part.len() == DIGITS && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse().ok().filter(|_| is_plain)
        };
        Some(Offset::After(number(sequence)?, number(tag)?))
    }
}

/// Digits of each of the two numbers of an offset.
const DIGITS: usize = 16;

/// The offset behind a message of a history. The start is the same in all.
#[must_use]
pub fn offset(sequence: u64, tag: u64) -> String {
    let tag = if sequence == 0 { 0 } else { tag };
    format!("{sequence:016}_{tag:016}")
}

/// What tells the offsets of one history from those of another under the same name: of its epoch, never 0.
#[must_use]
pub fn tag(epoch: &str) -> u64 {
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = epoch.bytes().fold(0xcbf2_9ce4_8422_2325, step); // FNV-1a
    1 + hash % (TAGS - 1)
}

/// As many as there are numbers of so many digits.
const TAGS: u64 = 10_000_000_000_000_000;

/// A content type without its parameters, in small letters.
#[must_use]
pub fn kind(content_type: &str) -> String {
    let kind = content_type.split(';').next().unwrap_or_default();
    kind.trim().to_ascii_lowercase()
}

/// Whether the bytes of such a stream go into events as they are.
#[must_use]
pub fn is_text(kind: &str) -> bool {
    kind == JSON || kind.starts_with("text/")
}

/// The entry of a message of a stream.
///
/// # Errors
/// What could not be appended.
pub fn entry(
    stream: &str,
    data: Bytes,
    is_json: bool,
    limits: &Limits,
) -> Result<Columns, Failure> {
    let published = Published {
        data,
        is_json,
        ..Published::default()
    };
    published.entry(stream, limits).map(|(columns, _)| columns)
}

/// The bytes of a message; `None` = it is deleted.
#[must_use]
pub fn bytes_of(message: &Message) -> Option<Bytes> {
    shown(message).map(|one| one.data)
}

/// The bytes of a read: an array of the messages, or one behind the other. Deleted ones are left out.
#[must_use]
pub fn body(all: &[Message], is_json: bool) -> Bytes {
    let mut out = Vec::new();
    if is_json {
        out.push(b'[');
    }
    for data in all.iter().filter_map(bytes_of) {
        if is_json && out.len() > 1 {
            out.push(b',');
        }
        let data = if is_json { as_json(data) } else { data };
        out.extend_from_slice(&data);
    }
    if is_json {
        out.push(b']');
    }
    out.into()
}

/// JSON as it is; bytes that are no JSON, which can be published natively, as base64 under `$binary`.
fn as_json(data: Bytes) -> Bytes {
    match decode::from_slice::<&RawValue>(&data) {
        Ok(_) => data,
        Err(_) => format!("{{\"$binary\":\"{}\"}}", STANDARD.encode(&data)).into(),
    }
}

/// The cursor of a live answer: which interval of 20 s it is, or one above the client's own.
#[must_use]
pub fn cursor(now_ms: u64, clients: Option<&str>, jitter_s: u64) -> String {
    let now = now_ms.saturating_sub(CURSORS_BEGAN_MS) / CURSOR_MS;
    let clients: Option<u64> = clients.and_then(|cursor| cursor.parse().ok());
    match clients {
        Some(clients) if clients >= now => {
            let steps = (jitter_s * 1_000).div_ceil(CURSOR_MS).max(1);
            clients.saturating_add(steps).to_string()
        }
        _ => now.to_string(),
    }
}

/// 9 October 2024.
const CURSORS_BEGAN_MS: u64 = 1_728_432_000_000;
const CURSOR_MS: u64 = 20_000;

/// What a control event says.
#[derive(Clone, Debug)]
pub struct Control {
    /// Behind everything that was sent.
    pub next: u64,
    /// Of the history.
    pub tag: u64,
    /// `None` = it is not said.
    pub cursor: Option<String>,
    /// Everything was sent that there is.
    pub is_up_to_date: bool,
    /// And there will be nothing more.
    pub is_closed: bool,
}

/// How many bytes of a text come before its last character, if that is cut; else all.
#[must_use]
pub fn whole_text(data: &[u8]) -> usize {
    let last = data
        .utf8_chunks()
        .last()
        .map_or(&[][..], |last| last.invalid());
    let is_cut = std::str::from_utf8(last).is_err_and(|error| error.error_len().is_none());
    data.len() - if is_cut { last.len() } else { 0 }
}

/// Events of a live read: the bytes, if there are any, and the control event behind them. In a text U+FFFD replaces
/// what is not UTF-8.
#[must_use]
pub fn events(data: &[u8], is_text: bool, control: &Control) -> Bytes {
    let mut out = String::new();
    if !data.is_empty() {
        out.push_str("event: data\n");
        let text = match is_text {
            true => String::from_utf8_lossy(data),
            false => STANDARD.encode(data).into(),
        };
        let lines = match text.contains('\r') {
            true => text.replace("\r\n", "\n").replace('\r', "\n").into(),
            false => text,
        };
        for line in lines.split('\n') {
            let _ = writeln!(out, "data:{line}");
        }
        out.push('\n');
    }
    let next = offset(control.next, control.tag);
    let _ = write!(
        out,
        "event: control\ndata:{{\"streamNextOffset\":\"{next}\""
    );
    if let Some(cursor) = &control.cursor {
        let _ = write!(out, ",\"streamCursor\":\"{cursor}\"");
    }
    if control.is_up_to_date {
        out.push_str(",\"upToDate\":true");
    }
    if control.is_closed {
        out.push_str(",\"streamClosed\":true");
    }
    out.push_str("}\n\n");
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_read_back_and_sorts_as_it_counts() {
        for sequence in [0, 1, 9_999_999_999_999_999] {
            let known = if sequence == 0 { 0 } else { tag("a") };
            assert_eq!(
                Offset::read(&offset(sequence, tag("a"))),
                Some(Offset::After(sequence, known))
            );
        }
        assert!(offset(9, tag("a")) < offset(10, tag("b")));
        assert!(tag("a") != tag("b") && (1..TAGS).contains(&tag("")));
        assert_eq!(Offset::read("-1"), Some(Offset::After(0, 0)));
        assert_eq!(Offset::read("now"), Some(Offset::Now));
        for bad in [
            "",
            "1",
            "0_0",
            "0000000000000001",
            "0000000000000001_000000000000000x",
            "../1",
        ] {
            assert_eq!(Offset::read(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_cursor_is_above_that_of_the_client() {
        let now_ms = CURSORS_BEGAN_MS + 5 * CURSOR_MS;
        assert_eq!(cursor(now_ms, None, 1), "5");
        assert_eq!(cursor(now_ms, Some("4"), 1), "5");
        assert_eq!(cursor(now_ms, Some("5"), 1), "6");
        assert_eq!(cursor(now_ms, Some("9"), 3_600), "189");
        assert_eq!(cursor(now_ms, Some("x"), 1), "5");
    }

    #[test]
    fn a_character_that_is_cut_waits_for_its_end() {
        for (data, whole) in [
            (&b"caf\xc3"[..], 3),
            (b"caf\xc3\xa9", 5),
            (b"\xe9!", 2),
            (b"\xe2\x82", 0),
            (b"a\xff", 2),
            (b"", 0),
        ] {
            assert_eq!(whole_text(data), whole, "{data:?}");
        }
    }

    #[test]
    fn no_text_ends_an_event() {
        let control = Control {
            next: 7,
            tag: 0,
            cursor: Some("5".to_owned()),
            is_up_to_date: true,
            is_closed: false,
        };
        let said = "event: control\ndata:{\"streamNextOffset\":\"0000000000000007_0000000000000000\",\
            \"streamCursor\":\"5\",\"upToDate\":true}\n\n";
        let text = events(b"a\r\n\revent: x\n", true, &control);
        let data = "event: data\ndata:a\ndata:\ndata:event: x\ndata:\n\n";
        assert_eq!(text, format!("{data}{said}"));
        let bytes = events(b"a", false, &control);
        assert_eq!(bytes, format!("event: data\ndata:YQ==\n\n{said}"));
        assert_eq!(events(b"", true, &control), said);
        let latin = events(b"caf\xe9!", true, &control);
        assert_eq!(latin, format!("event: data\ndata:caf\u{fffd}!\n\n{said}"));
        let closed = Control {
            cursor: None,
            is_closed: true,
            ..control
        };
        let said = "event: control\ndata:{\"streamNextOffset\":\"0000000000000007_0000000000000000\",\
            \"upToDate\":true,\"streamClosed\":true}\n\n";
        assert_eq!(events(b"", true, &closed), said);
    }
}
