//! What a batch did to a timeline, as everybody above the rows sees it.
//!
//! Owns: these types. Promises: every number says its unit. Must not: hold a rule, touch rows, or encode.

pub use tideline_model::entry::Columns;
pub use tideline_model::timelines::{Burial, Head, Message};

/// The meta of a timeline.
pub type Meta = Columns;
/// The user who appends; empty = nobody in particular.
pub type Sender = String;

/// How many members a timeline has, and the last version of a change of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Of which history of the timeline's name; later ones are larger.
    pub incarnation: u64,
    /// 0 = there was none.
    pub version: u64,
    /// How many.
    pub members: u64,
}

/// Something that happened to a timeline in one batch, as the feed sees it.
#[derive(Clone, Debug, Default)]
pub struct TimelineEvent {
    /// Which timeline.
    pub timeline: String,
    /// Its state after the batch; `None` = deleted.
    pub head: Option<Head>,
    /// Its members behind the batch; 0 of a deleted one.
    pub members: Standing,
    /// The version of its meta, if the batch changed it.
    pub meta_version: Option<u64>,
    /// Messages that the batch appended, in order.
    pub appended: Vec<Message>,
    /// Sequences that the batch edited or deleted.
    pub changed: Vec<u64>,
    /// The batch added reactions or took some back.
    pub reacted: bool,
    /// The batch changed settings: perhaps others may read it now.
    pub configured: bool,
}
