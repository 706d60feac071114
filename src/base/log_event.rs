//! What an event of the log says, or a span around it: its message and its fields.
//!
//! Owns: from `tracing`'s fields to JSON. Promises: what it holds is bounded; a text that is too long is cut and says
//! so. Must not: know who reads it, or log.

use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};

use crate::request::Request;

/// Of a line's message, and of each of its fields.
const TEXT_BYTES_MAX: usize = 2_000;
/// Of a line's fields together; each is named all the same.
const FIELDS_BYTES_MAX: usize = 8_000;

/// What an event says, or a span around it.
#[derive(Default)]
pub(crate) struct Said {
    pub(crate) message: String,
    pub(crate) fields: Map<String, Value>,
    pub(crate) bytes: usize,
}

impl Said {
    /// Takes in the fields of what is around it, if it has none of their names.
    pub(crate) fn add(&mut self, around: &Said) {
        for (name, value) in &around.fields {
            if !self.fields.contains_key(name) {
                self.fields.insert(name.clone(), value.clone());
            }
        }
        self.bytes += around.bytes;
    }

    /// Takes in which request it is of.
    pub(crate) fn add_request(&mut self, request: &Request) {
        self.put("request", (*request.id).into());
        if let Some(trace) = &request.trace {
            self.put("trace", trace.trace_id().to_string().into());
        }
    }

    fn put(&mut self, name: &str, value: Value) {
        self.bytes += name.len() + value.as_str().map_or(8, str::len);
        self.fields.insert(name.to_owned(), value);
    }
}

impl Visit for Said {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), exact(value.unsigned_abs(), value.into()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), exact(value, value.into()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = cut(text, TEXT_BYTES_MAX),
            _ => {
                let left = FIELDS_BYTES_MAX.saturating_sub(self.bytes);
                self.put(field.name(), cut(text, left.min(TEXT_BYTES_MAX)).into());
            }
        }
    }
}

/// Numbers that a double does not hold are texts.
fn exact(size: u64, number: Value) -> Value {
    match size < 1 << 53 {
        true => number,
        false => number.to_string().into(),
    }
}

fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
        text.push_str(" … (cut)");
    }
    text
}
