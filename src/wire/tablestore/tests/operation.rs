//! Requests as the official Python SDK sends them, and as no SDK would.
//!
//! Owns: the SDK's bodies (`sdk_requests.txt`) and tables of refusals with their texts. Promises: every operation is
//! decoded from bytes that are not ours. Must not: need a table.

use bytes::Bytes;
use prost::Message;

use super::super::limits::{BODY_BYTES_MAX, FIELDS_MAX, TABLE_BODY_BYTES_MAX};
use super::super::plainbuffer::{Cell, CellOperation, Row, Variant, encode_row, encode_variant};
use super::super::{Code, Failure, Operation, Request, proto};
use tideline_model::{
    CellChange, ColumnType, Comparator, Direction, Existence, Filter, KeyColumn, KeyType, KeyValue,
    Predicate, PutCell, ReturnContent, RowChange, Value,
};

/// The request of the SDK under a label.
pub(super) fn sdk(label: &str) -> Request {
    let lines = include_str!("sdk_requests.txt").lines();
    let mut lines = lines.map(|line| line.split(' ').collect::<Vec<_>>());
    let line = lines.find(|parts| parts[0] == label).unwrap();
    let digits = line.get(2).copied().unwrap_or("");
    let byte = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap();
    let body: Vec<u8> = digits.as_bytes().chunks(2).map(byte).collect();
    let operation = Operation::of_path(&format!("/{}", line[1])).unwrap();
    Request::decode(operation, body.into()).unwrap()
}

fn key() -> Vec<(String, KeyValue)> {
    vec![
        ("pk".to_owned(), KeyValue::String("a".to_owned())),
        ("id".to_owned(), KeyValue::Integer(7)),
        (
            "b".to_owned(),
            KeyValue::Binary(Bytes::from_static(&[1, 2])),
        ),
    ]
}

fn numbered() -> Vec<(String, KeyValue)> {
    let mut key = key();
    key[1].1 = KeyValue::AutoIncrement;
    key
}

fn schema() -> Vec<KeyColumn> {
    let column = |name: &str, kind, auto_increment| KeyColumn {
        name: name.to_owned(),
        kind,
        auto_increment,
    };
    vec![
        column("pk", KeyType::String, false),
        column("id", KeyType::Integer, true),
        column("b", KeyType::Binary, false),
    ]
}

fn put(name: &str, value: Value, version: Option<i64>) -> PutCell {
    PutCell {
        name: name.to_owned(),
        version,
        value,
    }
}

#[test]
fn paths_name_operations() {
    for operation in Operation::ALL {
        let path = format!("/{}", operation.name());
        assert_eq!(Operation::of_path(&path), Ok(*operation));
    }
    let failure = Operation::of_path("/ScanTimeseriesData").unwrap_err();
    assert_eq!(
        failure.message,
        "Unsupported operation: ScanTimeseriesData."
    );
}

#[test]
fn tables_are_as_the_sdk_describes_them() {
    let Request::CreateTable(create) = sdk("create") else {
        panic!();
    };
    assert_eq!(create.name, "t");
    assert_eq!(create.primary_key, schema());
    let defined = create.defined_columns.iter().map(|one| one.kind);
    let defined: Vec<_> = defined.collect();
    assert_eq!(defined, [ColumnType::Integer, ColumnType::String]);
    let options = create.options;
    assert_eq!(options.time_to_live_s, 86_400);
    assert_eq!(
        (options.max_versions, options.max_version_offset_s),
        (3, 1000)
    );
    assert!(options.allow_update);
    let Request::UpdateTable(_, update) = sdk("update_table") else {
        panic!();
    };
    assert_eq!(update.reserved_read, Some(5));
    assert_eq!(update.options.time_to_live_s, Some(-1));
    assert_eq!(update.options.max_versions, None);
    assert!(matches!(sdk("list"), Request::ListTable));
    assert!(matches!(sdk("describe"), Request::DescribeTable(name) if name == "t"));
    assert!(matches!(sdk("delete_table"), Request::DeleteTable(name) if name == "t"));
}

#[test]
fn writes_are_as_the_sdk_sends_them() {
    let write = |label| match sdk(label) {
        Request::WriteRow(row) => row.write,
        other => panic!("{other:?}"),
    };
    let first = write("put");
    assert_eq!(first.key, numbered());
    assert_eq!(first.content, ReturnContent::Key);
    let puts = vec![
        put("bin", Value::Binary(Bytes::from_static(&[0, 255])), None),
        put("bool", Value::Boolean(true), None),
        put("dbl", Value::Double(1.5), None),
        put("int", Value::Integer(-3), Some(1_700_000_000_000)),
        put("str", Value::String("消息".to_owned()), None),
    ];
    assert_eq!(first.change, RowChange::Put(puts));
    // Key: pk a, id, b 2 bytes; cells: names, values, 8 bytes for each version.
    assert_eq!(
        first.size(),
        (2 + 1 + 2 + 8 + 1 + 2) + (3 + 2 + 4 + 1 + 3 + 8 + 3 + 8 + 3 + 6) + 40
    );
    let empty = write("put_empty");
    assert_eq!(
        (empty.key, empty.change),
        (key(), RowChange::Put(Vec::new()))
    );
    assert_eq!(empty.condition.existence, Existence::NotExist);
    let update = write("update");
    let changes = vec![
        CellChange::Put(put("c", Value::Integer(5), None)),
        CellChange::Put(put(
            "e",
            Value::String("x".to_owned()),
            Some(1_700_000_000_000),
        )),
        CellChange::DeleteOne {
            name: "k".to_owned(),
            version: 5,
        },
        CellChange::DeleteAll {
            name: "z".to_owned(),
        },
        CellChange::Increment {
            name: "n".to_owned(),
            by: 3,
        },
    ];
    assert_eq!(update.change, RowChange::Update(changes));
    assert_eq!(update.incremented().collect::<Vec<_>>(), ["n"]);
    let Some(Predicate::Single(relation)) = update.condition.columns else {
        panic!();
    };
    assert_eq!(
        (relation.comparator, relation.pass_if_missing),
        (Comparator::Equal, false)
    );
    assert_eq!(write("delete").change, RowChange::Delete);
    assert_eq!(write("delete_if").condition.existence, Existence::Exist);
}

#[test]
fn reads_are_as_the_sdk_sends_them() {
    let read = |label| match sdk(label) {
        Request::GetRow(get) => (get.key, get.selection),
        other => panic!("{other:?}"),
    };
    let (found, selection) = read("get_filtered");
    assert_eq!(found, key());
    assert_eq!(selection.max_versions, Some(2));
    let columns: Vec<_> = selection.columns.iter().collect();
    assert_eq!(columns, ["int", "str"], "each once");
    assert!(matches!(
        selection.filter,
        Some(Filter::Rows(Predicate::And(_)))
    ));
    let (_, selection) = read("get_times");
    assert_eq!(selection.times, Some(5..1000));
    let (_, selection) = read("get_specific");
    assert_eq!(selection.times, Some(5..6));
    let range = |label| match sdk(label) {
        Request::GetRange(range) => range.range,
        other => panic!("{other:?}"),
    };
    let forward = range("range");
    assert_eq!(
        (forward.direction, forward.limit),
        (Direction::Forward, Some(2))
    );
    assert_eq!(forward.start[0], ("pk".to_owned(), KeyValue::InfMin));
    let back = range("range_back");
    assert_eq!((back.direction, back.limit), (Direction::Backward, None));
}

#[test]
fn batches_are_as_the_sdk_sends_them() {
    let Request::BatchGetRow(reads) = sdk("batch_get") else {
        panic!();
    };
    let [first, second] = &reads.tables[..] else {
        panic!();
    };
    assert_eq!((first.table.as_str(), second.table.as_str()), ("t", "u"));
    assert_eq!(first.rows[0], Ok(key()));
    let bound = Failure::invalid("VT_INF_MIN is an invalid type for the primary key.");
    assert_eq!(first.rows[2], Err(bound), "one bad key fails its row only");
    assert_eq!(second.selection.max_versions, Some(2));
    let Request::BatchWriteRow(writes) = sdk("batch_write") else {
        panic!();
    };
    let [table] = &writes.tables[..] else {
        panic!()
    };
    let kinds = table.writes.iter().map(|write| match write.change {
        RowChange::Put(_) => "put",
        RowChange::Update(_) => "update",
        RowChange::Delete => "delete",
    });
    assert_eq!(kinds.collect::<Vec<_>>(), ["put", "update", "delete"]);
    assert!(!writes.atomic);
}

fn row_key(cells: Vec<Cell>) -> Row {
    let key = vec![Cell::key("k", Variant::Integer(1))];
    Row {
        attributes: cells,
        ..Row::key(key)
    }
}

fn condition() -> Option<proto::Condition> {
    Some(proto::Condition {
        row_existence: Some(0),
        column_condition: None,
    })
}

fn refused(operation: Operation, message: &impl Message) -> String {
    let body = message.encode_to_vec();
    let failure = Request::decode(operation, body.into()).unwrap_err();
    assert_eq!(failure.code, Code::ParameterInvalid);
    failure.message.into_owned()
}

fn refused_row(operation: Operation, row: &Row) -> String {
    let message = proto::PutRowRequest {
        table_name: Some("t".to_owned()),
        row: Some(encode_row(row)),
        condition: condition(),
        ..Default::default()
    };
    refused(operation, &message)
}

fn cell(value: Option<Variant>, operation: Option<CellOperation>, at: Option<i64>) -> Row {
    row_key(vec![Cell {
        name: "c".to_owned(),
        value,
        operation,
        timestamp: at,
    }])
}

#[test]
fn a_put_has_values_only() {
    let one = || Some(Variant::Integer(1));
    let of = |value| row_key(vec![Cell::key("c", value)]);
    let timestamp = "Timestamp must be in range [0, INT64_MAX/1000).";
    let cases = [
        (
            cell(None, None, None),
            "Invalid request of put row: find cells without values.",
        ),
        (
            cell(one(), Some(CellOperation::Increment), None),
            "OpType cannot be given for column name:c in PutRow.",
        ),
        (named("#c"), "Invalid column name: '#c'."),
        (
            named("k"),
            "Duplicated attribute column name with primary key column: k.",
        ),
        (
            of(Variant::Double(f64::NAN)),
            "NaN can't be set to double value.",
        ),
        (
            of(Variant::Double(f64::INFINITY)),
            "Infinity can't be set to double value.",
        ),
        (
            of(Variant::Null),
            "VT_NULL is an invalid type for the attribute column.",
        ),
        (
            of(Variant::InfMax),
            "VT_INF_MAX is an invalid type for the attribute column.",
        ),
        (cell(one(), None, Some(-1)), timestamp),
        (cell(one(), None, Some(i64::MAX / 1000)), timestamp),
    ];
    for (row, text) in cases {
        assert_eq!(refused_row(Operation::PutRow, &row), text, "{row:?}");
    }
}

fn named(name: &str) -> Row {
    row_key(vec![Cell::key(name, Variant::Integer(1))])
}

#[test]
fn cells_have_to_suit_their_operation() {
    use CellOperation::*;
    use Operation::*;
    let one = || Some(Variant::Integer(1));
    let marked = |row: Row| Row {
        delete_marker: true,
        ..row
    };
    let delete_value =
        "Column value cannot be given when type is DELETE_ONE_VERSION,DELETE_ALL_VERSION.";
    let unmarked = "Invalid request of delete row: missing RowDeleteMarker in request.";
    let put_marked = "Invalid request of put/update row: unexpected RowDeleteMarker in request.";
    let cases = [
        (PutRow, marked(row_key(vec![])), put_marked),
        (UpdateRow, marked(row_key(vec![])), put_marked),
        (UpdateRow, row_key(vec![]), "Attribute column is missing."),
        (
            UpdateRow,
            cell(one(), Some(DeleteOneVersion), Some(1)),
            delete_value,
        ),
        (
            UpdateRow,
            cell(one(), Some(DeleteAllVersions), None),
            delete_value,
        ),
        (
            UpdateRow,
            cell(None, Some(DeleteOneVersion), None),
            "Timestamp must be given when type is DELETE_ONE_VERSION.",
        ),
        (
            UpdateRow,
            cell(None, Some(DeleteAllVersions), Some(1)),
            "Timestamp cannot be given when type is DELETE_ALL_VERSION.",
        ),
        (DeleteRow, row_key(vec![]), unmarked),
        (
            DeleteRow,
            marked(named("c")),
            "Invalid delete row request: unexpected cells in request.",
        ),
    ];
    for (operation, row, text) in cases {
        assert_eq!(refused_row(operation, &row), text, "{operation:?} {row:?}");
    }
}

#[test]
fn keys_have_to_be_keys() {
    let row = |cells| Row::key(cells);
    let with = |value| row(vec![Cell::key("k", value)]);
    let long = |length| Variant::String("x".repeat(length));
    let odd = |change: fn(&mut Cell)| {
        let mut cell = Cell::key("k", Variant::Integer(1));
        change(&mut cell);
        row(vec![cell])
    };
    let cases = [
        (
            with(Variant::InfMin),
            "VT_INF_MIN is an invalid type for the primary key.",
        ),
        (
            with(Variant::Boolean(true)),
            "VT_BOOLEAN is an invalid type for the primary key.",
        ),
        (
            with(Variant::Double(1.0)),
            "VT_DOUBLE is an invalid type for the primary key.",
        ),
        (
            with(long(1025)),
            "The length of primary key column: 'k' exceeds the MaxLength:1024 with CurrentLength:1025.",
        ),
        (
            row((0..5)
                .map(|at| Cell::key(format!("k{at}"), Variant::Integer(1)))
                .collect()),
            "The number of primary key columns must be in range: [1, 4].",
        ),
        (
            odd(|cell| cell.value = None),
            "No value is given for primary key name:k.",
        ),
        (
            odd(|cell| cell.timestamp = Some(1)),
            "Timestamp cannot be given for primary key name:k.",
        ),
        (
            odd(|cell| cell.operation = Some(CellOperation::Increment)),
            "OpType cannot be given for primary key name :k.",
        ),
    ];
    for (row, text) in cases {
        assert_eq!(refused_row(Operation::PutRow, &row), text);
    }
    let get = |row: &Row| {
        let message = proto::GetRowRequest {
            table_name: Some("t".to_owned()),
            primary_key: Some(encode_row(row)),
            max_versions: Some(1),
            ..Default::default()
        };
        refused(Operation::GetRow, &message)
    };
    assert_eq!(
        get(&with(Variant::AutoIncrement)),
        "PKAutoIncr can't be used for read operations."
    );
    let attribute = row_key(vec![Cell::key("c", Variant::Integer(1))]);
    assert_eq!(
        get(&attribute),
        "Attribute column cannot be given while reading data."
    );
    let mut marked = row_key(vec![]);
    marked.delete_marker = true;
    assert_eq!(get(&marked), "Delete marker cannot be given.");
}

/// An index has columns of its own before those of its table.
#[test]
fn a_key_that_is_read_has_eight_columns_at_most() {
    let of_index = |count: usize| {
        let cells = (0..count).map(|at| Cell::key(format!("k{at}"), Variant::Integer(1)));
        encode_row(&Row::key(cells.collect()))
    };
    let get = |count| proto::GetRowRequest {
        table_name: Some("t".to_owned()),
        primary_key: Some(of_index(count)),
        max_versions: Some(1),
        ..Default::default()
    };
    Request::decode(Operation::GetRow, get(8).encode_to_vec().into()).unwrap();
    assert_eq!(
        refused(Operation::GetRow, &get(9)),
        "The number of primary key columns must be in range: [1, 4]."
    );
}

#[test]
fn a_row_without_number_takes_no_conditions() {
    let mut row = row_key(vec![Cell::key("c", Variant::Integer(1))]);
    row.primary_key
        .push(Cell::key("id", Variant::AutoIncrement));
    let message = |existence, column: bool| {
        let filter = proto::SingleColumnValueFilter {
            comparator: Some(1),
            column_name: Some("c".to_owned()),
            column_value: Some(encode_variant(&Variant::Integer(1))),
            ..Default::default()
        };
        let filter = proto::Filter {
            r#type: Some(1),
            filter: Some(filter.encode_to_vec().into()),
        };
        proto::PutRowRequest {
            table_name: Some("t".to_owned()),
            row: Some(encode_row(&row)),
            condition: Some(proto::Condition {
                row_existence: Some(existence),
                column_condition: column.then(|| filter.encode_to_vec().into()),
            }),
            ..Default::default()
        }
    };
    let put = |existence, column| refused(Operation::PutRow, &message(existence, column));
    assert_eq!(
        put(0, true),
        "Can't set condition when modify row with pk auto increment."
    );
    assert_eq!(
        put(1, false),
        "Invalid expect:EXPECT_EXIST when modify row with pk auto increment."
    );
    assert_eq!(put(9, false), "Invalid row-existence expectation: 9.");
    let mut delete = Row::key(row.primary_key.clone());
    delete.delete_marker = true;
    let text = "Invalid row to delete which with pk auto increment.";
    assert_eq!(refused_row(Operation::DeleteRow, &delete), text);
    // It would take a number for a row that is not made.
    row.attributes[0] = Cell {
        value: None,
        operation: Some(CellOperation::DeleteAllVersions),
        ..row.attributes[0].clone()
    };
    assert_eq!(refused_row(Operation::UpdateRow, &row), text);
}

#[test]
fn writes_have_limits() {
    let wide = |count: usize| {
        let cells = (0..count).map(|at| Cell::key(format!("c{at}"), Variant::Integer(1)));
        row_key(cells.collect())
    };
    let text =
        "The number of attribute columns exceeds the limit, limit count: 1024, column count: 1025.";
    assert_eq!(refused_row(Operation::PutRow, &wide(1025)), text);
    let long = |length| row_key(vec![Cell::key("attr", Variant::String("x".repeat(length)))]);
    let text = "The length of attribute column: 'attr' exceeds the MaxLength:2097152 with CurrentLength:2097153.";
    assert_eq!(
        refused_row(Operation::UpdateRow, &long((2 << 20) + 1)),
        text
    );
    // Key and first cell: 1 + 8 + 1 + 2 MiB + 8; second cell: 1 + 8 and the rest.
    let exact = |over: usize| {
        let first = Cell::key("a", Variant::String("x".repeat(2 << 20)));
        let rest = (2 << 20) - (1 + 8 + 1 + 8) - (1 + 8) + over;
        row_key(vec![
            first,
            Cell::key("b", Variant::String("x".repeat(rest))),
        ])
    };
    let text = "The total data size of PutRow request exceeds the limit, limit size: 4194304, data size: 4194305.";
    assert_eq!(refused_row(Operation::PutRow, &exact(1)), text);
    let message = proto::PutRowRequest {
        table_name: Some("t".to_owned()),
        row: Some(encode_row(&exact(0))),
        condition: condition(),
        ..Default::default()
    };
    Request::decode(Operation::PutRow, message.encode_to_vec().into()).unwrap();
    let body = Bytes::from(vec![0; BODY_BYTES_MAX + 1]);
    let failure = Request::decode(Operation::PutRow, body).unwrap_err();
    assert_eq!(failure.status(), 413);
}

#[test]
fn an_incremented_column_is_left_alone_otherwise() {
    let increment = |value, at| Cell {
        name: "n".to_owned(),
        value: Some(value),
        operation: Some(CellOperation::Increment),
        timestamp: at,
    };
    let one = || increment(Variant::Integer(1), None);
    let refused = |cells| refused_row(Operation::UpdateRow, &row_key(cells));
    for cells in [
        vec![one(), one()],
        vec![Cell::key("n", Variant::Integer(1)), one()],
        vec![increment(Variant::Double(1.0), None)],
        vec![increment(Variant::Integer(1), Some(1))],
    ] {
        refused(cells);
    }
}

#[test]
fn only_incremented_columns_are_returned() {
    let returned = |kind: i32, names: &[&str]| {
        let increment = Cell {
            operation: Some(CellOperation::Increment),
            ..Cell::key("n", Variant::Integer(1))
        };
        let message = proto::UpdateRowRequest {
            table_name: Some("t".to_owned()),
            row_change: Some(encode_row(&row_key(vec![increment]))),
            condition: condition(),
            return_content: Some(proto::ReturnContent {
                return_type: Some(kind),
                return_column_names: names.iter().map(|name| (*name).to_owned()).collect(),
            }),
            ..Default::default()
        };
        let request = Request::decode(Operation::UpdateRow, message.encode_to_vec().into());
        request.map(|request| match request {
            Request::WriteRow(row) => row.write.content,
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(returned(0, &[]), Ok(ReturnContent::None));
    assert_eq!(returned(1, &[]), Ok(ReturnContent::Key));
    assert_eq!(
        returned(2, &["n"]),
        Ok(ReturnContent::Incremented(vec!["n".to_owned()]))
    );
    returned(2, &["m"]).unwrap_err();
    returned(1, &["n"]).unwrap_err();
    returned(3, &[]).unwrap_err();
}

#[test]
fn versions_have_to_be_asked_for() {
    let get = |max_versions, range: [Option<i64>; 3]| {
        let [start_time, end_time, specific_time] = range;
        proto::GetRowRequest {
            table_name: Some("t".to_owned()),
            primary_key: Some(encode_row(&row_key(vec![]))),
            max_versions,
            time_range: range
                .iter()
                .any(Option::is_some)
                .then_some(proto::TimeRange {
                    start_time,
                    end_time,
                    specific_time,
                }),
            ..Default::default()
        }
    };
    let none = [None, None, None];
    let (both, most) = (Some(1), i64::MAX / 1000);
    for (versions, range, text) in [
        (None, none, "No version condition is specified."),
        (
            Some(0),
            none,
            "Invalid max versions: 0 . Reason: Max versions must be positive.",
        ),
        (
            Some(-1),
            none,
            "Invalid max versions: -1 . Reason: Max versions must be positive.",
        ),
        (
            None,
            [Some(1), None, None],
            "Start and end time must be given at the same time.",
        ),
        (
            None,
            [None, Some(1), None],
            "Start and end time must be given at the same time.",
        ),
        (
            None,
            [both, both, both],
            "Specific tiemstamp and time range cannot be given at the same time.",
        ),
        (
            both.map(|_| 1),
            [None, None, both],
            "Specific tiemstamp and max versions cannot be given at the same time.",
        ),
        (
            None,
            [None, None, Some(-1)],
            "Timestamp must be in range [0, INT64_MAX/1000).",
        ),
        (
            None,
            [None, None, Some(most)],
            "Timestamp must be in range [0, INT64_MAX/1000).",
        ),
        (
            None,
            [Some(0), Some(i64::MAX), None],
            "Timestamp must be in range [0, INT64_MAX/1000).",
        ),
    ] {
        assert_eq!(refused(Operation::GetRow, &get(versions, range)), text);
    }
}

#[test]
fn a_read_names_so_many_columns() {
    let wide = proto::GetRowRequest {
        table_name: Some("t".to_owned()),
        primary_key: Some(encode_row(&row_key(vec![]))),
        max_versions: Some(1),
        columns_to_get: vec!["c".to_owned(); 1025],
        ..Default::default()
    };
    let text = "The number of columns from the request exceeds the limit, limit count: 1024, column count: 1025.";
    assert_eq!(refused(Operation::GetRow, &wide), text);
}

#[test]
fn ranges_have_a_direction_and_a_limit() {
    let bound = |value| encode_row(&Row::key(vec![Cell::key("k", value)]));
    let message = |direction, start, end, limit| proto::GetRangeRequest {
        table_name: Some("t".to_owned()),
        direction: Some(direction),
        max_versions: Some(1),
        limit,
        inclusive_start_primary_key: Some(bound(start)),
        exclusive_end_primary_key: Some(bound(end)),
        ..Default::default()
    };
    let int = Variant::Integer;
    for limit in [0, -1] {
        let text = refused(
            Operation::GetRange,
            &message(0, int(0), int(1), Some(limit)),
        );
        assert_eq!(text, "The limit must be greater than 0.");
    }
    assert_eq!(
        refused(Operation::GetRange, &message(2, int(0), int(1), None)),
        "Invalid direction: 2."
    );
}

#[test]
fn batches_of_reads_have_limits() {
    let reads = |tables: &[(&str, usize)], versions| proto::BatchGetRowRequest {
        tables: tables
            .iter()
            .map(|(name, rows)| proto::TableInBatchGetRowRequest {
                table_name: Some((*name).to_owned()),
                primary_key: vec![encode_row(&row_key(vec![])); *rows],
                max_versions: versions,
                ..Default::default()
            })
            .collect(),
    };
    let get = |tables: &[(&str, usize)], versions| {
        refused(Operation::BatchGetRow, &reads(tables, versions))
    };
    assert_eq!(
        get(&[], Some(1)),
        "No row specified in the request of BatchGetRow."
    );
    assert_eq!(
        get(&[("a", 50), ("b", 51)], Some(1)),
        "Rows count exceeds the upper limit: 100."
    );
    assert_eq!(
        get(&[("a", 1), ("a", 1)], Some(1)),
        "Duplicated table name: a."
    );
    assert_eq!(
        get(&[("a", 1)], None),
        "No version condition is specified while querying row."
    );
    let decode = |message: &proto::BatchGetRowRequest| {
        let request = Request::decode(Operation::BatchGetRow, message.encode_to_vec().into());
        match request.unwrap() {
            Request::BatchGetRow(batch) => batch.tables,
            other => panic!("{other:?}"),
        }
    };
    assert!(decode(&reads(&[("a", 0)], Some(1)))[0].rows.is_empty());
    let failed = decode(&reads(&[("a-b", 2)], Some(1)));
    let name = Failure::invalid("Invalid table name: 'a-b'.");
    assert_eq!(failed[0].rows, [Err(name.clone()), Err(name)]);
}

#[test]
fn expressions_of_a_batch_have_a_bound_together() {
    // About 64 KiB each, compiled; a table without keys is asked for nothing, and has a filter all the same.
    let relation = proto::SingleColumnValueFilter {
        comparator: Some(proto::ComparatorType::CtExist as i32),
        column_name: Some("c".to_owned()),
        column_value: Some(encode_variant(&Variant::Integer(1))),
        value_trans_rule: Some(proto::ValueTransferRule {
            regex: Some(r"(\w{2})".to_owned()),
            ..Default::default()
        }),
        ..Default::default()
    };
    let filter = proto::Filter {
        r#type: Some(proto::FilterType::FtSingleColumnValue as i32),
        filter: Some(relation.encode_to_vec().into()),
    };
    let table = |number: usize| proto::TableInBatchGetRowRequest {
        table_name: Some(format!("t{number}")),
        max_versions: Some(1),
        filter: Some(filter.encode_to_vec().into()),
        ..Default::default()
    };
    let batch = |tables: usize| proto::BatchGetRowRequest {
        tables: (0..tables).map(table).collect(),
    };
    let body = batch(30).encode_to_vec().into();
    assert!(Request::decode(Operation::BatchGetRow, body).is_ok());
    assert_eq!(
        refused(Operation::BatchGetRow, &batch(500)),
        "The total size of the regular expressions of the request exceeds the limit, limit size: 16777216."
    );
}

fn batch_row(kind: i32, row: &Row) -> proto::RowInBatchWriteRowRequest {
    proto::RowInBatchWriteRowRequest {
        r#type: Some(kind),
        row_change: Some(encode_row(row)),
        condition: condition(),
        return_content: None,
    }
}

type BatchRows = Vec<proto::RowInBatchWriteRowRequest>;

fn batch(tables: Vec<(&str, BatchRows)>) -> proto::BatchWriteRowRequest {
    let tables = tables.into_iter();
    let table = |(name, rows): (&str, BatchRows)| proto::TableInBatchWriteRowRequest {
        table_name: Some(name.to_owned()),
        rows,
    };
    proto::BatchWriteRowRequest {
        tables: tables.map(table).collect(),
        ..Default::default()
    }
}

#[test]
fn batches_of_writes_have_rules() {
    let row = |kind| batch_row(kind, &row_key(vec![]));
    let increment = Cell {
        operation: Some(CellOperation::Increment),
        ..Cell::key("n", Variant::Integer(1))
    };
    let increment = batch_row(2, &row_key(vec![increment]));
    let twice = vec![("t", vec![row(1)]), ("t", vec![row(1)])];
    let once = "A row with incremented columns can be given only once in BatchWriteRow.";
    let many = "Rows count exceeds the upper limit: 200.";
    let none = "No operation is specified for table: 't'.";
    for (tables, text) in [
        (vec![], "No row is specified in BatchWriteRow."),
        (vec![("t", vec![])], none),
        (twice, "Duplicated table name: t."),
        (vec![("t", vec![row(1); 201])], many),
        (vec![("t-", vec![row(1)])], "Invalid table name: 't-'."),
        (vec![("t", vec![row(4)])], "The modify type is invalid."),
        (vec![("t", vec![increment, row(1)])], once),
    ] {
        assert_eq!(refused(Operation::BatchWriteRow, &batch(tables)), text);
    }
}

#[test]
fn a_batch_of_writes_has_4_mib() {
    // Key: 1 + 8; cell: 1 + 8 and the text.
    let row = |over: usize| {
        let text = Variant::String("x".repeat((2 << 20) - 18 + over));
        batch_row(1, &row_key(vec![Cell::key("a", text)]))
    };
    let body = batch(vec![("t", vec![row(0), row(0)])]).encode_to_vec();
    Request::decode(Operation::BatchWriteRow, body.into()).unwrap();
    let over = batch(vec![("t", vec![row(0), row(1)])]);
    let text = "The total data size of BatchWriteRow request exceeds the limit, \
                limit size: 4194304, data size: 4194305.";
    assert_eq!(refused(Operation::BatchWriteRow, &over), text);
}

#[test]
fn many_empty_fields_are_refused_before_they_are_made() {
    let message = proto::BatchWriteRowRequest {
        tables: vec![proto::TableInBatchWriteRowRequest::default(); FIELDS_MAX + 1],
        ..Default::default()
    };
    let text = refused(Operation::BatchWriteRow, &message);
    assert_eq!(text, "Cannot deserialize the request data.");
    let rows = vec![proto::RowInBatchWriteRowRequest::default(); FIELDS_MAX];
    let message = proto::BatchWriteRowRequest {
        tables: vec![proto::TableInBatchWriteRowRequest {
            table_name: None,
            rows,
        }],
        ..Default::default()
    };
    assert_eq!(refused(Operation::BatchWriteRow, &message), text);
    let body = Bytes::from(vec![0; TABLE_BODY_BYTES_MAX + 1]);
    let failure = Request::decode(Operation::CreateTable, body).unwrap_err();
    assert_eq!(failure.status(), 413);
}

#[test]
fn parts_of_a_search_are_counted_before_they_are_made() {
    let sort = proto::Sort {
        sorter: vec![proto::Sorter::default(); 33],
        ..Default::default()
    };
    let query = proto::SearchQuery {
        sort: Some(sort),
        ..Default::default()
    };
    let message = |names: usize, query: proto::SearchQuery| proto::SearchRequest {
        search_query: Some(query.encode_to_vec().into()),
        columns_to_get: Some(proto::ColumnsToGet {
            column_names: vec![String::new(); names],
            ..Default::default()
        }),
        ..Default::default()
    };
    // Before what else is wrong with it.
    let sorters = refused(Operation::Search, &message(0, query));
    assert_eq!(sorters, "The sorters must be in range: [0, 32].");
    let many = proto::GeoDistanceSort {
        points: vec![String::new(); 3_201],
        ..Default::default()
    };
    let sorter = proto::Sorter {
        geo_distance_sort: Some(many),
        ..Default::default()
    };
    let sort = proto::Sort {
        sorter: vec![sorter],
        ..Default::default()
    };
    let query = proto::SearchQuery {
        sort: Some(sort),
        ..Default::default()
    };
    let points = refused(Operation::Search, &message(0, query));
    assert_eq!(points, "The points must be in range: [0, 3200].");
    let names = message(1_025, proto::SearchQuery::default());
    let text = "The column_names must be in range: [0, 1024].";
    assert_eq!(refused(Operation::Search, &names), text);
    assert_eq!(refused(Operation::ParallelScan, &names), text);
    let nothing = proto::UpdateSearchIndexRequest {
        table_name: Some("t".to_owned()),
        index_name: Some("i".to_owned()),
        ..Default::default()
    };
    let text = "UpdateSearchIndex has nothing to change.";
    assert_eq!(refused(Operation::UpdateSearchIndex, &nothing), text);
}

/// Makes a good request a bad one.
type Spoil = fn(&mut proto::CreateTableRequest);

fn create(change: Spoil) -> proto::CreateTableRequest {
    let column = |name: &str, kind| proto::PrimaryKeySchema {
        name: Some(name.to_owned()),
        r#type: Some(kind),
        option: None,
    };
    let mut message = proto::CreateTableRequest {
        table_meta: Some(proto::TableMeta {
            table_name: Some("t".to_owned()),
            primary_key: vec![column("PK0", 1), column("PK1", 1), column("PK2", 1)],
            defined_column: Vec::new(),
        }),
        reserved_throughput: Some(proto::ReservedThroughput {
            capacity_unit: Some(proto::CapacityUnit {
                read: Some(0),
                write: Some(0),
            }),
        }),
        table_options: Some(proto::TableOptions {
            time_to_live: Some(-1),
            max_versions: Some(1),
            ..Default::default()
        }),
        ..Default::default()
    };
    change(&mut message);
    message
}

fn meta(message: &mut proto::CreateTableRequest) -> &mut proto::TableMeta {
    message.table_meta.as_mut().unwrap()
}

fn options(message: &mut proto::CreateTableRequest) -> &mut proto::TableOptions {
    message.table_options.as_mut().unwrap()
}

#[test]
fn tables_have_rules() {
    let defined = |count: usize| {
        let column = |at| proto::DefinedColumnSchema {
            name: Some(format!("d{at}")),
            r#type: Some(1),
        };
        (0..count).map(column).collect::<Vec<_>>()
    };
    let mut many = create(|_| ());
    meta(&mut many).defined_column = defined(33);
    let text = "The number of defined columns must be in range: [0, 32].";
    assert_eq!(refused(Operation::CreateTable, &many), text);
    let count = "The number of primary key columns must be in range: [1, 4].";
    let cases: [(Spoil, &str); 10] = [
        (
            |m| m.table_meta = None,
            "Parse PBMessage from RawString failed.",
        ),
        (
            |m| m.reserved_throughput = None,
            "Parse PBMessage from RawString failed.",
        ),
        (
            |m| meta(m).table_name = Some("1".to_owned()),
            "Invalid table name: '1'.",
        ),
        (|m| meta(m).primary_key.clear(), count),
        (|m| meta(m).primary_key.extend_from_within(..2), count),
        (
            |m| meta(m).primary_key[1].name = Some("PK0".to_owned()),
            "Duplicated primary key name: 'PK0'.",
        ),
        (
            |m| meta(m).primary_key[1].name = Some("#".to_owned()),
            "Invalid column name: '#'.",
        ),
        (
            |m| meta(m).primary_key[0].option = Some(1),
            "First primary key can't be auto increment, table: t.",
        ),
        (
            |m| {
                meta(m).primary_key[1].option = Some(1);
                meta(m).primary_key[1].r#type = Some(2);
            },
            "AUTO_INCREMENT primary key must be integer.",
        ),
        (
            |m| {
                meta(m).primary_key[1].option = Some(1);
                meta(m).primary_key[2].option = Some(1);
            },
            "AUTO_INCREMENT primary key count must <= 1.",
        ),
    ];
    for (change, text) in cases {
        assert_eq!(refused(Operation::CreateTable, &create(change)), text);
    }
}

#[test]
fn options_have_ranges() {
    let cases: [(Spoil, &str); 8] = [
        (
            |m| options(m).time_to_live = None,
            "Time-to-live is missing while creating table.",
        ),
        (
            |m| options(m).max_versions = None,
            "MaxVersions is missing while creating table.",
        ),
        (
            |m| options(m).time_to_live = Some(0),
            "TimeToLive cannot be 0 or less than -1.",
        ),
        (
            |m| options(m).time_to_live = Some(-2),
            "TimeToLive cannot be 0 or less than -1.",
        ),
        (
            |m| options(m).max_versions = Some(0),
            "The maximum versions cannot be less than or equal to 0.",
        ),
        (
            |m| m.table_options = None,
            "Time-to-live is missing while creating table.",
        ),
        (
            |m| options(m).deviation_cell_version_in_sec = Some(-1),
            "The maximum deviation must be in range [0, INT64_MAX/1000000].",
        ),
        (
            |m| {
                m.reserved_throughput
                    .as_mut()
                    .unwrap()
                    .capacity_unit
                    .as_mut()
                    .unwrap()
                    .read = Some(-1)
            },
            "Invalid Capacity Unit:-1 . Capacity Unit must be nonnegative.",
        ),
    ];
    for (change, text) in cases {
        assert_eq!(refused(Operation::CreateTable, &create(change)), text);
    }
    let body = create(|_| ()).encode_to_vec();
    let Request::CreateTable(table) = Request::decode(Operation::CreateTable, body.into()).unwrap()
    else {
        panic!();
    };
    assert_eq!(table.options.max_version_offset_s, 86_400);
    assert!(table.options.allow_update && !table.options.update_full_row);
}

#[test]
fn a_change_of_a_table_has_to_change_something() {
    let update = |options| proto::UpdateTableRequest {
        table_name: Some("t".to_owned()),
        table_options: options,
        ..Default::default()
    };
    let nothing = "No parameter is specified in table options.";
    assert_eq!(refused(Operation::UpdateTable, &update(None)), nothing);
    assert_eq!(
        refused(Operation::UpdateTable, &update(Some(Default::default()))),
        nothing
    );
    let full = proto::TableOptions {
        update_full_row: Some(true),
        ..Default::default()
    };
    assert!(refused(Operation::UpdateTable, &update(Some(full))).contains("contain updateFullRow"));
}

#[test]
fn defined_columns_come_and_go() {
    let add = proto::AddDefinedColumnRequest {
        table_name: Some("t".to_owned()),
        columns: vec![proto::DefinedColumnSchema {
            name: Some("d".to_owned()),
            r#type: Some(7),
        }],
    };
    let request = Request::decode(Operation::AddDefinedColumn, add.encode_to_vec().into()).unwrap();
    let Request::AddDefinedColumn(table, columns) = request else {
        panic!();
    };
    assert_eq!((table.as_str(), columns[0].kind), ("t", ColumnType::Binary));
    let delete = proto::DeleteDefinedColumnRequest {
        table_name: Some("t".to_owned()),
        columns: vec!["d".to_owned()],
    };
    let request = Request::decode(
        Operation::DeleteDefinedColumn,
        delete.encode_to_vec().into(),
    );
    assert!(matches!(request.unwrap(), Request::DeleteDefinedColumn(_, names) if names == ["d"]));
}

proptest::proptest! {
    #[test]
    fn any_body_is_a_request_or_a_failure(body: Vec<u8>) {
        for operation in Operation::ALL {
            let _ = Request::decode(*operation, body.clone().into());
        }
    }

    /// What the SDK sends, with bytes changed: deeper than random bytes come.
    #[test]
    fn a_broken_request_is_a_request_or_a_failure(
        line: proptest::sample::Index,
        changes: Vec<(proptest::sample::Index, u8)>,
    ) {
        let lines: Vec<&str> = include_str!("sdk_requests.txt").lines().skip(1).collect();
        let parts: Vec<&str> = line.get(&lines).split(' ').collect();
        let digits = parts.get(2).copied().unwrap_or("");
        let byte = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap();
        let mut body: Vec<u8> = digits.as_bytes().chunks(2).map(byte).collect();
        for (at, bits) in changes {
            if !body.is_empty() {
                let at = at.index(body.len());
                body[at] ^= bits;
            }
        }
        let operation = Operation::of_path(parts[1]).unwrap();
        let _ = Request::decode(operation, body.into());
    }
}
