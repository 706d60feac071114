//! Objects of nested fields.
//!
//! Owns: which objects a row has, and the values of their fields. Promises: what is not as documented leaves the nested
//! field out; work is linear in the text. Must not: know a query.

use serde_json::{Map, Value as Json};

use tideline_model::ValueRef;

use super::document::{ELEMENTS_MAX, Item};
use super::layout::{Layout, Placed};

/// An object, by the names of its fields.
pub(crate) type Object = Map<String, Json>;

/// A longer text has no objects.
const OBJECTS_BYTES_MAX: usize = 256 << 10;

/// The objects that a text is a list of, as many as count; `None` = it is none.
pub(crate) fn objects(text: &[u8]) -> Option<Vec<Object>> {
    if text.len() > OBJECTS_BYTES_MAX {
        return None;
    }
    let mut list: Vec<Object> = serde_json::from_slice(text).ok()?;
    list.truncate(ELEMENTS_MAX);
    Some(list)
}

/// The objects of a list.
pub(crate) fn objects_in(list: &Json) -> Option<Vec<&Object>> {
    let list = list.as_array()?.iter().take(ELEMENTS_MAX);
    list.map(Json::as_object).collect()
}

impl Layout {
    /// The values of a nested field and of those inside of it, each in its place among all fields.
    pub(super) fn nested(&self, at: usize, value: ValueRef<'_>, all: &mut [Option<Vec<Item>>]) {
        let (ValueRef::String(text) | ValueRef::Json(text)) = value else {
            return;
        };
        let Some(objects) = objects(text.as_bytes()).filter(|objects| !objects.is_empty()) else {
            return;
        };
        all[at] = Some(vec![Item::Kept(text.as_bytes().to_vec())]);
        self.inside(at, &objects.iter().collect::<Vec<_>>(), all);
    }

    fn inside(&self, at: usize, objects: &[&Object], all: &mut [Option<Vec<Item>>]) {
        for (inner, placed) in self.fields.iter().enumerate() {
            if placed.inside != Some(at) {
                continue;
            }
            for value in objects.iter().filter_map(|object| object.get(&placed.key)) {
                if placed.is_nested() {
                    let inner_objects = objects_in(value).unwrap_or_default();
                    if !inner_objects.is_empty() {
                        all[inner].get_or_insert_default();
                        self.inside(inner, &inner_objects, all);
                    }
                } else if let Some(items) = placed.items_of(value) {
                    all[inner].get_or_insert_default().extend(items);
                }
            }
        }
    }
}

impl Placed {
    /// The values of a field of an object; `None` = it has none.
    pub(crate) fn items_of(&self, value: &Json) -> Option<Vec<Item>> {
        if !self.field.is_array {
            return Some(vec![self.element(value)?]);
        }
        let list = value.as_array()?.iter().take(ELEMENTS_MAX);
        let items: Vec<Item> = list.map(|one| self.element(one)).collect::<Option<_>>()?;
        (!items.is_empty()).then_some(items)
    }
}
