//! UpdateRow: changes in the order of the request, as one delta.
//!
//! Owns: automatic versions and increments. Promises: an automatic version is above every version that the column has,
//! stored or in the same request, and never below now; what was hidden before a delete is not revealed by it; a wide
//! row that is updated again and again does not grow by versions that have ended. Must not: store the delta.

use std::collections::{HashMap, HashSet};

use tideline_model::limits::COLUMNS_MAX;
use tideline_model::{Cell, CellChange, Error, FoundCell, PutCell, Value, ValueRef, column};

use super::super::format::delta::DeltaWriter;
use super::super::format::versions::Judged;
use super::super::schema::Table;

/// What an update comes to.
pub(in super::super) struct Outcome {
    /// Its changes, as bytes.
    pub(in super::super) delta: Vec<u8>,
    /// Whether it writes any cell.
    pub(in super::super) adds: bool,
    /// Whether it changes anything: deletes alone make no row.
    pub(in super::super) takes_effect: bool,
    /// Whether it deletes anything.
    pub(in super::super) deletes: bool,
    /// Bytes of the values that go.
    pub(in super::super) freed: usize,
    /// Columns that were incremented, as they become.
    pub(in super::super) incremented: Vec<FoundCell>,
}

/// Works out an update of the row `judged` (`None` = there is none). Of a wide row what has ended is deleted with it:
/// narrow ones are written whole, without it.
pub(in super::super) fn update(
    table: &Table,
    changes: &[CellChange],
    judged: Option<&Judged<'_>>,
    now: i64,
    is_wide: bool,
) -> Result<Outcome, Error> {
    let mut update = Update {
        table,
        judged,
        now,
        is_wide,
        delta: DeltaWriter::default(),
        newest: HashMap::new(),
        freed: 0,
    };
    let named: HashSet<&str> = changes.iter().map(CellChange::name).collect();
    let single = |change: &&CellChange| matches!(change, CellChange::DeleteOne { .. });
    let revealing: HashSet<&str> = changes
        .iter()
        .filter(single)
        .map(CellChange::name)
        .collect();
    let is_delete =
        |change: &&CellChange| single(change) || matches!(change, CellChange::DeleteAll { .. });
    let deleting: HashSet<&str> = changes
        .iter()
        .filter(is_delete)
        .map(CellChange::name)
        .collect();
    let (mut puts, mut deletes) = (false, false);
    let mut incremented = Vec::new();
    for name in &named {
        match revealing.contains(name) {
            true => update.delete_hidden(name),
            false => update.delete_ended(name),
        }
    }
    for change in changes {
        match change {
            CellChange::Put(cell) => update.put(cell)?,
            CellChange::Increment { name, by } => incremented.push(update.increment(name, *by)?),
            CellChange::DeleteOne { name, version } => update.delta.delete_one(name, *version),
            CellChange::DeleteAll { name } => update.delta.delete_all(name),
        }
        match change {
            CellChange::Put(_) | CellChange::Increment { .. } => puts = true,
            CellChange::DeleteOne { .. } | CellChange::DeleteAll { .. } => deletes = true,
        }
    }
    if table.options.update_full_row && puts {
        update.put_the_others(&named);
    }
    update.delete_surplus(&deleting);
    Ok(Outcome {
        delta: update.delta.finish(),
        adds: puts,
        takes_effect: puts || judged.is_some(),
        deletes,
        freed: update.freed,
        incremented,
    })
}

struct Update<'a> {
    table: &'a Table,
    judged: Option<&'a Judged<'a>>,
    now: i64,
    is_wide: bool,
    delta: DeltaWriter<'a>,
    /// The newest version that this request wrote, by column.
    newest: HashMap<&'a str, i64>,
    freed: usize,
}

impl<'a> Update<'a> {
    fn put(&mut self, cell: &'a PutCell) -> Result<(), Error> {
        let version = match cell.version {
            None => self.automatic(&cell.name),
            Some(version) if self.table.options.takes(version, self.now) => version,
            Some(_) => {
                return Err(Error::InvalidVersion {
                    column: cell.name.clone(),
                });
            }
        };
        self.write(&cell.name, version, (&cell.value).into());
        Ok(())
    }

    fn write(&mut self, name: &'a str, version: i64, value: ValueRef<'a>) {
        let newest = self.newest.entry(name).or_insert(version);
        *newest = version.max(*newest);
        self.delta.put(name, version, value);
    }

    fn increment(&mut self, name: &'a str, by: i64) -> Result<FoundCell, Error> {
        let column = || name.to_owned();
        let before = match self.living(name).first().map(|cell| cell.value) {
            None => 0,
            Some(ValueRef::Integer(number)) => number,
            Some(_) => return Err(Error::IncrementType { column: column() }),
        };
        let sum = before
            .checked_add(by)
            .ok_or_else(|| Error::IncrementOverflow { column: column() })?;
        let version = self.automatic(name);
        self.write(name, version, ValueRef::Integer(sum));
        Ok(FoundCell {
            name: column(),
            version,
            value: Value::Integer(sum),
        })
    }

    /// A version above all that the column has.
    fn automatic(&self, name: &str) -> i64 {
        #[cfg(test)]
        if self.table.options.max_version_offset_s == super::super::tests::PLANTED_OFFSET_S {
            return self.now;
        }
        let stored = [self.living(name), self.hidden(name)]
            .into_iter()
            .filter_map(|cells| Some(cells.first()?.version));
        let newest = stored.chain(self.newest.get(name).copied()).max();
        newest.map_or(self.now, |newest| self.now.max(newest.saturating_add(1)))
    }

    /// Versions that don't show must not come back because a newer one goes.
    fn delete_hidden(&mut self, name: &str) {
        for cell in self.hidden(name) {
            self.delete(cell);
        }
    }

    /// Deletes versions of a wide row's column that don't show, at most as many as one request can write.
    fn delete_ended(&mut self, name: &str) {
        if !self.is_wide {
            return;
        }
        for cell in self.hidden(name).iter().take(COLUMNS_MAX) {
            self.delete(cell);
        }
    }

    /// The version of a wide row's column that ends because this request has written a newer one. Where the request
    /// deletes of the column, too, it stays: it may show again, or be what the request itself has put.
    fn delete_surplus(&mut self, deleting: &HashSet<&str>) {
        let last = usize::try_from(self.table.options.max_versions - 1);
        let Some(last) = last.ok().filter(|_| self.is_wide) else {
            return;
        };
        for (name, newest) in std::mem::take(&mut self.newest) {
            let living = self.living(name);
            if let Some(oldest) = living.get(last)
                && oldest.version < newest
                && living.iter().all(|cell| cell.version != newest)
                && !deleting.contains(name)
            {
                self.delete(oldest);
            }
        }
    }

    fn delete(&mut self, cell: &Cell<'a>) {
        self.freed += cell.value.size();
        self.delta.delete_one(cell.name, cell.version);
    }

    /// Gives the columns that the request does not name a new version, so that the row expires as a whole.
    fn put_the_others(&mut self, named: &HashSet<&str>) {
        let Some(judged) = self.judged else {
            return;
        };
        let mut last = None;
        for cell in &judged.living {
            let is_newest = last.replace(cell.name) != Some(cell.name);
            if is_newest && !named.contains(cell.name) {
                self.delete_ended(cell.name);
                let version = self.automatic(cell.name);
                self.write(cell.name, version, cell.value);
            }
        }
    }

    fn living(&self, name: &str) -> &'a [Cell<'a>] {
        self.judged
            .map_or(&[], |judged| column(&judged.living, name))
    }

    fn hidden(&self, name: &str) -> &'a [Cell<'a>] {
        self.judged
            .map_or(&[], |judged| column(&judged.hidden, name))
    }
}
