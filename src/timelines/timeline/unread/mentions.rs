//! The users that a message mentions, and the rows that list mentions by user.
//!
//! Owns: the rule which names of an entry count, and these rows. Promises: the rows are those of the messages in their
//! newest form: an edit moves them, a tombstone has none; nobody has a row of a message of their own. Must not: count.
//!
//! ```text
//! mention  $from (only in rows of everybody, and only if there is a sender)
//! ```

use tideline_base::ordered::Malformed;
use tideline_model::{Value, ValueRef};
use tideline_table::{ReadError, Row, RowWriter, Source, Txn, damaged, delete, put, scan};

use super::super::Columns;
use super::super::rows::head::HeadRow;
use super::super::rows::tables::Name;
use super::super::write::version;
use super::gone::Of;
use super::keys::number_behind;
use tideline_model::Direction;

/// The column whose array names users.
const MENTIONS: &str = "mentions";
/// The name that means everybody.
pub(super) const EVERYBODY: &str = "*";
/// Further names of a message are not looked at.
const NAMES_MAX: usize = 100;
/// Bytes of a user's name.
const USER_BYTES_MAX: usize = 128;
const SENDER: &str = "$from";

/// The users that an entry mentions, each once; only `*` if that is among them.
pub(in super::super) fn named(entry: &Columns) -> Vec<String> {
    let column = entry.iter().find(|(name, _)| name == MENTIONS);
    match column {
        Some((_, Value::Json(text))) => named_in(text),
        _ => Vec::new(),
    }
}

/// The same of the column's JSON text.
pub(in super::super) fn named_in(json: &str) -> Vec<String> {
    let Ok(serde_json::Value::Array(values)) = serde_json::from_str(json) else {
        return Vec::new();
    };
    let text = |value| match value {
        serde_json::Value::String(name) => Some(name),
        _ => None,
    };
    let mut names: Vec<String> = values
        .into_iter()
        .filter_map(text)
        .take(NAMES_MAX)
        .collect();
    if names.iter().any(|name| name == EVERYBODY) {
        return vec![EVERYBODY.to_owned()];
    }
    names.retain(|name| (1..=USER_BYTES_MAX).contains(&name.len()));
    names.sort_unstable();
    names.dedup();
    names
}

/// Whether a message that names these is a mention of `user`.
pub(super) fn is_of(names: &[String], user: &str) -> bool {
    names.iter().any(|name| name == user || name == EVERYBODY)
}

/// Whether a sender mentions nobody but themselves by a name; a user may be called `*` too.
pub(super) fn is_own(name: &str, sender: &str) -> bool {
    name == sender && name != EVERYBODY
}

/// Brings the rows of a message from what it named before to what it names now.
pub(super) fn write(
    txn: &mut Txn<'_>,
    (name, head): (&Name, &HeadRow),
    (sequence, sender): (u64, &str),
    before: &[String],
    now: &[String],
) {
    let key = |user| name.mention_rows(head.incarnation, user).number(sequence);
    for user in before {
        if !is_own(user, sender) && !now.contains(user) {
            delete(txn, key(user));
        }
    }
    for user in now {
        if !is_own(user, sender) && !before.contains(user) {
            let mut row = RowWriter::new(sender.len() + 8);
            if user == EVERYBODY && !sender.is_empty() {
                row.put(SENDER, ValueRef::String(sender));
            }
            let time = version(txn.now_ms());
            put(txn, key(user), row, time);
        }
    }
}

/// The messages above a sequence that mention `user` and are of others, tombstones not among them; first those that
/// name the user. Lazy.
pub(super) fn above<'r, S: Source>(
    rows: &'r S,
    (name, head): Of<'_>,
    user: &'r str,
    low: u64,
) -> impl Iterator<Item = Result<u64, ReadError>> + use<'r, S> {
    let everybody = (user != EVERYBODY).then_some(EVERYBODY);
    let sets = [Some(user), everybody].into_iter().flatten();
    let prefixes: Vec<_> = sets
        .map(|set| name.mention_rows(head.incarnation, set))
        .collect();
    prefixes.into_iter().flat_map(move |prefix| {
        let (from, to) = (prefix.clone().number(low + 1), prefix.clone().above_all());
        let of_others = move |row: Result<(bytes::Bytes, bytes::Bytes), ReadError>| {
            let (key, value) = match row {
                Ok(row) => row,
                Err(error) => return Some(Err(error)),
            };
            match is_from(&value, user) {
                Ok(true) => None,
                Ok(false) => {
                    let sequence = number_behind(&prefix, &key);
                    Some(sequence.map_err(|Malformed| damaged(&key, "not a mention")))
                }
                Err(_) => Some(Err(damaged(&key, "not a mention"))),
            }
        };
        scan(rows, &from, &to, Direction::Forward).filter_map(of_others)
    })
}

fn is_from(value: &[u8], user: &str) -> Result<bool, tideline_table::Malformed> {
    let sender = Row::parse(value)?.column(SENDER)?;
    Ok(sender.is_some_and(|cell| cell.value == ValueRef::String(user)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_hundred_names_count_each_once_and_everybody_alone() {
        assert_eq!(
            named_in(r#"["b", 1, null, ["c"], "a", "b", ""]"#),
            ["a", "b"]
        );
        assert_eq!(named_in(r#"["b", "*", "a"]"#), ["*"]);
        for no_array in ["{\"a\": 1}", "\"a\"", "[", ""] {
            assert!(named_in(no_array).is_empty(), "{no_array}");
        }
        let many: Vec<String> = (0..150).map(|n| format!("\"u{n:03}\"")).collect();
        let names = named_in(&format!("[{}]", many.join(",")));
        assert_eq!((names.len(), names[99].as_str()), (100, "u099"));
        let long = "x".repeat(129);
        assert_eq!(named_in(&format!("[\"{long}\", \"y\"]")), ["y"]);
        let entry = |value| vec![("mentions".to_owned(), value)];
        assert_eq!(named(&entry(Value::Json("[\"y\"]".into()))), ["y"]);
        assert!(named(&entry(Value::String("[\"y\"]".into()))).is_empty());
    }
}
