//! One page of LMDB's file, taken apart without trust; and the rows of a block, which are read like those of a page.
//!
//! ```text
//! page:  number (8) | pad (2) | flags (2) | end of offsets (2) | begin of nodes (2) | offsets (2 each) … nodes
//! node:  data length, or a branch's child (4) | flags, or the child's upper bits (2) | key length (2) | key | data
//! ```
//!
//! Owns: this layout, as LMDB 0.9 writes it in the machine's byte order. LMDB itself has no checksum of it and follows
//! whatever is there. Promises: what has passed `parse` has its own number, its nodes cover their part of the page
//! without gap or overlap, and its keys rise. Must not: read a file (`mod.rs`) or follow a child (`tree.rs`).

use std::cmp::Ordering;
use std::ops::Range;

use bytes::Bytes;

/// LMDB's page size on this machine's kind; other files are refused.
pub(in super::super) const PAGE_BYTES: usize = 4096;
/// Bytes before the offsets of a page's nodes; also before an overflow page's data.
pub(in super::super) const PAGE_HEAD: usize = 16;
const NODE_HEAD: usize = 8;
const BRANCH: u16 = 1;
const LEAF: u16 = 2;
const OVERFLOW: u16 = 4;
/// A node's data lie in overflow pages, the node has their number.
const BIG: u16 = 1;
/// A node's data are the record of a sub-database.
const SUB: u16 = 2;
/// A leaf has fewer entries than this many bits tell.
const BLOCK_BITS: u32 = 12;

/// What the pages of a tree hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Content {
    /// Rows of this run, each with a checksum, loaded in order.
    Rows(u64),
    /// Blocks of rows of this run (`rows/block.rs`), loaded in order. A leaf's entries lead to rows, as a branch's do.
    Blocks(u64),
    /// The same, but blocks stay closed: a leaf's entries are all that is asked for.
    Closed(u64),
    /// Anything else that was loaded in order: each separator is its child's first key.
    Loaded,
    /// Values that come and go.
    Values,
    /// Records of sub-databases.
    Records,
    /// Lists under numbers.
    Lists,
}

/// What a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Kind {
    Branch,
    Leaf,
    /// The rows of one block, below a leaf.
    Block,
}

/// A branch or leaf page that has passed its check, or the rows of a block.
#[derive(Clone, Debug)]
pub(in super::super) struct Page {
    /// A block's tells its leaf and its place there ([`block_number`]).
    pub(in super::super) number: u64,
    pub(in super::super) kind: Kind,
    pub(in super::super) content: Content,
    bytes: Bytes,
    count: usize,
}

/// Where a node's data are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Data {
    Here(Range<usize>),
    Overflow { page: u64, bytes: usize },
}

/// The rows of a block, unfolded, and behind them where each one's key and value begin and end.
pub(in super::super) struct Rows {
    bytes: Vec<u8>,
    count: usize,
}

impl Rows {
    pub(in super::super) const PLACE_BYTES: usize = 8;

    /// `places`: of each row where the key and the value begin and end.
    #[allow(clippy::host_endian_bytes)] // as in LMDB's pages, and never on disk
    pub(in super::super) fn new(mut bytes: Vec<u8>, places: &[[u16; 4]]) -> Rows {
        for number in places.as_flattened() {
            bytes.extend_from_slice(&number.to_ne_bytes());
        }
        let count = places.len();
        Rows { bytes, count }
    }
}

/// The number of a block's rows: that of the leaf, and the place in it.
pub(in super::super) fn block_number(leaf: u64, at: usize) -> u64 {
    leaf << BLOCK_BITS | at as u64
}

/// The leaf that a block is in.
pub(in super::super) fn leaf_of(block: u64) -> u64 {
    block >> BLOCK_BITS
}

impl Page {
    /// The rows of a block, as a page.
    pub(in super::super) fn of_block(number: u64, rows: Rows, content: Content) -> Page {
        Page {
            number,
            kind: Kind::Block,
            content,
            bytes: Bytes::from(rows.bytes),
            count: rows.count,
        }
    }

    /// Whether its entries are values, and lead nowhere.
    pub(in super::super) fn is_last(&self) -> bool {
        match self.kind {
            Kind::Branch => false,
            Kind::Leaf => !matches!(self.content, Content::Blocks(_)),
            Kind::Block => true,
        }
    }

    /// Takes page `number` apart; `Err` says what does not fit.
    pub(in super::super) fn parse(
        number: u64,
        bytes: Bytes,
        content: Content,
    ) -> Result<Page, &'static str> {
        if bytes.len() != PAGE_BYTES || u64_at(&bytes, 0) != number {
            return Err("is another page or none");
        }
        let kind = match u16_at(&bytes, 10) {
            BRANCH => Kind::Branch,
            LEAF => Kind::Leaf,
            _ => return Err("is neither branch nor leaf"),
        };
        let (lower, upper) = (at(&bytes, 12), at(&bytes, 14));
        if lower <= PAGE_HEAD || lower % 2 != 0 || lower > upper || upper > PAGE_BYTES {
            return Err("has wrong bounds");
        }
        let count = (lower - PAGE_HEAD) / 2;
        let page = Page {
            number,
            kind,
            content,
            bytes,
            count,
        };
        if kind == Kind::Branch && count < 2 && content != Content::Lists {
            return Err("is a branch with one child");
        }
        page.check_nodes(upper)?;
        Ok(page)
    }

    /// Every node in its place, every key above the one before it.
    fn check_nodes(&self, upper: usize) -> Result<(), &'static str> {
        let content = self.content;
        // Where pages are only added to, the nodes lie backward, each right before the one before it.
        let (mut from, mut in_row) = (PAGE_BYTES, true);
        let mut last: Option<&[u8]> = None;
        for index in 0..self.count {
            let begin = self.begin(index);
            if begin < upper || !begin.is_multiple_of(2) || begin + NODE_HEAD > PAGE_BYTES {
                return Err("has a node out of bounds");
            }
            let (key, end) = self.extent(begin)?;
            let end = end.next_multiple_of(2);
            if end > PAGE_BYTES {
                return Err("has a node out of bounds");
            }
            in_row &= end == from;
            from = begin;
            // A branch's first key counts for nothing: its children begin where the page itself begins.
            if self.kind == Kind::Branch && index == 0 {
                continue;
            }
            let key = self.bytes.get(key).unwrap_or_default();
            if key.is_empty() || (content == Content::Lists && key.len() != 8) {
                return Err("has a key of a wrong length");
            }
            if last.is_some_and(|last| compare(content, last, key) != Ordering::Less) {
                return Err("has keys that do not rise");
            }
            last = Some(key);
        }
        match in_row && from == upper {
            true => Ok(()),
            false => self.check_tiles(upper),
        }
    }

    /// The nodes in the order in which they lie: one ends where the next one begins.
    fn check_tiles(&self, upper: usize) -> Result<(), &'static str> {
        let mut extents = Vec::with_capacity(self.count);
        for index in 0..self.count {
            let begin = self.begin(index);
            extents.push((begin, self.extent(begin)?.1.next_multiple_of(2)));
        }
        extents.sort_unstable();
        let mut from = upper;
        for (begin, end) in extents {
            if begin != from {
                return Err("has a gap between nodes, or two that overlap");
            }
            from = end;
        }
        match from == PAGE_BYTES {
            true => Ok(()),
            false => Err("lacks nodes"),
        }
    }

    /// A node's key, and where the node ends.
    fn extent(&self, begin: usize) -> Result<(Range<usize>, usize), &'static str> {
        let flags = u16_at(&self.bytes, begin + 4);
        let key = begin + NODE_HEAD;
        let after = key + at(&self.bytes, begin + 6);
        let length = u32_at(&self.bytes, begin) as usize;
        let is_records = self.content == Content::Records;
        let data = match flags {
            _ if self.kind == Kind::Branch => 0,
            SUB if is_records => length,
            0 if !is_records => length,
            BIG if !is_records => 8,
            _ => return Err("has a node with wrong flags"),
        };
        Ok((key..after, after + data))
    }

    /// How many nodes it has.
    pub(in super::super) fn count(&self) -> usize {
        self.count
    }

    fn begin(&self, index: usize) -> usize {
        at(&self.bytes, PAGE_HEAD + 2 * index)
    }

    /// Where a row of a block has its key and its value.
    fn row(&self, index: usize) -> [Range<usize>; 2] {
        let places = self.bytes.len() - (self.count - index) * Rows::PLACE_BYTES;
        let place = |number: usize| at(&self.bytes, places + 2 * number);
        [place(0)..place(1), place(2)..place(3)]
    }

    fn key_range(&self, index: usize) -> Range<usize> {
        if self.kind == Kind::Block {
            let [key, _] = self.row(index);
            return key;
        }
        let begin = self.begin(index);
        let key = begin + NODE_HEAD;
        key..key + at(&self.bytes, begin + 6)
    }

    /// The key of a node.
    pub(in super::super) fn key(&self, index: usize) -> &[u8] {
        &self.bytes[self.key_range(index)]
    }

    /// The same, keeping the page in memory.
    pub(in super::super) fn shared_key(&self, index: usize) -> Bytes {
        self.bytes.slice(self.key_range(index))
    }

    /// A branch node's child.
    pub(in super::super) fn child(&self, index: usize) -> u64 {
        let begin = self.begin(index);
        u64::from(u32_at(&self.bytes, begin)) | (u64::from(u16_at(&self.bytes, begin + 4)) << 32)
    }

    /// Where a leaf node's data are, or a row's value.
    pub(in super::super) fn data(&self, index: usize) -> Data {
        if self.kind == Kind::Block {
            let [_, value] = self.row(index);
            return Data::Here(value);
        }
        let begin = self.begin(index);
        let after = self.key_range(index).end;
        let bytes = u32_at(&self.bytes, begin) as usize;
        match u16_at(&self.bytes, begin + 4) {
            BIG => Data::Overflow {
                page: u64_at(&self.bytes, after),
                bytes,
            },
            _ => Data::Here(after..after + bytes),
        }
    }

    /// Bytes of the page.
    pub(in super::super) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// The same, keeping the page in memory.
    pub(in super::super) fn shared(&self, range: Range<usize>) -> Bytes {
        self.bytes.slice(range)
    }

    /// Where its entries lead on: the last one that may lead to `key`. Else the first one that is not below it.
    pub(in super::super) fn find(&self, key: &[u8]) -> usize {
        let is_last = self.is_last();
        let (mut low, mut high) = match is_last {
            true => (0, self.count),
            false => (1, self.count),
        };
        while low < high {
            let middle = usize::midpoint(low, high);
            let is_below = match is_last {
                true => self.key(middle) < key,
                false => self.key(middle) <= key,
            };
            match is_below {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low - usize::from(!is_last)
    }
}

/// How many pages so many bytes of overflow data take.
pub(in super::super) fn overflow_pages(bytes: usize) -> usize {
    (PAGE_HEAD + bytes).div_ceil(PAGE_BYTES).max(1)
}

/// How many overflow pages there are from page `number` on, which is `head`; `None` = it is no such page.
pub(in super::super) fn overflow_at(number: u64, head: &[u8]) -> Option<usize> {
    let fits = u64_at(head, 0) == number && u16_at(head, 10) == OVERFLOW;
    fits.then(|| u32_at(head, 12) as usize)
}

/// The order of a tree's keys.
pub(in super::super) fn compare(content: Content, one: &[u8], two: &[u8]) -> Ordering {
    match content {
        Content::Lists if one.len() == 8 && two.len() == 8 => u64_at(one, 0).cmp(&u64_at(two, 0)),
        _ => one.cmp(two),
    }
}

fn at(bytes: &[u8], place: usize) -> usize {
    usize::from(u16_at(bytes, place))
}

/// Numbers in LMDB's pages are in the machine's own order.
#[allow(clippy::host_endian_bytes)]
pub(in super::super) fn u16_at(bytes: &[u8], place: usize) -> u16 {
    u16::from_ne_bytes(array(bytes, place))
}

#[allow(clippy::host_endian_bytes)]
pub(in super::super) fn u32_at(bytes: &[u8], place: usize) -> u32 {
    u32::from_ne_bytes(array(bytes, place))
}

#[allow(clippy::host_endian_bytes)]
pub(in super::super) fn u64_at(bytes: &[u8], place: usize) -> u64 {
    u64::from_ne_bytes(array(bytes, place))
}

/// Zeros where there is nothing: the caller has checked the bounds, and must not panic if it has not.
fn array<const N: usize>(bytes: &[u8], place: usize) -> [u8; N] {
    let found = bytes.get(place..).and_then(|bytes| bytes.first_chunk());
    found.copied().unwrap_or([0; N])
}
