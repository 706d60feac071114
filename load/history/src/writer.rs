//! Writing a history.
//!
//! Owns: the lines, and the clock of one process. Promises: what [`Writer::flush`] returned from is in the file, also
//! if the process is killed then; the last line may be torn, which a check tells apart. Must not: decide what is
//! recorded.

use std::io::{self, BufWriter, Write};
use std::time::Instant;

use serde::Serialize;

use crate::{Event, Final};

/// Writes records. Flush it before a call is sent: a message that is stored and was never invoked is a violation.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: BufWriter<W>,
    began: Instant,
}

impl<W: Write> Writer<W> {
    /// Writes to this, from its place on.
    pub fn new(out: W) -> Writer<W> {
        Writer {
            out: BufWriter::new(out),
            began: Instant::now(),
        }
    }

    /// ns since it began.
    pub fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// Adds an event.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        self.line(event)
    }

    /// Adds what is stored.
    pub fn stored(&mut self, stored: &Final) -> io::Result<()> {
        self.line(stored)
    }

    fn line(&mut self, record: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, record)?;
        self.out.write_all(b"\n")
    }

    /// Hands all to the system.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
