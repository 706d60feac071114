//! The virtual tables of a directory that no server has open: as a view of it shows timelines, for checks.
//!
//! Owns: the walk over all rows of a view. Promises: a row is as the served table has it, but for its epoch, which is
//! empty. Must not: be asked for single rows or places; whoever checks walks over all.

use std::iter;
use std::sync::Arc;

use bytes::Bytes;

use tideline_base::clock::Clock;
use tideline_base::ids::PartitionId;
use tideline_model::{Direction, KeyValue};
use tideline_store::partition::Origin;
use tideline_table::{Batch, Key, ReadError, Table, Touched, View, VirtualRows, Walk};

use super::super::check::dump::StoredTimelines;
use super::super::follow::touched;
use super::super::time::shown;
use super::tables::{MESSAGES, METAS, Name};
use super::virtual_tables::{message_row, message_table, meta_row, meta_table};

/// The virtual tables of a directory, to be checked.
#[must_use]
pub fn stored_tables(origin: Origin) -> [Table; 2] {
    let rows = |is_meta| Arc::new(StoredRows { origin, is_meta });
    [message_table(rows(false)), meta_table(rows(true))]
}

struct StoredRows {
    origin: Origin,
    is_meta: bool,
}

impl VirtualRows for StoredRows {
    /// There is only the view that is walked over.
    fn place(&self, _: &KeyValue) -> PartitionId {
        PartitionId(0)
    }

    fn row(&self, view: &View, key: &[KeyValue]) -> Result<Option<Bytes>, ReadError> {
        let mut rows = self.rows(view, key, key, Direction::Forward);
        rows.find_map(|row| row.map(|(_, value)| value).transpose())
            .transpose()
    }

    fn rows<'v>(
        &'v self,
        view: &'v View,
        _: &[KeyValue],
        _: &[KeyValue],
        _: Direction,
    ) -> Walk<'v> {
        let (timelines, is_meta) = (StoredTimelines::new(view, self.origin), self.is_meta);
        Box::new(timelines.heads().flat_map(move |row| -> Walk<'v> {
            let (timeline, head) = match row {
                Ok(named) => named,
                Err(error) => return Box::new(iter::once(Err(error))),
            };
            let name = Name::new(&timeline);
            if is_meta {
                let key = Key::new(METAS, name.as_bytes(), 0);
                let row = timelines.info(timeline, &head);
                let row = row.map(|info| (key.into_bytes().into(), Some(meta_row(&info))));
                return Box::new(iter::once(row));
            }
            let clock = Clock::system();
            Box::new(timelines.messages(&name, &head).map(move |message| {
                let message = shown(message?, &clock);
                let key = Key::new(MESSAGES, name.as_bytes(), 9).number(message.sequence);
                Ok((key.into_bytes().into(), Some(message_row(&message, ""))))
            }))
        }))
    }

    fn touched(&self, batch: &Batch) -> Result<Vec<Touched>, ReadError> {
        match self.is_meta {
            true => touched::metas(batch),
            false => touched::messages(batch),
        }
    }
}
