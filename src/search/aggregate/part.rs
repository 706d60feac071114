//! The tree in one segment.
//!
//! Owns: what a node has there. Promises: rows are looked at in their order. Must not: count.

use tantivy::{DocId, SegmentOrdinal, SegmentReader};

use super::key::KeyPart;
use super::values::Values;
use super::{Node, Of, Texts};
use crate::collect::{Rank, SegmentOrder, Share, Short};

/// A node in one segment.
pub(super) struct NodePart {
    key: Option<KeyPart>,
    pub(super) measures: Vec<MeasurePart>,
    pub(super) inner: Vec<NodePart>,
    /// The keys of the row that is looked at.
    pub(super) found: Vec<u64>,
}

/// A measure in one segment.
pub(super) enum MeasurePart {
    Values(Values),
    /// And the ranks of the row that is looked at.
    Rows(SegmentOrder, Vec<Rank>),
}

impl NodePart {
    pub(super) fn new(
        node: &Node,
        (ordinal, segment): (SegmentOrdinal, &SegmentReader),
    ) -> tantivy::Result<NodePart> {
        let key = node.by.as_ref().map(|by| KeyPart::new(&by.key, segment));
        let measures = node.measures.iter().map(|measure| {
            Ok::<_, tantivy::TantivyError>(match &measure.of {
                Of::Values(source) => MeasurePart::Values(Values::new(source, segment)?),
                Of::Rows(order) => {
                    let order = SegmentOrder::new(order, ordinal, segment)?;
                    MeasurePart::Rows(order, Vec::new())
                }
            })
        });
        let inner = node.inner.iter();
        let inner = inner.map(|inner| NodePart::new(inner, (ordinal, segment)));
        Ok(NodePart {
            key: key.transpose()?,
            measures: measures.collect::<tantivy::Result<_>>()?,
            inner: inner.collect::<tantivy::Result<_>>()?,
            found: Vec::new(),
        })
    }

    /// Finds the keys of a row, each once. Rows come in their order.
    pub(super) fn keys(
        &mut self,
        row: DocId,
        texts: &mut Texts,
        share: &Share,
    ) -> Result<(), Short> {
        match &mut self.key {
            Some(key) => key.keys(row, &mut self.found, texts, share),
            None => Ok(()),
        }
    }
}
