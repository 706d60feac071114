//! The filter of a part: which keys and partition-key prefixes it surely does not hold.
//!
//! Owns: the hashes, the stored form, the memory bound. Promises: a key or prefix that the part holds always passes; a
//! filter that can't be read, does not fit into memory or was laid out by another version of the library is as if it
//! were not there: no filter = look. Must not: be trusted for "is there". Stored in the part's side slot in CRC'd
//! chunks; in memory it belongs to the catalog's entry of its part (run number and place in it), never to a slot.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fastbloom::BloomFilter;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::super::pages::page::PAGE_BYTES;
use super::row::PIECE_HEAD_BYTES;

/// About 1 % false positives.
const BITS_PER_ITEM: usize = 10;
const HASHES: u32 = 7;
/// Sets whole keys apart from prefixes that are equal to them.
const KEY_SEED: u64 = 1;
const PREFIX_SEED: u64 = 2;
/// Hashes that every filter is given. If they are missing after loading, the library lays its bits otherwise.
const PROBES: [u64; 8] = [
    0x0123_4567_89ab_cdef,
    0x9e37_79b9_7f4a_7c15,
    0xfedc_ba98_7654_3210,
    0x5555_5555_0000_0001,
    0x0000_0001_aaaa_aaaa,
    0xc2b2_ae3d_27d4_eb4f,
    0x7777_1111_3333_2222,
    0xffff_ffff_ffff_fffe,
];
/// First byte of a filter chunk's key in the side slot: after all pieces.
const FILTER_TAG: u8 = 2;
/// Bytes of a chunk, so that with its checksum and LMDB's page header it fills 16 pages.
pub(in super::super) const CHUNK_BYTES: usize = 16 * PAGE_BYTES - 16 - PIECE_HEAD_BYTES;

/// The hash of a whole key.
pub(in super::super) fn key_hash(key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, KEY_SEED)
}

/// The hash of a partition-key prefix.
pub(in super::super) fn prefix_hash(prefix: &[u8]) -> u64 {
    xxh3_64_with_seed(prefix, PREFIX_SEED)
}

/// The key of a chunk in the side slot.
pub(in super::super) fn chunk_key(chunk: u32) -> [u8; 5] {
    let mut key = [FILTER_TAG; 5];
    key[1..].copy_from_slice(&chunk.to_be_bytes());
    key
}

/// The bits of a filter over `hashes`, in their stored form: big-endian words.
pub(in super::super) fn build(hashes: &[u64]) -> Vec<u8> {
    let bits = (hashes.len() + PROBES.len()) * BITS_PER_ITEM;
    let mut bloom = BloomFilter::with_num_bits(bits).hashes(HASHES);
    for &hash in hashes.iter().chain(&PROBES) {
        bloom.insert_hash(hash);
    }
    bloom.iter().flat_map(u64::to_be_bytes).collect()
}

/// A filter in memory.
pub(in super::super) struct Filter {
    bloom: BloomFilter,
    budget: Arc<Budget>,
    bytes: u64,
}

impl Filter {
    /// Takes the stored bits; `None` = not a filter of this layout, or no memory left in the budget.
    pub(in super::super) fn load(stored: &[u8], budget: &Arc<Budget>) -> Option<Filter> {
        let words: Vec<u64> = stored
            .chunks_exact(8)
            .map(|word| u64::from_be_bytes(word.try_into().expect("chunks of eight")))
            .collect();
        if words.is_empty() || !stored.len().is_multiple_of(8) {
            return None;
        }
        let bytes = stored.len() as u64;
        if !budget.take(bytes) {
            return None;
        }
        let filter = Filter {
            bloom: BloomFilter::from_vec(words).hashes(HASHES),
            budget: Arc::clone(budget),
            bytes,
        };
        PROBES
            .iter()
            .all(|&probe| filter.bloom.contains_hash(probe))
            .then_some(filter)
    }

    /// Whether something with this hash may be there.
    pub(in super::super) fn may_hold(&self, hash: u64) -> bool {
        self.bloom.contains_hash(hash)
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The memory that filters may take together.
pub(in super::super) struct Budget {
    max: u64,
    used: AtomicU64,
}

impl Budget {
    pub(in super::super) fn new(max: u64) -> Arc<Budget> {
        Arc::new(Budget {
            max,
            used: AtomicU64::new(0),
        })
    }

    /// Bytes that loaded filters take now.
    pub(in super::super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether `bytes` more would fit.
    pub(in super::super) fn has(&self, bytes: u64) -> bool {
        self.used().saturating_add(bytes) <= self.max
    }

    fn take(&self, bytes: u64) -> bool {
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|&sum| sum <= self.max)
            })
            .is_ok()
    }
}
