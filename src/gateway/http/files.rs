//! Files of pages: the console and the demo.
//!
//! Owns: how a file is answered. Promises: a browser that has it gets 304, one that takes gzip gets fewer bytes, and
//! after an upgrade nobody uses an old file. They hold no data, so no credential is asked for. Must not: know which
//! files there are.

use hyper::StatusCode;
use hyper::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, ETAG, HeaderMap, IF_NONE_MATCH, LOCATION,
    VARY,
};

use super::respond::{Answer, empty, full, items, say, set};

/// A file that is in the binary.
#[derive(Debug)]
pub struct File {
    /// By what it is served.
    pub path: &'static str,
    /// Its media type.
    pub kind: &'static str,
    /// Its `ETag`, which changes with its content.
    pub tag: &'static str,
    /// Its bytes.
    pub plain: &'static [u8],
    /// The same by gzip; `None` = that would be longer.
    pub packed: Option<&'static [u8]>,
}

/// Where the console is.
pub(in super::super) const CONSOLE: &str = "/console/";
/// Where the demo is.
pub(in super::super) const DEMO: &str = "/demo/";

/// The file as these headers ask for it.
pub(in super::super) fn answer(file: &'static File, headers: &HeaderMap) -> Answer {
    let mut answer = if is_known(headers, file.tag) {
        empty(StatusCode::NOT_MODIFIED)
    } else if let Some(packed) = file.packed.filter(|_| takes_gzip(headers)) {
        let mut answer = full(StatusCode::OK, file.kind, packed);
        set(&mut answer, CONTENT_ENCODING, "gzip");
        answer
    } else {
        full(StatusCode::OK, file.kind, file.plain)
    };
    set(&mut answer, ETAG, file.tag);
    set(&mut answer, CACHE_CONTROL, "no-cache");
    set(&mut answer, VARY, "accept-encoding");
    answer
}

/// Leads to another path.
pub(in super::super) fn lead(to: &'static str) -> Answer {
    let mut answer = say(StatusCode::TEMPORARY_REDIRECT, to);
    set(&mut answer, LOCATION, to);
    answer
}

fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let same =
        |item: &str| item == "*" || item.trim_start_matches("W/") == tag.trim_start_matches("W/");
    items(headers, IF_NONE_MATCH).any(same)
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    items(headers, ACCEPT_ENCODING).any(|item| {
        let (coding, weight) = item.split_once(';').unwrap_or((item, ""));
        let weight = weight.trim().trim_start_matches(['q', 'Q']);
        let weight = weight.trim_start_matches('=').parse::<f32>();
        coding.trim().eq_ignore_ascii_case("gzip") && weight != Ok(0.0)
    })
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn a_list_of_codings_or_tags_is_read() {
        let with = |name: HeaderName, text: &'static str| {
            HeaderMap::from_iter([(name, HeaderValue::from_static(text))])
        };
        for (text, expected) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0, br", false),
            ("gzip;Q=0", false),
            ("x-gzip, deflate", false),
            ("", false),
        ] {
            assert_eq!(takes_gzip(&with(ACCEPT_ENCODING, text)), expected, "{text}");
        }
        for (text, expected) in [
            ("W/\"a1\"", true),
            ("\"a1\"", true),
            ("\"b\", W/\"a1\"", true),
            ("*", true),
            ("\"a\"", false),
        ] {
            assert_eq!(
                is_known(&with(IF_NONE_MATCH, text), "W/\"a1\""),
                expected,
                "{text}"
            );
        }
    }
}
