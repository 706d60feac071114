//! What the headers of a PUT or POST say.
//!
//! Owns: reading them. Promises: what is malformed is refused whatever else there is; what this server does not do is
//! refused by name before anything is done. Must not: know a stream.

use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderMap};

use super::{Refused, text_of};
use tideline_timelines::timeline::{Producer, StreamAppend};
use tideline_wire::durable::kind;

/// What is not done yet of the protocol, by the header that asks for it.
const NOT_SERVED: [(&str, &str); 3] = [
    (
        "stream-ttl",
        "times to live are not served yet: leave Stream-TTL out",
    ),
    (
        "stream-expires-at",
        "times to live are not served yet: leave Stream-Expires-At out",
    ),
    ("stream-forked-from", "forks are not served yet"),
];

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

/// Refuses what is wrong with times to live and forks, whether they are served or not.
fn well_formed(headers: &HeaderMap) -> Result<(), Refused> {
    let (ttl, expires) = (headers.get("stream-ttl"), headers.get("stream-expires-at"));
    if ttl.is_some() && expires.is_some() {
        return bad("either Stream-TTL or Stream-Expires-At");
    }
    if let Some(ttl) = ttl {
        let digits = ttl.as_bytes();
        let is_number = (1..=15).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
        if !is_number || digits.len() > 1 && digits[0] == b'0' {
            return bad("Stream-TTL is a number of seconds in plain digits");
        }
    }
    if expires.is_some_and(|at| !at.to_str().is_ok_and(is_time)) {
        return bad("Stream-Expires-At is a time as in RFC 3339");
    }
    let of_fork = ["stream-fork-offset", "stream-fork-sub-offset"];
    let has_source = headers.contains_key("stream-forked-from");
    if !has_source && of_fork.iter().any(|name| headers.contains_key(*name)) {
        return bad("an offset of a fork comes with Stream-Forked-From");
    }
    Ok(())
}

/// Whether a text has the form of RFC 3339.
fn is_time(text: &str) -> bool {
    let shape = |text: &str, form: &str| {
        let is_fit = |(byte, form): (u8, u8)| match form {
            b'0' => byte.is_ascii_digit(),
            other => byte.eq_ignore_ascii_case(&other),
        };
        text.len() == form.len() && text.bytes().zip(form.bytes()).all(is_fit)
    };
    let Some((time, zone)) = text.split_at_checked("0000-00-00T00:00:00".len()) else {
        return false;
    };
    let zone = match zone.strip_prefix('.') {
        Some(rest) => rest.trim_start_matches(|digit: char| digit.is_ascii_digit()),
        None => zone,
    };
    let is_zone = shape(zone, "Z") || shape(zone, "+00:00") || shape(zone, "-00:00");
    shape(time, "0000-00-00T00:00:00") && is_zone
}
