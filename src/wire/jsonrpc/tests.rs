//! Tests of the dialect: the table of every rule, both encodings, and arbitrary bytes.
//!
//! Owns: what PROTOCOL.md says about bodies, ids, batches and parameters, as cases. Promises: each case names input and outcome in one
//! line. Must not: reach into the decoder's parts; only `decode` and the encoders are called.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::value::Value;
use crate::wire::{Actual, Limits, Push, Reason, Reply, message, push as pushes, session};

fn one(body: &str) -> Call {
    one_within(body, &Limits::default())
}

fn one_within(body: &str, limits: &Limits) -> Call {
    match decode(Dialect::Json, body.as_bytes(), limits) {
        Ok(Incoming::Single(call)) => call,
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

fn too_large(method: &str, params: &str, field: &str, limit: u64, actual: u64) {
    let failure = asked(method, params).expect_err("too large");
    assert_eq!(failure.reason, Reason::TooLarge, "{failure:?}");
    assert_eq!(failure.field.as_deref(), Some(field));
    assert_eq!(
        (failure.limit, failure.actual),
        (Some(limit), Some(Actual::Number(actual)))
    );
}

fn append(entry: &str) -> Result<Vec<(String, Value)>, Failure> {
    match asked(
        "message.append",
        &format!(r#"{{"timeline":"t","entry":{entry}}}"#),
    )? {
        Request::MessageAppend(append) => Ok(append.entry.0),
        other => panic!("{other:?}"),
    }
}

fn value(text: &str) -> Value {
    append(&format!(r#"{{"a":{text}}}"#))
        .expect(text)
        .remove(0)
        .1
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
        Ok(Request::Ping)
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
    let reason = |body: &[u8]| match decode(Dialect::Json, body, &limits) {
        Err(failure) => failure.reason,
        Ok(Incoming::Single(call)) => call.request.expect_err("no request").reason,
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
    let batch = |body: &str| decode(Dialect::Json, body.as_bytes(), &limits);
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let Ok(Incoming::Batch(calls)) = batch(&format!(" [{ping}, 1 ,{{}}]")) else {
        panic!()
    };
    assert_eq!(calls[0].request, Ok(Request::Ping));
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
    let Ok(Incoming::Batch(calls)) = batch(&format!("[{wait}]")) else {
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
fn identifiers() {
    let get = |timeline: &str| {
        asked("timeline.get", &json!({ "timeline": timeline }).to_string()).map(|_| ())
    };
    assert_eq!(get(&"x".repeat(255)), Ok(()));
    assert_eq!(get("Grüße, Welt"), Ok(()));
    assert_eq!(get("$system"), Ok(()));
    let long = get(&"ü".repeat(128)).expect_err("256 bytes");
    assert_eq!(
        (long.limit, long.actual),
        (Some(255), Some(Actual::Number(256)))
    );
    for bad in ["", "a\nb", "\u{7f}", "\u{85}"] {
        assert_eq!(get(bad).expect_err(bad).field.as_deref(), Some("timeline"));
    }
    let own = asked("message.append", r#"{"timeline":"$x","entry":{}}"#).expect_err("own");
    assert_eq!(own.reason, Reason::Forbidden);
    let Ok(Request::Subscribe(subscribe)) = asked("subscribe", r#"{"timeline":"$x"}"#) else {
        panic!()
    };
    assert!(!subscribe.create);
    let id = |id: &str| {
        asked(
            "message.append",
            &json!({"timeline": "t", "entry": {}, "message_id": id}).to_string(),
        )
    };
    assert!(id(&"x".repeat(64)).is_ok());
    assert_eq!(id(&"x".repeat(65)).expect_err("long").limit, Some(64));
    for bad in ["", "a-b", "ü", "000000000000000000000000000000000"] {
        refused(
            "timeline.get",
            &json!({"timeline": "t", "epoch": bad}).to_string(),
            "epoch",
        );
    }
}

#[test]
fn defaults_and_clamps() {
    let Ok(Request::MessageRange(range)) = asked("message.range", r#"{"timeline":"t"}"#) else {
        panic!()
    };
    assert_eq!(
        (range.limit, range.direction),
        (100, message::Direction::Forward)
    );
    let params = r#"{"timeline":"t","limit":5000,"direction":"backward","from":null}"#;
    let Ok(Request::MessageRange(range)) = asked("message.range", params) else {
        panic!()
    };
    assert_eq!(
        (range.limit, range.direction),
        (1000, message::Direction::Backward)
    );
    let Ok(Request::Sync(sync)) = asked("sync", r#"{"positions":{},"wait_ms":99999999}"#) else {
        panic!()
    };
    assert_eq!((sync.wait_ms, sync.limit), (Some(60_000), 100));
    let Ok(Request::MessageAppend(append)) =
        asked("message.append", r#"{"timeline":"t","entry":{}}"#)
    else {
        panic!()
    };
    assert!(append.create);
    let params = r#"{"timeline":"t","sequence":1,"set":{"b":1,"a":null},"remove":["c","c"]}"#;
    let Ok(Request::MessageUpdate(update)) = asked("message.update", params) else {
        panic!()
    };
    assert_eq!(update.set.put, [("b".to_owned(), Value::Integer(1))]);
    assert_eq!(
        (update.set.remove.len(), update.remove),
        (0, vec!["a".to_owned(), "c".to_owned()])
    );
}

#[test]
fn values_as_the_protocol_has_them() {
    assert_eq!(value("1"), Value::Integer(1));
    assert_eq!(value("1.0"), Value::Double(1.0));
    assert_eq!(value("1e0"), Value::Double(1.0));
    assert_eq!(value("-9223372036854775808"), Value::Integer(i64::MIN));
    assert_eq!(value("true"), Value::Boolean(true));
    assert_eq!(value(r#""a\u00fc\n""#), Value::String("aü\n".into()));
    assert_eq!(
        value(r#"{"$binary":"AAE="}"#),
        Value::Binary(Bytes::from_static(&[0, 1]))
    );
    assert_eq!(
        value(r#"{"$integer":"9223372036854775807"}"#),
        Value::Integer(i64::MAX)
    );
    assert_eq!(value(r#"{ "\u0024integer" : "-5" }"#), Value::Integer(-5));
    let nested = r#"[ 1 , 1.00, { "b" : null, "a" : [ ] , "a" : "x y\u0000" } ]"#;
    let compact = r#"[1,1.00,{"b":null,"a":[],"a":"x y\u0000"}]"#;
    assert_eq!(value(nested), Value::Json(compact.into()));
    assert_eq!(value("{ }"), Value::Json("{}".into()));
    // Typed values are so at the top level only, and only as the one name.
    let kept = r#"{"$binary":"x","b":1}"#;
    assert_eq!(value(kept), Value::Json(kept.into()));
    assert_eq!(
        value(r#"[{"$binary":"?"}]"#),
        Value::Json(r#"[{"$binary":"?"}]"#.into())
    );
    let bad = [
        "null",
        "9223372036854775808",
        "-9223372036854775809",
        "1e999",
        "-1e999",
        r#""\ud800""#,
        r#"["\ud800"]"#,
        r#"[1e999]"#,
        "[99999999999999999999]",
        r#"{"$binary":"?"}"#,
        r#"{"$binary":"AAE"}"#,
        r#"{"$binary":1}"#,
        r#"{"$integer":"+1"}"#,
        r#"{"$integer":"01"}"#,
        r#"{"$integer":"-0"}"#,
        r#"{"$integer":""}"#,
        r#"{"$integer":1}"#,
        r#"{"$integer":"9223372036854775808"}"#,
        r#"{"$other":"x"}"#,
        r#"{"$":1}"#,
        r#"{"$binary":"","$binary":""}"#,
    ];
    for text in bad {
        let failure = append(&format!(r#"{{"a":{text}}}"#)).expect_err(text);
        assert_eq!(failure.reason, Reason::InvalidParams, "{text}");
        assert_eq!(failure.field.as_deref(), Some("entry.a"), "{text}");
    }
}

#[test]
fn names_and_sizes_of_entries() {
    let names = append(r#"{"b":1,"a":2,"":3}"#).expect_err("empty name");
    assert_eq!(names.field.as_deref(), Some("entry."));
    let sorted = append(r#"{"b":1,"a":2}"#).expect("fine");
    assert_eq!(
        sorted
            .iter()
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>(),
        ["a", "b"]
    );
    for name in ["$a", "__a"] {
        let failure = append(&format!(r#"{{"{name}":1}}"#)).expect_err(name);
        assert_eq!(failure.field, Some(format!("entry.{name}")));
    }
    let long = append(&format!(r#"{{"{}":1}}"#, "n".repeat(256))).expect_err("long");
    assert_eq!(long.actual, Some(Actual::Number(256)));
    let huge = append(&format!(r#"{{"{}":1}}"#, "ü".repeat(100_000))).expect_err("huge");
    assert!(huge.field.expect("named").len() < 400);
    let wide = |count: usize| {
        let names: Vec<String> = (0..count).map(|name| format!(r#""{name}":1"#)).collect();
        append(&format!("{{{}}}", names.join(",")))
    };
    assert!(wide(128).is_ok());
    assert_eq!(wide(129).expect_err("wide").limit, Some(128));
    let limit = 256 << 10;
    // {"a":"…"} is 8 bytes around the text.
    let text = |bytes: usize| {
        format!(
            r#"{{"timeline":"t","entry":{{"a":"{}"}}}}"#,
            "x".repeat(bytes)
        )
    };
    assert!(asked("message.append", &text(limit - 8)).is_ok());
    too_large(
        "message.append",
        &text(limit - 7),
        "entry",
        limit as u64,
        limit as u64 + 1,
    );
    let message = format!(r#"{{"entry":{{"a":"{}"}}}}"#, "x".repeat(200_000));
    let batch = |count| {
        format!(
            r#"{{"timeline":"t","messages":[{}]}}"#,
            vec![message.as_str(); count].join(",")
        )
    };
    assert!(asked("message.append_batch", &batch(5)).is_ok());
    too_large(
        "message.append_batch",
        &batch(6),
        "messages",
        1 << 20,
        6 * 200_008,
    );
    let many = format!(
        r#"{{"timeline":"t","messages":[{}]}}"#,
        [r#"{"entry":{}}"#; 101].join(",")
    );
    too_large("message.append_batch", &many, "messages", 100, 101);
    let positions: Vec<String> = (0..10_001).map(|name| format!(r#""{name}":0"#)).collect();
    let params = format!(r#"{{"positions":{{{}}}}}"#, positions.join(","));
    too_large("sync", &params, "positions", 10_000, 10_001);
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
            let _ = decode(Dialect::Json, body.as_bytes(), &Limits::default());
        }
        for body in [vec![0x91; depth], vec![0x81; depth], vec![0xdd; depth]] {
            let _ = decode(Dialect::MessagePack, &body, &Limits::default());
        }
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
    super::failure(&Id::Integer(1), failure, Dialect::Json).len()
}

/// A body in MessagePack from what `json!` makes; integers and doubles as they stand.
fn packed(value: &serde_json::Value) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("plain")
}

fn packed_call(params: rmpv::Value) -> Result<Request, Failure> {
    let text = |text: &str| rmpv::Value::from(text);
    let call = rmpv::Value::Map(vec![
        (text("jsonrpc"), text("2.0")),
        (text("id"), rmpv::Value::from(1)),
        (text("method"), text("message.append")),
        (text("params"), params),
    ]);
    let mut body = Vec::new();
    rmpv::encode::write_value(&mut body, &call).expect("memory");
    match decode(Dialect::MessagePack, &body, &Limits::default()) {
        Ok(Incoming::Single(call)) => call.request,
        other => panic!("{other:?}"),
    }
}

fn packed_entry(value: rmpv::Value) -> Result<Value, Failure> {
    let text = |text: &str| rmpv::Value::from(text);
    let entry = rmpv::Value::Map(vec![(text("a"), value)]);
    let params = rmpv::Value::Map(vec![(text("timeline"), text("t")), (text("entry"), entry)]);
    match packed_call(params)? {
        Request::MessageAppend(mut append) => Ok(append.entry.0.remove(0).1),
        other => panic!("{other:?}"),
    }
}

#[test]
fn messagepack_says_the_same() {
    let bodies = [
        json!({"jsonrpc": "2.0", "id": "x", "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": 5, "method": "message.append", "params":
            {"timeline": "t", "entry": {"a": 1, "b": 1.0, "c": [1, null, {"x": -1.5}], "d": true, "e": "ü\""}}}),
        json!({"jsonrpc": "2.0", "method": "sync", "params": {"positions": {"t": {"after": 3}}}}),
        json!({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": null, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "message.append", "params": {"timeline": "t", "entry": {}, "x": 1}}),
        json!([{"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "method": "ping"}, 5]),
        json!({"jsonrpc": "2.0", "id": u64::MAX, "method": "nope", "params": []}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}),
    ];
    let limits = Limits::default();
    let shape = |call: &Call| {
        (
            call.id.clone(),
            call.request
                .clone()
                .map_err(|failure| (failure.reason, failure.field)),
        )
    };
    for body in bodies {
        let json = decode(Dialect::Json, body.to_string().as_bytes(), &limits);
        let pack = decode(Dialect::MessagePack, &packed(&body), &limits);
        match (json, pack) {
            (Ok(Incoming::Single(json)), Ok(Incoming::Single(pack))) => {
                assert_eq!(shape(&json), shape(&pack), "{body}");
            }
            (Ok(Incoming::Batch(json)), Ok(Incoming::Batch(pack))) => {
                assert!(json.iter().map(shape).eq(pack.iter().map(shape)), "{body}");
            }
            other => panic!("{body}: {other:?}"),
        }
    }
    let empty = decode(Dialect::MessagePack, &packed(&json!([])), &limits).expect_err("empty");
    assert_eq!(empty.reason, Reason::InvalidRequest);
}

#[test]
fn messagepack_has_binary_and_its_own_faults() {
    use rmpv::Value as Pack;
    assert_eq!(
        packed_entry(Pack::Binary(vec![1, 2])),
        Ok(Value::Binary(Bytes::from_static(&[1, 2])))
    );
    assert_eq!(packed_entry(Pack::F64(1.0)), Ok(Value::Double(1.0)));
    assert_eq!(packed_entry(Pack::F32(0.5)), Ok(Value::Double(0.5)));
    assert_eq!(packed_entry(Pack::from(1)), Ok(Value::Integer(1)));
    let field = |value: Pack| {
        let failure = packed_entry(value).expect_err("refused");
        assert_eq!(failure.reason, Reason::InvalidParams, "{failure:?}");
        failure.field.expect("a field")
    };
    assert_eq!(field(Pack::F64(f64::NAN)), "entry.a");
    assert_eq!(field(Pack::F32(f32::INFINITY)), "entry.a");
    assert_eq!(field(Pack::from(u64::MAX)), "entry.a");
    assert_eq!(field(Pack::Nil), "entry.a");
    assert_eq!(field(Pack::Ext(1, vec![0])), "entry.a");
    assert_eq!(
        field(Pack::Array(vec![Pack::Nil, Pack::Binary(vec![])])),
        "entry.a[1]"
    );
    let nested = Pack::Map(vec![(Pack::from("b"), Pack::Ext(-1, vec![0; 4]))]);
    assert_eq!(field(nested), "entry.a.b");
    assert_eq!(
        field(Pack::Map(vec![(Pack::from(1), Pack::Nil)])),
        "entry.a"
    );
    let deep = (0..40).fold(Pack::Nil, |inner, _| Pack::Array(vec![inner]));
    assert_eq!(
        packed_entry(deep).expect_err("deep").reason,
        Reason::TooLarge
    );
    let malformed: [&[u8]; 6] = [
        b"",
        &[0xc1],
        &[0x81],
        &[0x91, 0xa5, 1],
        &[0x80, 0x80],
        &[0xdf, 255, 255, 255, 255],
    ];
    for body in malformed {
        let failure = decode(Dialect::MessagePack, body, &Limits::default()).expect_err("bad");
        assert_eq!(failure.reason, Reason::ParseError, "{body:?}");
    }
}

fn page() -> Reply {
    let columns = vec![
        ("big".to_owned(), Value::Integer(1 << 53)),
        (
            "bin".to_owned(),
            Value::Binary(Bytes::from_static(&[0, 255])),
        ),
        ("dbl".to_owned(), Value::Double(1.0)),
        ("int".to_owned(), Value::Integer((1 << 53) - 1)),
        (
            "nest".to_owned(),
            Value::Json(r#"[1.50,{"a":null}]"#.into()),
        ),
    ];
    let entry = Some(crate::wire::Entry(columns));
    let message = message::Message {
        sequence: 1,
        timestamp: 2,
        message_id: "m".into(),
        entry,
        ..Default::default()
    };
    Reply::MessageGet(Box::new(message::Got { message }))
}

#[test]
fn replies_in_every_encoding() {
    let encoding = |dialect, integers| Encoding { dialect, integers };
    let json = reply(
        &Id::Integer(1),
        &page(),
        encoding(Dialect::Json, Integers::Number),
    );
    let entry = r#"{"big":9007199254740992,"bin":{"$binary":"AP8="},"dbl":1.0,"int":9007199254740991,"nest":[1.50,{"a":null}]}"#;
    let expected = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"message":{{"sequence":1,"timestamp":2,"message_id":"m","entry":{entry}}}}}}}"#
    );
    assert_eq!(json, expected.as_bytes());
    let text = reply(
        &Id::Integer(1),
        &page(),
        encoding(Dialect::Json, Integers::Text),
    );
    let changed = expected.replace("9007199254740992", r#"{"$integer":"9007199254740992"}"#);
    assert_eq!(text, changed.as_bytes());
    let pack = reply(
        &Id::Text("x".into()),
        &page(),
        encoding(Dialect::MessagePack, Integers::Number),
    );
    let pack = rmpv::decode::read_value(&mut &pack[..]).expect("well-formed");
    assert_eq!(pack["id"], rmpv::Value::from("x"));
    let entry = &pack["result"]["message"]["entry"];
    assert_eq!(entry["bin"], rmpv::Value::Binary(vec![0, 255]));
    assert_eq!(entry["dbl"], rmpv::Value::F64(1.0));
    assert_eq!(entry["nest"][0], rmpv::Value::F64(1.5));
    assert!(entry["nest"][1]["a"].is_nil());
}

#[test]
fn failures_batches_and_pushes() {
    let failure = Failure::new(Reason::Busy).retry_after(50);
    let bytes = super::failure(&Id::Null, &failure, Dialect::Json);
    let expected = r#"{"jsonrpc":"2.0","id":null,"error":{"code":503,"message":"more is queued than can be taken","data":{"reason":"busy","retry":true,"retry_after_ms":50}}}"#;
    assert_eq!(bytes, expected.as_bytes());
    let pong = Reply::Ping(session::Pong { time: 5 });
    let pong = |dialect| {
        reply(
            &Id::Integer(2),
            &pong,
            Encoding {
                dialect,
                ..Encoding::default()
            },
        )
    };
    let both = batch(&[pong(Dialect::Json), bytes], Dialect::Json);
    let read: serde_json::Value = serde_json::from_slice(&both).expect("well-formed");
    assert_eq!(read[0]["result"]["time"], 5);
    assert_eq!(read[1]["id"], serde_json::Value::Null);
    let many = batch(&vec![pong(Dialect::MessagePack); 20], Dialect::MessagePack);
    let read = rmpv::decode::read_value(&mut &many[..]).expect("well-formed");
    assert_eq!(read.as_array().map(Vec::len), Some(20));
    let draining = Push::Draining(pushes::Draining { reconnect_in_ms: 9 });
    let expected = r#"{"jsonrpc":"2.0","method":"draining","params":{"reconnect_in_ms":9}}"#;
    assert_eq!(push(&draining, Encoding::default()), expected.as_bytes());
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        ".*".prop_map(Value::String),
        any::<i64>().prop_map(Value::Integer),
        any::<f64>()
            .prop_filter("finite", |number| number.is_finite())
            .prop_map(Value::Double),
        any::<bool>().prop_map(Value::Boolean),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| Value::Binary(bytes.into())),
        any_nested().prop_map(|nested| Value::Json(nested.to_string())),
    ]
}

fn any_nested() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<u64>().prop_map(serde_json::Value::from),
        any::<f64>().prop_map(serde_json::Value::from),
        ".*".prop_map(serde_json::Value::from),
    ];
    let inner = leaf.prop_recursive(4, 20, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(serde_json::Value::from),
            prop::collection::btree_map("[^$].{0,5}", inner, 0..5)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    });
    prop::collection::vec(inner, 0..4).prop_map(serde_json::Value::from)
}

fn any_columns() -> impl Strategy<Value = Vec<(String, Value)>> {
    prop::collection::btree_map("[^$_].{0,20}", any_value(), 0..6)
        .prop_map(|columns| columns.into_iter().collect())
}

proptest! {
    #[test]
    fn values_come_back_as_they_were(columns in any_columns(), text in any::<bool>(), pack in any::<bool>()) {
        let integers = if text { Integers::Text } else { Integers::Number };
        let dialect = if pack { Dialect::MessagePack } else { Dialect::Json };
        let entry = crate::wire::Entry(columns.clone());
        let bytes_max = entry.encoded_bytes_max();
        let json_bytes = crate::wire::size::json_bytes(&columns);
        #[derive(Serialize)]
        struct Params<'a> { timeline: &'a str, entry: &'a crate::wire::Entry }
        #[derive(Serialize)]
        struct Asked<'a> { jsonrpc: &'a str, id: i64, method: &'a str, params: Params<'a> }
        let asked = Asked { jsonrpc: "2.0", id: 1, method: "message.append", params: Params { timeline: "t", entry: &entry } };
        let (body, alone) = (super::encode::encode(&asked, Encoding { dialect, integers }), super::encode::encode(&entry, Encoding { dialect, integers }));
        prop_assert!(alone.len() <= bytes_max, "{} > {}", alone.len(), bytes_max);
        if !pack && !text {
            prop_assert_eq!(alone.len(), json_bytes);
        }
        let call = match decode(dialect, &body, &Limits::default()) {
            Ok(Incoming::Single(call)) => call,
            other => panic!("{other:?}"),
        };
        match call.request {
            Ok(Request::MessageAppend(append)) if pack => {
                // Nested numbers lose their spelling on the way through MessagePack, not their value.
                prop_assert_eq!(append.entry.0.len(), columns.len());
                for ((name, value), (read_name, read)) in columns.iter().zip(&append.entry.0) {
                    prop_assert_eq!(name, read_name);
                    match (value, read) {
                        (Value::Json(one), Value::Json(two)) => {
                            let read = |text| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
                            prop_assert_eq!(read(one), read(two));
                        }
                        _ => prop_assert_eq!(value, read),
                    }
                }
            }
            Ok(Request::MessageAppend(append)) => prop_assert_eq!(append.entry.0, columns),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(Dialect::Json, &bytes, &Limits::default());
        let _ = decode(Dialect::MessagePack, &bytes, &Limits::default());
    }

    #[test]
    fn broken_requests_never_panic(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(), columns in any_columns()) {
        let entry = crate::wire::Entry(columns);
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "message.append_batch",
            "params": {"timeline": "t", "messages": [{"entry": entry, "message_id": "a"}]}});
        for dialect in [Dialect::Json, Dialect::MessagePack] {
            let mut bytes = match dialect {
                Dialect::Json => body.to_string().into_bytes(),
                Dialect::MessagePack => packed(&body),
            };
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if cut {
                bytes.truncate(at);
            }
            if let Ok(Incoming::Single(call)) = decode(dialect, &bytes, &Limits::default())
                && let Err(failure) = call.request
            {
                prop_assert!(failure_bytes(&failure) < 1_500);
            }
        }
    }
}
