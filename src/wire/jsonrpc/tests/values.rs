//! Tests of what parameters and values may hold.
//!
//! Owns: identifiers, defaults, clamps, values, names, sizes. Promises: each rule of PROTOCOL's "Values" is a case.
//! Must not: test encodings; `encodings.rs` does.

use super::*;

fn too_large(method: &str, params: &str, field: &str, limit: u64, actual: u64) {
    let failure = asked(method, params).expect_err("too large");
    assert_eq!(failure.reason, Reason::TooLarge, "{failure:?}");
    assert_eq!(failure.field.as_deref(), Some(field));
    assert_eq!(
        (failure.limit, failure.actual),
        (Some(limit), Some(Actual::Number(actual)))
    );
}

fn value(text: &str) -> Value {
    append(&format!(r#"{{"a":{text}}}"#))
        .expect(text)
        .remove(0)
        .1
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
    assert!(asked("subscribe", r#"{"timeline":"$x"}"#).is_ok());
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
