//! Keys and values of a memtable, where its batches have them.
//!
//! Owns: a share of each batch's memory. Promises: nothing is copied; what was taken out keeps the memory of its batch.
//! Must not: know what is where; the memtable keeps the references.

use bytes::Bytes;

use crate::log::{Extent, Frame};
use tideline_base::ids::Position;

/// The batches of a memtable.
#[derive(Default)]
pub(in super::super) struct Batches {
    buffers: Vec<Bytes>,
    /// Of each: its position, and its bytes of log.
    places: Vec<(Position, usize)>,
}

/// A key or a value: where it is.
#[derive(Clone, Copy)]
pub(in super::super) struct BatchRef {
    buffer: u32,
    extent: Extent,
}

impl BatchRef {
    /// The piece at this extent of the batch of this number.
    pub(in super::super) fn new(buffer: u32, extent: Extent) -> BatchRef {
        BatchRef { buffer, extent }
    }

    /// How many bytes the piece has.
    pub(in super::super) fn len(self) -> usize {
        self.extent.bytes()
    }
}

impl Batches {
    /// Takes a share of a batch's memory; gives the batch's number in here.
    pub(in super::super) fn push(&mut self, batch: &Frame) -> u32 {
        let number = u32::try_from(self.buffers.len());
        self.buffers.push(batch.buffer().clone());
        self.places.push((batch.position, batch.bytes()));
        number.expect("a memtable holds far less than 2^32 batches")
    }

    /// Gives up the shares of the batches above a position, the last ones; gives how many bytes of log they were.
    pub(in super::super) fn discard_above(&mut self, position: Position) -> usize {
        let stay = self.places.partition_point(|(at, _)| *at <= position);
        self.buffers.truncate(stay);
        self.places.drain(stay..).map(|(_, bytes)| bytes).sum()
    }

    /// Gives up all shares.
    pub(in super::super) fn clear(&mut self) {
        self.buffers.clear();
        self.places.clear();
    }

    /// The piece itself.
    pub(in super::super) fn get(&self, piece: BatchRef) -> &[u8] {
        &self.buffers[piece.buffer as usize][piece.extent.range()]
    }

    /// The piece to be kept.
    pub(in super::super) fn take(&self, piece: BatchRef) -> Bytes {
        self.buffers[piece.buffer as usize].slice(piece.extent.range())
    }
}
