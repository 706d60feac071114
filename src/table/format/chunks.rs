//! Wide rows in pieces: the directory in the row's place, and the pieces that hold its cells.
//!
//! Owns: the directory format. Promises: joining what was split gives the row's bytes again; a piece ends at the end of
//! a cell unless the cell alone is larger than a piece; the directory names for each piece the column of the first cell
//! that starts in it, so that one column can be found without the other pieces. Must not: decide which row
//! is wide.
//!
//! ```text
//! directory = 03, then flags and base as in a row, pieces
//! piece     = length, offset of the first cell that starts in it (its length if none does), that cell's name or empty
//! ```

use bytes::{Bytes, BytesMut};

use super::super::Malformed;
use super::cell::{Cells, Input, push_bytes, push_cut, push_number};
use super::row::{HEADER_BYTES, ROW, split_header};
use tideline_store::partition::Pieces;

/// First byte of a directory.
const DIRECTORY: u8 = 3;

/// See [`tideline_store::partition::Rules::split`].
pub(in super::super) fn split(value: &Bytes, piece_bytes_max: usize) -> Option<Pieces> {
    let piece_bytes_max = piece_bytes_max.max(1);
    if value.len() <= piece_bytes_max {
        return None;
    }
    let bounds = bounds(value, piece_bytes_max).ok()?;
    let mut directory = Vec::with_capacity(HEADER_BYTES + bounds.len() * 16);
    directory.push(DIRECTORY);
    directory.extend_from_slice(&value[1..HEADER_BYTES]);
    let mut pieces = Vec::with_capacity(bounds.len());
    for bound in bounds {
        push_number(&mut directory, (bound.end - bound.start) as u64);
        push_number(&mut directory, (bound.first - bound.start) as u64);
        push_bytes(&mut directory, bound.name.as_bytes());
        pieces.push(value.slice(bound.start..bound.end));
    }
    Some(Pieces {
        directory: directory.into(),
        pieces,
    })
}

/// One piece, as offsets in the row.
struct Bound<'a> {
    start: usize,
    end: usize,
    /// Where the first cell begins that starts in the piece; `end` if none does.
    first: usize,
    /// That cell's column.
    name: &'a str,
}

fn bounds(value: &[u8], piece_bytes_max: usize) -> Result<Vec<Bound<'_>>, Malformed> {
    let (_, base, cells) = split_header(value, ROW)?;
    let mut cells = Cells::new(cells, base);
    let mut bounds = Vec::new();
    let mut piece = Bound {
        start: HEADER_BYTES,
        end: HEADER_BYTES,
        first: HEADER_BYTES,
        name: "",
    };
    let mut is_first = true;
    while let Some(cell) = cells.next_cell()? {
        let begin = piece.end;
        let end = value.len() - cells.rest();
        if end - piece.start > piece_bytes_max && begin > piece.start {
            close(&mut bounds, &mut piece, begin);
            is_first = true;
        }
        if is_first {
            (piece.first, piece.name) = (begin, cell.name);
            is_first = false;
        }
        while end - piece.start > piece_bytes_max {
            let cut = piece.start + piece_bytes_max;
            close(&mut bounds, &mut piece, cut);
            is_first = true;
        }
        piece.end = end;
    }
    if piece.end > piece.start {
        let end = piece.end;
        close(&mut bounds, &mut piece, end);
    }
    Ok(bounds)
}

/// Ends a piece at `end` and begins the next one there.
fn close<'a>(bounds: &mut Vec<Bound<'a>>, piece: &mut Bound<'a>, end: usize) {
    let next = Bound {
        start: end,
        end,
        first: usize::MAX,
        name: "",
    };
    let mut done = std::mem::replace(piece, next);
    done.end = end;
    done.first = done.first.min(end);
    bounds.push(done);
}

/// See [`tideline_store::partition::Rules::join`].
pub(in super::super) fn join(directory: &Bytes, pieces: &[Bytes]) -> Result<Bytes, &'static str> {
    let (_, _, entries) = split_header(directory, DIRECTORY).map_err(|_| "not a directory")?;
    let total: usize = pieces.iter().map(Bytes::len).sum();
    let mut row = BytesMut::with_capacity(HEADER_BYTES + total);
    row.extend_from_slice(&[ROW]);
    row.extend_from_slice(&directory[1..HEADER_BYTES]);
    let mut input = Input(entries);
    for piece in pieces {
        let length = entry(&mut input).map_err(|_| "the directory ends early")?;
        if length != piece.len() as u64 {
            return Err("a piece has another length than the directory says");
        }
        row.extend_from_slice(piece);
    }
    if !input.0.is_empty() {
        return Err("pieces are missing");
    }
    Ok(row.freeze())
}

/// A piece as the directory describes it.
struct Slot<'a> {
    length: usize,
    /// Where the first cell begins that starts in it; its length if none does.
    first: usize,
    name: &'a str,
}

/// Neighbouring pieces that hold some columns whole: from the first cell that starts in `from` on up to where the first
/// cell starts in `to`, or to the end of the row.
struct Stretch {
    from: usize,
    to: usize,
}

fn slots(directory: &[u8]) -> Result<Vec<Slot<'_>>, Malformed> {
    let (_, _, entries) = split_header(directory, DIRECTORY)?;
    let mut input = Input(entries);
    let mut slots = Vec::new();
    while !input.0.is_empty() {
        let length = usize::try_from(input.number()?)?;
        let first = usize::try_from(input.number()?)?;
        let name = input.text()?;
        if first > length {
            return Err(Malformed);
        }
        slots.push(Slot {
            length,
            first,
            name,
        });
    }
    Ok(slots)
}

/// The stretches that hold the columns `wanted`, which are in order.
fn stretches(slots: &[Slot<'_>], wanted: &[&str]) -> Vec<Stretch> {
    let starts = |slot: &Slot<'_>| slot.first < slot.length;
    let mut all: Vec<Stretch> = Vec::new();
    for name in wanted {
        // A column may begin in the piece before the first one that names it.
        let from = slots
            .iter()
            .rposition(|slot| starts(slot) && slot.name < *name)
            .unwrap_or_default();
        let to = slots
            .iter()
            .position(|slot| starts(slot) && slot.name > *name)
            .unwrap_or(slots.len());
        match all.last_mut() {
            Some(last) if from <= last.to => last.to = last.to.max(to),
            _ if from < to => all.push(Stretch { from, to }),
            _ => {}
        }
    }
    all
}

/// The numbers of a stretch's pieces: the last one only if the last column ends in it.
fn numbers<'s>(slots: &'s [Slot<'_>], stretch: &Stretch) -> impl Iterator<Item = usize> + use<'s> {
    let ends_in = slots.get(stretch.to).is_some_and(|slot| slot.first > 0);
    stretch.from..stretch.to + usize::from(ends_in)
}

/// See [`tideline_store::partition::Rules::pick`].
pub(in super::super) fn pick(directory: &[u8], wanted: &[&str]) -> Option<(Vec<u32>, u64)> {
    let slots = slots(directory).ok()?;
    let stretches = stretches(&slots, wanted);
    let picked: Vec<u32> = stretches
        .iter()
        .flat_map(|stretch| numbers(&slots, stretch))
        .map(|piece| u32::try_from(piece).ok())
        .collect::<Option<_>>()?;
    let length = |piece: u32| Some(slots.get(piece as usize)?.length as u64);
    let taken = picked
        .iter()
        .copied()
        .filter_map(length)
        .fold(0, u64::saturating_add);
    let all = slots
        .iter()
        .map(|slot| slot.length as u64)
        .fold(0, u64::saturating_add);
    (picked.len() < slots.len()).then_some((picked, all - taken))
}

/// See [`tideline_store::partition::Rules::join_picked`].
pub(in super::super) fn join_picked(
    directory: &[u8],
    wanted: &[&str],
    picked: &[Bytes],
) -> Result<Bytes, &'static str> {
    let slots = slots(directory).map_err(|_| "not a directory")?;
    let mut row = vec![ROW];
    row.extend_from_slice(&directory[1..HEADER_BYTES]);
    let mut picked = picked.iter();
    for stretch in stretches(&slots, wanted) {
        let mut cells = Vec::new();
        for number in numbers(&slots, &stretch) {
            let (slot, piece) = (&slots[number], picked.next().ok_or("pieces are missing")?);
            if piece.len() != slot.length {
                return Err("a piece has another length than the directory says");
            }
            let from = if number == stretch.from {
                slot.first
            } else {
                0
            };
            let to = if number == stretch.to {
                slot.first
            } else {
                slot.length
            };
            cells.extend_from_slice(&piece[from..to]);
        }
        push_cut(&mut row, slots[stretch.from].name, &cells).map_err(|_| "no cell in a piece")?;
    }
    Ok(row.into())
}

/// The length of the next piece.
fn entry(input: &mut Input<'_>) -> Result<u64, Malformed> {
    let length = input.number()?;
    if input.number()? > length {
        return Err(Malformed);
    }
    input.text()?;
    Ok(length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::row::{Row, encode_cells};
    use super::*;
    use crate::RowWriter;
    use tideline_model::arbitrary;
    use tideline_model::{Cell, ValueRef};

    proptest! {
        #[test]
        fn joining_gives_the_row_again(columns in arbitrary::columns(), max in 1usize..60) {
            let mut writer = RowWriter::new(0);
            for (name, value) in &columns {
                writer.put(name, value.into());
            }
            let row = Bytes::from(writer.finish(1_700_000_000_000));
            match split(&row, max) {
                None => prop_assert!(row.len() <= max),
                Some(Pieces { directory, pieces }) => {
                    prop_assert!(pieces.iter().all(|piece| (1..=max).contains(&piece.len())));
                    prop_assert_eq!(join(&directory, &pieces), Ok(row));
                    if let Some((_, fewer)) = pieces.split_last() {
                        prop_assert!(join(&directory, fewer).is_err());
                    }
                }
            }
        }

        #[test]
        fn picked_pieces_are_right_about_what_is_wanted(
            cells in proptest::collection::btree_map(
                ("[a-e]", 0i64..9), arbitrary::value(), 0..30),
            max in 1usize..60,
            mut wanted in proptest::collection::btree_set("[a-f]", 0..3),
        ) {
            let cells: Vec<_> = cells
                .iter()
                .map(|((name, version), value)| Cell {
                    name,
                    version: -version, // newest first
                    value: value.into(),
                })
                .collect();
            let row = Bytes::from(encode_cells(&cells));
            let Some(Pieces { directory, pieces }) = split(&row, max) else {
                return Ok(());
            };
            wanted.retain(|name| name != "f" || max % 2 == 0);
            let wanted: Vec<_> = wanted.iter().map(String::as_str).collect();
            let Some((picked, left_bytes)) = pick(&directory, &wanted) else {
                return Ok(());
            };
            let picked: Vec<_> = picked.iter().map(|at| pieces[*at as usize].clone()).collect();
            let bytes = |pieces: &[Bytes]| pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
            prop_assert!(left_bytes > 0 && bytes(&picked) + left_bytes == bytes(&pieces));
            let some = join_picked(&directory, &wanted, &picked).unwrap();
            let found: Vec<_> = Row::parse(&some).unwrap().cells().map(Result::unwrap).collect();
            prop_assert!(found.iter().all(|cell| cells.contains(cell)));
            let is_wanted = |cell: &&Cell<'_>| wanted.contains(&cell.name);
            let found: Vec<_> = found.iter().filter(is_wanted).collect();
            let expected: Vec<_> = cells.iter().filter(is_wanted).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..40),
            max in 0usize..30,
        ) {
            for first in [ROW, DIRECTORY] {
                let mut bytes = bytes.clone();
                bytes.splice(0..bytes.len().min(2), [first, 1]);
                let bytes = Bytes::from(bytes);
                let _ = split(&bytes, max);
                let piece = [bytes.slice(..bytes.len().min(3))];
                let _ = join(&bytes, &piece);
                let _ = (pick(&bytes, &["a"]), join_picked(&bytes, &["a"], &piece));
            }
        }
    }

    #[test]
    fn pieces_end_with_cells_and_the_directory_names_what_starts() {
        let mut writer = RowWriter::new(0);
        writer.put("a", ValueRef::Binary(&[1; 10])); // 14 bytes
        writer.put("b", ValueRef::Binary(&[2; 30])); // 34 bytes
        writer.put("c", ValueRef::Boolean(true)); // 3 bytes
        let row = Bytes::from(writer.finish(0));
        let Pieces { directory, pieces } = split(&row, 20).expect("it is wider than a piece");
        let lengths: Vec<_> = pieces.iter().map(Bytes::len).collect();
        assert_eq!(lengths, [14, 20, 17]);
        let entries = [&[14, 0, 1, b'a'][..], &[20, 0, 1, b'b'], &[17, 14, 1, b'c']].concat();
        assert_eq!(directory[HEADER_BYTES..], entries);
    }
}
