//! Standard output, as the commands write to it.
//!
//! Owns: what becomes of a command when its reader goes away before the end, as `head` does. Promises: a command that
//! only shows something ends without an error, and one that changes or judges something goes on to its end. Must not:
//! know a command.

use std::io::{self, BufWriter, ErrorKind, Stdout, Write};

/// Standard output of one command.
pub struct Output {
    out: BufWriter<Stdout>,
    only_shows: bool,
    unread: bool,
}

impl Output {
    /// `only_shows` = the command changes and judges nothing.
    #[must_use]
    pub fn new(only_shows: bool) -> Output {
        Output {
            out: BufWriter::new(io::stdout()),
            only_shows,
            unread: false,
        }
    }

    /// Whether an error does not count: the command only shows something, and its reader is gone.
    #[must_use]
    pub fn is_in_vain(&self) -> bool {
        self.unread && self.only_shows
    }

    /// The result of a write; `as_if` it was done where the command goes on without a reader.
    fn noted<T>(&mut self, done: io::Result<T>, as_if: T) -> io::Result<T> {
        let is_gone = |error: &io::Error| error.kind() == ErrorKind::BrokenPipe;
        self.unread |= done.as_ref().is_err_and(is_gone);
        match done {
            Err(_) if self.unread && !self.only_shows => Ok(as_if),
            done => done,
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.out.write(bytes);
        self.noted(done, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.out.flush();
        self.noted(done, ())
    }
}
