//! What `tests/fuzz` reaches of search indexes. Only in builds with the feature `faults`.
//!
//! Owns: the list. Promises: each takes any bytes. Must not: be called by anything but that test.

use tideline_base::faults::Decoder;
use tideline_model::search::{Field, FieldType, Metric, SearchSchema, VectorOptions};
use tideline_model::{FoundCell, FoundRow, Value};

use crate::index::layout::Layout;

/// Decoders by name.
pub const TARGETS: &[Decoder] = &[("search_objects", objects), ("search_vector", vector)];

/// The document of a row with this value in a field.
fn indexed(of: Field, value: Value) {
    let schema = SearchSchema {
        fields: vec![of],
        ..SearchSchema::default()
    };
    let Ok(schema) = schema.checked() else {
        return;
    };
    let row = FoundRow {
        key: Vec::new(),
        cells: vec![FoundCell {
            name: "a".to_owned(),
            version: 1,
            value,
        }],
    };
    let _ = Layout::new(&schema).document(&[], b"key", &row);
}

/// Objects with values of each kind, and with objects inside.
fn objects(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let kinds = [
        ("k", FieldType::Keyword),
        ("t", FieldType::Text),
        ("n", FieldType::Long),
        ("d", FieldType::Double),
        ("g", FieldType::GeoPoint),
    ];
    let mut fields: Vec<Field> = kinds.map(|(name, kind)| Field::new(name, kind)).into();
    fields.push(Field {
        is_array: true,
        ..Field::new("l", FieldType::Long)
    });
    fields.push(Field {
        fields: fields.clone(),
        ..Field::new("o", FieldType::Nested)
    });
    let nested = Field {
        fields,
        ..Field::new("a", FieldType::Nested)
    };
    indexed(nested, Value::String(text.to_owned()));
}

/// How many numbers, and a vector as a text and as bytes.
fn vector(input: &[u8]) {
    let Some((dimension, input)) = input.split_first() else {
        return;
    };
    let of = Field {
        vector: Some(VectorOptions {
            dimension: usize::from(*dimension),
            metric: Metric::Cosine,
        }),
        ..Field::new("a", FieldType::Vector)
    };
    indexed(of.clone(), Value::Binary(input.to_vec().into()));
    if let Ok(text) = std::str::from_utf8(input) {
        indexed(of, Value::String(text.to_owned()));
    }
}
