//! Rows that are read beside those of a page: what is shown of them, and those that aggregations name.
//!
//! Owns: both reads. Promises: they are within the bytes that a page may have, or the search is refused. Must not: find
//! a row.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tideline_model::search::{Aggregated, InvalidSearch, Shown};
use tideline_model::{Error, FoundRow, KeyValue, RowSink, Selection};
use tideline_table::{Table, key_values};

use crate::checked::Checked;
use crate::find::PAGE_BYTES_MAX;
use crate::query::SHOWN_BYTES_MAX;
use crate::searches::Searches;

impl Searches {
    /// What is shown of the rows with these keys, in their order; of one that is gone by now nothing.
    pub(crate) async fn shown(
        &self,
        table: &Arc<Table>,
        checked: &Arc<Checked>,
        keys: Vec<Vec<KeyValue>>,
    ) -> Result<Vec<Shown>, Error> {
        let Some(shows) = &checked.shows else {
            return Ok(Vec::new());
        };
        let mut names = shows.columns.clone();
        names.push(table.primary_key[0].name.clone());
        let selection = Selection::newest(Some(1))?.of(names)?;
        let rows = self
            .read::<Vec<FoundRow>>(table, keys.clone(), &selection)
            .await?;
        let (until, columns) = (checked.asked.deadline.at, table.primary_key.clone());
        let checked = Arc::clone(checked);
        let show = move || {
            let mut left = SHOWN_BYTES_MAX;
            let mut all = Vec::new();
            for key in keys {
                let row = rows.get(&key).and_then(|rows| rows.first());
                let shown = checked.shows.as_ref().zip(row);
                let shown = shown.map(|(shows, row)| shows.of(&columns, row, &mut left));
                match shown.transpose() {
                    Ok(shown) => all.push(shown.unwrap_or_default()),
                    Err(why) => return Ok(Err(why)),
                }
            }
            Ok(Ok(all))
        };
        self.run(until, show).await?.map_err(Error::Search)
    }

    /// The rows that aggregations name, by their encoded keys.
    pub(crate) async fn named<Rows: RowSink>(
        &self,
        table: &Arc<Table>,
        aggregated: &Aggregated,
        selection: &Selection,
    ) -> Result<BTreeMap<Vec<u8>, Rows>, Error> {
        let mut by_key = HashMap::new();
        for encoded in aggregated.rows() {
            let key = key_values(encoded);
            let key = key.map_err(|_| Error::Unavailable("a key of a search index".to_owned()))?;
            by_key.insert(key, encoded.to_vec());
        }
        let keys: Vec<Vec<KeyValue>> = by_key.keys().cloned().collect();
        let rows = self.read::<Rows>(table, keys, selection).await?;
        let rows = rows.into_iter();
        let named = rows.filter_map(|(key, row)| Some((by_key.remove(&key)?, row)));
        Ok(named.collect())
    }

    /// Reads rows; those that are gone are left out.
    async fn read<Rows: RowSink>(
        &self,
        table: &Arc<Table>,
        mut keys: Vec<Vec<KeyValue>>,
        selection: &Selection,
    ) -> Result<HashMap<Vec<KeyValue>, Rows>, Error> {
        let (mut rows, mut bytes) = (HashMap::new(), 0);
        while !keys.is_empty() {
            let left = PAGE_BYTES_MAX.saturating_sub(bytes);
            if left == 0 {
                return Err(Error::Search(InvalidSearch::Memory(PAGE_BYTES_MAX >> 20)));
            }
            let tables = &self.inner.tables;
            let some = tables.rows_now::<Rows>(table, keys.iter().cloned(), selection, left);
            let mut read = std::collections::HashSet::new();
            for now in some.await? {
                bytes += now.bytes;
                read.insert(now.key.clone());
                rows.extend(now.row.map(|row| (now.key, row)));
            }
            keys.retain(|key| !read.contains(key));
        }
        Ok(rows)
    }
}
