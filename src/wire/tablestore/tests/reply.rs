//! Replies, decoded again with the messages, and in part byte by byte as the official Python SDK was seen to read them.
//!
//! Owns: one reply of each kind. Promises: the fields that SDKs cannot do without are there. Must not: sign.

use prost::Message;

use super::super::plainbuffer::{
    Cell, Row, Variant, decode_row, decode_rows, encode_row, encode_rows,
};
use super::super::reply::{RangeReply, RowReply, TableReply};
use super::super::{Code, Failure, Reply, proto};
use tideline_base::ids::TableId;
use tideline_model::{Consumed, Definition, KeyColumn, KeyType, TableOptions, Throughput};

fn row() -> Row {
    Row {
        attributes: vec![Cell::version("c", Variant::Integer(1), 5)],
        ..Row::key(vec![Cell::key("k", Variant::Integer(1))])
    }
}

fn reply(row: Option<Row>) -> RowReply {
    RowReply {
        consumed: Consumed { read: 1, write: 2 },
        row: row.as_ref().map(encode_row),
    }
}

#[test]
fn names_and_nothing() {
    assert!(Reply::Done.encode().is_empty());
    assert_eq!(
        Reply::Tables(vec!["a".to_owned()]).encode(),
        &b"\x0a\x01a"[..]
    );
}

#[test]
fn a_row_or_none() {
    let read = |row| proto::GetRowResponse::decode(Reply::Read(reply(row)).encode()).unwrap();
    let found = read(Some(row()));
    assert_eq!(decode_row(&found.row), Ok(row()));
    let unit = found.consumed.capacity_unit;
    assert_eq!((unit.read, unit.write), (Some(1), Some(2)));
    assert!(read(None).row.is_empty());
    // The field is there although it is empty, and so are capacities of zero: Python's messages require them.
    let none = Reply::Read(RowReply::default()).encode();
    assert_eq!(none, &b"\x0a\x06\x0a\x04\x08\x00\x10\x00\x12\x00"[..]);
    let written = Reply::Written(reply(None)).encode();
    assert_eq!(written, &b"\x0a\x06\x0a\x04\x08\x01\x10\x02"[..]);
    let key = Reply::Written(reply(Some(Row::key(row().primary_key))));
    let key = proto::UpdateRowResponse::decode(key.encode()).unwrap();
    assert!(decode_row(&key.row.unwrap()).unwrap().attributes.is_empty());
}

#[test]
fn a_batch_answers_row_by_row() {
    let rows = vec![
        Ok(reply(Some(row()))),
        Err(Failure::new(Code::ConditionCheckFail)),
    ];
    let table = TableReply {
        table: "t".to_owned(),
        rows,
    };
    let bytes = Reply::Batch(vec![table]).encode();
    let message = proto::BatchWriteRowResponse::decode(bytes).unwrap();
    let [good, bad] = &message.tables[0].rows[..] else {
        panic!();
    };
    assert!(good.is_ok && good.error.is_none() && good.consumed.is_some());
    assert!(!bad.is_ok && bad.row.is_none());
    assert_eq!(bad.error.as_ref().unwrap().code, "OTSConditionCheckFail");
}

#[test]
fn a_page_of_a_range() {
    let page = |rows: Vec<Row>, next: Option<Row>| {
        let range = RangeReply {
            rows: encode_rows(&rows),
            next: next.as_ref().map(encode_row),
            ..RangeReply::default()
        };
        proto::GetRangeResponse::decode(Reply::Range(range).encode()).unwrap()
    };
    let key = Row::key(row().primary_key);
    let found = page(vec![row(), row()], Some(key.clone()));
    assert_eq!(decode_rows(&found.rows), Ok(vec![row(), row()]));
    assert_eq!(decode_row(&found.next_start_primary_key.unwrap()), Ok(key));
    let empty = page(Vec::new(), None);
    assert!(empty.rows.is_empty() && empty.next_start_primary_key.is_none());
}

#[test]
fn a_table_is_told_whole() {
    let definition = Definition {
        id: TableId(1024),
        name: "t".to_owned(),
        primary_key: vec![KeyColumn {
            name: "k".to_owned(),
            kind: KeyType::Binary,
            auto_increment: false,
        }],
        defined_columns: Vec::new(),
        indexes: Vec::new(),
        search_indexes: Vec::new(),
        mappings: Vec::new(),
        series: None,
        options: TableOptions {
            max_versions: 3,
            ..TableOptions::default()
        },
        reserved: Throughput { read: 5, write: 0 },
        created_us: 9,
        increased_us: 11_000_000,
        decreased_us: 0,
        stream: None,
        local_transactions: true,
    };
    let updated = Reply::Updated(Box::new(definition.clone())).encode();
    let updated = proto::UpdateTableResponse::decode(updated).unwrap();
    let told = Reply::Table(Box::new(definition)).encode();
    let told = proto::DescribeTableResponse::decode(told).unwrap();
    assert_eq!(told.table_options, updated.table_options);
    let options = told.table_options;
    assert_eq!(
        (options.time_to_live, options.max_versions),
        (Some(-1), Some(3))
    );
    assert_eq!(options.update_full_row, Some(false));
    let reserved = told.reserved_throughput_details;
    assert_eq!(
        (reserved.last_increase_time, reserved.last_decrease_time),
        (11, None)
    );
    assert!(!told.stream_details.as_ref().unwrap().enable_stream);
    assert_eq!(told.table_status(), proto::TableStatus::Active);
    assert_eq!(
        told.table_meta.primary_key[0].r#type(),
        proto::PrimaryKeyType::Binary
    );
    assert_eq!(told.creation_time, Some(9));
}
