//! What the headers of a PUT or POST say.
//!
//! Owns: reading them. Promises: what is malformed is refused whatever else there is; what this server does not do is
//! refused by name before anything is done. Must not: know a stream.

use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderMap};

use super::{Refused, text_of};
use tideline_timelines::timeline::{Life, Producer, StreamAppend};
use tideline_wire::durable::{kind, time_ms};

/// What is not done yet of the protocol, by the header that asks for it.
const NOT_SERVED: [(&str, &str); 1] = [("stream-forked-from", "forks are not served yet")];

fn bad<T>(why: &'static str) -> Result<T, Refused> {
    Err(Refused::Says(StatusCode::BAD_REQUEST, why))
}

/// Refuses what is malformed or not served.
pub(super) fn served(headers: &HeaderMap) -> Result<(), Refused> {
    well_formed(headers)?;
    for (name, why) in NOT_SERVED {
        if headers.contains_key(name) {
            return Err(Refused::Says(StatusCode::NOT_IMPLEMENTED, why));
        }
    }
    Ok(())
}

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
    let is_plain = |ttl: &&str| {
        let is_number = ttl.bytes().all(|one| one.is_ascii_digit()) && ttl.len() <= 15;
        is_number && (*ttl == "0" || !ttl.starts_with('0'))
    };
    let ttl_s = ttl.map(|ttl| Some(ttl).filter(is_plain)?.parse().ok());
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

/// Refuses what is wrong with forks, whether they are served or not.
fn well_formed(headers: &HeaderMap) -> Result<(), Refused> {
    life(headers)?;
    let of_fork = ["stream-fork-offset", "stream-fork-sub-offset"];
    let has_source = headers.contains_key("stream-forked-from");
    if !has_source && of_fork.iter().any(|name| headers.contains_key(*name)) {
        return bad("an offset of a fork comes with Stream-Forked-From");
    }
    Ok(())
}
