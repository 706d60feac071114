//! Parts as rows, and how they become a message's text.
//!
//! Owns: the columns of a part's row, and what the writer remembers of a message that grows. Promises: a hole between
//! parts is damage, never a shorter text; arbitrary bytes never panic. Must not: write.
//!
//! ```text
//! part   $e (bytes of the texts of all parts up to it, as JSON), $t (its text)           version = when it came
//! ```

use tideline_model::{Direction, Value, ValueRef, json_bytes, json_text_bytes};
use tideline_table::{
    Malformed, ReadError, Row, RowWriter, Source, damaged, load, number, scan, version_of,
};

use super::super::Message;
use super::super::rows::head::HeadRow;
use super::super::rows::stored::{self, GROWS};
use super::super::rows::tables::Name;

const END: &str = "$e";
const TEXT: &str = "$t";

/// The row of a part; its cells' version is when it came.
pub(super) fn encode(end: u64, text: &str) -> RowWriter {
    let mut row = RowWriter::new(12 + text.len());
    row.put(END, end.into());
    row.put(TEXT, ValueRef::String(text));
    row
}

/// A part, read.
pub(super) struct Part<'a> {
    pub(super) end: u64,
    pub(super) text: &'a str,
}

impl Part<'_> {
    pub(super) fn decode(value: &[u8]) -> Result<Part<'_>, Malformed> {
        let row = Row::parse(value)?;
        let end = number(row.column(END)?.ok_or(Malformed)?.value)?;
        match row.column(TEXT)?.ok_or(Malformed)?.value {
            ValueRef::String(text) => Ok(Part { end, text }),
            _ => Err(Malformed),
        }
    }
}

/// A part and its number, out of a row.
fn read<'v>(name: &Name, key: &[u8], value: &'v [u8]) -> Result<(u64, Part<'v>), ReadError> {
    let read = || {
        let mut columns = name.behind_incarnation(key)?;
        columns.skip()?;
        Ok((columns.u64()?, Part::decode(value)?))
    };
    read().map_err(|_: Malformed| damaged(key, "not a part"))
}

/// Bytes of a text within a longer one, as JSON.
pub(super) fn inner_bytes(text: &str) -> u64 {
    json_text_bytes(text) as u64 - 2
}

/// The text of one part, if it is there.
pub(super) fn text_of(
    rows: &impl Source,
    name: &Name,
    head: &HeadRow,
    (sequence, part): (u64, u64),
) -> Result<Option<String>, ReadError> {
    let key = name.parts_of(head.incarnation, sequence).number(part);
    let text = |value: &[u8]| Ok(Part::decode(value)?.text.to_owned());
    load(rows, &key, "not a part", text)
}

/// The last part of a message: its number, how long the text has become, and when it came.
pub(super) fn last_part(
    rows: &impl Source,
    name: &Name,
    head: &HeadRow,
    sequence: u64,
) -> Result<Option<(u64, u64, u64)>, ReadError> {
    let all = name.parts_of(head.incarnation, sequence);
    let to = all.clone().above_all();
    let last = scan(rows, &all.below_all(), &to, Direction::Backward).next();
    let Some((key, value)) = last.transpose()? else {
        return Ok(None);
    };
    let (number, part) = read(name, &key, &value)?;
    let at_ms = version_of(&value).map_err(|_| damaged(&key, "not a part"))?;
    Ok(Some((number, part.end, at_ms)))
}

/// How many parts a message has; none of one that was never open, is below the floor or a tombstone.
pub(in super::super) fn parts_of(
    rows: &impl Source,
    name: &Name,
    head: &HeadRow,
    sequence: u64,
) -> Result<Option<u64>, ReadError> {
    if !head.holds(sequence) {
        return Ok(None);
    }
    let mut message = stored::load(rows, name, head, sequence, None)?;
    look_up(rows, name, head, &mut message, Some(&[]))?;
    Ok(message.parts)
}

/// Calls `take` with the texts of the parts above a number, in order, while it takes them. Gives the last number taken.
pub(super) fn each_part(
    rows: &impl Source,
    name: &Name,
    head: &HeadRow,
    (sequence, above): (u64, u64),
    mut take: impl FnMut(&str) -> bool,
) -> Result<u64, ReadError> {
    let all = name.parts_of(head.incarnation, sequence);
    let (from, to) = (all.clone().number(above + 1), all.above_all());
    let mut last = above;
    for row in scan(rows, &from, &to, Direction::Forward) {
        let (key, value) = row?;
        let (number, part) = read(name, &key, &value)?;
        if number != last + 1 {
            return Err(damaged(&key, "a part before it is missing"));
        }
        if !take(part.text) {
            break;
        }
        last = number;
    }
    Ok(last)
}

/// Adds to an open message the parts that its row does not have. `columns`: those of its entry that are wanted, sorted.
pub(in super::super) fn look_up(
    rows: &impl Source,
    name: &Name,
    head: &HeadRow,
    message: &mut Message,
    columns: Option<&[String]>,
) -> Result<(), ReadError> {
    let (Some(open), Some(entry)) = (&message.open, &mut message.entry) else {
        return Ok(());
    };
    let sequence = message.sequence;
    let is_wanted = columns.is_none_or(|columns| columns.binary_search(&open.column).is_ok());
    if !is_wanted {
        if let Some((last, ..)) = last_part(rows, name, head, sequence)? {
            message.parts = Some(last);
        }
        return Ok(());
    }
    let mut grown = String::new();
    let folded = message.parts.unwrap_or(0);
    let last = each_part(rows, name, head, (sequence, folded), |text| {
        grown.push_str(text);
        true
    })?;
    message.parts = Some(last);
    if last > folded {
        match entry.binary_search_by(|(name, _)| name.cmp(&open.column)) {
            Ok(at) => match &mut entry[at].1 {
                Value::String(text) => text.push_str(&grown),
                _ => {
                    let key = name.message_key(head.incarnation, sequence);
                    return Err(damaged(key.as_bytes(), "it grows in what is no text"));
                }
            },
            Err(at) => entry.insert(at, (open.column.clone(), Value::String(grown))),
        }
    }
    Ok(())
}

/// What the writer remembers of an open message.
#[derive(Clone)]
pub(in super::super) struct Growing {
    pub(super) parts: u64,
    /// As in the row of the last part.
    pub(super) end: u64,
    /// Of the entry with all parts, as JSON.
    pub(super) bytes: u64,
    pub(super) sender: Box<str>,
    pub(super) expires_at: Option<u64>,
}

impl Growing {
    /// Of a message as its row has it, which is open.
    pub(super) fn load(
        rows: &impl Source,
        name: &Name,
        head: &HeadRow,
        message: &Message,
    ) -> Result<Growing, ReadError> {
        let (sequence, folded) = (message.sequence, message.parts.unwrap_or(0));
        let entry = message.entry.as_deref().unwrap_or_default();
        let column = message.open.as_deref().map_or("", |open| &open.column);
        let has_column = entry.iter().any(|(name, _)| name == column);
        // `"column":""`, and a comma.
        let added = json_text_bytes(column) as u64 + 3 + u64::from(!entry.is_empty());
        let added = if has_column { 0 } else { added };
        let last = last_part(rows, name, head, sequence)?;
        let (parts, end, _) = last.unwrap_or_default();
        let key = name.parts_of(head.incarnation, sequence).number(folded);
        let before = match folded {
            0 => 0,
            _ => load(rows, &key, "not a part", |value| {
                Ok(Part::decode(value)?.end)
            })?
            .ok_or_else(|| damaged(key.as_bytes(), "a part is missing"))?,
        };
        Ok(Growing {
            parts,
            end,
            bytes: json_bytes(entry) as u64 + added + end.saturating_sub(before),
            sender: message.sender.as_str().into(),
            expires_at: message.expires_at,
        })
    }
}

/// Whether a message's row says that it is not open.
pub(in super::super) fn is_closed(message: &[u8]) -> Result<bool, Malformed> {
    Ok(Row::parse(message)?.column(GROWS)?.is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_come_back(end: u64, text in "\\PC{0,9}", bytes: Vec<u8>) {
            let row = encode(end, &text).finish(7);
            let part = Part::decode(&row).unwrap();
            prop_assert_eq!((part.end, part.text), (end, text.as_str()));
            let _ = (Part::decode(&bytes).is_ok(), is_closed(&bytes).is_ok());
        }
    }

    #[test]
    fn the_row_of_a_token_is_small() {
        assert_eq!(encode(4_000, "tok ").finish(1).len(), 25);
    }
}
