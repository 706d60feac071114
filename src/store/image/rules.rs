//! What the image must know about rows, because it sees only bytes: how deltas compose, what may be dropped, how a
//! wide row is cut. `table/` implements [`Rules`]; `partition/` hands it down and uses the same composition for its
//! memtables.

use bytes::Bytes;

use super::catalog::TableCounts;
use tideline_base::entry::Entry;
use tideline_base::ids::TableId;

/// What is known when a merge decides about an entry.
pub struct DropContext<'a> {
    /// The partition's clock, ms since 1970.
    pub now_ms: u64,
    /// Whether no older run can hold the key (the merge includes the oldest run).
    pub oldest: bool,
    /// Reads the newest visible value of another row of this partition (a head row). `None` = no such row.
    /// Calls are cheap for repeated equal keys: the caller of [`Rules`] caches the last answer.
    pub read: &'a dyn Fn(&[u8]) -> Option<Bytes>,
}

/// The verdict on one merged entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Write it as it is.
    Keep,
    /// Write this instead (expired cells taken out, surplus versions trimmed).
    Replace(Entry, Reason),
    /// The row is gone. Without `oldest` the image writes a tombstone instead, so that older runs stay masked.
    Drop(Reason),
}

/// Why something is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its time to live has ended (perhaps of some cells; others may have been surplus).
    Expired,
    /// Newer versions are as many as are kept.
    Surplus,
    /// Its table was deleted.
    TableDeleted,
    /// Another row says so: a timeline's head.
    Marked,
}

impl Reason {
    /// All, in the order of their numbers.
    pub const ALL: [Reason; 4] = [
        Reason::Expired,
        Reason::Surplus,
        Reason::TableDeleted,
        Reason::Marked,
    ];

    /// As a metric's label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Reason::Expired => "expired",
            Reason::Surplus => "surplus",
            Reason::TableDeleted => "table_deleted",
            Reason::Marked => "marked",
        }
    }
}

/// What verdicts have given up, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reclaimed([Tally; Reason::ALL.len()]);

/// What was given up for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Rows of which nothing is left.
    pub rows: u64,
    /// Bytes of keys and values, those of shortened rows too.
    pub bytes: u64,
}

impl Reclaimed {
    pub(super) fn add(&mut self, reason: Reason, rows: u64, bytes: u64) {
        let tally = &mut self.0[reason as usize];
        tally.rows += rows;
        tally.bytes += bytes;
    }

    /// What was given up for this reason.
    #[must_use]
    pub(crate) fn of(&self, reason: Reason) -> Tally {
        self.0[reason as usize]
    }
}

/// Which partition a row belongs to when partitions are split or merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The one that owns this hash.
    Hash(u64),
    /// Each has one of its own under this key; see [`Rules::unite`].
    Each,
    /// None: nobody reads it any more.
    Nobody,
    /// It is work that must be done before its partition ends.
    Unfinished,
}

/// A wide row cut into pieces: `directory` says which piece holds what; pieces are numbered from 0.
pub struct Pieces {
    /// Stored under the row's own key, kind put.
    pub directory: Bytes,
    /// Stored under the row's key and the piece's number.
    pub pieces: Vec<Bytes>,
}

/// The row rules that `table/` hands in. All are pure functions of their arguments.
pub trait Rules: Send + Sync + 'static {
    /// Composes `newer`, a delta, with the entry right below it: on a put it gives a put, on a delta a delta, on a
    /// tombstone a put (or a tombstone, where the delta alone creates no row). Nothing older at all counts as a
    /// tombstone. Associative: composing neighbours in any order gives the same bytes.
    fn compose(&self, key: &[u8], older: &Entry, newer: &Entry) -> Entry;

    /// Whether a merge may drop or shorten `entry`. Unknown = keep; dropped only on an explicit mark.
    fn verdict(&self, key: &[u8], entry: &Entry, context: &DropContext<'_>) -> Verdict;

    /// Cuts a put's value of more than 16 KiB into pieces of at most `piece_bytes_max` (a single larger cell is cut
    /// too); `None` = leave it whole.
    fn split(&self, value: &Bytes, piece_bytes_max: usize) -> Option<Pieces>;

    /// Puts pieces together again: the inverse of `split`. `Err` says what does not fit.
    fn join(&self, directory: &Bytes, pieces: &[Bytes]) -> Result<Bytes, &'static str>;

    /// The numbers of those pieces that hold what `wanted` names, in the words of the layer above and in order, and how
    /// many bytes the other pieces have; `None` = there are no others.
    fn pick(&self, _directory: &[u8], _wanted: &[&str]) -> Option<(Vec<u32>, u64)> {
        None
    }

    /// Puts picked pieces together: a row that is right about what is `wanted` and may lack anything else.
    fn join_picked(
        &self,
        _directory: &[u8],
        _wanted: &[&str],
        _picked: &[Bytes],
    ) -> Result<Bytes, &'static str> {
        Err("pieces can't be picked")
    }

    /// An entry with nothing but what `wanted` names, for a caller that composes many or wide ones; `None` = leave it
    /// as it is. Composing what was narrowed is right about what is `wanted` and about whether there is a row.
    fn narrow(&self, _entry: &Entry, _wanted: &[&str]) -> Option<Entry> {
        None
    }

    /// The prefix of `key` that a filter should cover besides the key itself (the partition key), or `None` if only
    /// whole keys are asked for. The image puts both into the run's filter. Every key that starts with such a prefix
    /// must have that very prefix: ranges within it are skipped by the filter.
    fn filter_prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]>;

    /// Whether whole-key look-ups of this key are worth a place in the filter (ID rows, head rows), or only its prefix.
    fn filter_key(&self, key: &[u8]) -> bool;

    /// The lowest and the highest version of an entry's cells, ms, both above 0. `None` = time does nothing to it. The
    /// image keeps them per table and part ([`TableCounts`]) and asks `over_percent` with them.
    fn versions(&self, _key: &[u8], _entry: &Entry) -> Option<(u64, u64)> {
        None
    }

    /// What share of a part's cells of one table is dead by now, as far as these figures say without a look at the
    /// rows. It may be wrong, but is 0 once `verdict` has taken out what is dead.
    fn over_percent(&self, _counts: &TableCounts, _now_ms: u64) -> u64 {
        0
    }

    /// Where a row belongs when partitions are split or merged; `None` = nobody knows, so they can't.
    fn owner(&self, _key: &[u8]) -> Option<Owner> {
        None
    }

    /// The row of a partition that takes over from several, of which each had this one ([`Owner::Each`]) or none.
    /// `None` = it has none either, which must always be right, if slow.
    fn unite(&self, _key: &[u8], _rows: &[Option<Bytes>]) -> Option<Bytes> {
        None
    }

    /// The table that a key belongs to, for the counters that the catalog keeps per table.
    fn table(&self, _key: &[u8]) -> TableId {
        TableId(0)
    }
}
