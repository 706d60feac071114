//! What can go wrong with a log: at opening, at appending, at reading.
//!
//! Owns: the three error types and the classes of disk errors. Promises: each names the file and the place where there
//! is one, and says whether something may have been written. Must not: decide what is done about it.

use std::fmt;
use std::io;

use tideline_base::disk;
use tideline_base::ids::Position;

/// Why a log can't be opened.
#[derive(Debug)]
pub enum Error {
    /// The disk said no.
    Io {
        /// The file or "directory".
        file: String,
        /// What the disk said.
        source: io::Error,
    },
    /// Bytes that were once synced are not what was written, or a file is missing.
    Damaged {
        /// The file.
        file: String,
        /// Where in it, in bytes.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// The log ends before a position that was surely in it: one that the image covers, or that a clean shutdown named.
    EndsEarly {
        /// The file in which it ends.
        file: String,
        /// Where in it, in bytes.
        offset: u64,
        /// The last position found.
        last: Position,
        /// The position that must be there.
        needed: Position,
    },
    /// The log begins after the first position that the image lacks.
    BeginsLate {
        /// The first position in the log.
        first: Position,
        /// What the image covers.
        covered: Position,
    },
    /// A frame or file of a format that this program does not know.
    Format {
        /// The file.
        file: String,
        /// Its format's number.
        format: u8,
    },
}

impl Error {
    pub(crate) fn io(file: &str, source: io::Error) -> Error {
        Error::Io {
            file: file.to_owned(),
            source,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { file, source } => {
                write!(out, "log {file}: {source}{}", disk::advice(source))
            }
            Error::Damaged { file, offset, what } => {
                write!(out, "log {file} is damaged at byte {offset}: {what}")
            }
            Error::EndsEarly {
                file,
                offset,
                last,
                needed,
            } => write!(
                out,
                "log ends with batch {last} at byte {offset} of {file}, but batch {needed} was in it"
            ),
            Error::BeginsLate { first, covered } => write!(
                out,
                "log begins with batch {first}, but the image covers only up to {covered}"
            ),
            Error::Format { file, format } => {
                write!(out, "log {file} has format {format}, not known here")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Why a batch was not appended.
#[derive(Debug)]
pub(crate) enum AppendError {
    /// Its frame would pass [`super::Options::frame_bytes_max`]. Nothing was written.
    TooLarge,
    /// An earlier error stopped the log; only a new opening helps. Nothing was written.
    Stopped,
    /// As many frames as may be are in flight. Nothing was written.
    Unsettled,
    /// The disk is full. Nothing of the batch is left; the log goes on when there is room again.
    Full(io::Error),
    /// No descriptor was left for the next segment. Nothing was written; the log goes on when there is one.
    Busy(io::Error),
    /// The disk failed, and perhaps the batch is there after a new opening. The log is stopped.
    Unknown(io::Error),
}

impl fmt::Display for AppendError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AppendError::TooLarge => write!(out, "the batch is too large"),
            AppendError::Stopped => write!(out, "the log is stopped"),
            AppendError::Unsettled => write!(out, "the batch before is not settled yet"),
            AppendError::Full(source) => write!(out, "the disk is full: {source}"),
            AppendError::Busy(source) => write!(out, "no file could be opened: {source}"),
            AppendError::Unknown(source) => {
                write!(out, "the disk failed, outcome unknown: {source}")
            }
        }
    }
}

impl std::error::Error for AppendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            AppendError::Full(source)
            | AppendError::Busy(source)
            | AppendError::Unknown(source) => Some(source),
            AppendError::TooLarge | AppendError::Stopped | AppendError::Unsettled => None,
        }
    }
}

/// Why committed frames could not be read.
#[derive(Debug)]
pub enum LogReadError {
    /// Retention has removed what was asked for.
    Trimmed {
        /// The first position that is still there.
        first: Position,
    },
    /// The bytes are not those that were written.
    Damaged {
        /// The file.
        file: String,
        /// Where in it, in bytes.
        offset: u64,
    },
    /// The disk said no.
    Io {
        /// The file.
        file: String,
        /// What the disk said.
        source: io::Error,
    },
}

impl fmt::Display for LogReadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogReadError::Trimmed { first } => {
                write!(
                    out,
                    "removed by retention: the log begins with batch {first}"
                )
            }
            LogReadError::Damaged { file, offset } => {
                write!(out, "log {file} is damaged at byte {offset}")
            }
            LogReadError::Io { file, source } => {
                write!(out, "log {file}: {source}{}", disk::advice(source))
            }
        }
    }
}

impl std::error::Error for LogReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LogReadError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
