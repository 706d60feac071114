//! Functions of JSON texts.
//!
//! Owns: paths such as `$.a[0]."b c"`, and what `->` and `->>` give. Promises: what is no JSON, or not there, gives
//! NULL. Must not: give wildcards a meaning.

use serde_json::Value;

use super::{Function, function, text};
use crate::answer::ColumnKind::String as Text;
use crate::answer::Datum;
use crate::refusal::Refusal;
use crate::work;

pub(super) const ALL: &[Function] = &[
    function("json_extract", 2..=2, Text, |values| {
        let found = extracted(values)?;
        found.map_or(Ok(Datum::Null), |value| super::made(value.to_string()))
    }),
    function("json_text", 2..=2, Text, |values| {
        match extracted(values)? {
            None | Some(Value::Null) => Ok(Datum::Null),
            Some(Value::String(text)) => super::made(text),
            Some(value) => super::made(value.to_string()),
        }
    }),
    function("json_unquote", 1..=1, Text, |values| {
        let whole = text(values, 0);
        super::made(serde_json::from_str::<String>(&whole).unwrap_or(whole))
    }),
];

/// A step of a path.
enum Step {
    Member(String),
    Element(usize),
}

fn extracted(values: &[Datum]) -> Result<Option<Value>, Refusal> {
    let path = text(values, 1);
    let Some(steps) = steps(&path) else {
        return Refusal::invalid(format!("Invalid JSON path expression {path}"));
    };
    // A list of numbers takes so many times what its text does.
    let held = values[0].size().saturating_mul(16);
    work::made(held)?;
    let Ok(mut value) = serde_json::from_str::<Value>(&text(values, 0)) else {
        return Ok(None);
    };
    for step in steps {
        let inner = match (&step, &mut value) {
            (Step::Member(name), Value::Object(members)) => members.get_mut(name),
            (Step::Element(at), Value::Array(elements)) => elements.get_mut(*at),
            // A value is a list of itself.
            (Step::Element(0), whole) => Some(whole),
            _ => None,
        };
        let Some(inner) = inner else { return Ok(None) };
        value = inner.take();
    }
    Ok(Some(value))
}

fn steps(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.trim().strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (number, behind) = inner.split_once(']')?;
            steps.push(Step::Element(number.trim().parse().ok()?));
            rest = behind;
        } else if let Some(inner) = rest.strip_prefix(".\"") {
            let (name, behind) = inner.split_once('"')?;
            steps.push(Step::Member(name.to_owned()));
            rest = behind;
        } else {
            let inner = rest.strip_prefix('.')?;
            let end = inner.find(['.', '[']).unwrap_or(inner.len());
            let name = &inner[..end];
            if name.is_empty() || name.contains('*') {
                return None;
            }
            steps.push(Step::Member(name.to_owned()));
            rest = &inner[end..];
        }
    }
    Some(steps)
}
