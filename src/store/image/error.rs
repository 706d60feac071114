//! What can go wrong in the image, as one typed enum.
//!
//! Owns: the sorting of LMDB's and the system's errors into "full", "broken", "damaged" and "not ours". Promises:
//! `Full` means that nothing of the failed step stays and that it may be tried again once there is room; `Damaged`
//! names the place. Must not: decide what the process does about it.

use std::fmt;
use std::io;

use tideline_base::disk;

/// Why the image could not do what it was asked.
#[derive(Debug)]
pub enum Error {
    /// No room: the disk, the reserved map or the sub-databases. Nothing of the step stays; try again when there is
    /// room.
    Full(&'static str),
    /// The system refused something, or LMDB failed. Nothing of the step stays, unless all that follows is refused as
    /// `Stopped`.
    Io(io::Error),
    /// So many bytes of address space could not be reserved for the file.
    AddressSpace(usize),
    /// Bytes that do not fit together: a wrong checksum, order or count. The text says where.
    Damaged(String),
    /// The directory was written in a format that this program does not know.
    Format {
        /// What the directory says.
        found: u32,
        /// What this program reads and writes.
        known: u32,
    },
    /// Another process has the directory open, or this one has it open already.
    Locked,
    /// A flush that does not start where the image ends.
    NotNext {
        /// The image's covered position.
        covered: u64,
        /// Where the flush would have started.
        from: u64,
    },
    /// A key that no run can hold (empty or too long), or keys of a flush that do not rise.
    BadKey(&'static str),
    /// An earlier commit failed with an unknown outcome; only opening again helps.
    Stopped,
}

impl Error {
    /// The same error, knowing how much room is left on the disk: LMDB reports a write that was done in part as EIO.
    pub(super) fn with_room(self, left: impl FnOnce() -> Option<u64>) -> Error {
        match self {
            Error::Io(error) if disk::is_full(&error, left) => Error::Full("the disk is full"),
            error => error,
        }
    }

    pub(super) fn damaged(place: impl fmt::Display, what: impl fmt::Display) -> Error {
        Error::Damaged(format!("{place}: {what}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Full(what) => write!(out, "no room left: {what}"),
            Error::Io(error) => {
                write!(out, "image storage failed: {error}{}", disk::advice(error))
            }
            Error::AddressSpace(bytes) => write!(
                out,
                "cannot reserve {bytes} bytes of address space for the image: set map_bytes lower, or raise the limit \
                 of the process (ulimit -v)"
            ),
            Error::Damaged(place) => write!(out, "image is damaged at {place}"),
            Error::Format { found, known } => {
                write!(
                    out,
                    "image has format {found}, this program knows format {known}"
                )
            }
            Error::Locked => write!(out, "image directory is already open"),
            Error::NotNext { covered, from } => {
                write!(
                    out,
                    "flush starts after {from}, but the image covers {covered}"
                )
            }
            Error::BadKey(what) => write!(out, "bad key: {what}"),
            Error::Stopped => write!(out, "image stopped after a failed commit"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<heed::Error> for Error {
    fn from(error: heed::Error) -> Error {
        use heed::MdbError as Mdb;
        match error {
            heed::Error::Io(error) => Error::from(error),
            heed::Error::EnvAlreadyOpened => Error::Locked,
            heed::Error::Mdb(Mdb::MapFull) => {
                Error::Full("the image has reached map_bytes, set it higher")
            }
            heed::Error::Mdb(Mdb::DbsFull) => Error::Full("sub-databases"),
            heed::Error::Mdb(Mdb::ReadersFull) => Error::Full("reader slots"),
            heed::Error::Mdb(
                error @ (Mdb::Corrupted | Mdb::PageNotFound | Mdb::Invalid | Mdb::Incompatible),
            ) => Error::Damaged(format!("LMDB file: {error}")),
            heed::Error::Mdb(Mdb::Panic) => Error::Stopped,
            heed::Error::Mdb(Mdb::KeyExist) => Error::BadKey("keys do not rise"),
            heed::Error::Mdb(error) => Error::Io(io::Error::other(error)),
            heed::Error::Encoding(error) | heed::Error::Decoding(error) => {
                Error::Io(io::Error::other(error))
            }
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        match disk::is_no_room(&error) {
            true => Error::Full("the disk is full"),
            false => Error::Io(error),
        }
    }
}
