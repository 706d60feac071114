//! What heads of requests say, for `tests/fuzz`. The heads themselves are hyper's to read.
//!
//! Owns: nothing. Promises: any header that HTTP lets through can be looked at. Must not: need a connection.

use std::net::{IpAddr, Ipv4Addr};

use hyper::Uri;
use hyper::header::{ACCEPT_ENCODING, HeaderMap, HeaderName, HeaderValue};

use super::super::entrance::address::{Network, Proxies};
use super::origin::Allowed;
use super::request_id::request_of;
use super::respond::items;
use tideline_base::decode::query;
use tideline_base::faults::Decoder;

pub(crate) const TARGETS: &[Decoder] = &[("http_head", head)];

/// A target, then lines of headers.
fn head(input: &[u8]) {
    let mut lines = input.split(|byte| *byte == b'\n');
    let target = lines.next().unwrap_or_default();
    let mut headers = HeaderMap::new();
    for line in lines.take(64) {
        let at = line.iter().position(|byte| *byte == b':').unwrap_or(0);
        let (name, value) = line.split_at(at);
        let value = HeaderValue::from_bytes(value.trim_ascii_start().get(1..).unwrap_or_default());
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), value) {
            headers.append(name, value);
        }
    }
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let trusted = ["127.0.0.1", "10.0.0.0/8", "::/0"].map(Network::read);
    let trusted: Vec<Network> = trusted.into_iter().flatten().collect();
    let client = Proxies::new(&trusted).client(here, &headers);
    assert_eq!(client, client.to_canonical());
    let request = request_of(&headers);
    assert!(!request.id.is_empty() && request.id.len() <= 128);
    assert!(items(&headers, ACCEPT_ENCODING).all(|item| !item.is_empty()));
    if let Ok(target) = Uri::try_from(target) {
        let allowed = Allowed::new(&["https://a.example".into()], &["a.example".into()], false);
        let _ = allowed.admit(&target, &headers, here).is_ok();
        let query = target.query().unwrap_or_default();
        let _ = query::value(query, "a");
        let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
        let _ = tideline_wire::events::read(query, last, &tideline_wire::Limits::DEFAULT);
    }
    if let Ok(text) = std::str::from_utf8(input) {
        let _ = Network::read(text);
    }
}
