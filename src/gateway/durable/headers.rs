//! What the headers of a PUT or POST say.
//!
//! Owns: reading them. Promises: what is malformed is refused before anything is done. Must not: know a stream.

use hyper::header::{CONTENT_TYPE, HeaderMap};

use super::{Refused, bad, text_of};
use tideline_timelines::timeline::{Fork, Life, Producer, StreamAppend};
use tideline_wire::durable::{Offset, kind, time_ms};

/// The content type that a request names; `None` = it names none.
pub(super) fn content_type(headers: &HeaderMap) -> Result<Option<String>, Refused> {
    let Some(said) = headers.get(CONTENT_TYPE) else {
        return Ok(None);
    };
    let said = said.to_str().ok().filter(|said| kind(said).contains('/'));
    said.map_or_else(
        || bad("Content-Type is no type"),
        |said| Ok(Some(said.to_owned())),
    )
}

/// Whether the stream is to be closed.
pub(super) fn closes(headers: &HeaderMap) -> bool {
    text_of(headers, "stream-closed").is_some_and(|said| said.eq_ignore_ascii_case("true"))
}

/// What an append says beside its body.
pub(super) fn append(headers: &HeaderMap) -> Result<StreamAppend, Refused> {
    Ok(StreamAppend {
        producer: producer(headers)?,
        seq: short(
            headers,
            "stream-seq",
            "Stream-Seq is a text of 1 to 255 bytes",
        )?,
        closes: closes(headers),
        content: None,
    })
}

fn producer(headers: &HeaderMap) -> Result<Option<Producer>, Refused> {
    let names = ["producer-id", "producer-epoch", "producer-seq"];
    let said = names.map(|name| headers.contains_key(name));
    if said == [false; 3] {
        return Ok(None);
    }
    if said != [true; 3] {
        return bad("Producer-Id, Producer-Epoch and Producer-Seq come together");
    }
    let id = short(headers, names[0], "Producer-Id is a text of 1 to 255 bytes")?;
    let number = |name| text_of(headers, name).and_then(number);
    match (id, number(names[1]), number(names[2])) {
        (Some(id), Some(epoch), Some(seq)) => Ok(Some(Producer { id, epoch, seq })),
        _ => bad("Producer-Epoch and Producer-Seq are numbers from 0 to 9007199254740991"),
    }
}

fn short(headers: &HeaderMap, name: &str, why: &'static str) -> Result<Option<String>, Refused> {
    if !headers.contains_key(name) {
        return Ok(None);
    }
    match text_of(headers, name).map(str::trim) {
        Some(text) if (1..=TEXT_BYTES_MAX).contains(&text.len()) => Ok(Some(text.to_owned())),
        _ => bad(why),
    }
}

/// The longest ID of a producer, and the longest `Stream-Seq`.
const TEXT_BYTES_MAX: usize = 255;

/// A number in plain digits, as JavaScript can hold it.
fn number(text: &str) -> Option<u64> {
    let is_plain = (1..=16).contains(&text.len()) && text.bytes().all(|one| one.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_plain)?;
    (number < 1 << 53).then_some(number)
}

/// How long a stream is to live.
pub(super) fn life(headers: &HeaderMap) -> Result<Life, Refused> {
    let said = |name| {
        headers
            .get(name)
            .map(|said| said.to_str().unwrap_or_default())
    };
    let (ttl, expires) = (said("stream-ttl"), said("stream-expires-at"));
    if ttl.is_some() && expires.is_some() {
        return bad("either Stream-TTL or Stream-Expires-At");
    }
    let is_fit = |ttl: &&str| ttl.len() <= 15 && is_plain(ttl);
    let ttl_s = ttl.map(|ttl| Some(ttl).filter(is_fit).and_then(number));
    let expires_at = expires.map(time_ms);
    match (ttl_s, expires_at) {
        (Some(None), _) => bad("Stream-TTL is a number of seconds in plain digits"),
        (_, Some(None)) => bad("Stream-Expires-At is a time as in RFC 3339"),
        (ttl_s, expires_at) => Ok(Life {
            ttl_s: ttl_s.flatten(),
            expires_at: expires_at.flatten(),
        }),
    }
}

/// Where a stream is to be forked, with the tag of that offset; `None` = it is to be no fork.
pub(super) fn fork(headers: &HeaderMap) -> Result<Option<(Fork, u64)>, Refused> {
    let (from, offset, sub) = (
        "stream-forked-from",
        "stream-fork-offset",
        "stream-fork-sub-offset",
    );
    if !headers.contains_key(from) {
        return match headers.contains_key(offset) || headers.contains_key(sub) {
            true => bad("an offset of a fork comes with Stream-Forked-From"),
            false => Ok(None),
        };
    }
    let Some(source) = text_of(headers, from).and_then(super::name) else {
        return bad("Stream-Forked-From is the path of a stream");
    };
    let (after, tag) = match headers.contains_key(offset) {
        false => (None, 0),
        true => match text_of(headers, offset).and_then(Offset::read) {
            Some(Offset::After(sequence, tag)) => (Some(sequence), tag),
            Some(Offset::Now) => (None, 0),
            None => return bad("no stream has given this Stream-Fork-Offset"),
        },
    };
    let sub = match headers.contains_key(sub) {
        false => 0,
        true => match text_of(headers, sub).filter(is_plain).and_then(number) {
            Some(sub) => sub,
            None => return bad("Stream-Fork-Sub-Offset is a number in plain digits"),
        },
    };
    if sub > 0 && after.is_none() {
        return bad("a sub-offset comes with Stream-Fork-Offset");
    }
    Ok(Some((Fork { source, after, sub }, tag)))
}

fn is_plain(text: &&str) -> bool {
    *text == "0" || !text.starts_with('0')
}
