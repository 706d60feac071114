//! The rows of one partition, until they are as of one position.
//!
//! Owns: the order of an export's steps within a partition, and what came of them. Promises: rows come out in the order
//! of keys, exactly those of the position that it names. Must not: know how rows are written.
//!
//! Pages go into a file as they come. What has changed in the part that was read comes after each page, so the server
//! has to look back at little of its log, and is kept beside the file until both are merged.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use super::{Asking, ExportError, wrong};
use crate::model::KeyValue;
use crate::wire::tablestore::plainbuffer::{Cell, Row, Variant, decode_rows, encode_row};

type Key = Vec<KeyValue>;

/// The rows of a partition as they came, and what has changed among them since.
pub(super) struct Spool {
    /// Each row behind its length.
    rows: BufWriter<File>,
    changes: Changes,
    pub(super) position: u64,
}

/// What came later than the rows of the file.
#[derive(Default)]
struct Changes {
    /// `None` = gone.
    rows: BTreeMap<Key, Option<Row>>,
    /// By the first value of keys: the rows of the file that are lower than this are gone.
    gone_below: BTreeMap<KeyValue, Key>,
}

impl Spool {
    /// Reads the partition that is asked for.
    pub(super) fn read(asking: &mut Asking) -> Result<Spool, ExportError> {
        let mut spool = Spool::new()?;
        let mut start = None;
        let mut is_first = true;
        loop {
            let page = asking.ask(start, None)?;
            if std::mem::take(&mut is_first) {
                spool.position = page.position;
            }
            for row in decode_rows(&page.rows).map_err(wrong)? {
                spool.push(&row)?;
            }
            start = page.next_start_primary_key;
            let read_to = match &start {
                Some(next) => decode_rows(next).map_err(wrong)?.pop().map(|row| key(&row)),
                None => None,
            };
            spool.catch_up(asking, read_to.as_ref())?;
            if start.is_none() {
                return Ok(spool);
            }
        }
    }

    fn new() -> Result<Spool, ExportError> {
        Ok(Spool {
            rows: BufWriter::new(unnamed_file()?),
            changes: Changes::default(),
            position: 0,
        })
    }

    fn push(&mut self, row: &Row) -> Result<(), ExportError> {
        let row = encode_row(row);
        let length = u32::try_from(row.len()).map_err(wrong)?;
        self.rows.write_all(&length.to_be_bytes())?;
        Ok(self.rows.write_all(&row)?)
    }

    /// Takes what has changed since, of what lies below `read_to`: the rest is still to be read.
    fn catch_up(&mut self, asking: &mut Asking, read_to: Option<&Key>) -> Result<(), ExportError> {
        loop {
            let page = asking.ask(None, Some(self.position))?;
            for bound in decode_rows(&page.gone_below).map_err(wrong)? {
                self.changes.end_below(key(&bound), read_to);
            }
            for row in decode_rows(&page.rows).map_err(wrong)? {
                self.changes.set(key(&row), Some(row), read_to);
            }
            for gone in decode_rows(&page.gone).map_err(wrong)? {
                self.changes.set(key(&gone), None, read_to);
            }
            self.position = page.position;
            if page.is_last {
                return Ok(());
            }
        }
    }

    /// Gives what it holds to `each`, in the order of keys.
    pub(super) fn merge(
        self,
        each: &mut impl FnMut(&Row) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        let mut file = self
            .rows
            .into_inner()
            .map_err(|error| wrong(error.error()))?;
        file.rewind()?;
        let mut spooled = BufReader::new(file);
        let Changes { rows, gone_below } = self.changes;
        let mut changed = rows.into_iter().peekable();
        while let Some(row) = next_row(&mut spooled)? {
            let key = key(&row);
            while let Some((_, new)) = changed.next_if(|(other, _)| *other < key) {
                new.iter().try_for_each(&mut *each)?;
            }
            let is_gone = gone_below.get(&key[0]).is_some_and(|below| key < *below);
            match changed.next_if(|(other, _)| *other == key) {
                Some((_, new)) => new.iter().try_for_each(&mut *each)?,
                None if is_gone => {}
                None => each(&row)?,
            }
        }
        changed.try_for_each(|(_, new)| new.iter().try_for_each(&mut *each))
    }
}

impl Changes {
    fn set(&mut self, key: Key, row: Option<Row>, read_to: Option<&Key>) {
        if read_to.is_none_or(|next| key < *next) {
            self.rows.insert(key, row);
        }
    }

    /// All rows that were read, have the same first value and are lower than `bound` are gone.
    fn end_below(&mut self, bound: Key, read_to: Option<&Key>) {
        let first = bound[0].clone();
        let bound = match read_to {
            Some(next) if next[0] < first => return,
            Some(next) if next[0] == first => bound.min(next.clone()),
            _ => bound,
        };
        let over = self.rows.range(vec![first.clone()]..bound.clone());
        for key in over.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.rows.remove(&key);
        }
        let below = self.gone_below.entry(first).or_default();
        *below = bound.max(std::mem::take(below));
    }
}

fn next_row(spooled: &mut BufReader<File>) -> Result<Option<Row>, ExportError> {
    let mut length = [0; 4];
    match spooled.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let mut row = vec![0; u32::from_be_bytes(length) as usize];
    spooled.read_exact(&mut row)?;
    Ok(decode_rows(&row.into()).map_err(wrong)?.pop())
}

/// A file that is gone when it is closed.
fn unnamed_file() -> io::Result<File> {
    let name = format!("tideline-export-{}", uuid::Uuid::new_v4().simple());
    let path = std::env::temp_dir().join(name);
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

fn key(row: &Row) -> Key {
    let value = |cell: &Cell| match &cell.value {
        Some(Variant::Integer(number)) => KeyValue::Integer(*number),
        Some(Variant::String(text)) => KeyValue::String(text.clone()),
        Some(Variant::Binary(bytes)) => KeyValue::Binary(bytes.clone()),
        _ => KeyValue::InfMin,
    };
    row.primary_key.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nobody_else_can_open_what_is_kept_beside() {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = unnamed_file().unwrap().metadata().unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
    }

    fn row(key: (u8, i64), text: &str) -> Row {
        let first = Variant::String(char::from(b'a' + key.0).to_string());
        Row {
            primary_key: vec![
                Cell::key("t", first),
                Cell::key("n", Variant::Integer(key.1)),
            ],
            attributes: vec![Cell::version("c", Variant::String(text.to_owned()), 7)],
            delete_marker: false,
            sequence: None,
        }
    }

    fn bound(key: (u8, i64)) -> Key {
        super::key(&row(key, ""))
    }

    /// What may happen to the rows that are read.
    #[derive(Clone, Debug)]
    enum Step {
        Set((u8, i64), bool),
        EndBelow((u8, i64)),
        /// So many rows are read.
        Read(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let key = || (0u8..3, 1i64..9);
        prop_oneof![
            6 => (key(), any::<bool>()).prop_map(|(key, is_there)| Step::Set(key, is_there)),
            2 => key().prop_map(Step::EndBelow),
            2 => (1usize..5).prop_map(Step::Read),
        ]
    }

    proptest! {
        /// A partition that changes while it is read, and all of it is seen as it is at the end.
        #[test]
        fn what_came_later_takes_the_place_of_what_was_read(
            steps in proptest::collection::vec(step(), 0..60),
        ) {
            let mut truth: BTreeMap<(u8, i64), String> = BTreeMap::new();
            for key in (0..3).flat_map(|first| (1..9).map(move |second| (first, second))) {
                truth.insert(key, "old".to_owned());
            }
            let mut spool = Spool::new().unwrap();
            let mut next = Some((0, 0));
            let read = |spool: &mut Spool, truth: &BTreeMap<_, String>, next: &mut Option<(u8, i64)>, count| {
                let Some(from) = *next else { return };
                let mut left = truth.range(from..);
                for (key, text) in left.by_ref().take(count) {
                    spool.push(&row(*key, text)).unwrap();
                }
                *next = left.next().map(|(key, _)| *key);
            };
            for (turn, step) in steps.into_iter().enumerate() {
                let read_to = next.map(bound);
                match step {
                    Step::Set(key, true) => {
                        truth.insert(key, turn.to_string());
                        let new = Some(row(key, &turn.to_string()));
                        spool.changes.set(bound(key), new, read_to.as_ref());
                    }
                    Step::Set(key, false) => {
                        truth.remove(&key);
                        spool.changes.set(bound(key), None, read_to.as_ref());
                    }
                    Step::EndBelow((first, second)) => {
                        truth.retain(|key, _| key.0 != first || key.1 >= second);
                        spool.changes.end_below(bound((first, second)), read_to.as_ref());
                    }
                    Step::Read(count) => read(&mut spool, &truth, &mut next, count),
                }
            }
            read(&mut spool, &truth, &mut next, usize::MAX);
            let mut found = Vec::new();
            spool.merge(&mut |row| {
                found.push(row.clone());
                Ok(())
            }).unwrap();
            let expected: Vec<Row> = truth.iter().map(|(key, text)| row(*key, text)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
