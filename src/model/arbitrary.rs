//! Arbitrary values and columns for property tests.
//!
//! Owns: the strategies that the tests of rows, deltas and timelines share. Promises: no NaN, because it is not equal
//! to itself and the wire refuses it. Must not: be in a build that is not a test.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::Value;

/// Any value.
pub fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        ".{0,12}".prop_map(Value::String),
        any::<i64>().prop_map(Value::Integer),
        (-100i64..100).prop_map(Value::Integer),
        proptest::num::f64::NORMAL.prop_map(Value::Double),
        any::<bool>().prop_map(Value::Boolean),
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| Value::Binary(bytes.into())),
        "[\\[\\]{},:0-9]{0,9}".prop_map(Value::Json),
    ]
}

/// Columns with unique names, sorted by name.
pub fn columns() -> impl Strategy<Value = Vec<(String, Value)>> {
    proptest::collection::btree_map("[a-z#é]{1,3}", value(), 0..8)
        .prop_map(|map: BTreeMap<String, Value>| map.into_iter().collect())
}
