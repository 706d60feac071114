//! Functions of texts.
//!
//! Owns: each of them. Must not: count in bytes where MySQL counts in characters.

use super::{Function, MANY, function, integer, made, text};
use crate::answer::ColumnKind::{Long, String as Text};
use crate::answer::Datum;
use crate::refusal::Refusal;

pub(super) const ALL: &[Function] = &[
    function("concat", 1..=MANY, Text, |values| together(values, "")),
    Function {
        takes_null: true,
        ..function("concat_ws", 2..=MANY, Text, joined)
    },
    function("substring", 2..=3, Text, substring),
    function("length", 1..=1, Long, |values| {
        let bytes = match &values[0] {
            Datum::Binary(bytes) => bytes.len(),
            other => other.text().unwrap_or_default().len(),
        };
        Ok(Datum::Long(bytes.cast_signed() as i64))
    }),
    function("character_length", 1..=1, Long, |values| {
        Ok(Datum::Long(
            text(values, 0).chars().count().cast_signed() as i64
        ))
    }),
    function("lower", 1..=1, Text, |values| {
        made(text(values, 0).to_lowercase())
    }),
    function("upper", 1..=1, Text, |values| {
        made(text(values, 0).to_uppercase())
    }),
    function("trim", 1..=2, Text, |values| trimmed(values, true, true)),
    function("ltrim", 1..=2, Text, |values| trimmed(values, true, false)),
    function("rtrim", 1..=2, Text, |values| trimmed(values, false, true)),
    function("left", 2..=2, Text, |values| {
        let count = count_of(values, 1);
        made(text(values, 0).chars().take(count).collect())
    }),
    function("right", 2..=2, Text, |values| {
        let text = text(values, 0);
        let skipped = text.chars().count().saturating_sub(count_of(values, 1));
        made(text.chars().skip(skipped).collect())
    }),
    function("reverse", 1..=1, Text, |values| {
        made(text(values, 0).chars().rev().collect())
    }),
    function("replace", 3..=3, Text, replaced),
    function("instr", 2..=2, Long, |values| {
        Ok(found(&text(values, 0), &text(values, 1), 1))
    }),
    function("locate", 2..=3, Long, |values| {
        let from = integer(values, 2).unwrap_or(1);
        Ok(found(&text(values, 1), &text(values, 0), from))
    }),
    function("hex", 1..=1, Text, |values| {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect();
        made(match &values[0] {
            Datum::Long(number) => format!("{number:X}"),
            Datum::Binary(bytes) => hex(bytes),
            other => hex(other.text().unwrap_or_default().as_bytes()),
        })
    }),
];

fn count_of(values: &[Datum], at: usize) -> usize {
    usize::try_from(integer(values, at).unwrap_or(0)).unwrap_or(0)
}

fn joined(values: &[Datum]) -> Result<Datum, Refusal> {
    if values[0].is_null() {
        return Ok(Datum::Null);
    }
    together(&values[1..], &text(values, 0))
}

/// Texts one behind the other; too long a one ends at the value that makes it so.
fn together(values: &[Datum], between: &str) -> Result<Datum, Refusal> {
    let mut whole = String::new();
    for (at, text) in values.iter().filter_map(Datum::text).enumerate() {
        if at > 0 {
            whole.push_str(between);
        }
        whole.push_str(&text);
        if whole.len() > super::TEXT_BYTES_MAX {
            break;
        }
    }
    made(whole)
}

/// From 1; from the end below 0.
fn substring(values: &[Datum]) -> Result<Datum, Refusal> {
    let text = text(values, 0);
    let from = integer(values, 1).unwrap_or(0);
    let length = match values.get(2) {
        None => usize::MAX,
        Some(_) => count_of(values, 2),
    };
    let skipped = match from {
        0 => return made(String::new()),
        1.. => usize::try_from(from - 1).unwrap_or(usize::MAX),
        _ => {
            let back = usize::try_from(from.unsigned_abs()).unwrap_or(usize::MAX);
            match text.chars().count().checked_sub(back) {
                Some(skipped) => skipped,
                None => return made(String::new()),
            }
        }
    };
    made(text.chars().skip(skipped).take(length).collect())
}

fn trimmed(values: &[Datum], before: bool, behind: bool) -> Result<Datum, Refusal> {
    let whole = text(values, 0);
    let what = match values.get(1) {
        None => " ".to_owned(),
        Some(_) => text(values, 1),
    };
    if what.is_empty() {
        return made(whole);
    }
    let mut rest = whole.as_str();
    if before {
        rest = rest.trim_start_matches(&what);
    }
    if behind {
        rest = rest.trim_end_matches(&what);
    }
    made(rest.to_owned())
}

fn replaced(values: &[Datum]) -> Result<Datum, Refusal> {
    let (whole, from, to) = (text(values, 0), text(values, 1), text(values, 2));
    if from.is_empty() {
        return made(whole);
    }
    // What it will take is known before it is made.
    let count = whole.matches(&from).count();
    let more = count.saturating_mul(to.len());
    match more > super::TEXT_BYTES_MAX {
        true => made("x".repeat(super::TEXT_BYTES_MAX + 1)),
        false => made(whole.replace(&from, &to)),
    }
}

/// At which character a text is found, from 1; 0 = nowhere.
fn found(whole: &str, what: &str, from: i64) -> Datum {
    let Some(skipped) = usize::try_from(from)
        .ok()
        .and_then(|from| from.checked_sub(1))
    else {
        return Datum::Long(0);
    };
    let length = whole.chars().count();
    let Some((begin, _)) = whole
        .char_indices()
        .chain([(whole.len(), ' ')])
        .nth(skipped)
        .filter(|_| skipped <= length)
    else {
        return Datum::Long(0);
    };
    let at = whole[begin..].find(what);
    let at = at.map_or(0, |at| whole[..begin + at].chars().count() + 1);
    Datum::Long(at.cast_signed() as i64)
}
