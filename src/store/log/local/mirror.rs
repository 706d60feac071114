//! Segments as a mirror of a log that machines share: what another place has settled, written here as well.
//!
//! Owns: [`MirrorMedium`]. Promises: what [`Medium::sync`] returned for is on disk; a power cut takes a part of what
//! was written since, and never makes it look like damage. Must not: decide what is in the log.

use std::sync::Arc;

use super::super::error::{AppendError, Error};
use super::super::frame::Frame;
use super::super::medium::{Archive, Durability, Medium};
use super::append::LocalMedium;
use tideline_base::ids::Position;

/// The writing end of a mirror.
pub(in crate::log) struct MirrorMedium(pub(in crate::log) LocalMedium);

/// What is handed over here is durable elsewhere.
struct Elsewhere;

impl Durability for Elsewhere {
    fn wait(&self, _: Position) {}
}

impl Medium for MirrorMedium {
    fn in_flight_max(&self) -> usize {
        1
    }

    fn begin(&mut self, frame: &Frame) -> Result<(), AppendError> {
        self.0.mirror(frame)
    }

    fn settle(&mut self, _: &Frame) -> Result<(), AppendError> {
        Ok(())
    }

    fn sync(&mut self) -> Result<(), AppendError> {
        self.0.sync_mirror()
    }

    fn durability(&self) -> Arc<dyn Durability> {
        Arc::new(Elsewhere)
    }

    fn archive(&self) -> Arc<dyn Archive> {
        self.0.archive()
    }

    fn close(self: Box<Self>, last: Position) -> Result<(), Error> {
        Box::new(self.0).close(last)
    }
}
