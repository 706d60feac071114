//! What the parents' logs say of a child's rows, and the child does not have yet.
//!
//! Owns: the entries of one child, and their order. Promises: each key comes once, in order, with one entry that does
//! what all of its entries do. Must not: read rows, or decide which entries concern the child.

use std::iter::Peekable;
use std::vec::IntoIter;

use bytes::Bytes;

use super::super::Rules;
use super::super::memory::merge::Stack;
use tideline_base::entry::Entry;

/// The entries of one child.
#[derive(Default)]
pub(in super::super) struct Noted {
    /// Those of each key in the order of the log. `None`: the row has to be looked up in the parents.
    entries: Vec<(Bytes, Option<Entry>)>,
}

impl Noted {
    pub(in super::super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Notes the next entry of a key.
    pub(in super::super) fn entry(&mut self, key: Bytes, entry: Entry) {
        self.entries.push((key, Some(entry)));
    }

    /// Notes that the row with this key has changed, and has to be looked up.
    pub(in super::super) fn look_up(&mut self, key: Bytes) {
        self.entries.push((key, None));
    }

    /// All keys in order, each with one entry that does what all of its entries do; `None` = it has to be looked up.
    pub(in super::super) fn into_order(mut self, rules: &dyn Rules) -> InOrder<'_> {
        // Stable: the entries of a key stay in the order of the log.
        self.entries.sort_by(|one, other| one.0.cmp(&other.0));
        InOrder {
            entries: self.entries.into_iter().peekable(),
            rules,
        }
    }
}

/// See [`Noted::into_order`].
pub(in super::super) struct InOrder<'r> {
    entries: Peekable<IntoIter<(Bytes, Option<Entry>)>>,
    rules: &'r dyn Rules,
}

impl Iterator for InOrder<'_> {
    type Item = (Bytes, Option<Entry>);

    fn next(&mut self) -> Option<(Bytes, Option<Entry>)> {
        let (key, first) = self.entries.next()?;
        let is_it = |(other, _): &(Bytes, _)| *other == key;
        let mut said = vec![first];
        while let Some((_, entry)) = self.entries.next_if(is_it) {
            said.push(entry);
        }
        let said: Option<Vec<Entry>> = said.into_iter().collect();
        let mut stack = Stack::default();
        let newest_first = said.unwrap_or_default().into_iter().rev();
        for entry in newest_first {
            if !stack.push(entry) {
                break;
            }
        }
        let entry = stack.collapse(&key, self.rules);
        Some((key, entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::tests::ToyRules;
    use tideline_base::entry::EntryKind;

    fn delta(value: &'static [u8]) -> Entry {
        Entry {
            kind: EntryKind::Delta,
            value: Bytes::from_static(value),
        }
    }

    #[test]
    fn each_key_comes_once_with_all_that_was_said_of_it() {
        let put = |value: &'static [u8]| Entry::put(Bytes::from_static(value));
        let key = |text: &'static str| Bytes::from_static(text.as_bytes());
        let mut noted = Noted::default();
        assert!(noted.is_empty());
        for (name, entry) in [
            ("put", put(&[1, 1])),
            ("changed", put(&[1, 1])),
            ("gone", put(&[1, 1])),
            ("changes", delta(&[1, 1])),
            ("put", delta(&[1, 2])),
            ("changed", delta(&[2, 2])),
            ("put", put(&[3, 3])),
            ("gone", Entry::tombstone()),
            ("changes", delta(&[2, 3])),
            ("changed", delta(&[2, 4])),
        ] {
            noted.entry(key(name), entry);
        }
        noted.look_up(key("other"));
        noted.look_up(key("other"));
        let found: Vec<_> = noted.into_order(&ToyRules).collect();
        assert_eq!(
            found,
            [
                (key("changed"), Some(put(&[1, 1, 2, 4]))),
                (key("changes"), Some(delta(&[1, 1, 2, 3]))),
                (key("gone"), Some(Entry::tombstone())),
                (key("other"), None),
                (key("put"), Some(put(&[3, 3]))),
            ]
        );
    }
}
