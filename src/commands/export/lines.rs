//! Rows as lines of JSON.
//!
//! Owns: the shape of a line. Must not: know where rows come from.

use base64::Engine as _;
use serde_json::{Map, Value, json};

use crate::wire::tablestore::plainbuffer::{Cell, Row, Variant};

/// `{"key": {name: value}, "columns": {name: [{"version", "value"}, …]}}`, versions newest first; bytes are
/// `{"base64": text}`.
pub(super) fn line(row: &Row) -> Value {
    let named = |cell: &Cell| (cell.name.clone(), shown(cell.value.as_ref()));
    let key: Map<String, Value> = row.primary_key.iter().map(named).collect();
    let mut columns: Map<String, Value> = Map::new();
    for cell in &row.attributes {
        let version = json!({"version": cell.timestamp, "value": shown(cell.value.as_ref())});
        let versions = columns.entry(cell.name.clone());
        if let Value::Array(versions) = versions.or_insert_with(|| Value::Array(Vec::new())) {
            versions.push(version);
        }
    }
    json!({"key": key, "columns": columns})
}

fn shown(value: Option<&Variant>) -> Value {
    match value {
        Some(Variant::Integer(number)) => json!(number),
        Some(Variant::Double(number)) => json!(number),
        Some(Variant::Boolean(is_true)) => json!(is_true),
        Some(Variant::String(text)) => json!(text),
        Some(Variant::Binary(bytes)) => {
            json!({"base64": base64::engine::general_purpose::STANDARD.encode(bytes)})
        }
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_key_and_versions() {
        let row = Row {
            primary_key: vec![Cell::key("k", Variant::Binary(vec![255, 0].into()))],
            attributes: vec![
                Cell::version("c", Variant::String("new".to_owned()), 7),
                Cell::version("c", Variant::Double(0.5), 6),
            ],
            delete_marker: false,
            sequence: None,
        };
        assert_eq!(
            line(&row).to_string(),
            r#"{"columns":{"c":[{"value":"new","version":7},{"value":0.5,"version":6}]},"key":{"k":{"base64":"/wA="}}}"#
        );
    }
}
