//! What the relay hands changes to.
//!
//! Owns: the seam between the relay and what is derived. Promises: an effect runs exactly once in its destination's
//! order, in one batch with the cursor that says so. Must not: know any target.

use tideline_base::ids::{PartitionId, Position, TableId};
use tideline_table::{Batch, Malformed, ReadError, Txn, View};

/// One write that a change leads to in another partition.
pub struct Derived {
    /// Where it belongs.
    pub destination: PartitionId,
    /// Its number among what the same batch leads to there: it rises, and is the same whenever the batch is derived
    /// from. Of what is made anew it says nothing.
    pub place: u64,
    /// About how many bytes it holds and will write.
    pub bytes: usize,
    /// The write. It runs on the destination's writer, perhaps again after a batch that failed; what it writes counts
    /// once.
    pub effect: Effect,
}

/// See [`Derived::effect`].
pub type Effect = Box<dyn Fn(&mut Txn<'_>) -> Result<(), ReadError> + Send + Sync>;

/// A page of what a target makes anew; see [`Target::anew`].
pub struct Anew {
    /// What the page's rows lead to.
    pub derived: Vec<Derived>,
    /// Where the next page begins; `None` = that was all.
    pub next: Option<Vec<u8>>,
}

impl Anew {
    /// A page of these.
    pub fn page(derived: impl Iterator<Item = Derived>, next: Option<Vec<u8>>) -> Anew {
        Anew {
            derived: derived.collect(),
            next,
        }
    }
}

/// Why a target can't derive.
#[derive(Debug)]
pub enum CannotDerive {
    /// A record or row of the batch can't be read: it never will be, and the batch is skipped.
    Malformed,
    /// The view can't be read now.
    Read(ReadError),
}

impl From<Malformed> for CannotDerive {
    fn from(Malformed: Malformed) -> CannotDerive {
        CannotDerive::Malformed
    }
}

impl From<ReadError> for CannotDerive {
    fn from(error: ReadError) -> CannotDerive {
        CannotDerive::Read(error)
    }
}

/// What tells a target from others.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// In the keys of cursors: part of the format on disk, never used again for another target.
    pub number: u32,
    /// In metrics and logs.
    pub name: &'static str,
    /// The tables whose change records lead to something: batches without any are skipped.
    pub tables: &'static [TableId],
}

/// Something that is derived from the changes of all partitions.
pub trait Target: Send + Sync + 'static {
    /// Which one it is.
    fn kind(&self) -> Kind;

    /// Adds what a batch of `source` leads to, in order, to `out`. A cursor may be in the middle of a batch, so the
    /// same batch always gives the same places, whatever `view`, one of the source at or behind the batch, shows.
    fn derive(
        &self,
        source: PartitionId,
        batch: &Batch,
        view: &View,
        out: &mut Vec<Derived>,
    ) -> Result<(), CannotDerive>;

    /// A page of the rows of `source` that changes are made of, from `from` on (`None` = from the first), and what they
    /// lead to, whatever was derived before: for when the log's story is not known from the cursor on. The changes
    /// after `since`, which the rows may show already, come again by [`Target::derive`].
    fn anew(
        &self,
        source: PartitionId,
        since: Position,
        view: &View,
        from: Option<&[u8]>,
    ) -> Result<Anew, ReadError>;
}
