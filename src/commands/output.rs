//! Standard output, whose reader may go away before the end, as `head` does.
//!
//! Owns: what that means to a command. Promises: a command that only shows something ends then, without an error; one
//! that changes or judges something goes on to its end. Must not: know a command.

use std::io::{self, BufWriter, ErrorKind, Stdout, Write};

/// Standard output of a command.
pub struct Output {
    out: BufWriter<Stdout>,
    only_shows: bool,
    unread: bool,
}

impl Output {
    /// Of a command whose only effect is what it prints, or of another.
    #[must_use]
    pub fn new(only_shows: bool) -> Output {
        Output {
            out: BufWriter::new(io::stdout()),
            only_shows,
            unread: false,
        }
    }

    /// Whether an error means only that nobody reads any more.
    #[must_use]
    pub fn is_unread(&self) -> bool {
        self.unread && self.only_shows
    }

    /// What a write comes to: `as_if` it was done, where it does not matter that nobody reads any more.
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
