//! Tables of time series: each is two tables, one of points and one of what is known of each series.
//!
//! Owns: their definitions: making, changing, ending, listing and finding them. Promises: both are made, changed and
//! ended in one commit; to all calls on tables they are not there, but for their names, which are taken. Must not: read
//! or write rows; `points.rs` and `metas.rs` do.

mod columns;
mod condition;
pub(super) mod metas;
mod points;

use std::sync::Arc;

use tideline_model::search::{Field, FieldType, SearchIndex, SearchSchema, Sorter};
use tideline_model::series::{
    MEASUREMENT, NewSeries, SOURCE, SeriesPart, SeriesUpdate, TAGS, check_lives,
};
use tideline_model::{Definition, Error, KeyColumn, KeyType, TableOptions, Throughput};
use tideline_store::partition::{Purpose, ReadError, Txn};

use crate::catalog::{self, Snapshot};
use crate::schema::Table;
use crate::tables::Tables;

/// A hash of what names a series spreads series over the partitions. Two with the same one are still two.
const HASH: &str = "_#h";
const TIME: &str = "_time";
const UPDATED: &str = "_meta_update_time";
const ATTRIBUTES: &str = "_attributes";
/// Behind the name of a table of series, that of its other table: no user's table can have it.
const META: &str = "::meta";
/// The search index that series are looked for in.
const INDEX: &str = "meta";
/// A point's version is its time, which may be far from now.
const ANY_OFFSET_S: i64 = tideline_model::limits::VERSION_OFFSET_S_MAX;

/// A table of series as it is now.
#[derive(Clone, Debug)]
pub struct SeriesTable {
    /// Its points.
    pub points: Arc<Table>,
    /// What is known of each series.
    pub metas: Arc<Table>,
    part: SeriesPart,
}

impl SeriesTable {
    fn of(known: &Snapshot, name: &str) -> Option<SeriesTable> {
        let points = known.table(name)?;
        let part = points.series.clone().filter(|part| !part.is_meta)?;
        Some(SeriesTable {
            metas: Arc::clone(known.table(&meta_name(name))?),
            points: Arc::clone(points),
            part,
        })
    }

    /// As it would be asked for now.
    #[must_use]
    pub fn described(&self) -> NewSeries {
        let key = &self.points.primary_key;
        let is_usual = self.part.keys == [MEASUREMENT, SOURCE, TAGS];
        NewSeries {
            name: self.points.name.clone(),
            keys: match is_usual {
                true => Vec::new(),
                false => self.part.keys.clone(),
            },
            fields: key[2 + self.part.keys.len()..].to_vec(),
            points_life_s: self.points.options.time_to_live_s,
            metas_life_s: self.metas.options.time_to_live_s,
            allows_attributes: self.part.allows_attributes,
        }
    }

    /// The name of the search index of `metas`.
    #[must_use]
    pub fn index(&self) -> &'static str {
        INDEX
    }
}

impl Tables {
    /// Makes a table of series that was checked.
    pub async fn create_series(&self, new: NewSeries) -> Result<(), Error> {
        self.change(Purpose::Adds, move |txn| {
            let definitions = definitions(new, txn)?;
            for definition in &definitions {
                catalog::check_names(txn, definition)?;
                definition.check_search_indexes()?;
                catalog::store(txn, definition)?;
            }
            Ok(())
        })
        .await?;
        self.search_needs().changed();
        Ok(())
    }

    /// A table of series as it is now.
    pub async fn series(&self, name: &str) -> Result<SeriesTable, Error> {
        let known = self.snapshot().await?;
        SeriesTable::of(&known, name).ok_or(Error::TableNotFound)
    }

    /// All tables of series, by name.
    pub async fn list_series(&self) -> Result<Vec<SeriesTable>, Error> {
        let known = self.snapshot().await?;
        let all = known.tables();
        Ok(all
            .filter_map(|table| SeriesTable::of(&known, &table.name))
            .collect())
    }

    /// Changes a table of series.
    pub async fn update_series(&self, name: &str, update: SeriesUpdate) -> Result<(), Error> {
        let name = name.to_owned();
        self.change(Purpose::Adds, move |txn| {
            let (mut points, mut metas) = found(txn, &name)?;
            let now_ms = txn.now_ms().cast_signed();
            let part = points.series.as_mut().ok_or(Error::TableNotFound)?;
            let allows = update.allows_attributes.unwrap_or(part.allows_attributes);
            part.allows_attributes = allows;
            metas.series = Some(SeriesPart {
                is_meta: true,
                ..part.clone()
            });
            if let Some(life_s) = update.points_life_s {
                points.options.time_to_live_s = life_s;
            }
            if let Some(life_s) = update.metas_life_s {
                let before = metas.options.clone();
                metas.options.time_to_live_s = life_s;
                metas.options.keep_expired(&before, now_ms);
            }
            metas.options.allow_update = metas.options.time_to_live_s == -1;
            let lives = (points.options.time_to_live_s, metas.options.time_to_live_s);
            check_lives(lives.0, lives.1, allows).map_err(Error::Series)?;
            metas.check_search_indexes()?;
            catalog::store(txn, &points)?;
            Ok(catalog::store(txn, &metas)?)
        })
        .await
    }

    /// Ends a table of series; its rows and the files of its search index go in the background.
    pub async fn delete_series(&self, name: &str) -> Result<(), Error> {
        let name = name.to_owned();
        self.change(Purpose::MakesRoom, move |txn| {
            found(txn, &name)?;
            catalog::remove(txn, &name);
            catalog::remove(txn, &meta_name(&name));
            Ok(())
        })
        .await?;
        self.search_needs().changed();
        Ok(())
    }
}

fn meta_name(name: &str) -> String {
    format!("{name}{META}")
}

/// The definitions of both tables as the writer sees them.
fn found(txn: &Txn<'_>, name: &str) -> Result<(Definition, Definition), Error> {
    let points = catalog::find(txn, name)?.filter(|table| {
        let part = table.series.as_ref();
        part.is_some_and(|part| !part.is_meta)
    });
    let metas = catalog::find(txn, &meta_name(name))?;
    points.zip(metas).ok_or(Error::TableNotFound)
}

/// The definitions of both tables of a new one.
fn definitions(new: NewSeries, txn: &mut Txn<'_>) -> Result<[Definition; 2], ReadError> {
    let NewSeries {
        name,
        keys,
        fields,
        points_life_s,
        metas_life_s,
        allows_attributes,
    } = new;
    let keys = match keys.is_empty() {
        true => [MEASUREMENT, SOURCE, TAGS].map(str::to_owned).to_vec(),
        false => keys,
    };
    let part = SeriesPart {
        keys,
        is_meta: false,
        allows_attributes,
    };
    let column = |name: &str, kind| KeyColumn {
        name: name.to_owned(),
        kind,
        auto_increment: false,
    };
    let named = std::iter::once(HASH).chain(part.keys.iter().map(String::as_str));
    let of_series: Vec<KeyColumn> = named.map(|name| column(name, KeyType::String)).collect();
    let created_us = txn.now_ms() * 1_000;
    let table = Definition {
        id: catalog::take_id(txn)?,
        name: meta_name(&name),
        primary_key: of_series.clone(),
        defined_columns: Vec::new(),
        indexes: Vec::new(),
        search_indexes: vec![index(&part.keys, txn)?],
        mappings: Vec::new(),
        series: Some(SeriesPart {
            is_meta: true,
            ..part.clone()
        }),
        options: TableOptions {
            time_to_live_s: metas_life_s,
            // As any table with a search index whose rows end.
            allow_update: metas_life_s == -1,
            ..TableOptions::default()
        },
        reserved: Throughput::default(),
        created_us,
        increased_us: created_us,
        decreased_us: 0,
        stream: None,
        local_transactions: false,
    };
    let mut primary_key = of_series;
    primary_key.push(column(TIME, KeyType::Integer));
    primary_key.extend(fields);
    let points = Definition {
        id: catalog::take_id(txn)?,
        name,
        primary_key,
        search_indexes: Vec::new(),
        series: Some(part),
        options: TableOptions {
            time_to_live_s: points_life_s,
            max_version_offset_s: ANY_OFFSET_S,
            ..TableOptions::default()
        },
        ..table.clone()
    };
    Ok([points, table])
}

/// What is looked for of a series: its name's columns, its attributes, and when it was last changed.
fn index(keys: &[String], txn: &mut Txn<'_>) -> Result<SearchIndex, ReadError> {
    let text = |name: &str, is_array| Field {
        is_array,
        ..Field::new(name, FieldType::Keyword)
    };
    let named = keys.iter().map(|name| text(name, name == TAGS));
    let own = [text(ATTRIBUTES, true), Field::new(UPDATED, FieldType::Long)];
    let schema = SearchSchema {
        fields: named.chain(own).collect(),
        routing_fields: Vec::new(),
        order: vec![Sorter::Key { is_desc: false }],
    };
    Ok(SearchIndex {
        id: catalog::take_id(txn)?,
        name: INDEX.to_owned(),
        schema,
        time_to_live_s: -1,
        created_us: txn.now_ms() * 1_000,
    })
}
