//! Why a node stops for good.
//!
//! Owns: the reasons and their texts. Promises: each text is one sentence that says what was seen and what to do. Must
//! not: decide that a node stops; the files that see a reason do.

use std::fmt;

use tideline_base::ids::Position;

/// Why a node takes no further part in a log, until a person has looked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The stream begins with another log's first frame.
    Foreign {
        /// What is different.
        what: &'static str,
    },
    /// The stream ends below what this node has, or has heard to be in it.
    Shorter {
        /// Its last sequence.
        last: Position,
        /// What must be there.
        known: Position,
    },
    /// At a position that this node has taken, the stream has another frame, or none.
    OtherHistory {
        /// The position.
        position: Position,
    },
    /// Frames that this node needs were purged, and no `trimmed` frame says so.
    Purged {
        /// The stream's first sequence.
        first: Position,
    },
    /// Frames that this node needs were trimmed while it was away.
    LeftBehind {
        /// The stream's first sequence.
        first: Position,
    },
    /// Every copy of a frame is wrong.
    Damaged {
        /// Its position.
        position: Position,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The digest that an owner attested is not that of the frames here.
    Digest {
        /// The position of the attesting frame.
        position: Position,
    },
    /// A publish was acknowledged with a sequence that it did not ask for.
    Misplaced {
        /// The sequence asked for.
        wanted: Position,
        /// The one acknowledged.
        stored: Position,
    },
}

impl fmt::Display for Halt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Halt::Foreign { what } => write!(
                out,
                "the stream belongs to another log ({what}): check [cluster] name and the NATS servers' addresses; after a \
                 rebuild begin with an empty data directory, unless this is the one that it took: then type it again"
            ),
            Halt::Shorter { last, known } => write!(
                out,
                "the stream ends at {last}, but {known} was in it: it was deleted, restored or lost data; stop all \
                 nodes and run `tideline cluster rebuild`"
            ),
            Halt::OtherHistory { position } => write!(
                out,
                "the stream does not have this node's frame at {position}: it was made anew or restored, or this node's \
                 directory was; stop all nodes and run `tideline cluster rebuild`, or, if others go on, begin with an empty \
                 data directory"
            ),
            Halt::Purged { first } => write!(
                out,
                "the stream begins at {first}, and no frame says that those before were trimmed: somebody purged it; \
                 start this node again, and it takes a snapshot of one that goes on"
            ),
            Halt::LeftBehind { first } => write!(
                out,
                "the stream begins at {first}, above what this node has: it was away for too long; start it again, and it \
                 takes a snapshot of another node"
            ),
            Halt::Damaged { position, what } => write!(
                out,
                "the frame at {position} is damaged ({what}) in every copy that was asked for; stop all nodes and run \
                 `tideline cluster rebuild`"
            ),
            Halt::Digest { position } => write!(
                out,
                "the digest attested at {position} is not that of the frames here: the stream's copies differ; stop all \
                 nodes and compare them by `tideline cluster check`"
            ),
            Halt::Misplaced { wanted, stored } => write!(
                out,
                "a frame for {wanted} was stored at {stored}: something between node and stream changes requests; \
                 check the stream's settings by `tideline cluster check`"
            ),
        }
    }
}

impl std::error::Error for Halt {}
