//! Tests of the dialect: the table of every rule, both encodings, and arbitrary bytes.
//!
//! Owns: what PROTOCOL.md says about bodies, ids, batches and parameters, as cases. Promises: each case names input and
//! outcome in one line. Must not: reach into the decoder's parts; only `decode` and the encoders are called.

mod encodings;
mod values;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::json;

use super::super::messages::message;
use super::super::server::session;
use super::*;
use crate::{Actual, Limits, Push, Reason, Reply, Request, push as pushes};
use tideline_model::Value;

fn encoded(id: &Id, answer: Result<&Reply, &Failure>, encoding: Encoding) -> Bytes {
    let dialect: &dyn Dialect = &JsonRpc(encoding);
    let mut out = Vec::new();
    dialect.answer(&mut out, id, answer);
    out.into()
}

fn one(body: &str) -> Call {
    one_within(body, &Limits::default())
}

fn one_within(body: &str, limits: &Limits) -> Call {
    match decode(Encoding::Json, body.as_bytes(), limits) {
        Ok(Body::Single(call)) => call,
        other => panic!("{body}: {other:?}"),
    }
}

fn asked(method: &str, params: &str) -> Result<Request, Failure> {
    one(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#
    ))
    .request
}

/// Asserts that parameters are refused as invalid at this field.
fn refused(method: &str, params: &str, field: &str) {
    let failure = asked(method, params).expect_err(params);
    assert_eq!(
        failure.reason,
        Reason::InvalidParams,
        "{params}: {failure:?}"
    );
    assert_eq!(
        failure.field.as_deref(),
        Some(field),
        "{params}: {failure:?}"
    );
}

fn append(entry: &str) -> Result<Vec<(String, Value)>, Failure> {
    match asked(
        "message.append",
        &format!(r#"{{"timeline":"t","entry":{entry}}}"#),
    )? {
        Request::MessageAppend(append) => Ok(append.entry.columns.into_owned()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn ids_are_echoed_or_refused() {
    let id = |id: &str| one(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
    assert_eq!(id("7").id, Some(Id::Integer(7)));
    assert_eq!(id("-9223372036854775808").id, Some(Id::Integer(i64::MIN)));
    assert_eq!(id("18446744073709551615").id, Some(Id::Unsigned(u64::MAX)));
    assert_eq!(id(r#""a\u0062""#).id, Some(Id::Text("ab".into())));
    assert_eq!(
        id(&format!("\"{}\"", "x".repeat(64))).request,
        Ok(Request::Ping(session::Nothing {}))
    );
    let long = format!("\"{}\"", "x".repeat(65));
    let fraction = [
        "null",
        "1.5",
        "1.0",
        "1e2",
        "-0",
        "true",
        "[]",
        "{}",
        "18446744073709551616",
        &long,
    ];
    for text in fraction {
        let call = id(text);
        assert_eq!(call.id, Some(Id::Null), "{text}");
        assert_eq!(
            call.request.expect_err(text).reason,
            Reason::InvalidRequest,
            "{text}"
        );
    }
    assert_eq!(one(r#"{"jsonrpc":"2.0","method":"ping"}"#).id, None);
}

#[test]
fn bodies_that_are_no_request() {
    let limits = Limits::default();
    let reason = |body: &[u8]| match decode(Encoding::Json, body, &limits) {
        Err(failure) => failure.reason,
        Ok(Body::Single(call)) => call.request.expect_err("no request").reason,
        Ok(other) => panic!("{other:?}"),
    };
    for body in [
        "",
        " ",
        "{",
        "[1",
        "{}x",
        "[] []",
        "nul",
        "\u{feff}{}",
        r#"{"a":"\x"}"#,
    ] {
        assert_eq!(reason(body.as_bytes()), Reason::ParseError, "{body}");
    }
    assert_eq!(reason(b"{\"a\":\"\xff\"}"), Reason::ParseError);
    let requests = [
        "[]",
        "1",
        "null",
        "\"x\"",
        "{}",
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        r#"{"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}"#,
    ];
    for body in requests {
        assert_eq!(reason(body.as_bytes()), Reason::InvalidRequest, "{body}");
    }
    // The id is told where it can be made out; what is no request is no notification.
    assert_eq!(
        one(r#"{"jsonrpc":"2.0","id":"x","method":1}"#).id,
        Some(Id::Text("x".into()))
    );
    assert_eq!(one(r#"{"jsonrpc":"2.0","method":1}"#).id, Some(Id::Null));
    assert_eq!(one(r#"{"jsonrpc":"2.0","method":"no.such"}"#).id, None);
    assert_eq!(
        asked("no.such", "{}").expect_err("unknown").reason,
        Reason::MethodNotFound
    );
}

#[test]
fn batches() {
    let limits = Limits {
        requests_in_flight_max: 3,
        ..Limits::default()
    };
    let batch = |body: &str| decode(Encoding::Json, body.as_bytes(), &limits);
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let Ok(Body::Batch(calls)) = batch(&format!(" [{ping}, 1 ,{{}}]")) else {
        panic!()
    };
    assert_eq!(calls[0].request, Ok(Request::Ping(session::Nothing {})));
    for call in &calls[1..] {
        assert_eq!(call.id, Some(Id::Null));
        assert_eq!(
            call.request.as_ref().expect_err("bad").reason,
            Reason::InvalidRequest
        );
    }
    assert_eq!(
        batch("[]").expect_err("empty").reason,
        Reason::InvalidRequest
    );
    let many = batch(&format!("[{}]", ["1"; 1000].join(","))).expect_err("many");
    assert_eq!(
        (many.reason, many.actual),
        (Reason::TooLarge, Some(Actual::Number(1000)))
    );
    let wait = r#"{"jsonrpc":"2.0","id":1,"method":"sync","params":{"positions":{},"wait_ms":5}}"#;
    let Ok(Body::Batch(calls)) = batch(&format!("[{wait}]")) else {
        panic!()
    };
    let failure = calls[0].request.clone().expect_err("waits");
    assert_eq!(
        (failure.reason, failure.field.as_deref()),
        (Reason::InvalidParams, Some("wait_ms"))
    );
    assert!(one(wait).request.is_ok());
}

#[test]
fn unfit_parameters_are_refused_with_their_path() {
    refused("ping", "[]", "params");
    refused("ping", "null", "params");
    refused("ping", r#"{"x":1}"#, "x");
    refused("message.append", "{}", "timeline");
    refused("message.append", r#"{"timeline":"t"}"#, "entry");
    refused("message.append", r#"{"timeline":"t","entry":[]}"#, "entry");
    refused("message.append", r#"{"timeline":1,"entry":{}}"#, "timeline");
    refused(
        "message.append",
        r#"{"timeline":"t","entry":{},"nope":1}"#,
        "nope",
    );
    refused(
        "message.append",
        r#"{"timeline":"t","timeline":"t","entry":{}}"#,
        "timeline",
    );
    refused(
        "message.append",
        r#"{"timeline":"t","entry":{},"create":"yes"}"#,
        "create",
    );
    refused(
        "message.append",
        r#"{"timeline":"t","entry":{},"expect_head":-1}"#,
        "expect_head",
    );
    refused(
        "message.append",
        r#"{"timeline":"t","entry":{},"expect_head":1.0}"#,
        "expect_head",
    );
    refused(
        "message.append",
        r#"{"timeline":"t","entry":{},"message_id":""}"#,
        "message_id",
    );
    refused(
        "message.append",
        r#"{"timeline":"t","entry":{"a":null}}"#,
        "entry.a",
    );
}

#[test]
fn unfit_batches_are_refused_with_their_path() {
    refused(
        "message.append_batch",
        r#"{"timeline":"t","messages":[]}"#,
        "messages",
    );
    let batch = |messages: &str, field| {
        let params = format!(r#"{{"timeline":"t","messages":[{messages}]}}"#);
        refused("message.append_batch", &params, field);
    };
    batch(
        r#"{"entry":{}},{"entry":{}},{"entry":{}},{"entry":[]}"#,
        "messages[3].entry",
    );
    batch(r#"{"entry":{}},{}"#, "messages[1].entry");
    batch(r#"{"entry":{},"x":1}"#, "messages[0].x");
    batch(r#"[{},"id"]"#, "messages[0]");
    batch(r#"{"entry":{"a":1,"a":2}}"#, "messages[0].entry.a");
    batch(
        r#"{"entry":{"a":99999999999999999999}}"#,
        "messages[0].entry.a",
    );
    batch(
        r#"{"entry":{},"message_id":"x"},{"entry":{},"message_id":"x"}"#,
        "messages[1].message_id",
    );
}

#[test]
fn unfit_numbers_and_choices_are_refused_with_their_path() {
    let big = 1u64 << 53;
    refused(
        "message.get",
        &format!(r#"{{"timeline":"t","sequence":{big}}}"#),
        "sequence",
    );
    refused(
        "message.get",
        r#"{"timeline":"t","sequence":0}"#,
        "sequence",
    );
    refused(
        "message.range",
        &format!(r#"{{"timeline":"t","from":{big}}}"#),
        "from",
    );
    refused("message.range", r#"{"timeline":"t","limit":0}"#, "limit");
    refused("message.range", r#"{"timeline":"t","limit":-1}"#, "limit");
    refused(
        "message.range",
        r#"{"timeline":"t","direction":"up"}"#,
        "direction",
    );
    refused(
        "message.range",
        r#"{"timeline":"t","direction":{"forward":null}}"#,
        "direction",
    );
    refused(
        "message.range",
        r#"{"timeline":"t","columns":["a","$b"]}"#,
        "columns[1]",
    );
    refused(
        "subscribe",
        r#"{"timeline":"t","after":1,"rewind":1}"#,
        "rewind",
    );
}

#[test]
fn unfit_positions_and_updates_are_refused_with_their_path() {
    refused("sync", r#"{"positions":{"t":-1}}"#, "positions.t");
    refused("sync", r#"{"positions":{"t":[1]}}"#, "positions.t");
    refused(
        "sync",
        r#"{"positions":{"t":{"epoch":"x"}}}"#,
        "positions.t.after",
    );
    refused(
        "sync",
        r#"{"positions":{"t":{"after":1,"x":1}}}"#,
        "positions.t.x",
    );
    refused(
        "sync",
        r#"{"positions":{"t":{"after":1,"epoch":"ü"}}}"#,
        "positions.t.epoch",
    );
    refused("sync", r#"{"positions":{"t":1,"t":2}}"#, "positions.t");
    refused("sync", r#"{"positions":{"":1}}"#, "positions.");
    refused("session.open", r#"{"integers":"big"}"#, "integers");
    refused("session.open", r#"{"user":"a\u0000"}"#, "user");
    refused("message.update", r#"{"timeline":"t","sequence":1}"#, "set");
    refused(
        "message.update",
        r#"{"timeline":"t","sequence":1,"set":{},"remove":[]}"#,
        "set",
    );
    let both = r#"{"timeline":"t","sequence":1,"set":{"a":1},"remove":["a"]}"#;
    refused("message.update", both, "set.a");
    refused(
        "message.update",
        r#"{"timeline":"t","sequence":1,"set":{"a":1,"a":null}}"#,
        "set.a",
    );
}

#[test]
fn depth_is_limited_and_the_id_still_told() {
    let entry = |depth: usize| format!(r#"{{"a":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    // The request, its parameters and the entry are three.
    assert!(append(&entry(29)).is_ok());
    let failure = append(&entry(30)).expect_err("deep");
    assert_eq!(
        (failure.reason, failure.limit),
        (Reason::TooLarge, Some(32))
    );
    assert_eq!(failure.actual, Some(Actual::Number(33)));
    assert!(append(&format!(r#"{{"a":["{}"]}}"#, "[".repeat(100))).is_ok());
    for depth in [1_000, 100_000] {
        assert_eq!(
            append(&entry(depth)).expect_err("deep").reason,
            Reason::TooLarge
        );
        let mut bodies = vec!["[".repeat(depth), r#"{"a":"#.repeat(depth)];
        bodies.push(format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
        bodies.push(format!(r#"{{"x":{}}}"#, entry(depth)));
        bodies.push(format!(r#"{{"id":{}}}"#, entry(depth)));
        for body in bodies {
            let _ = decode(Encoding::Json, body.as_bytes(), &Limits::default());
        }
        for body in [vec![0x91; depth], vec![0x81; depth], vec![0xdd; depth]] {
            let failure = decode(Encoding::MessagePack, &body, &Limits::default());
            assert_eq!(failure.expect_err("deep").reason, Reason::ParseError);
        }
        let ping = json!({"jsonrpc": "2.0", "id": 7, "method": "ping", "params": null});
        let mut body = rmp_serde::to_vec_named(&ping).expect("plain");
        // serde_json sorts the names: the parameters come last.
        assert_eq!(body.pop(), Some(0xc0));
        body.extend(vec![0x91; depth]);
        body.push(0xc0);
        let Ok(Body::Single(call)) = decode(Encoding::MessagePack, &body, &Limits::default())
        else {
            panic!("a call")
        };
        assert_eq!(call.id, Some(Id::Integer(7)));
        assert_eq!(call.request.expect_err("deep").reason, Reason::TooLarge);
    }
}

#[test]
fn errors_stay_small_whatever_was_sent() {
    let huge = "x".repeat(1 << 20);
    let bodies = [
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{huge}"}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"{huge}":1}}}}"#),
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"message.get","params":{{"timeline":"t","sequence":"{huge}"}}}}"#
        ),
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"sync","params":{{"positions":{{"{huge}":1}}}}}}"#
        ),
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"message.append","params":{{"timeline":"t","entry":{{"a":{{"${huge}":1}}}}}}}}"#
        ),
    ];
    for body in bodies {
        let failure = one(&body).request.expect_err("refused");
        assert!(failure_bytes(&failure) < 1_000, "{failure:?}");
    }
}

fn failure_bytes(failure: &Failure) -> usize {
    encoded(&Id::Integer(1), Err(failure), Encoding::Json).len()
}

#[test]
fn positions_are_read_alike_wherever_the_parameters_stand() {
    let limits = Limits::default();
    for params in [
        r#"{"positions":{"a":1,"b":{"after":2,"epoch":"x","changes_after":3}},"limit":9}"#,
        r#"{"positions":{"a":1,"a":2}}"#,
        r#"{"positions":{"a":[[[[[[[[[[]]]]]]]]]]}}"#,
        r#"{"positions":{"a":"1"}}"#,
        r#"{"positions":{},"what":1}"#,
        r#"[{"a":1},10]"#,
        "null",
    ] {
        let known = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"sync","params":{params}}}"#);
        let ahead = format!(r#"{{"jsonrpc":"2.0","id":1,"params":{params},"method":"sync"}}"#);
        let decoded = |text: &str| decode(Encoding::Json, text.as_bytes(), &limits);
        assert_eq!(decoded(&known), decoded(&ahead), "{params}");
        let twice = known.replacen('{', &format!(r#"{{"params":{params},"#), 1);
        let Ok(Body::Single(call)) = decoded(&twice) else {
            panic!("{twice}");
        };
        assert!(call.request.is_err(), "{twice}");
    }
}
