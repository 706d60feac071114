//! Requests of time series as the official SDK makes them, and buffers that say one thing many times.
//!
//! Owns: what decoding gives, and what it refuses before it takes memory. Promises: the bytes are the SDK's, or made
//! with the same library. Must not: need a table.

use std::collections::BTreeMap;

use bytes::Bytes;
use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, VOffsetT, WIPOffset};
use prost::Message as _;
use tideline_model::series::{Point, SeriesCondition, SeriesKey, SeriesOperator};
use tideline_model::{KeyType, Value};

use super::operation::sdk;
use crate::tablestore::{Operation, Request, SeriesRequest, SeriesRows, proto};

fn series(label: &str) -> SeriesRequest {
    match sdk(label) {
        Request::Series(request) => *request,
        other => panic!("{other:?}"),
    }
}

fn rows(label: &str) -> SeriesRows {
    match series(label) {
        SeriesRequest::Rows(table, true, rows) if table == "t" => rows,
        other => panic!("{other:?}"),
    }
}

fn key() -> SeriesKey {
    let tags = [("tag1", "t1"), ("tag2", "t2")];
    let owned = tags.map(|(name, value)| (name.to_owned(), value.to_owned()));
    SeriesKey {
        measurement: "cpu".to_owned(),
        source: "host".to_owned(),
        tags: owned.into(),
    }
}

#[test]
fn requests_are_as_the_sdk_sends_them() {
    let SeriesRequest::Create(new) = series("create_series") else {
        panic!();
    };
    assert_eq!((new.points_life_s, new.metas_life_s), (86_400, 604_800));
    assert!(!new.allows_attributes);
    assert_eq!(new.keys, ["a", "_tags"]);
    assert_eq!(new.fields[0].kind, KeyType::Integer);
    let SeriesRequest::Update(_, update) = series("update_series") else {
        panic!();
    };
    assert_eq!(
        (update.points_life_s, update.metas_life_s),
        (Some(-1), None)
    );
    let SeriesRows::Put(points, true) = rows("put_series") else {
        panic!();
    };
    let fields = [
        ("b", Value::Boolean(true)),
        ("d", Value::Double(0.5)),
        ("l", Value::Integer(1)),
        ("l2", Value::Integer(2)),
        ("s", Value::String("text".to_owned())),
        ("y", Value::Binary(Bytes::from_static(b"bytes"))),
    ];
    let point = |time_us, fields: &[(&str, Value)]| Point {
        key: key(),
        time_us,
        fields: fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect(),
    };
    let second = point(1_700_000_000_000_002, &[("l", Value::Integer(-1))]);
    assert_eq!(points, [point(1_700_000_000_000_001, &fields), second]);
    let SeriesRows::Get(asked) = rows("get_series") else {
        panic!();
    };
    assert_eq!((asked.begin_us, asked.end_us, asked.limit), (1, 2, 3));
    assert!(asked.is_backward && asked.next.is_none() && asked.key == key());
    assert_eq!(asked.columns, ["l:long", "s:string"]);
    let SeriesRows::Query(asked) = rows("query_series") else {
        panic!();
    };
    let either = SeriesCondition::Or(vec![
        SeriesCondition::Measurement(SeriesOperator::Prefix, "c".to_owned()),
        SeriesCondition::Tag(SeriesOperator::LessEqual, "tag1".to_owned(), "t".to_owned()),
        SeriesCondition::Updated(SeriesOperator::GreaterThan, 5),
    ]);
    assert_eq!(
        (asked.condition, asked.limit, asked.counts),
        (Some(either), 7, true)
    );
    let SeriesRows::UpdateMetas(metas) = rows("update_metas") else {
        panic!();
    };
    let attributes = BTreeMap::from([("x".to_owned(), "y".to_owned())]);
    assert_eq!((&metas[0].key, &metas[0].attributes), (&key(), &attributes));
    assert!(matches!(rows("delete_metas"), SeriesRows::DeleteMetas(keys) if keys == [key()]));
}

/// Where the table of a table's fields has its `at`-th.
const fn slot(at: VOffsetT) -> VOffsetT {
    4 + 2 * at
}

/// A put of so many rows, which are one in the buffer, with so many fields of one text.
fn repeated(row_count: usize, field_count: usize, text: &str) -> Result<usize, String> {
    let mut out = FlatBufferBuilder::new();
    let shared = out.create_string(text);
    let texts = out.create_vector(&vec![shared; field_count]);
    let values = out.start_table();
    out.push_slot_always(slot(3), texts);
    let values = out.end_table(values);
    let row = out.start_table();
    out.push_slot_always(slot(2), 1_i64);
    out.push_slot_always(slot(3), values);
    let row: WIPOffset<UnionWIPOffset> = out.end_table(row).as_union_value();
    let all = out.create_vector(&vec![row; row_count]);
    let names: Vec<_> = (0..field_count)
        .map(|at| out.create_string(&format!("f{at}")))
        .collect();
    let names = out.create_vector(&names);
    let types = out.create_vector(&vec![4_i8; field_count]);
    let measurement = out.create_string("m");
    let group = out.start_table();
    out.push_slot_always(slot(0), measurement);
    out.push_slot_always(slot(1), names);
    out.push_slot_always(slot(2), types);
    out.push_slot_always(slot(3), all);
    let group = out.end_table(group).as_union_value();
    let groups = out.create_vector(&[group]);
    let root = out.start_table();
    out.push_slot_always(slot(0), groups);
    let root = out.end_table(root);
    out.finish_minimal(root);
    let put = proto::PutTimeseriesDataRequest {
        table_name: Some("t".to_owned()),
        rows_data: Some(proto::TimeseriesRows {
            rows_data: Some(Bytes::copy_from_slice(out.finished_data())),
            ..proto::TimeseriesRows::default()
        }),
        ..proto::PutTimeseriesDataRequest::default()
    };
    let body = put.encode_to_vec().into();
    match Request::decode(Operation::PutTimeseriesData, body) {
        Ok(Request::Series(request)) => match *request {
            SeriesRequest::Rows(_, _, SeriesRows::Put(points, _)) => Ok(points.len()),
            other => panic!("{other:?}"),
        },
        Ok(other) => panic!("{other:?}"),
        Err(failure) => Err(failure.message.into_owned()),
    }
}

#[test]
fn what_a_buffer_says_twice_counts_twice() {
    assert_eq!(repeated(200, 1, "text"), Ok(200));
    let rows = repeated(201, 1, "text").unwrap_err();
    assert_eq!(rows, "Rows count exceeds the upper limit: 200.");
    let rows = repeated(1_000_000, 1, "text").unwrap_err();
    assert_eq!(rows, "Rows count exceeds the upper limit: 200.");
    let fields = repeated(1, 1_025, "text").unwrap_err();
    assert!(
        fields.contains("limit count: 1024, column count: 1025"),
        "{fields}"
    );
    let text = "x".repeat(1 << 20);
    assert_eq!(repeated(3, 1, &text), Ok(3));
    for (rows, fields) in [(200, 1), (1, 1_024)] {
        let data = repeated(rows, fields, &text).unwrap_err();
        assert!(
            data.contains("exceeds the limit, limit size: 4194304"),
            "{data}"
        );
    }
}

#[test]
fn tags_are_counted_before_they_are_read() {
    let tags = vec![proto::TimeseriesTag::default(); 200_000];
    let key = proto::TimeseriesKey {
        tag_list: tags,
        ..proto::TimeseriesKey::default()
    };
    let meta = proto::TimeseriesMeta {
        time_series_key: Some(key.clone()),
        ..proto::TimeseriesMeta::default()
    };
    let update = proto::UpdateTimeseriesMetaRequest {
        table_name: Some("t".to_owned()),
        timeseries_meta: vec![meta],
        ..proto::UpdateTimeseriesMetaRequest::default()
    };
    let delete = proto::DeleteTimeseriesMetaRequest {
        table_name: Some("t".to_owned()),
        timeseries_key: vec![key.clone()],
        ..proto::DeleteTimeseriesMetaRequest::default()
    };
    let get = proto::GetTimeseriesDataRequest {
        table_name: Some("t".to_owned()),
        time_series_key: Some(key),
        ..proto::GetTimeseriesDataRequest::default()
    };
    for (operation, body) in [
        (Operation::UpdateTimeseriesMeta, update.encode_to_vec()),
        (Operation::DeleteTimeseriesMeta, delete.encode_to_vec()),
        (Operation::GetTimeseriesData, get.encode_to_vec()),
    ] {
        let failure = Request::decode(operation, body.into()).unwrap_err();
        assert_eq!(failure.message, "Cannot deserialize the request data.");
    }
}
