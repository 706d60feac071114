//! Keys and values of a memtable, one behind the other in large chunks.
//!
//! Owns: the bytes. Promises: what was pushed never moves or changes; taking a key or value out is a slice of its
//! chunk, not a copy, but for the newest chunk. Must not: know what is where; the memtable keeps the references.

use bytes::Bytes;

/// Bytes of a chunk; a longer piece gets a chunk of its own.
const CHUNK_BYTES: usize = 1 << 20;

/// Append-only memory.
#[derive(Default)]
pub(in super::super) struct Arena {
    full: Vec<Bytes>,
    open: Vec<u8>,
    /// Empty chunks of earlier use.
    spare: Vec<Vec<u8>>,
}

/// Where a piece is in its arena.
#[derive(Clone, Copy)]
pub(in super::super) struct ArenaRef {
    chunk: u32,
    at: u32,
    len: u32,
}

impl ArenaRef {
    /// How many bytes the piece has.
    pub(in super::super) fn len(self) -> usize {
        self.len as usize
    }
}

impl Arena {
    /// Copies `piece` in.
    pub(in super::super) fn push(&mut self, piece: &[u8]) -> ArenaRef {
        if self.open.len() + piece.len() > self.open.capacity() {
            let chunk = match self.spare.pop() {
                Some(chunk) if piece.len() <= CHUNK_BYTES => chunk,
                _ => Vec::with_capacity(piece.len().max(CHUNK_BYTES)),
            };
            let full = std::mem::replace(&mut self.open, chunk);
            if !full.is_empty() {
                self.full.push(Bytes::from(full));
            }
        }
        let number = |size: usize| u32::try_from(size).expect("a memtable stays far below 4 GiB");
        let pushed = ArenaRef {
            chunk: number(self.full.len()),
            at: number(self.open.len()),
            len: number(piece.len()),
        };
        self.open.extend_from_slice(piece);
        pushed
    }

    /// Forgets all pieces; keeps the chunks of which no reader holds a piece.
    pub(in super::super) fn clear(&mut self) {
        self.open.clear();
        for chunk in self.full.drain(..) {
            if let Ok(chunk) = chunk.try_into_mut() {
                let mut chunk = Vec::from(chunk);
                chunk.clear();
                // Larger ones were for one piece.
                if chunk.capacity() == CHUNK_BYTES {
                    self.spare.push(chunk);
                }
            }
        }
    }

    /// The piece itself.
    pub(in super::super) fn get(&self, piece: ArenaRef) -> &[u8] {
        let chunk = self
            .full
            .get(piece.chunk as usize)
            .map_or(&self.open[..], |chunk| &chunk[..]);
        &chunk[piece.at as usize..][..piece.len as usize]
    }

    /// The piece to be kept.
    pub(in super::super) fn take(&self, piece: ArenaRef) -> Bytes {
        match self.full.get(piece.chunk as usize) {
            Some(chunk) => chunk.slice(piece.at as usize..piece.at as usize + piece.len as usize),
            None => Bytes::copy_from_slice(self.get(piece)),
        }
    }
}
