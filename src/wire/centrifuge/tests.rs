//! The protocol's frames: what SDKs send, what they must find, garbage, and round trips of random messages.
//!
//! Owns: nothing. Must not: need a session.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use super::super::messages::entry::Entry;
use super::super::messages::message::Message;
use super::*;
use tideline_model::Value;

fn commands(encoding: Encoding, frame: &[u8]) -> Vec<Command> {
    let mut commands = Commands::new(encoding, Bytes::copy_from_slice(frame)).unwrap();
    let all = std::iter::from_fn(|| commands.next());
    all.map(|next| next.unwrap().0).collect()
}

fn is_malformed(encoding: Encoding, frame: &[u8]) -> bool {
    let Ok(mut commands) = Commands::new(encoding, Bytes::copy_from_slice(frame)) else {
        return true;
    };
    std::iter::from_fn(|| commands.next()).any(|next| next.is_err())
}

#[test]
fn the_first_frame_of_an_sdk_is_read() {
    let frame = br#"{"connect":{"token":"t","data":null,"subs":{"a":{"recover":true,"offset":3,"epoch":"e"}}},"id":1}
{"subscribe":{"channel":"t:42","flag":1,"recover":true,"offset":7,"epoch":"k3","token":null},"id":2}
{}
"#;
    let read = commands(Encoding::Json, frame);
    assert_eq!(read.len(), 3);
    let connect = read[0].connect.as_ref().unwrap();
    assert_eq!((connect.token.as_str(), connect.subs["a"].offset), ("t", 3));
    let subscribe = read[1].subscribe.as_ref().unwrap();
    assert_eq!((subscribe.offset, subscribe.token.as_str()), (7, ""));
    assert!(subscribe.recover && !subscribe.refuses_unrecoverable());
    assert_eq!(
        (read[1].channel(), read[2].clone()),
        (Some("t:42"), Command::default())
    );
}

#[test]
fn garbage_is_malformed() {
    for frame in [
        "",
        "x",
        "{}\n\n{}",
        "{}\n{",
        "[]",
        "{}}",
        "\"id\"",
        r#"{"id":-1}"#,
        r#"{"id":"1"}"#,
        // Of a wrong type, though the server does not look at it.
        r#"{"id":1,"connect":{"name":5}}"#,
        r#"{"id":1,"connect":{"version":{}}}"#,
        r#"{"send":5}"#,
    ] {
        assert!(is_malformed(Encoding::Json, frame.as_bytes()), "{frame}");
    }
    for frame in [
        &[][..],
        &[5],
        &[0x80],
        &[0xff; 12],
        &[2, 0x0a, 0xff],
        &[1, 0x0a],
        &[3, 0x2a, 0x01, 0x08],
    ] {
        assert!(is_malformed(Encoding::Protobuf, frame), "{frame:?}");
    }
}

#[test]
fn an_empty_message_is_a_ping() {
    assert_eq!(&Encoding::Json.frame([&Reply::default()])[..], b"{}");
    assert_eq!(&Encoding::Protobuf.frame([&Reply::default()])[..], [0]);
    assert_eq!(
        commands(Encoding::Protobuf, &[0, 0]),
        [Command::default(), Command::default()]
    );
}

#[test]
fn what_sdks_look_for_is_always_there() {
    let json = |reply: Reply| String::from_utf8(Encoding::Json.frame([&reply]).to_vec()).unwrap();
    let unsubscribed = Reply {
        id: 3,
        unsubscribe: Some(Empty {}),
        ..Reply::default()
    };
    assert_eq!(
        &Encoding::Protobuf.frame([&unsubscribed])[..],
        [4, 0x08, 3, 0x3a, 0]
    );
    assert_eq!(json(unsubscribed), r#"{"id":3,"unsubscribe":{}}"#);
    let history = Reply {
        history: Some(HistoryResult::default()),
        ..Reply::default()
    };
    assert_eq!(
        json(history),
        r#"{"history":{"publications":[],"epoch":"","offset":0}}"#
    );
    let present = Reply {
        presence: Some(PresenceResult {
            presence: BTreeMap::from([("c".to_owned(), ClientInfo::default())]),
        }),
        presence_stats: Some(PresenceStatsResult::default()),
        ..Reply::default()
    };
    assert_eq!(
        json(present),
        r#"{"presence":{"presence":{"c":{"user":"","client":""}}},"presence_stats":{"num_clients":0,"num_users":0}}"#
    );
    let refused = json(Reply::refused(Code::TooManyRequests));
    assert_eq!(
        refused,
        r#"{"error":{"code":111,"message":"too many requests","temporary":true}}"#
    );
}

fn stored(data: &[u8]) -> Message {
    let info = ClientInfo {
        user: "ann".to_owned(),
        conn_info: Bytes::from_static(br#"{"name": "Ann"}"#),
        ..ClientInfo::default()
    };
    let published = Published {
        data: Bytes::copy_from_slice(data),
        info,
        tags: BTreeMap::from([("k".to_owned(), "v".to_owned())]),
        message_id: Some(message_id("6f3c26bc-4b43-4c0f-8a3b-1d7b2f4c9e10", 7)),
        ..Published::default()
    };
    let limits = &crate::Limits::DEFAULT;
    let (columns, message_id) = published.entry("room", limits).unwrap();
    Message {
        sequence: 9,
        message_id: message_id.unwrap(),
        sender: "ann".to_owned(),
        entry: Some(columns),
        ..Message::default()
    }
}

#[test]
fn what_was_published_comes_back_byte_for_byte() {
    let deep = "[".repeat(60) + &"]".repeat(60);
    for data in [
        &br#"{"input": "test"}"#[..],
        b"[1,  2]",
        b"{\n \"a\": 1\n}",
        b"null",
        b"1.50",
        br#""\u0061\ud800""#,
        b" 1 ",
        br#"{"a":1,"a":2}"#,
        b"123456789012345678901234567890",
        b"\x00\xff",
        b"hello",
        deep.as_bytes(),
    ] {
        let message = stored(data);
        let publication = shown(&message).unwrap();
        assert_eq!(publication.data, data);
        assert_eq!(
            (publication.offset, publication.tags["k"].as_str()),
            (9, "v")
        );
        let info = publication.info.unwrap();
        assert_eq!(
            (info.user.as_str(), info.client.as_str()),
            ("ann", "6f3c26bc-4b43-4c0f-8a3b-1d7b2f4c9e10")
        );
        assert_eq!(&info.conn_info[..], br#"{"name": "Ann"}"#);
    }
}

#[test]
fn a_native_reader_sees_json_as_json() {
    let value = |data: &[u8]| stored(data).entry.unwrap()[0].1.clone();
    assert_eq!(value(br#"{"a": 1}"#), Value::Json(r#"{"a": 1}"#.to_owned()));
    assert_eq!(value(b"true"), Value::Json("true".to_owned()));
    for data in [&b"{\n}"[..], b"\xff", b"x", br#""\ud800""#] {
        assert_eq!(value(data), Value::Binary(Bytes::copy_from_slice(data)));
    }
}

#[test]
fn what_was_appended_natively_is_its_compact_json() {
    let shown_of = |entry: &str| {
        let entry: Entry<'_> = serde_json::from_str(entry).unwrap();
        let message = Message {
            entry: Some(entry.columns.into_owned()),
            message_id: "mine".to_owned(),
            sender: "ann".to_owned(),
            ..Message::default()
        };
        let publication = shown(&message).unwrap();
        assert_eq!(publication.info, None);
        String::from_utf8(publication.data.to_vec()).unwrap()
    };
    assert_eq!(
        shown_of(r#"{"text": "hi", "n": 1}"#),
        r#"{"n":1,"text":"hi"}"#
    );
    assert_eq!(shown_of(r#"{"publication": [1, 2]}"#), "[1,2]");
    assert_eq!(
        shown_of(r#"{"publication": "a", "b": true}"#),
        r#"{"b":true,"publication":"a"}"#
    );
    assert_eq!(shown(&Message::default()), None);
}

#[test]
fn a_payload_is_one_line_of_json() {
    let json = |data: &'static [u8]| {
        let reply = Reply {
            rpc: Some(RpcResult {
                data: Bytes::from_static(data),
            }),
            ..Reply::default()
        };
        String::from_utf8(Encoding::Json.frame([&reply]).to_vec()).unwrap()
    };
    assert_eq!(json(b"{\r\n\"a\":\n1}"), r#"{"rpc":{"data":{  "a": 1}}}"#);
    assert_eq!(json(b"\xff"), r#"{"rpc":{"data":{"$binary":"/w=="}}}"#);
    assert_eq!(json(b"{} {}"), r#"{"rpc":{"data":{"$binary":"e30ge30="}}}"#);
}

#[test]
fn a_reason_of_a_close_is_neither_empty_nor_json() {
    for close in crate::Close::ALL {
        let Disconnect { code, reason } = Disconnect::of(*close);
        assert!(code >= 1000 && !reason.is_empty() && reason.len() <= 123);
        assert!(
            serde_json::from_str::<serde_json::Value>(&reason).is_err(),
            "{reason}"
        );
    }
}

fn payload() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        Just(Bytes::new()),
        "[a-z]{0,9}".prop_map(|text| Bytes::from(format!("\"{text}\""))),
        any::<i64>().prop_map(|number| Bytes::from(format!("{{\"n\": {number}}}"))),
    ]
}

prop_compose! {
    fn publication()(data in payload(), offset in any::<u64>(), delta in any::<bool>(),
        tags in prop::collection::btree_map("[a-z]{1,3}", ".{0,3}", 0..3),
        user in ".{0,5}", client in ".{0,5}", conn_info in payload(), has_info in any::<bool>())
        -> Publication
    {
        let info = has_info.then_some(ClientInfo { user, client, conn_info, chan_info: Bytes::new() });
        Publication { data, info, offset, tags, delta }
    }
}

fn subscribe() -> impl Strategy<Value = SubscribeRequest> {
    let subscribe = (
        ".{0,9}",
        any::<(bool, u64, bool, i64, i32)>(),
        payload(),
        ".{0,5}",
    );
    subscribe.prop_map(
        |(channel, (recover, offset, join_leave, flag, kind), data, epoch)| SubscribeRequest {
            channel,
            recover,
            offset,
            join_leave,
            flag,
            kind,
            data,
            epoch,
            ..SubscribeRequest::default()
        },
    )
}

fn command() -> impl Strategy<Value = Command> {
    let publish = (".{0,9}", payload()).prop_map(|(channel, data)| PublishRequest {
        channel,
        data,
        kind: 0,
    });
    let history = (".{0,9}", any::<(i32, u64, bool, bool)>()).prop_map(
        |(channel, (limit, offset, has, reverse))| HistoryRequest {
            channel,
            limit,
            since: has.then(|| StreamPosition {
                offset,
                epoch: "e".to_owned(),
            }),
            reverse,
        },
    );
    let connect = (
        ".{0,9}",
        payload(),
        prop::collection::btree_map("[a-z]{1,3}", subscribe(), 0..3),
    );
    let connect = connect.prop_map(|(token, data, subs)| ConnectRequest {
        token,
        data,
        subs,
        ..ConnectRequest::default()
    });
    let rpc = (".{0,9}", payload()).prop_map(|(method, data)| RpcRequest { method, data });
    (
        any::<u32>(),
        prop::option::of(connect),
        prop::option::of(subscribe()),
        prop::option::of(publish),
        prop::option::of(history),
        prop::option::of(rpc),
        any::<bool>(),
    )
        .prop_map(
            |(id, connect, subscribe, publish, history, rpc, ping)| Command {
                id,
                connect,
                subscribe,
                publish,
                history,
                rpc,
                ping: ping.then_some(Empty {}),
                ..Command::default()
            },
        )
}

proptest! {
    #[test]
    fn commands_are_read_as_they_were_written(all in prop::collection::vec(command(), 1..4)) {
        let json: Vec<String> = all.iter().map(|one| serde_json::to_string(one).unwrap()).collect();
        prop_assert_eq!(&commands(Encoding::Json, json.join("\n").as_bytes()), &all);
        let mut frame = Vec::new();
        for one in &all {
            prost::Message::encode_length_delimited(one, &mut frame).unwrap();
        }
        prop_assert_eq!(&commands(Encoding::Protobuf, &frame), &all);
    }

    #[test]
    fn replies_are_read_as_they_were_written(publications in prop::collection::vec(publication(), 1..4)) {
        let replies: Vec<Reply> = publications.iter().map(|one| Reply::of(Push {
            channel: "room".to_owned(),
            publication: Some(one.clone()),
            ..Push::default()
        })).collect();
        let json = Encoding::Json.frame(&replies);
        let read: Vec<Reply> = json.split(|byte| *byte == b'\n')
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect();
        prop_assert_eq!(&read, &replies);
        let mut rest = Encoding::Protobuf.frame(&replies);
        let mut read = Vec::new();
        while !rest.is_empty() {
            read.push(<Reply as prost::Message>::decode_length_delimited(&mut rest).unwrap());
        }
        prop_assert_eq!(&read, &replies);
    }

    #[test]
    fn any_bytes_end_in_commands_or_a_refusal(frame in prop::collection::vec(any::<u8>(), 0..200)) {
        is_malformed(Encoding::Json, &frame);
        is_malformed(Encoding::Protobuf, &frame);
    }

    #[test]
    fn any_bytes_come_back(data in prop::collection::vec(any::<u8>(), 1..200)) {
        prop_assert_eq!(&shown(&stored(&data)).unwrap().data[..], &data[..]);
    }
}
