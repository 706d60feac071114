//! What Tablestore's clients send.
//!
//! Owns: a row that filters look at. Promises: rows in PlainBuffer come back as they were. Must not: need a table.

use bytes::Bytes;
use prost::Message as _;
use tideline_base::faults::Decoder;
use tideline_model::{Cell, Filter, RowRef, ValueRef};
use tideline_wire::tablestore::plainbuffer::{
    self, decode_row, decode_rows, decode_variant, encode_row, encode_rows, encode_variant,
};
use tideline_wire::tablestore::signature::{SignedHeaders, verify};
use tideline_wire::tablestore::{Operation, Request, proto};

pub(crate) const TARGETS: &[Decoder] = &[
    ("tablestore_request", request),
    ("tablestore_filter", filter),
    ("search_query", search),
    ("plainbuffer", rows),
    ("tablestore_signature", signature),
];

/// The number of an operation, and a body.
fn request(input: &[u8]) {
    if let Some((operation, body)) = input.split_first() {
        let operation = Operation::ALL[usize::from(*operation) % Operation::ALL.len()];
        let _ = Request::decode(operation, Bytes::copy_from_slice(body));
    }
}

/// A filter, in a read of a row, which is then looked at.
fn filter(input: &[u8]) {
    let key = plainbuffer::Cell {
        name: "k".into(),
        value: Some(plainbuffer::Variant::Integer(1)),
        operation: None,
        timestamp: None,
    };
    let key = encode_row(&plainbuffer::Row {
        primary_key: vec![key],
        ..plainbuffer::Row::default()
    });
    let read = proto::GetRowRequest {
        table_name: Some("t".into()),
        primary_key: Some(key),
        max_versions: Some(1),
        filter: Some(Bytes::copy_from_slice(input)),
        ..proto::GetRowRequest::default()
    };
    let body = Bytes::from(read.encode_to_vec());
    let Ok(Request::GetRow(read)) = Request::decode(Operation::GetRow, body) else {
        return;
    };
    let cell = |name, value| Cell {
        name,
        version: 7,
        value,
    };
    let row = RowRef {
        columns: &[],
        key: &[],
        cells: &[
            cell("a", ValueRef::String("v=17;x")),
            cell("b", ValueRef::Integer(3)),
        ],
    };
    if let Some(Filter::Rows(filter)) = &read.selection.filter {
        let _ = (filter.passes(&row), filter.effort(&row), filter.is_costly());
    }
}

/// A SearchQuery, which is then looked for.
fn search(input: &[u8]) {
    tideline_search::fuzz::search(None);
    let asked = proto::SearchRequest {
        table_name: Some("t".into()),
        index_name: Some("i".into()),
        search_query: Some(Bytes::copy_from_slice(input)),
        ..proto::SearchRequest::default()
    };
    let body = Bytes::from(asked.encode_to_vec());
    if let Ok(Request::Search(asked)) = Request::decode(Operation::Search, body) {
        tideline_search::fuzz::search(Some(asked.search));
    }
}

fn rows(input: &[u8]) {
    let buffer = Bytes::copy_from_slice(input);
    if let Ok(rows) = decode_rows(&buffer) {
        let again = decode_rows(&encode_rows(&rows)).expect("what was encoded");
        assert_eq!(format!("{again:?}"), format!("{rows:?}"));
    }
    let _ = decode_row(&buffer);
    if let Ok(variant) = decode_variant(&buffer, "c") {
        assert_eq!(encode_variant(&variant), buffer);
    }
}

/// Lines of headers.
fn signature(input: &[u8]) {
    let lines = input.split(|byte| *byte == b'\n').filter_map(|line| {
        let at = line.iter().position(|byte| *byte == b':')?;
        Some((std::str::from_utf8(&line[..at]).ok()?, &line[at + 1..]))
    });
    let headers = SignedHeaders::new(lines);
    let found = verify("/GetRow", &headers, 1_800_000_000_000, |_| None, |_| true);
    assert!(found.is_err(), "nobody has a key");
}
