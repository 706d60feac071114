//! The WebSocket handshake: from a request's head to a 101, or to the refusal that RFC 6455 asks for.
//!
//! Owns: the checks of the handshake and the choice of the sub-protocol. Promises: no extension is ever agreed on. Must
//! not: touch the socket; `mod.rs` hands it over after the answer is written.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{
    CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::{Response, StatusCode, Version};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::super::form::{Dialects, Form};
use super::respond::{items, set};
use tideline_wire::centrifuge::ENCODINGS;

/// A status, and what to say with it.
pub(in super::super) type Refusal = (StatusCode, Cow<'static, str>);

/// A dialect, and whether its sub-protocol goes into the answer.
pub(in super::super) type Chosen = (Form, bool);

/// Checks a handshake; returns the 101 and the dialect that `choose` has chosen, or the refusal.
pub(in super::super) fn accept(
    headers: &HeaderMap,
    version: Version,
    choose: impl FnOnce(&HeaderMap) -> Result<Chosen, Refusal>,
) -> Result<(Response<()>, Form), Refusal> {
    let refuse = |status, why: &'static str| Err((status, Cow::Borrowed(why)));
    if version != Version::HTTP_11
        || !lists(headers, CONNECTION, "upgrade")
        || !lists(headers, UPGRADE, "websocket")
    {
        return refuse(StatusCode::UPGRADE_REQUIRED, "this is a WebSocket");
    }
    if headers
        .get(SEC_WEBSOCKET_VERSION)
        .is_none_or(|version| version != "13")
    {
        return refuse(
            StatusCode::UPGRADE_REQUIRED,
            "WebSocket version 13 is spoken here",
        );
    }
    let key = headers.get(SEC_WEBSOCKET_KEY);
    let is_key = |key: &&HeaderValue| STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16);
    let Some(key) = key.filter(is_key) else {
        return refuse(
            StatusCode::BAD_REQUEST,
            "Sec-WebSocket-Key must be 16 bytes in base64",
        );
    };
    let (form, echo) = choose(headers)?;
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    set(&mut response, CONNECTION, "Upgrade");
    set(&mut response, UPGRADE, "websocket");
    let accept =
        HeaderValue::from_str(&derive_accept_key(key.as_bytes())).expect("an accept key is base64");
    response.headers_mut().insert(SEC_WEBSOCKET_ACCEPT, accept);
    if echo {
        let name = form.dialect.subprotocol();
        set(&mut response, SEC_WEBSOCKET_PROTOCOL, name);
    }
    Ok((response, form))
}

/// The client's first known sub-protocol; the usual dialect without an echo if it offers none.
pub(in super::super) fn native(
    headers: &HeaderMap,
    dialects: &Dialects,
) -> Result<Chosen, Refusal> {
    let mut offered = false;
    for name in items(headers, SEC_WEBSOCKET_PROTOCOL) {
        offered = true;
        if let Some(form) = dialects.of_subprotocol(name) {
            return Ok((form, true));
        }
    }
    if offered {
        let known = dialects.subprotocols();
        let why = format!("no known sub-protocol: {known} are spoken here");
        return Err((StatusCode::BAD_REQUEST, why.into()));
    }
    Ok((dialects.usual(), false))
}

/// The encoding that a client of Centrifuge offers as a sub-protocol, else the one that it names in the query, else
/// JSON. What it offers besides is not for us.
pub(in super::super) fn of_centrifuge(
    headers: &HeaderMap,
    query: &str,
    dialects: &Dialects,
) -> Chosen {
    let forms = ENCODINGS.map(|encoding| dialects.of_centrifuge(encoding));
    for name in items(headers, SEC_WEBSOCKET_PROTOCOL) {
        if let Some(form) = forms.iter().find(|form| form.dialect.subprotocol() == name) {
            return (*form, true);
        }
    }
    let asks = |pair: &str| matches!(pair, "format=protobuf" | "cf_protocol=protobuf");
    let [json, protobuf] = forms;
    match query.split('&').any(asks) {
        true => (protobuf, false),
        false => (json, false),
    }
}

fn lists(headers: &HeaderMap, name: HeaderName, wanted: &str) -> bool {
    items(headers, name).any(|item| item.eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tideline_wire::jsonrpc::DIALECTS;

    fn accept(headers: &HeaderMap, version: Version) -> Result<(Response<()>, Form), Refusal> {
        let dialects = Dialects::new(&DIALECTS);
        super::accept(headers, version, |headers| native(headers, &dialects))
    }

    #[test]
    fn the_encoding_of_centrifuge_is_offered_or_named() {
        let chosen = |protocols: &[&str], query: &str| {
            let dialects = Dialects::new(&DIALECTS);
            let (form, echo) = of_centrifuge(&handshake(protocols), query, &dialects);
            (form.dialect.subprotocol(), form.number(), echo)
        };
        let (json, protobuf) = ("centrifuge-json", "centrifuge-protobuf");
        assert_eq!(chosen(&[], ""), (json, 4, false));
        assert_eq!(
            chosen(&["centrifuge-json"], "format=protobuf"),
            (json, 4, true)
        );
        assert_eq!(chosen(&["x, centrifuge-protobuf"], ""), (protobuf, 5, true));
        assert_eq!(
            chosen(&["x"], "a=b&cf_protocol=protobuf"),
            (protobuf, 5, false)
        );
        assert_eq!(chosen(&[], "format=protobuf"), (protobuf, 5, false));
    }

    fn handshake(protocols: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, "keep-alive, Upgrade".parse().unwrap());
        headers.insert(UPGRADE, "WebSocket".parse().unwrap());
        headers.insert(SEC_WEBSOCKET_VERSION, "13".parse().unwrap());
        headers.insert(
            SEC_WEBSOCKET_KEY,
            "dGhlIHNhbXBsZSBub25jZQ==".parse().unwrap(),
        );
        for protocol in protocols {
            headers.append(SEC_WEBSOCKET_PROTOCOL, protocol.parse().unwrap());
        }
        headers
    }

    #[test]
    fn the_sub_protocol_is_the_clients_first_known_one() {
        let (response, form) = accept(&handshake(&[]), Version::HTTP_11).unwrap();
        assert_eq!(form.dialect.subprotocol(), "tideline.v1.json");
        assert_eq!(
            response.headers()[SEC_WEBSOCKET_ACCEPT],
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
        assert!(!response.headers().contains_key(SEC_WEBSOCKET_PROTOCOL));
        let offers = handshake(&["chat, tideline.v1.msgpack", "tideline.v1.json"]);
        let (response, form) = accept(&offers, Version::HTTP_11).unwrap();
        assert_eq!(form.number(), 2);
        assert_eq!(
            response.headers()[SEC_WEBSOCKET_PROTOCOL],
            "tideline.v1.msgpack"
        );
        let (status, _) = accept(&handshake(&["chat"]), Version::HTTP_11).unwrap_err();
        assert_eq!(status, StatusCode::BAD_REQUEST);
    }

    #[test]
    fn what_is_no_handshake_is_refused() {
        let refused = |change: fn(&mut HeaderMap)| {
            let mut headers = handshake(&[]);
            change(&mut headers);
            accept(&headers, Version::HTTP_11).unwrap_err().0
        };
        assert_eq!(refused(HeaderMap::clear), StatusCode::UPGRADE_REQUIRED);
        assert_eq!(
            refused(|headers| {
                headers.insert(SEC_WEBSOCKET_VERSION, "8".parse().unwrap());
            }),
            StatusCode::UPGRADE_REQUIRED
        );
        assert_eq!(
            refused(|headers| {
                headers.insert(SEC_WEBSOCKET_KEY, "abc".parse().unwrap());
            }),
            StatusCode::BAD_REQUEST
        );
        assert_eq!(
            refused(|headers| {
                headers.remove(SEC_WEBSOCKET_KEY);
            }),
            StatusCode::BAD_REQUEST
        );
        assert!(accept(&handshake(&[]), Version::HTTP_10).is_err());
    }
}
