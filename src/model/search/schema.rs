//! What a search index is: its fields, its order, how long rows show in it.
//!
//! Owns: definitions, as they are asked for and as the catalog keeps them (their JSON is a format on disk). Must not:
//! know tables beyond their keys.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tideline_base::ids::TableId;

use super::{Field, FieldType, InvalidSearch, Missing, Sort, Sorter};

/// The most fields, counted with those inside of others.
const FIELDS_MAX: usize = 1_000;

/// What an index has of each row, and in which order it lists them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchSchema {
    /// At least one.
    pub fields: Vec<Field>,
    /// Kept and given back.
    #[serde(default)]
    pub routing_fields: Vec<String>,
    /// The order without another one; none where a field is nested.
    #[serde(default)]
    pub order: Vec<Sorter>,
}

impl SearchSchema {
    /// Checks all that needs no table, and gives it its order if it has none.
    ///
    /// # Errors
    /// What is not as documented.
    pub fn checked(mut self) -> Result<SearchSchema, InvalidSearch> {
        let count = self.fields.iter().map(|field| field.check(1));
        let count = count.sum::<Result<usize, _>>()?;
        if !(1..=FIELDS_MAX).contains(&count) {
            return Err(InvalidSearch::FieldCount(count));
        }
        let mut names = BTreeSet::new();
        for field in &self.fields {
            if !names.insert(&field.name) {
                return Err(InvalidSearch::DuplicateField(field.name.clone()));
            }
        }
        let is_nested = self
            .fields
            .iter()
            .any(|field| field.kind == FieldType::Nested);
        if self.order.is_empty() && !is_nested {
            self.order.push(Sorter::Key { is_desc: false });
        }
        for sorter in &self.order {
            match sorter {
                _ if is_nested => {
                    return Err(InvalidSearch::Unsupported("index_sort with a nested field"));
                }
                Sorter::Key { .. } => {}
                Sorter::Field {
                    missing,
                    missing_field,
                    ..
                } if *missing != Missing::Last || missing_field.is_some() => {
                    let what = "index_sort with missing_value or missing_field";
                    return Err(InvalidSearch::Unsupported(what));
                }
                Sorter::Field { name, .. } => {
                    let field = self.field(name)?;
                    if !field.can_sort() || field.is_array {
                        let (name, kind) = (name.clone(), field.kind.name());
                        return Err(InvalidSearch::FieldKind(name, kind, "index_sort"));
                    }
                }
                Sorter::Geo { .. } | Sorter::Score { .. } | Sorter::Doc { .. } => {
                    return Err(InvalidSearch::Unsupported("index_sort by this"));
                }
            }
        }
        Ok(self)
    }

    /// A field by its name.
    ///
    /// # Errors
    /// There is none.
    pub fn field(&self, name: &str) -> Result<&Field, InvalidSearch> {
        let found = self.fields.iter().find(|field| field.name == name);
        found.ok_or_else(|| InvalidSearch::NoField(name.to_owned()))
    }

    /// The order of a search: its own, else the index's, else by score.
    #[must_use]
    pub fn sort(&self, asked: Option<Sort>) -> Sort {
        match asked {
            Some(sort) if !sort.sorters.is_empty() => sort,
            _ => Sort {
                sorters: match self.order.is_empty() {
                    true => vec![Sorter::Score { is_desc: true }],
                    false => self.order.clone(),
                },
                keys_last: true,
            },
        }
    }
}

/// A search index as the catalog keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchIndex {
    /// Never used again after the index is gone.
    pub id: TableId,
    /// Its name, among those of its table.
    pub name: String,
    /// What it has.
    pub schema: SearchSchema,
    /// Seconds that a row shows, counted from its newest version; -1 = for ever.
    pub time_to_live_s: i64,
    /// When it was made, µs since 1970.
    pub created_us: u64,
}

// No number of a schema is not a number: what is decoded is checked.
impl Eq for SearchIndex {}

/// A change of a search index: only what is given changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchIndexUpdate {
    /// See [`SearchIndex::time_to_live_s`].
    pub time_to_live_s: Option<i64>,
}
