//! What filters decode to, what makes one invalid, and what they say of rows, as tables of cases.
//!
//! Owns: small builders of filter messages. Promises: the semantics are tested on decoded filters, not on trees made by
//! hand. Must not: need a store.

use bytes::Bytes;
use prost::Message;

use super::super::plainbuffer::{Variant, encode_variant};
use super::super::proto::{
    ColumnPaginationFilter, ComparatorType, CompositeColumnValueFilter, Filter as FilterMessage,
    FilterType, LogicalOperator, SingleColumnValueFilter, ValueTransferRule, VariantType,
};
use super::super::request::filter::{decode_filter, decode_predicate};
use tideline_model::limits::{PATTERN_BYTES_MAX, VALUE_BYTES_MAX};
use tideline_model::{
    Cell, ColumnPage, Comparator, Filter, KeyColumn, KeyType, KeyValue, Predicate, RowRef, Value,
    ValueRef,
};

fn wrap(kind: FilterType, inner: &impl Message) -> FilterMessage {
    FilterMessage {
        r#type: Some(kind.into()),
        filter: Some(inner.encode_to_vec().into()),
    }
}

fn single(column: &str, comparator: ComparatorType, value: Variant) -> SingleColumnValueFilter {
    SingleColumnValueFilter {
        comparator: Some(comparator.into()),
        column_name: Some(column.to_owned()),
        column_value: Some(encode_variant(&value)),
        filter_if_missing: Some(false),
        latest_version_only: Some(true),
        value_trans_rule: None,
    }
}

fn leaf(inner: &SingleColumnValueFilter) -> FilterMessage {
    wrap(FilterType::FtSingleColumnValue, inner)
}

fn group(combinator: LogicalOperator, sub_filters: Vec<FilterMessage>) -> FilterMessage {
    let inner = CompositeColumnValueFilter {
        combinator: Some(combinator.into()),
        sub_filters,
    };
    wrap(FilterType::FtCompositeColumnValue, &inner)
}

fn bytes(message: &FilterMessage) -> Bytes {
    message.encode_to_vec().into()
}

/// The cells of a row whose key is pk = 7; each column's versions newest first.
fn cells() -> Vec<Cell<'static>> {
    let cell = |(name, version, value)| Cell {
        name,
        version,
        value,
    };
    [
        ("b", 1, ValueRef::Binary(b"bb")),
        ("d", 1, ValueRef::Double(1.5)),
        ("f", 1, ValueRef::Boolean(true)),
        ("n", 2, ValueRef::Integer(5)),
        ("n", 1, ValueRef::Integer(3)),
        ("s", 1, ValueRef::String("b")),
        ("t", 2, ValueRef::String("{\"id\":\"42\",x}")),
        ("t", 1, ValueRef::String("{\"id\":\"41\"}")),
    ]
    .map(cell)
    .to_vec()
}

fn passes(message: &FilterMessage) -> bool {
    let predicate = decode_predicate(&bytes(message)).unwrap();
    predicate.passes(&RowRef {
        columns: &[KeyColumn {
            name: "pk".to_owned(),
            kind: KeyType::Integer,
            auto_increment: false,
        }],
        key: &[KeyValue::Integer(7)],
        cells: &cells(),
    })
}

#[test]
fn columns_compare_with_values_of_their_type() {
    use ComparatorType::*;
    let text = |text: &str| Variant::String(text.to_owned());
    let blob = |bytes: &'static [u8]| Variant::Binary(Bytes::from_static(bytes));
    for (column, value, [eq, ne, gt, ge, lt, le]) in [
        (
            "n",
            Variant::Integer(5),
            [true, false, false, true, false, true],
        ),
        (
            "n",
            Variant::Integer(4),
            [false, true, true, true, false, false],
        ),
        (
            "n",
            Variant::Integer(6),
            [false, true, false, false, true, true],
        ),
        (
            "pk",
            Variant::Integer(7),
            [true, false, false, true, false, true],
        ),
        ("s", text("a"), [false, true, true, true, false, false]),
        ("s", text("b"), [true, false, false, true, false, true]),
        ("s", text("ba"), [false, true, false, false, true, true]),
        ("b", blob(b"b"), [false, true, true, true, false, false]),
        (
            "d",
            Variant::Double(1.5),
            [true, false, false, true, false, true],
        ),
        (
            "f",
            Variant::Boolean(false),
            [false, true, true, true, false, false],
        ),
        // Another type is not equal, and neither above nor below.
        ("n", text("5"), [false, true, false, false, false, false]),
        (
            "n",
            Variant::Double(5.0),
            [false, true, false, false, false, false],
        ),
        ("s", blob(b"b"), [false, true, false, false, false, false]),
    ] {
        let expected = [
            (CtEqual, eq),
            (CtNotEqual, ne),
            (CtGreaterThan, gt),
            (CtGreaterEqual, ge),
            (CtLessThan, lt),
            (CtLessEqual, le),
        ];
        for (comparator, expected) in expected {
            let filter = leaf(&single(column, comparator, value.clone()));
            assert_eq!(
                passes(&filter),
                expected,
                "{column} {comparator:?} {value:?}"
            );
        }
    }
}

#[test]
fn a_missing_column_passes_if_the_filter_says_so() {
    use ComparatorType::*;
    for comparator in [CtEqual, CtNotEqual, CtGreaterThan, CtLessEqual] {
        for drop in [false, true] {
            let mut filter = single("none", comparator, Variant::Integer(1));
            filter.filter_if_missing = Some(drop);
            assert_eq!(passes(&leaf(&filter)), !drop);
            let not = group(LogicalOperator::LoNot, vec![leaf(&filter)]);
            assert_eq!(passes(&not), drop);
        }
    }
}

#[test]
fn older_versions_count_only_if_asked() {
    for (latest, expected) in [(Some(true), false), (None, false), (Some(false), true)] {
        let mut filter = single("n", ComparatorType::CtEqual, Variant::Integer(3));
        filter.latest_version_only = latest;
        assert_eq!(passes(&leaf(&filter)), expected);
    }
}

#[test]
fn groups_combine() {
    let is = |value| {
        leaf(&single(
            "n",
            ComparatorType::CtEqual,
            Variant::Integer(value),
        ))
    };
    let (yes, no) = (is(5), is(6));
    use LogicalOperator::*;
    for (combinator, inner, expected) in [
        (LoAnd, vec![yes.clone(), yes.clone()], true),
        (LoAnd, vec![yes.clone(), no.clone()], false),
        (LoAnd, vec![yes.clone(), yes.clone(), no.clone()], false),
        (LoOr, vec![no.clone(), yes.clone()], true),
        (LoOr, vec![no.clone(), no.clone()], false),
        (LoNot, vec![no.clone()], true),
        (LoNot, vec![yes.clone()], false),
    ] {
        assert_eq!(passes(&group(combinator, inner)), expected);
    }
}

/// Whether the row passes when the part of `column` that `regex` finds compares with a value.
fn part_passes(
    column: &str,
    (regex, cast): (&str, VariantType),
    (comparator, value): (ComparatorType, Variant),
    latest: bool,
) -> bool {
    let mut filter = single(column, comparator, value);
    filter.latest_version_only = Some(latest);
    filter.value_trans_rule = Some(ValueTransferRule {
        regex: Some(regex.to_owned()),
        cast_type: Some(cast.into()),
    });
    passes(&leaf(&filter))
}

#[test]
fn a_part_of_a_text_compares_as_another_type() {
    use ComparatorType::*;
    use VariantType::*;
    let text = |text: &str| Variant::String(text.to_owned());
    let (int, double) = (Variant::Integer, Variant::Double);
    let id = "\"id\":\"([0-9a-z]+)\"";
    for (rule, against, latest, expected) in [
        ((id, VtInteger), (CtEqual, int(42)), true, true),
        ((id, VtInteger), (CtGreaterThan, int(42)), true, false),
        ((id, VtInteger), (CtEqual, int(41)), true, false),
        ((id, VtInteger), (CtEqual, int(41)), false, true),
        ((id, VtDouble), (CtEqual, double(42.0)), true, true),
        ((id, VtString), (CtEqual, text("42")), true, true),
        ((id, VtString), (CtEqual, text("4")), true, false),
        // The part is not there, has no group, or is not a number: not passed, whatever is asked.
        (("(no)", VtString), (CtNotEqual, text("x")), true, false),
        (("id", VtString), (CtNotEqual, text("x")), true, false),
        (("(id)", VtInteger), (CtNotEqual, int(1)), true, false),
        ((id, VtString), (CtExist, text("")), true, true),
        (("(no)", VtString), (CtExist, text("")), true, false),
        (("(no)", VtString), (CtNotExist, text("")), true, true),
    ] {
        let passed = part_passes("t", rule, against.clone(), latest);
        assert_eq!(passed, expected, "{rule:?} {against:?}");
    }
    let number = part_passes("n", ("([0-9]+)", VtInteger), (CtEqual, int(5)), true);
    assert!(!number, "only texts have parts");
}

#[test]
fn a_page_of_columns_is_its_own_filter() {
    let page = |offset, limit| {
        let inner = ColumnPaginationFilter { offset, limit };
        wrap(FilterType::FtColumnPagination, &inner)
    };
    let decoded = decode_filter(&bytes(&page(Some(2), Some(3)))).unwrap();
    let expected = ColumnPage {
        offset: 2,
        limit: 3,
    };
    assert!(matches!(decoded, Filter::Columns(page) if page == expected));
    for (offset, limit, text) in [
        (
            Some(-1),
            Some(1),
            "Offset in ColumnPaginationFilter must be greater than or equal to 0.",
        ),
        (
            Some(0),
            Some(0),
            "Limit in ColumnPaginationFilter must be greater than 0.",
        ),
        (
            Some(0),
            Some(-1),
            "Limit in ColumnPaginationFilter must be greater than 0.",
        ),
        (
            None,
            Some(1),
            "Deserialize column pagination filter failed.",
        ),
    ] {
        let failure = decode_filter(&bytes(&page(offset, limit))).unwrap_err();
        assert_eq!(failure.message, text);
    }
    // Neither a condition nor a part of a group.
    let good = page(Some(0), Some(1));
    let failure = decode_predicate(&bytes(&good)).unwrap_err();
    assert_eq!(failure.message, "Invalid type of filter: 3.");
    let inside = group(LogicalOperator::LoNot, vec![good]);
    assert_eq!(refused(&inside), "Invalid type of sub-filter: 3.");
}

fn refused(message: &FilterMessage) -> String {
    let failure = decode_filter(&bytes(message)).unwrap_err();
    failure.message.into_owned()
}

#[test]
fn invalid_filters_are_refused() {
    let one = || leaf(&single("n", ComparatorType::CtEqual, Variant::Integer(1)));
    let not = "Invalid NOT operator: the number of sub-filters must be 1.";
    let and = "Invalid AND/OR operator: the number of sub-filters must be more than 1.";
    use LogicalOperator::*;
    assert_eq!(refused(&group(LoNot, vec![one(), one()])), not);
    assert_eq!(refused(&group(LoNot, vec![])), not);
    assert_eq!(refused(&group(LoAnd, vec![one()])), and);
    assert_eq!(refused(&group(LoOr, vec![])), and);
    let exist = single("n", ComparatorType::CtExist, Variant::Integer(1));
    assert_eq!(refused(&leaf(&exist)), "Invalid relation operator: 7.");
    let mut other = exist.clone();
    other.comparator = Some(9);
    assert_eq!(refused(&leaf(&other)), "Invalid relation operator: 9.");
    let name = single("#", ComparatorType::CtEqual, Variant::Integer(1));
    assert_eq!(refused(&leaf(&name)), "Invalid column name: '#'.");
    let inf = single("n", ComparatorType::CtEqual, Variant::InfMax);
    let text = "VT_INF_MAX is an invalid type for the attribute column.";
    assert_eq!(refused(&leaf(&inf)), text);
    let broken = decode_filter(&Bytes::from_static(b"\xff")).unwrap_err();
    assert_eq!(broken.message, "Deserialize filter failed.");
    let large = "x".repeat(VALUE_BYTES_MAX + 1);
    let large = single("n", ComparatorType::CtEqual, Variant::String(large));
    assert!(refused(&leaf(&large)).contains("exceeds the MaxLength:2097152"));
}

#[test]
fn thirty_two_nodes_are_enough() {
    let one = || leaf(&single("n", ComparatorType::CtEqual, Variant::Integer(1)));
    let wide = |leaves| group(LogicalOperator::LoAnd, vec![one(); leaves]);
    decode_filter(&bytes(&wide(31))).unwrap();
    let text = "The count of filter exceeds the max: 32.";
    assert_eq!(refused(&wide(32)), text);
    let deep = |depth| {
        let nest = |inner, _| group(LogicalOperator::LoNot, vec![inner]);
        (0..depth).fold(one(), nest)
    };
    decode_filter(&bytes(&deep(31))).unwrap();
    assert_eq!(refused(&deep(32)), text);
    assert_eq!(refused(&deep(5000)), text);
}

#[test]
fn an_expression_cannot_take_the_server_down() {
    let mut filter = single("t", ComparatorType::CtExist, Variant::Integer(1));
    let long = "x".repeat(PATTERN_BYTES_MAX + 1);
    for regex in ["(", "(x{1000}){1000}", "((a{100}){100}){100}", &long] {
        filter.value_trans_rule = Some(ValueTransferRule {
            regex: Some(regex.to_owned()),
            cast_type: None,
        });
        assert_eq!(
            refused(&leaf(&filter)),
            "Deserialize relation filter failed."
        );
    }
}

/// As the official Python SDK sends it: c = 1, a row without c passes, latest version only.
#[test]
fn the_sdks_filter_is_read() {
    let sent = b"\x08\x01\x12\x14\x08\x01\x12\x01c\x1a\x09\x00\x01\0\0\0\0\0\0\0\x20\x00\x28\x01";
    let predicate = decode_predicate(&Bytes::from_static(sent)).unwrap();
    let Predicate::Single(relation) = predicate else {
        panic!("{predicate:?}");
    };
    assert_eq!(relation.column, "c");
    assert_eq!(relation.value, Value::Integer(1));
    assert_eq!(relation.comparator, Comparator::Equal);
    assert!(relation.pass_if_missing && relation.latest_version_only);
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_a_filter_or_a_failure(bytes: Vec<u8>) {
        let _ = decode_filter(&bytes.clone().into());
        let inner = FilterMessage { r#type: Some(i32::from(bytes.len() % 2 == 0) + 1), filter: Some(bytes.into()) };
        let _ = decode_filter(&inner.encode_to_vec().into());
    }
}
