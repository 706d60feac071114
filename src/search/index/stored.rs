//! What the documents of a segment keep as it was given: vectors, objects and texts that hits are shown in.
//!
//! Owns: how it is read. Must not: know what it means.

use tantivy::schema::{Field, Value as _};
use tantivy::store::StoreReader;
use tantivy::{DocId, SegmentReader, TantivyDocument};

/// Blocks that are kept of each segment: rows come in their order.
const BLOCKS: usize = 1;

/// See the top.
pub(crate) struct Stored(StoreReader);

impl Stored {
    /// Of a segment.
    pub(crate) fn new(segment: &SegmentReader) -> tantivy::Result<Stored> {
        Ok(Stored(segment.get_store_reader(BLOCKS)?))
    }

    /// Calls `look` with what a row keeps of a field; `None` = nothing.
    pub(crate) fn with<R>(
        &self,
        row: DocId,
        field: Field,
        look: impl FnOnce(&[u8]) -> R,
    ) -> tantivy::Result<Option<R>> {
        let document: TantivyDocument = self.0.get(row)?;
        let kept = document.get_first(field);
        Ok(kept.and_then(|kept| kept.as_bytes()).map(look))
    }
}
