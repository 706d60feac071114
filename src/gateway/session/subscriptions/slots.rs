//! Places for the subscriptions of a connection, by number and by name.
//!
//! Owns: which place has which name. Promises: a place costs little beside what is in it, since a connection may have
//! thousands; a number is given again only after it was freed. Must not: know what a subscription is.

use std::hash::BuildHasher as _;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// Places, numbered from 0. No two have the same name.
pub(in super::super) struct Slots<T> {
    /// Numbers in `slots`, by the names there.
    by_name: HashTable<u32>,
    hasher: RandomState,
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T: AsRef<str>> Slots<T> {
    pub(in super::super) fn new() -> Slots<T> {
        Slots {
            by_name: HashTable::new(),
            hasher: RandomState::default(),
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// So many more will be taken, and perhaps no others.
    pub(in super::super) fn expect(&mut self, more: usize) {
        self.slots.reserve_exact(more);
    }

    /// How many places are taken.
    pub(in super::super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// The place of a name.
    pub(in super::super) fn find(&self, name: &str) -> Option<u32> {
        let is_it = |place: &u32| name_at(&self.slots, *place) == name;
        self.by_name
            .find(self.hasher.hash_one(name), is_it)
            .copied()
    }

    pub(in super::super) fn get(&self, place: u32) -> Option<&T> {
        self.slots.get(place as usize)?.as_ref()
    }

    pub(in super::super) fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.slots.get_mut(place as usize)?.as_mut()
    }

    /// All that is there, with its place.
    pub(in super::super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let numbered = (0u32..).zip(&self.slots);
        numbered.filter_map(|(place, slot)| Some((place, slot.as_ref()?)))
    }

    pub(in super::super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        let numbered = (0u32..).zip(&mut self.slots);
        numbered.filter_map(|(place, slot)| Some((place, slot.as_mut()?)))
    }

    /// The place that the next one gets.
    pub(in super::super) fn next_place(&self) -> u32 {
        let end = || u32::try_from(self.slots.len()).expect("subscriptions are limited far below");
        self.free.last().copied().unwrap_or_else(end)
    }

    /// Puts something whose name is not there yet into [`Slots::next_place`].
    pub(in super::super) fn insert(&mut self, slot: T) {
        let place = self.next_place();
        if self.free.pop().is_none() {
            if self.slots.len() == self.slots.capacity() {
                // Doubling would leave up to half of it empty, on each connection.
                self.slots.reserve_exact(4 + self.slots.len() / 4);
            }
            self.slots.push(None);
        }
        let hash = self.hasher.hash_one(slot.as_ref());
        self.slots[place as usize] = Some(slot);
        let Slots {
            by_name,
            hasher,
            slots,
            ..
        } = self;
        let rehash = |place: &u32| hasher.hash_one(name_at(slots, *place));
        by_name.insert_unique(hash, place, rehash);
    }

    /// Frees a place.
    pub(in super::super) fn remove(&mut self, place: u32) -> Option<T> {
        let slot = self.slots.get_mut(place as usize)?.take()?;
        let hash = self.hasher.hash_one(slot.as_ref());
        if let Ok(entry) = self.by_name.find_entry(hash, |at| *at == place) {
            entry.remove();
        }
        self.free.push(place);
        Some(slot)
    }
}

/// The name of a place that is taken.
fn name_at<T: AsRef<str>>(slots: &[Option<T>], place: u32) -> &str {
    let slot = slots.get(place as usize).and_then(Option::as_ref);
    slot.map_or("", AsRef::as_ref)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_by_name_until_they_are_freed() {
        let mut slots = Slots::<String>::new();
        for number in 0..1_000u32 {
            assert_eq!(slots.next_place(), number);
            slots.insert(format!("t{number}"));
        }
        for number in (0..1_000).step_by(3) {
            assert_eq!(slots.remove(number), Some(format!("t{number}")));
            assert_eq!(slots.remove(number), None);
        }
        for number in 0..1_000 {
            let found = slots.find(&format!("t{number}"));
            assert_eq!(found, (number % 3 != 0).then_some(number));
        }
        let place = slots.next_place();
        slots.insert("again".to_owned());
        assert_eq!((slots.find("again"), place % 3), (Some(place), 0));
        assert_eq!(slots.len(), slots.iter().count());
    }
}
