//! From a message, or from a timeline's meta, to the engine's document of it.
//!
//! Owns: what of a message is found by which words and values. Promises: what is deleted or has expired, and what the
//! server keeps for itself, is found by nothing; an open message is found by what it has so far; a value that can't be
//! asked for exactly is left out. Must not: decide who may find it.
//!
//! ```text
//! words     of every text, also inside of nested values; a phrase does not reach from one text into the next
//! where     "<bytes of the name, 2 hex>" name kind value: texts `s`, numbers `n` as they compare, truths `b`
//! version   the message's time, or that of the meta's last update
//! ```

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value as Json;
use tantivy::TantivyDocument;
use tantivy::f64_to_u64;
use tantivy::schema::Field;
use tantivy::tokenizer::{PreTokenizedString, Token};

use tideline_model::search::{Analyzer, WHERE_BYTES_MAX, fields};
use tideline_model::{FoundRow, KeyValue, Value};

use super::document::{ITEM_BYTES, WORD_BYTES, newest};
use super::layout::Layout;
use crate::analyze::words;

/// Of each text of a message so many bytes are taken apart.
pub(crate) const TEXT_BYTES_MAX: usize = 32 << 10;
/// Places between two texts: no phrase is so long.
const GAP: usize = 4_096;
/// What names of ours begin with.
pub(crate) const OURS: &str = "__";

impl Layout {
    /// The document of a message or a meta, and about how many bytes it takes in memory.
    pub(super) fn texts(&self, key: &[u8], row: &FoundRow) -> Option<(TantivyDocument, usize)> {
        let Some(KeyValue::String(timeline)) = row.key.first() else {
            return None;
        };
        let ours = |name: &str| Some(&row.cells.iter().find(|cell| cell.name == name)?.value);
        let is = |name: &str| matches!(ours(name), Some(Value::Boolean(true)));
        if timeline.starts_with('$') || is("__deleted") || is("__expired") {
            return None;
        }
        let mut document = TantivyDocument::new();
        document.add_bytes(self.key, key);
        document.add_i64(self.version, newest(row));
        document.add_i64(self.oldest, i64::MAX);
        document.add_text(self.at(fields::TIMELINE)?, timeline);
        if let Some(KeyValue::Integer(sequence)) = row.key.get(1) {
            document.add_i64(self.at(fields::SEQUENCE)?, *sequence);
        }
        if let Some(Value::String(sender)) = ours("__sender") {
            document.add_text(self.at(fields::SENDER)?, sender);
        }
        if let Some(Value::Integer(at)) = ours("__expires_at") {
            document.add_i64(self.at(fields::EXPIRES)?, *at);
        }
        let asked: BTreeSet<&str> = self.names().collect();
        let is_meta = row.key.len() == 1;
        let (mut texts, mut values) = (Texts::default(), 0);
        let cells = row.cells.iter().filter(|cell| !cell.name.starts_with(OURS));
        for cell in cells {
            each_text(&cell.value, &mut |text| texts.add(text));
            let is_asked = is_meta || asked.contains(&*cell.name);
            if is_asked && let Some(term) = term_of(&cell.name, &cell.value) {
                values += term.len() + ITEM_BYTES;
                document.add_text(self.at(fields::WHERE)?, term);
            }
        }
        let bytes = key.len() + timeline.len() + 6 * ITEM_BYTES + values;
        let bytes = bytes + texts.bytes + WORD_BYTES * texts.tokens.len();
        let words = PreTokenizedString {
            text: String::new(),
            tokens: texts.tokens,
        };
        document.add_pre_tokenized_text(self.at(fields::WORDS)?, words);
        Some((document, bytes))
    }

    /// The names of messages that can be asked for; of metas all can.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let of = self.field(fields::WHERE).into_iter();
        let names = of.flat_map(|placed| &placed.field.fields);
        names.map(|field| field.name.as_str())
    }

    fn at(&self, name: &str) -> Option<Field> {
        self.field(name).ok()?.at
    }
}

/// The words of a document while they are gathered.
#[derive(Default)]
struct Texts {
    tokens: Vec<Token>,
    bytes: usize,
    next: usize,
}

impl Texts {
    fn add(&mut self, text: &str) {
        let end = text.floor_char_boundary(text.len().min(TEXT_BYTES_MAX));
        self.bytes += end;
        let mut last = 0;
        for word in words(&Analyzer::default(), &text[..end]) {
            last = word.place;
            self.tokens.push(Token {
                offset_from: 0,
                offset_to: 0,
                position: self.next + word.place,
                text: word.text,
                position_length: 1,
            });
        }
        self.next += last + GAP;
    }
}

/// Gives each text of a value, also inside of a nested one.
pub(crate) fn each_text(value: &Value, each: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => each(text),
        Value::Json(text) => {
            if let Ok(json) = serde_json::from_str(text) {
                each_inside(&json, each);
            }
        }
        _ => {}
    }
}

// No deeper than the JSON of a request may be.
fn each_inside(json: &Json, each: &mut dyn FnMut(&str)) {
    match json {
        Json::String(text) => each(text),
        Json::Array(list) => list.iter().for_each(|one| each_inside(one, each)),
        Json::Object(names) => names.values().for_each(|one| each_inside(one, each)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// What all terms of a name and kind begin with; in their order what follows compares as values do.
pub(crate) fn begin_of(name: &str, value: &Value) -> Option<String> {
    let kind = match value {
        Value::String(_) => 's',
        Value::Integer(_) | Value::Double(_) => 'n',
        Value::Boolean(_) => 'b',
        Value::Binary(_) | Value::Json(_) => return None,
    };
    Some(format!("{:02x}{name}{kind}", name.len()))
}

/// The term of a value; `None` = it can't be asked for: it is longer than a condition, or no scalar.
pub(crate) fn term_of(name: &str, value: &Value) -> Option<String> {
    let mut term = begin_of(name, value)?;
    match value {
        Value::String(text) if text.len() <= WHERE_BYTES_MAX => term.push_str(text),
        Value::Integer(number) => write_number(&mut term, *number),
        Value::Double(number) if !number.is_nan() => write_double(&mut term, *number),
        Value::Boolean(flag) => term.push(if *flag { '1' } else { '0' }),
        _ => return None,
    }
    Some(term)
}

/// An integer as the double next to it and the difference: integers and doubles compare exactly.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn write_number(into: &mut String, number: i64) {
    let double = number as f64;
    let rest = i128::from(number) - double as i128;
    write_parts(into, double, rest as i64);
}

fn write_double(into: &mut String, number: f64) {
    // -0 is 0.
    write_parts(into, number + 0.0, 0);
}

fn write_parts(into: &mut String, double: f64, rest: i64) {
    let rest = tantivy::i64_to_u64(rest);
    let _ = write!(into, "{:016x}{rest:016x}", f64_to_u64(double));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_compare_as_their_values_do() {
        let numbers = [
            Value::Double(f64::NEG_INFINITY),
            Value::Integer(i64::MIN),
            Value::Integer(i64::MIN + 1),
            Value::Double(-1.5),
            Value::Integer(-1),
            Value::Integer(0),
            Value::Double(0.5),
            Value::Integer((1 << 53) - 1),
            Value::Integer(1 << 53),
            Value::Integer((1 << 53) + 1),
            Value::Integer(i64::MAX - 1),
            Value::Integer(i64::MAX),
            Value::Double(1e19),
        ];
        let terms = numbers.map(|number| term_of("n", &number).unwrap());
        assert!(terms.is_sorted_by(|one, other| one < other), "{terms:?}");
        let of = |value| term_of("n", &value).unwrap();
        assert_eq!(of(Value::Integer(3)), of(Value::Double(3.0)));
        assert_eq!(of(Value::Integer(0)), of(Value::Double(-0.0)));
        assert_ne!(of(Value::Integer(1)), of(Value::String("1".to_owned())));
        assert_ne!(
            term_of("ab", &Value::String("c".to_owned())),
            term_of("a", &Value::String("bc".to_owned()))
        );
    }

    #[test]
    fn a_value_that_is_cut_is_not_asked_for() {
        let text = |bytes| Value::String("x".repeat(bytes));
        assert!(term_of("n", &text(WHERE_BYTES_MAX)).is_some());
        assert_eq!(term_of("n", &text(WHERE_BYTES_MAX + 1)), None);
        assert_eq!(term_of("n", &Value::Json("[1]".to_owned())), None);
        assert_eq!(term_of("n", &Value::Double(f64::NAN)), None);
    }
}
