//! What was written last at each place of a table, so that every read can be checked whole.
//!
//! Owns: generations (the how many-th write of a place was sent, and acknowledged) and the values that belong to them.
//! Promises: a value tells its generation, and the rest of it follows from seed, place and generation, so a value of
//! another place, of a lost write or cut short is found. Must not: speak with the server; a place has one writer.

use std::cell::Cell;

use tokio::time::Instant;

use crate::random::Random;

/// A value begins with its generation, in so many digits.
pub(super) const DIGITS: usize = 8;
/// The texts of all values are cut from this much.
const POOL_BYTES: usize = 1 << 16;

/// A table's places: its rows, or the cells of its rows.
pub(super) struct Ledger {
    places: Vec<Cell<Place>>,
    pool: String,
    seed: u64,
    began: Instant,
}

#[derive(Clone, Copy, Default)]
struct Place {
    sent: u32,
    acked: u32,
    /// When the last acknowledgement came, ms since the ledger began.
    acked_ms: u32,
}

impl Ledger {
    /// So many places, where nothing stands yet; values have at most `longest` bytes.
    pub(super) fn new(places: usize, longest: usize, seed: u64) -> Ledger {
        Ledger {
            places: vec![Cell::default(); places],
            pool: Random::new(seed).text(POOL_BYTES + longest),
            seed,
            began: Instant::now(),
        }
    }

    /// A new generation is about to be sent.
    pub(super) fn send(&self, place: usize) -> u32 {
        let cell = &self.places[place];
        let sent = cell.get().sent + 1;
        cell.set(Place { sent, ..cell.get() });
        sent
    }

    /// It was acknowledged.
    pub(super) fn ack(&self, place: usize, generation: u32) {
        let cell = &self.places[place];
        cell.set(Place {
            acked: generation,
            acked_ms: self.now_ms(),
            ..cell.get()
        });
    }

    /// The last generation that was acknowledged: a read that begins now must show it or a later one.
    pub(super) fn acked(&self, place: usize) -> u32 {
        self.places[place].get().acked
    }

    /// The last generation that was sent: a read that ended now can't show a later one.
    pub(super) fn sent(&self, place: usize) -> u32 {
        self.places[place].get().sent
    }

    /// How long ago the last acknowledgement came, in seconds; `None` while a write is on the way.
    pub(super) fn rests_for(&self, place: usize) -> Option<f64> {
        let Place {
            sent,
            acked,
            acked_ms,
        } = self.places[place].get();
        (sent == acked).then(|| f64::from(self.now_ms() - acked_ms) / 1_000.0)
    }

    fn now_ms(&self) -> u32 {
        u32::try_from(self.began.elapsed().as_millis()).unwrap_or(u32::MAX)
    }

    /// The value of a column: its number is part of what the text follows from.
    pub(super) fn value(&self, column: u64, generation: u32, length: usize) -> String {
        let text = self.text(column, generation, length);
        format!("{generation:0width$x}{text}", width = DIGITS)
    }

    /// The generation of a value; `None` if nobody ever wrote it there.
    pub(super) fn generation(&self, column: u64, value: &str, length: usize) -> Option<u32> {
        let (generation, text) = value.split_at_checked(DIGITS)?;
        let generation = u32::from_str_radix(generation, 16).ok()?;
        (text == self.text(column, generation, length)).then_some(generation)
    }

    fn text(&self, column: u64, generation: u32, length: usize) -> &str {
        let mixed = self.seed ^ column.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(generation);
        let begin = Random::new(mixed).below(POOL_BYTES as u64) as usize;
        &self.pool[begin..begin + length.saturating_sub(DIGITS)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_value_is_of_one_place_and_generation() {
        let ledger = Ledger::new(4, 100, 7);
        for (column, generation, length) in [(0, 1, 8), (3, 1, 100), (3, 2, 100), (9, 0xffff, 30)] {
            let value = ledger.value(column, generation, length);
            assert_eq!(value.len(), length);
            let found = |column, value: &str| ledger.generation(column, value, length);
            assert_eq!(found(column, &value), Some(generation));
            if length > DIGITS {
                assert_eq!(found(column + 1, &value), None);
                assert_eq!(found(column, &value[..length - 1]), None);
            }
            assert_eq!(found(column, ""), None);
        }
    }

    #[tokio::test]
    async fn a_place_rests_when_all_is_acknowledged() {
        let ledger = Ledger::new(2, 8, 7);
        let first = ledger.send(1);
        assert_eq!((ledger.acked(1), ledger.sent(1)), (0, 1));
        assert!(ledger.rests_for(1).is_none());
        ledger.ack(1, first);
        assert_eq!((ledger.acked(1), ledger.sent(0)), (1, 0));
        assert!(ledger.rests_for(1).is_some());
    }
}
