//! A frame of the shared log, as far as decisions look at it.
//!
//! Owns: what a frame says of its place, and what control frames say. Promises: two frames are equal here only if their
//! bytes are. Must not: hold entries, or make a frame's bytes; the log does that, and gives the checksums.

use tideline_base::ids::{HistoryId, Position};

/// A frame with its place in the chain, without its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Of which log.
    pub log: HistoryId,
    /// The position that it was sealed for; also the sequence in the stream.
    pub position: Position,
    /// The term of the owner who sealed it.
    pub term: u64,
    /// The CRC of the last frame before it that is not void.
    pub previous_crc: u32,
    /// Its own.
    pub crc: u32,
    /// XXH3-128 of its bytes.
    pub hash: u128,
    /// What it is.
    pub content: Content,
}

/// What a frame is. All but batches are control frames: the layers above see an empty batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Entries and changes, of which nothing is known here.
    Batch,
    /// The first frame of a log.
    Genesis(Genesis),
    /// Begins a term.
    Claim(Claim),
    /// Ends a term. Its owner has settled everything, and has answered no read since before it sent this.
    Resign {
        /// The node that shall claim at once, if one was named.
        to: Option<String>,
    },
    /// Says nothing. Once it is stored, it proves that its sender still owned the log.
    Beat,
    /// Names the digest of all frames before this one.
    Attest {
        /// See [`Place::digest`](crate::Place).
        digest: u128,
    },
    /// Frames up to here may go.
    Trimmed {
        /// The last of them.
        to: Position,
    },
    /// The last frame of a log that was closed for good.
    Ends,
}

/// What every node must agree on before it takes part in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Genesis {
    /// The cluster's name.
    pub cluster: String,
    /// The partition.
    pub partition: u16,
    /// The hashes of partition keys that it has, both ends included.
    pub range: (u64, u64),
    /// The history of the data.
    pub history: HistoryId,
    /// The format of its frames.
    pub format: u8,
    /// Of a log that was rebuilt: its end before, and the digest there.
    pub rebuilt: Option<(Position, u128)>,
}

/// The format of frames that a log begins with.
const FORMAT: u8 = 3;

impl Genesis {
    /// Of a cluster's one partition.
    #[must_use]
    pub fn of(cluster: &str, history: HistoryId) -> Genesis {
        Genesis {
            cluster: cluster.to_owned(),
            partition: 0,
            range: (0, u64::MAX),
            history,
            format: FORMAT,
            rebuilt: None,
        }
    }
}

/// The owner that begins a term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The node's name.
    pub node: String,
    /// A random number of the process, so that a restarted one is another.
    pub boot: u64,
    /// How long this owner's read lease lasts; 0 if it has none. A successor waits by this, not by its own setting.
    pub lease_ms: u32,
}

/// A frame to be sealed: everything but its checksums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// See [`Sealed`].
    pub log: HistoryId,
    /// See [`Sealed`].
    pub position: Position,
    /// See [`Sealed`].
    pub term: u64,
    /// See [`Sealed`].
    pub previous_crc: u32,
    /// See [`Sealed`].
    pub content: Content,
}

impl Draft {
    /// The frame, with the CRC and XXH3-128 of its bytes.
    #[must_use]
    pub fn sealed(self, crc: u32, hash: u128) -> Sealed {
        let Draft {
            log,
            position,
            term,
            previous_crc,
            content,
        } = self;
        Sealed {
            log,
            position,
            term,
            previous_crc,
            crc,
            hash,
            content,
        }
    }
}
