//! PlainBuffer against the vectors of the official SDK, against itself, and against broken bytes.
//!
//! Owns: the vectors: bytes that the official Python SDK writes for the rows beside them. Promises: encoder and decoder
//! are held by the same vectors. Must not: repeat what operations allow.

use proptest::prelude::*;

use bytes::Bytes;

use super::super::plainbuffer::*;
use tideline_model::{self as model, KeyColumn, KeyType, KeyValue, RowRef, RowSink as _, ValueRef};

fn hex(text: &str) -> Bytes {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect::<Vec<u8>>().into()
}

fn put(name: &str, value: Variant) -> Cell {
    Cell::key(name, value)
}

fn change(name: &str, operation: CellOperation, value: Option<i64>, at: Option<i64>) -> Cell {
    Cell {
        name: name.to_owned(),
        value: value.map(Variant::Integer),
        operation: Some(operation),
        timestamp: at,
    }
}

/// What the SDK's own encoder made for each of these rows.
fn vectors() -> Vec<(Row, &'static str)> {
    let pk0 = || put("PK0", Variant::Integer(1));
    let a = put("PK1", Variant::String("a".to_owned()));
    let put_row = Row {
        primary_key: vec![pk0(), a],
        attributes: vec![
            Cell::version("c", Variant::Integer(1), 1_700_000_000_000),
            put("d", Variant::String("x".to_owned())),
        ],
        ..Row::default()
    };
    let delete = Row {
        delete_marker: true,
        ..Row::key(vec![pk0()])
    };
    let update = Row {
        attributes: vec![
            put("c", Variant::Integer(5)),
            change("k", CellOperation::DeleteOneVersion, None, Some(5)),
            change("z", CellOperation::DeleteAllVersions, None, None),
            change("n", CellOperation::Increment, Some(3), None),
        ],
        ..Row::key(vec![pk0()])
    };
    vec![
        (
            put_row,
            "75000000 01 0304030000 00504b30 0509000000 00 0100000000000000 0a40 0304030000
             00504b31 0506000000 03 01000000 61 0a7a 02 0304010000 0063 0509000000 00
             0100000000000000 07 0068e5cf8b010000 0a0c 0304010000 0064 0506000000 03 01000000 78
             0ae7 09b4",
        ),
        (
            delete,
            "75000000 01 0304030000 00504b30 0509000000 00 0100000000000000 0a40 08 095c",
        ),
        (
            update,
            "75000000 01 0304030000 00504b30 0509000000 00 0100000000000000 0a40 02 0304010000
             0063 0509000000 00 0500000000000000 0a82 0304010000 006b 0603 07 0500000000000000
             0a07 0304010000 007a 0601 0a27 0304010000 006e 0509000000 00 0300000000000000 0604
             0a11 0950",
        ),
    ]
}

#[test]
fn the_sdks_bytes_are_read_and_written() {
    for (row, bytes) in vectors() {
        assert_eq!(decode_row(&hex(bytes)), Ok(row.clone()));
        assert_eq!(encode_row(&row), hex(bytes));
    }
}

/// The first vector's row as a table finds it, and one beside it that has no attributes.
#[test]
fn a_row_that_was_found_has_the_same_bytes() {
    let column = |name: &str, kind| KeyColumn {
        name: name.to_owned(),
        kind,
        auto_increment: false,
    };
    let columns = [
        column("PK0", KeyType::Integer),
        column("PK1", KeyType::String),
    ];
    let key = [KeyValue::Integer(1), KeyValue::String("a".to_owned())];
    let cell = |name, value| model::Cell {
        name,
        version: 1_700_000_000_000,
        value,
    };
    let mut buffer = RowBuffer::default();
    buffer.push(RowRef {
        columns: &columns,
        key: &key,
        cells: &[
            cell("c", ValueRef::Integer(1)),
            cell("d", ValueRef::Json("[]")),
            cell("e", ValueRef::Binary(&[7])),
        ],
    });
    buffer.push_key(&columns[..1], &[KeyValue::InfMin]);
    let version = |name: &str, value| Cell::version(name, value, 1_700_000_000_000);
    let (row, _) = vectors().swap_remove(0);
    let row = Row {
        attributes: vec![
            version("c", Variant::Integer(1)),
            version("d", Variant::String("[]".to_owned())),
            version("e", Variant::Binary(Bytes::from_static(&[7]))),
        ],
        ..row
    };
    let rows = [row, Row::key(vec![put("PK0", Variant::InfMin)])];
    assert_eq!(buffer.into_bytes(), encode_rows(&rows));
    assert!(RowBuffer::default().into_bytes().is_empty());
}

#[test]
fn no_rows_are_no_bytes() {
    assert!(encode_rows([]).is_empty());
    assert_eq!(decode_rows(&Bytes::new()), Ok(Vec::new()));
    assert_eq!(decode_row(&Bytes::new()), Err(Error::Truncated));
}

/// The cell `c` = integer 1 of a row with the key `k` = 1, with one thing changed.
fn row_of(cells: &str) -> Bytes {
    hex(&format!("75000000 01 {cells}"))
}

#[test]
fn what_is_broken_is_named() {
    let good = "03 04 01000000 6b 05 09000000 00 0100000000000000 0a 8e";
    let sum = |cell: &str| decode_row(&row_of(&format!("{cell} 09 00")));
    let cases: Vec<(Bytes, Error)> = vec![
        (hex("76000000"), Error::Header(0x76)),
        (hex("750000"), Error::Truncated),
        (hex("75000000"), Error::Malformed),
        (hex("75000000 02"), Error::Malformed),
        (hex("75000000 01 09 00"), Error::NoPrimaryKey),
        (row_of("03 0a 00"), Error::UnnamedKey),
        (row_of("03 04 00000000 0a 00"), Error::UnnamedKey),
        (row_of("03 04 ffffff7f 6b"), Error::Truncated),
        (row_of("03 04 ffffffff 6b"), Error::Malformed),
        (row_of("03 04 01000000 6b 05 ffffff7f 00"), Error::Truncated),
        (
            row_of("03 04 01000000 6b 09"),
            Error::CellWithoutChecksum("k".to_owned()),
        ),
        (
            row_of("03 04 01000000 6b 0a"),
            Error::CellWithoutChecksum("k".to_owned()),
        ),
    ];
    for (bytes, error) in cases {
        assert_eq!(decode_row(&bytes), Err(error), "{bytes:02x?}");
    }
    assert!(matches!(sum(good), Err(Error::Checksum { .. })));
    let (_, put) = vectors().swap_remove(0);
    let put = hex(put);
    let open = put.slice(..put.len() - 2);
    assert_eq!(decode_row(&open), Err(Error::RowWithoutChecksum));
    let twice = [put.clone(), put.slice(4..)].concat().into();
    assert_eq!(decode_row(&twice), Err(Error::Malformed));
    assert_eq!(decode_rows(&twice).unwrap().len(), 2);
}

/// As the Node SDK 5.6.5 sends an UpdateRow that puts c = "x" at a given time.
#[test]
fn the_room_that_an_sdk_left_is_no_second_row() {
    let row = "75000000 01 0304010000 006b 0506000000 03 01000000 61 0a51 02 0304010000 0063
               0506000000 03 01000000 78 07 8da37fffa1010000 0abb 0997";
    let sent = hex(&format!("{row} 0000000000000000"));
    assert_eq!(decode_row(&sent).unwrap(), decode_row(&hex(row)).unwrap());
    let other = hex(&format!("{row} 0000000000000001"));
    assert_eq!(decode_row(&other), Err(Error::Malformed));
}

#[test]
fn a_row_has_an_end() {
    let cells = |count| Row {
        attributes: vec![put("c", Variant::Integer(1)); count],
        ..Row::key(vec![put("k", Variant::Integer(1))])
    };
    decode_row(&encode_row(&cells(1 << 16))).unwrap();
    let wide = encode_row(&cells((1 << 16) + 1));
    assert_eq!(decode_row(&wide), Err(Error::TooManyCells));
}

#[test]
fn variants_are_whole_or_refused() {
    let decode = |bytes: &str| decode_variant(&hex(bytes), "c");
    assert_eq!(decode("00 0100000000000000"), Ok(Variant::Integer(1)));
    assert_eq!(decode("0200"), Ok(Variant::Boolean(false)));
    assert_eq!(decode("0202"), Err(Error::Malformed));
    assert_eq!(decode("00 01"), Err(Error::Truncated));
    assert_eq!(decode("00 0100000000000000 00"), Err(Error::Leftover));
    assert_eq!(decode("03 02000000 61"), Err(Error::StringLength(2)));
    assert_eq!(decode("03 ffffffff 61"), Err(Error::StringLength(-1)));
    assert_eq!(
        decode("03 01000000 ff"),
        Err(Error::NotUtf8("c".to_owned()))
    );
    assert_eq!(decode("04"), Err(Error::UnknownVariant(4)));
    assert_eq!(decode(""), Err(Error::Truncated));
}

fn variant() -> impl Strategy<Value = Variant> {
    prop_oneof![
        any::<i64>().prop_map(Variant::Integer),
        any::<f64>()
            .prop_filter("equal to itself", |value| !value.is_nan())
            .prop_map(Variant::Double),
        any::<bool>().prop_map(Variant::Boolean),
        any::<String>().prop_map(Variant::String),
        any::<Vec<u8>>().prop_map(|bytes| Variant::Binary(bytes.into())),
        Just(Variant::Null),
        Just(Variant::InfMin),
        Just(Variant::InfMax),
        Just(Variant::AutoIncrement),
    ]
}

fn cell() -> impl Strategy<Value = Cell> {
    let operation = prop_oneof![
        Just(CellOperation::DeleteAllVersions),
        Just(CellOperation::DeleteOneVersion),
        Just(CellOperation::Increment),
    ];
    let name = "\\PC{1,20}";
    let value = prop::option::of(variant());
    let parts = (
        name,
        value,
        prop::option::of(operation),
        any::<Option<i64>>(),
    );
    parts.prop_map(|(name, value, operation, timestamp)| Cell {
        name,
        value,
        operation,
        timestamp,
    })
}

fn any_row() -> impl Strategy<Value = Row> {
    let key = prop::collection::vec(cell(), 1..5);
    let attributes = prop::collection::vec(cell(), 0..6);
    let sequence = any::<Option<(i32, i64, i32)>>();
    (key, attributes, any::<bool>(), sequence).prop_map(
        |(primary_key, attributes, delete_marker, sequence)| Row {
            primary_key,
            attributes,
            delete_marker,
            sequence: sequence.map(|(epoch, timestamp, row)| Sequence {
                epoch,
                timestamp,
                row,
            }),
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read(rows in prop::collection::vec(any_row(), 0..4)) {
        prop_assert_eq!(decode_rows(&encode_rows(&rows)), Ok(rows));
    }

    #[test]
    fn any_bytes_are_a_row_or_an_error(bytes: Vec<u8>) {
        let _ = decode_variant(&bytes.clone().into(), "c");
        let with_header = [&[0x75, 0, 0, 0, 1][..], &bytes].concat();
        let _ = decode_rows(&bytes.into());
        let _ = decode_rows(&with_header.into());
    }

    /// Extensions aside, every byte of a row is under a checksum, a length or a tag.
    #[test]
    fn a_changed_byte_is_noticed(row in any_row(), at: prop::sample::Index, bits in 1u8..) {
        let row = Row { sequence: None, ..row };
        let mut bytes = encode_row(&row).to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= bits;
        let read = decode_row(&bytes.into());
        prop_assert!(read.as_ref() != Ok(&row), "a change at {} passed", at);
    }

    #[test]
    fn a_cut_row_is_an_error(row in any_row(), at: prop::sample::Index) {
        let bytes = encode_row(&row);
        let cut = bytes.slice(..at.index(bytes.len()));
        prop_assert!(decode_row(&cut).is_err());
    }
}
