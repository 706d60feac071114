//! Tests of MessagePack against JSON, of what the server says, and round trips.
//!
//! Owns: both encodings in both directions. Promises: what goes out comes in as it was; broken bytes never panic. Must
//! not: repeat the rules of parameters; `values.rs` and `mod.rs` have them.

use super::*;
use crate::Entry;

/// A body in MessagePack from what `json!` makes; integers and doubles as they stand.
fn packed(value: &serde_json::Value) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("plain")
}

fn packed_body(params: rmpv::Value) -> Vec<u8> {
    let text = |text: &str| rmpv::Value::from(text);
    let call = rmpv::Value::Map(vec![
        (text("jsonrpc"), text("2.0")),
        (text("id"), rmpv::Value::from(1)),
        (text("method"), text("message.append")),
        (text("params"), params),
    ]);
    let mut body = Vec::new();
    rmpv::encode::write_value(&mut body, &call).expect("memory");
    body
}

fn packed_call(params: rmpv::Value) -> Result<Request, Failure> {
    let body = packed_body(params);
    match decode(Encoding::MessagePack, &body, &Limits::default()) {
        Ok(Body::Single(call)) => call.request,
        other => panic!("{other:?}"),
    }
}

fn packed_entry(value: rmpv::Value) -> Result<Value, Failure> {
    let text = |text: &str| rmpv::Value::from(text);
    let entry = rmpv::Value::Map(vec![(text("a"), value)]);
    let params = rmpv::Value::Map(vec![(text("timeline"), text("t")), (text("entry"), entry)]);
    match packed_call(params)? {
        Request::MessageAppend(append) => Ok(append.entry.columns[0].1.clone()),
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
        let json = decode(Encoding::Json, body.to_string().as_bytes(), &limits);
        let pack = decode(Encoding::MessagePack, &packed(&body), &limits);
        match (json, pack) {
            (Ok(Body::Single(json)), Ok(Body::Single(pack))) => {
                assert_eq!(shape(&json), shape(&pack), "{body}");
            }
            (Ok(Body::Batch(json)), Ok(Body::Batch(pack))) => {
                assert!(json.iter().map(shape).eq(pack.iter().map(shape)), "{body}");
            }
            other => panic!("{body}: {other:?}"),
        }
    }
    let empty = decode(Encoding::MessagePack, &packed(&json!([])), &limits).expect_err("empty");
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
}

/// Beside it the other calls of a batch are answered.
#[test]
fn messagepack_text_that_is_not_utf_8_is_no_bin_however_long() {
    use rmpv::Value as Pack;
    for length in [1usize, 31, 40, 300, 70_000] {
        let entry = Pack::Map(vec![(Pack::from("a"), Pack::from("z".repeat(length)))]);
        let params = Pack::Map(vec![(Pack::from("entry"), entry)]);
        let mut body = packed_body(params);
        body.iter_mut()
            .filter(|byte| **byte == b'z')
            .for_each(|byte| *byte = 0xff);
        let Ok(Body::Single(call)) = decode(Encoding::MessagePack, &body, &Limits::default())
        else {
            panic!("a call")
        };
        assert_eq!(call.id, Some(Id::Integer(1)));
        let failure = call.request.expect_err("no text");
        assert_eq!(failure.reason, Reason::ParseError, "{length}");
        assert_eq!(
            packed_entry(Pack::Binary(vec![0xff; length])),
            Ok(Value::Binary(vec![0xff; length].into()))
        );
    }
    let get = |id: i64, timeline: Pack| {
        let params = Pack::Map(vec![(Pack::from("timeline"), timeline)]);
        Pack::Map(vec![
            (Pack::from("params"), params),
            (Pack::from("jsonrpc"), Pack::from("2.0")),
            (Pack::from("id"), Pack::from(id)),
            (Pack::from("method"), Pack::from("timeline.get")),
        ])
    };
    let batch = Pack::Array(vec![
        get(1, Pack::Binary(vec![b't'])),
        get(2, Pack::from("t")),
    ]);
    let mut body = Vec::new();
    rmpv::encode::write_value(&mut body, &batch).expect("memory");
    let Ok(Body::Batch(calls)) = decode(Encoding::MessagePack, &body, &Limits::default()) else {
        panic!("a batch")
    };
    let refusal = calls[0].request.as_ref().expect_err("bin is no ID");
    assert_eq!(
        (
            calls[0].id.as_ref(),
            refusal.reason,
            refusal.field.as_deref()
        ),
        (
            Some(&Id::Integer(1)),
            Reason::InvalidParams,
            Some("timeline")
        )
    );
    assert!(calls[1].request.is_ok());
}

#[test]
fn what_is_no_messagepack_is_a_parse_error() {
    let malformed: [&[u8]; 7] = [
        b"",
        &[0xc1],
        &[0x81],
        &[0x91, 0xa5, 1],
        &[0x80, 0x80],
        &[0x80, 0xa5],
        &[0xdf, 255, 255, 255, 255],
    ];
    for body in malformed {
        let failure = decode(Encoding::MessagePack, body, &Limits::default()).expect_err("bad");
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
    let message = message::Message {
        sequence: 1,
        timestamp: 2,
        message_id: "m".into(),
        entry: Some(columns),
        ..Default::default()
    };
    Reply::MessageGet(Box::new(message::Got { message }))
}

#[test]
fn replies_in_every_encoding() {
    let reply = |id: Id, integers: Integers, encoding| {
        integers.written(|| encoded(&id, Ok(&page()), encoding))
    };
    let json = reply(Id::Integer(1), Integers::Number, Encoding::Json);
    let entry = r#"{"big":9007199254740992,"bin":{"$binary":"AP8="},"dbl":1.0,"int":9007199254740991,"nest":[1.50,{"a":null}]}"#;
    let expected = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"message":{{"sequence":1,"timestamp":2,"message_id":"m","entry":{entry}}}}}}}"#
    );
    assert_eq!(json, expected.as_bytes());
    let text = reply(Id::Integer(1), Integers::Text, Encoding::Json);
    let changed = expected.replace("9007199254740992", r#"{"$integer":"9007199254740992"}"#);
    assert_eq!(text, changed.as_bytes());
    let id = Id::Text("x".into());
    let pack = reply(id, Integers::Number, Encoding::MessagePack);
    let pack = rmpv::decode::read_value(&mut &pack[..]).expect("well-formed");
    assert_eq!(pack["id"], rmpv::Value::from("x"));
    let entry = &pack["result"]["message"]["entry"];
    assert_eq!(entry["bin"], rmpv::Value::Binary(vec![0, 255]));
    assert_eq!(entry["dbl"], rmpv::Value::F64(1.0));
    assert_eq!(entry["nest"][0], rmpv::Value::F64(1.5));
    assert!(entry["nest"][1]["a"].is_nil());
}

#[test]
fn failures_and_pushes() {
    let failure = Failure::new(Reason::Busy).retry_after(50);
    let bytes = encoded(&Id::Null, Err(&failure), Encoding::Json);
    let expected = r#"{"jsonrpc":"2.0","id":null,"error":{"code":503,"message":"more is queued than can be taken","data":{"reason":"busy","retry":true,"retry_after_ms":50}}}"#;
    assert_eq!(bytes, expected.as_bytes());
    let draining = Push::Draining(pushes::Draining { reconnect_in_ms: 9 });
    let expected = r#"{"jsonrpc":"2.0","method":"draining","params":{"reconnect_in_ms":9}}"#;
    assert_eq!(JSON.push(&draining), expected.as_bytes());
}

#[test]
fn a_batch_is_answered_by_one_array() {
    let calls: Vec<_> = (0..20)
        .map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "ping"}))
        .chain([json!({"jsonrpc": "2.0", "method": "unsubscribe", "params": {"timeline": "t"}})])
        .collect();
    let calls = serde_json::Value::from(calls);
    for (dialect, body) in [
        (&JSON, calls.to_string().into_bytes()),
        (&MESSAGE_PACK, packed(&calls)),
    ] {
        let Ok(Incoming::Batch(calls, mut together)) = dialect.decode(&body, &Limits::default())
        else {
            panic!("a batch");
        };
        let ids: Vec<Id> = calls.into_iter().filter_map(|call| call.id).collect();
        assert_eq!(ids.len(), 20);
        for id in &ids[1..] {
            assert!(together.add(id, Ok(Reply::Ping(session::Pong { time: 5 }))));
        }
        assert!(together.add(&ids[0], Err(Reason::Busy.into())));
        let array = together.finish().expect("answers");
        let array: serde_json::Value = match dialect.0 {
            Encoding::Json => serde_json::from_slice(&array).expect("JSON"),
            Encoding::MessagePack => rmp_serde::from_slice(&array).expect("MessagePack"),
        };
        assert_eq!(array.as_array().map(Vec::len), Some(20));
        assert_eq!(array[0]["result"]["time"], 5);
        assert_eq!(array[19]["error"]["code"], 503);
    }
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
        let encoding = if pack { Encoding::MessagePack } else { Encoding::Json };
        let entry = Entry::from(columns.clone());
        let bytes_max = entry.encoded_bytes_max();
        let json_bytes = tideline_model::json_bytes(&columns);
        #[derive(serde::Serialize)]
        struct Params<'a> { timeline: &'a str, entry: &'a Entry<'a> }
        #[derive(serde::Serialize)]
        struct Asked<'a> { jsonrpc: &'a str, id: i64, method: &'a str, params: Params<'a> }
        let asked = Asked { jsonrpc: "2.0", id: 1, method: "message.append", params: Params { timeline: "t", entry: &entry } };
        let (mut body, mut alone) = (Vec::new(), Vec::new());
        integers.written(|| {
            super::encode::append(&mut body, &asked, encoding);
            super::encode::append(&mut alone, &entry, encoding);
        });
        prop_assert!(alone.len() <= bytes_max, "{} > {}", alone.len(), bytes_max);
        if !pack && !text {
            prop_assert_eq!(alone.len(), json_bytes);
        }
        let call = match decode(encoding, &body, &Limits::default()) {
            Ok(Body::Single(call)) => call,
            other => panic!("{other:?}"),
        };
        match call.request {
            Ok(Request::MessageAppend(append)) if pack => {
                // Nested numbers lose their spelling on the way through MessagePack, not their value.
                prop_assert_eq!(append.entry.columns.len(), columns.len());
                for ((name, value), (read_name, read)) in columns.iter().zip(&*append.entry.columns) {
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
            Ok(Request::MessageAppend(append)) => prop_assert_eq!(append.entry.columns.into_owned(), columns),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(Encoding::Json, &bytes, &Limits::default());
        let _ = decode(Encoding::MessagePack, &bytes, &Limits::default());
    }

    #[test]
    fn broken_requests_never_panic(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(), columns in any_columns()) {
        let entry = Entry::from(columns);
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "message.append_batch",
            "params": {"timeline": "t", "messages": [{"entry": entry, "message_id": "a"}]}});
        for encoding in [Encoding::Json, Encoding::MessagePack] {
            let mut bytes = match encoding {
                Encoding::Json => body.to_string().into_bytes(),
                Encoding::MessagePack => packed(&body),
            };
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if cut {
                bytes.truncate(at);
            }
            if let Ok(Body::Single(call)) = decode(encoding, &bytes, &Limits::default())
                && let Err(failure) = call.request
            {
                prop_assert!(failure_bytes(&failure) < 1_500);
            }
        }
    }
}
