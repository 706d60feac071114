//! From a row to the engine's document of it.
//!
//! Owns: which values a field takes. Promises: a value that does not fit leaves its field out, and the row is there all
//! the same; what a document has follows from the row alone. Must not: write.

use tantivy::TantivyDocument;
use tantivy::tokenizer::{PreTokenizedString, Token};

use tideline_model::search::{FieldType, KEYWORD_BYTES_MAX, Point, StoredPoint};
use tideline_model::{FoundRow, KeyColumn, ValueRef};

use super::layout::{Layout, Of, Placed};
use crate::analyze::words;

/// A longer text is not taken apart, nor are the texts of a row that are longer together.
const TEXT_BYTES_MAX: usize = 2 << 20;
/// What a value takes in memory, beside its text, and a word with it.
pub(super) const ITEM_BYTES: usize = 64;
pub(super) const WORD_BYTES: usize = 100;
/// Of a number of a vector, with the spaces around it.
const NUMBER_CHARS_MAX: usize = 64;
/// Elements of a list beyond these are left out.
pub(super) const ELEMENTS_MAX: usize = 256;

/// A value of a field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    Integer(i64),
    Double(f64),
    Boolean(bool),
    Text(String),
    Point(StoredPoint),
    /// Numbers of a vector, four bytes each, or the text of objects.
    Kept(Vec<u8>),
}

impl Layout {
    /// The document of a row with this encoded key, and about how many bytes it takes in memory; `None` = the row is
    /// not found by anything.
    pub(crate) fn document(
        &self,
        columns: &[KeyColumn],
        key: &[u8],
        row: &FoundRow,
    ) -> Option<(TantivyDocument, usize)> {
        match self.of {
            Of::Rows => Some(self.row(columns, key, row)),
            Of::Texts => self.texts(key, row),
        }
    }

    fn row(&self, columns: &[KeyColumn], key: &[u8], row: &FoundRow) -> (TantivyDocument, usize) {
        let mut document = TantivyDocument::new();
        document.add_bytes(self.key, key);
        document.add_i64(self.version, newest(row));
        let oldest = row.cells.iter().map(|cell| cell.version).min();
        document.add_i64(self.oldest, oldest.unwrap_or(i64::MAX));
        let (mut bytes, mut texts) = (key.len() + 2 * ITEM_BYTES, 0);
        for (placed, items) in self.fields.iter().zip(self.items(columns, row)) {
            let Some(items) = items else { continue };
            let of_texts: usize = items.iter().map(Item::bytes).sum();
            if placed.field.kind == FieldType::Text {
                if texts + of_texts > TEXT_BYTES_MAX {
                    continue;
                }
                texts += of_texts;
            }
            bytes += ITEM_BYTES;
            document.add_text(self.has, &placed.number);
            let Some(at) = placed.at else { continue };
            bytes += of_texts + ITEM_BYTES * items.len();
            for item in items {
                match item {
                    Item::Integer(number) => document.add_i64(at, number),
                    Item::Double(number) => document.add_f64(at, number),
                    Item::Boolean(flag) => document.add_bool(at, flag),
                    Item::Kept(numbers) => document.add_bytes(at, &numbers),
                    Item::Point(StoredPoint(steps)) => document.add_u64(at, steps),
                    Item::Text(text) if placed.field.kind == FieldType::Text => {
                        let tokens = tokens(placed, text);
                        bytes += WORD_BYTES * tokens.tokens.len();
                        document.add_pre_tokenized_text(at, tokens);
                    }
                    Item::Text(text) => document.add_text(at, text),
                }
            }
        }
        (document, bytes)
    }

    /// The values of all fields of a row, each in its place; `None` = it has none.
    pub(crate) fn items(&self, columns: &[KeyColumn], row: &FoundRow) -> Vec<Option<Vec<Item>>> {
        let mut all = vec![None; self.fields.len()];
        for (at, placed) in self.fields.iter().enumerate() {
            match value(columns, row, placed.field.column()) {
                _ if placed.inside.is_some() => {}
                Some(value) if placed.is_nested() => self.nested(at, value, &mut all),
                _ => all[at] = placed.items(columns, row),
            }
        }
        all
    }
}

impl Item {
    fn bytes(&self) -> usize {
        match self {
            Item::Text(text) => text.len(),
            Item::Kept(numbers) => numbers.len(),
            _ => 0,
        }
    }
}

impl Placed {
    /// The values of a row's field; `None` = it has none.
    pub(crate) fn items(&self, columns: &[KeyColumn], row: &FoundRow) -> Option<Vec<Item>> {
        let value = value(columns, row, self.field.column())?;
        if !self.field.is_array {
            return Some(vec![self.item(value)?]);
        }
        let (ValueRef::String(text) | ValueRef::Json(text)) = value else {
            return None;
        };
        let list: serde_json::Value = serde_json::from_str(text).ok()?;
        // One element that does not fit leaves out the field: rather no value than half of them.
        self.items_of(&list)
    }

    pub(super) fn element(&self, element: &serde_json::Value) -> Option<Item> {
        match element {
            serde_json::Value::String(text) => self.item(ValueRef::String(text)),
            serde_json::Value::Bool(flag) => self.item(ValueRef::Boolean(*flag)),
            serde_json::Value::Number(number) => match (number.as_i64(), self.field.kind) {
                (_, FieldType::Double) => self.item(ValueRef::Double(number.as_f64()?)),
                (Some(number), _) => self.item(ValueRef::Integer(number)),
                (None, _) => None,
            },
            _ => None,
        }
    }

    /// A value as one of the field's type.
    fn item(&self, value: ValueRef<'_>) -> Option<Item> {
        let is_virtual = self.field.source.is_some();
        Some(match (self.field.kind, value) {
            (FieldType::Long, ValueRef::Integer(number)) => Item::Integer(number),
            (FieldType::Double, ValueRef::Double(number)) if !number.is_nan() => {
                Item::Double(number)
            }
            (FieldType::Boolean, ValueRef::Boolean(flag)) => Item::Boolean(flag),
            (FieldType::Vector, value) => Item::Kept(vector(value, self.field.vector?.dimension)?),
            (FieldType::Date, ValueRef::Integer(number)) => {
                Item::Integer(self.formats.of_integer(number)?)
            }
            (FieldType::Date, ValueRef::String(text)) => Item::Integer(self.formats.read(text)?),
            (FieldType::GeoPoint, ValueRef::String(text)) => {
                Item::Point(Point::parse(text).ok()?.into())
            }
            (kind, ValueRef::String(text) | ValueRef::Json(text)) if kind.is_keyword() => {
                (text.len() <= KEYWORD_BYTES_MAX).then(|| Item::Text(text.to_owned()))?
            }
            (FieldType::Text, ValueRef::String(text) | ValueRef::Json(text)) => {
                (text.len() <= TEXT_BYTES_MAX).then(|| Item::Text(text.to_owned()))?
            }
            // A field of its own may have another type than its column.
            (FieldType::Long, ValueRef::String(text)) if is_virtual => {
                Item::Integer(text.trim().parse().ok()?)
            }
            (FieldType::Double, ValueRef::String(text)) if is_virtual => {
                let number: f64 = text.trim().parse().ok()?;
                (!number.is_nan()).then_some(Item::Double(number))?
            }
            (kind, ValueRef::Integer(number)) if is_virtual && kind.is_text() => {
                Item::Text(number.to_string())
            }
            (kind, ValueRef::Double(number)) if is_virtual && kind.is_text() => {
                Item::Text(format!("{number:?}"))
            }
            _ => return None,
        })
    }
}

/// The numbers of a vector, as documents keep them; `None` = they are not so many, or not all are numbers.
fn vector(value: ValueRef<'_>, dimension: usize) -> Option<Vec<u8>> {
    let numbers: Vec<f32> = match value {
        ValueRef::String(text) if text.len() <= dimension * NUMBER_CHARS_MAX => {
            serde_json::from_str(text).ok()?
        }
        ValueRef::Binary(bytes) => {
            let (numbers, rest) = bytes.as_chunks::<4>();
            #[allow(clippy::little_endian_bytes)] // as SDKs write them
            let numbers = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes));
            rest.is_empty().then(|| numbers.collect())?
        }
        _ => return None,
    };
    let is_whole = numbers.len() == dimension && numbers.iter().all(|number| number.is_finite());
    is_whole.then(|| numbers.iter().copied().flat_map(f32::to_be_bytes).collect())
}

/// The newest version of a row, ms since 1970; of one without columns, which does not expire, the last one of all.
pub(crate) fn newest(row: &FoundRow) -> i64 {
    let versions = row.cells.iter().map(|cell| cell.version);
    versions.max().unwrap_or(i64::MAX)
}

/// The newest value of a column, of the key or not.
pub(crate) fn value<'r>(
    columns: &[KeyColumn],
    row: &'r FoundRow,
    name: &str,
) -> Option<ValueRef<'r>> {
    let mut key = columns.iter().zip(&row.key);
    if let Some((_, value)) = key.find(|(column, _)| column.name == name) {
        return value.as_value();
    }
    // Columns are in order, versions newest first.
    let at = row.cells.partition_point(|cell| *cell.name < *name);
    let cell = row.cells.get(at).filter(|cell| cell.name == name)?;
    Some((&cell.value).into())
}

fn tokens(placed: &Placed, text: String) -> PreTokenizedString {
    let words = words(&placed.analyzer, &text).into_iter();
    let tokens = words.map(|word| Token {
        offset_from: 0,
        offset_to: 0,
        position: word.place,
        text: word.text,
        position_length: 1,
    });
    let tokens = tokens.collect();
    // The text itself is kept nowhere.
    PreTokenizedString {
        text: String::new(),
        tokens,
    }
}

#[cfg(test)]
mod tests {
    use tideline_model::search::{Analyzer, Field, SearchSchema};
    use tideline_model::{FoundCell, Value};

    use super::*;
    use crate::tests::field;

    #[test]
    fn words_of_a_row_have_a_bound_over_all_fields() {
        let of_text = |name: &str| Field {
            source: (name != "text").then(|| "text".to_owned()),
            analyzer: Some(Analyzer::default()),
            ..field(name, FieldType::Text)
        };
        let fields = ["text", "again", "thrice"].map(of_text).to_vec();
        let schema = SearchSchema {
            fields,
            ..SearchSchema::default()
        };
        let layout = Layout::new(&schema.checked().unwrap());
        // How many fields a text of so many words is in, and about how many bytes that takes.
        for (words, has, least) in [
            (10, 3, 3_000),
            (400_000, 2, 80_000_000),
            (800_000, 1, 80_000_000),
            (1_200_000, 0, 0),
        ] {
            let cell = FoundCell {
                name: "text".to_owned(),
                version: 1,
                value: Value::String("a ".repeat(words)),
            };
            let row = FoundRow {
                key: Vec::new(),
                cells: vec![cell],
            };
            let (document, bytes) = layout.row(&[], b"key", &row);
            assert_eq!(document.get_all(layout.has).count(), has, "{words} words");
            assert!(
                (least..=2 * least + 1_000).contains(&bytes),
                "{words} words are {bytes} bytes"
            );
        }
    }
}
