//! Everything that can go wrong in a partition, as its callers see it.
//!
//! Owns: the three kinds of failure (open, read, submit). Promises: an open error's text is one line that says
//! what an operator should do; a submit error says whether something may have been written. Must not: carry types of
//! the layers below.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::image;

/// Why a submitted closure did not take effect. Everything but `OutcomeUnknown` promises that nothing was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubmitError<E> {
    /// The closure itself refused.
    Rejected(E),
    /// The closure wrote more than one may.
    TooLarge {
        /// How many bytes it may write.
        limit: usize,
        /// How many it wrote.
        actual: usize,
    },
    /// The partition did not write it.
    Failed(StoreError),
}

/// What became of a write that the partition did not commit, whatever the write was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// The queue is full, compaction is behind, or no file could be opened: try again later.
    Busy,
    /// The disk is full.
    StorageFull,
    /// The batch was being written when the disk failed: perhaps it is there after a restart.
    OutcomeUnknown,
    /// The partition has stopped after a disk failure.
    Unavailable,
    /// Another node of the cluster writes, or none does now.
    Moved,
    /// The server is shutting down.
    ShuttingDown,
    /// An error of ours, a panic or a batch that no frame holds: the same will happen again.
    Internal,
}

/// A read that failed: damage, a failing disk. Says where and what, for the log; clients get "unavailable".
#[derive(Clone, Debug)]
pub struct ReadError(pub String);

impl ReadError {
    /// Where damage is not to blame, but an error of ours: the same read meets it again. It was logged.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        self.0 == PANICKED
    }

    pub(super) fn panicked() -> ReadError {
        ReadError(PANICKED.to_owned())
    }

    /// With what the log will say.
    pub fn new(text: impl Into<String>) -> ReadError {
        ReadError(text.into())
    }
}

const PANICKED: &str = "a read panicked";

impl fmt::Display for ReadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for ReadError {}

impl From<image::Error> for ReadError {
    fn from(error: image::Error) -> ReadError {
        ReadError(error.to_string())
    }
}

/// Why a data directory can't be opened.
#[derive(Debug)]
pub enum OpenError {
    /// Another process works on it.
    InUse {
        /// The data directory.
        path: PathBuf,
    },
    /// There are other things in it.
    NotOurs {
        /// The data directory.
        path: PathBuf,
    },
    /// A plain copy of a directory that was being served.
    Copy {
        /// The data directory.
        path: PathBuf,
    },
    /// There is nothing to look into.
    NothingThere {
        /// The data directory that was named.
        path: PathBuf,
    },
    /// Something of it is missing, too many or from elsewhere.
    DoesNotFit {
        /// What, with its path.
        text: String,
    },
    /// Its partitions can't be split or merged now.
    NotReshaped {
        /// Why.
        text: String,
    },
    /// Made by another version of the formats.
    OtherVersion {
        /// The data directory.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The one that this program knows.
        known: u32,
    },
    /// On a file system over the network.
    Network {
        /// The data directory.
        path: PathBuf,
        /// The file system's name.
        kind: String,
    },
    /// The operating system refused something.
    Io {
        /// What was tried, as a verb.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// What it said.
        error: io::Error,
    },
    /// A store can't be opened now, but nothing says that its data is not whole: no room, no descriptor, no memory, a
    /// failing disk, another format.
    Refused {
        /// What, and what to do about it.
        text: String,
    },
    /// The bytes on disk are not those that were written.
    Damaged {
        /// Where and how.
        text: String,
    },
}

impl OpenError {
    /// The same, with the folder where it was met.
    pub(super) fn within(self, folder: &Path) -> OpenError {
        match self {
            OpenError::Damaged { text } => OpenError::Damaged {
                text: format!("{}: {text}", folder.display()),
            },
            OpenError::Refused { text } => OpenError::Refused {
                text: format!("{}: {text}", folder.display()),
            },
            other => other,
        }
    }

    pub(super) fn from_io(what: &'static str, path: &Path, error: io::Error) -> OpenError {
        OpenError::Io {
            what,
            path: path.to_owned(),
            error,
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::InUse { path } => {
                write!(
                    out,
                    "another process is using the data directory {}",
                    path.display()
                )
            }
            OpenError::NotOurs { path } => write!(
                out,
                "{} is not a Tideline data directory; name an empty or new one",
                path.display()
            ),
            OpenError::Copy { path } => write!(
                out,
                "{} is a copy, file by file, of a data directory that was being served or had been killed, so its files \
                 may be of different moments; restore a backup, copy the directory again once its server has stopped in \
                 order, or try `tideline serve --accept-copy`",
                path.display()
            ),
            OpenError::NothingThere { path } => write!(
                out,
                "{} is not a Tideline data directory: it has no directory.toml",
                path.display()
            ),
            OpenError::DoesNotFit { text } => write!(
                out,
                "the data directory does not belong together: {text}; put back what was there, or a copy of the \
                 whole directory"
            ),
            OpenError::NotReshaped { text } => {
                write!(out, "the partitions can't be changed, and none was: {text}")
            }
            OpenError::OtherVersion { path, found, known } => write!(
                out,
                "{} has data format {found}; this version reads format {known}",
                path.display()
            ),
            OpenError::Network { path, kind } => write!(
                out,
                "{} is on a network file system ({kind}); use a local disk",
                path.display()
            ),
            OpenError::Io { what, path, error } => {
                let advice = tideline_base::disk::advice(error);
                write!(out, "cannot {what} {}: {error}{advice}", path.display())
            }
            OpenError::Refused { text } => write!(out, "cannot open the data: {text}"),
            OpenError::Damaged { text } => write!(out, "damaged data: {text}"),
        }
    }
}

impl std::error::Error for OpenError {}
