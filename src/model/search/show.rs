//! What is shown of a row that was found, beside its columns: pieces of its texts, and its objects that match.
//!
//! Owns: how both are asked for and answered, and their limits. Must not: know which fields an index has.

use super::Sort;

/// Pieces of texts, as they are asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Highlight {
    /// Of these fields.
    pub fields: Vec<HighlightField>,
    /// Whether signs of HTML in the texts are written so that they are none.
    pub is_html: bool,
}

/// Pieces of one field's texts.
#[derive(Clone, Debug, PartialEq)]
pub struct HighlightField {
    /// The field.
    pub field: String,
    /// So many pieces at most.
    pub count: usize,
    /// Characters of a piece, about.
    pub size: usize,
    /// What is put before each word that was looked for.
    pub before: String,
    /// And what behind it.
    pub behind: String,
    /// In which order pieces come.
    pub order: Fragments,
}

/// In which order pieces come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fragments {
    /// As in the text.
    #[default]
    AsInText,
    /// Those with the most words first.
    Best,
}

/// Objects of a nested field that match, as they are asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct InnerHits {
    /// In which order; `None` = those with the highest scores first.
    pub sort: Option<Sort>,
    /// So many are left out first.
    pub offset: usize,
    /// So many at most are wanted.
    pub limit: usize,
    /// Pieces of their texts.
    pub highlight: Highlight,
}

/// What is shown of a row or an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shown {
    /// Pieces of texts, of each field that has some.
    pub fields: Vec<Highlighted>,
    /// Objects, of each nested query that asks for them.
    pub inside: Vec<Inside>,
}

/// Pieces of a field's texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Highlighted {
    /// The field.
    pub field: String,
    /// The pieces.
    pub fragments: Vec<String>,
}

/// Objects of a nested field that match.
#[derive(Clone, Debug, PartialEq)]
pub struct Inside {
    /// The nested field.
    pub path: String,
    /// The objects.
    pub hits: Vec<InnerHit>,
}

/// An object that matches.
#[derive(Clone, Debug, PartialEq)]
pub struct InnerHit {
    /// Its place in its list.
    pub place: usize,
    /// Its score.
    pub score: f32,
    /// What is shown of it.
    pub shown: Shown,
}

/// Fields whose pieces one search, or one list of objects, asks for.
pub const HIGHLIGHTS_MAX: usize = 10;
/// Pieces of one field.
pub const FRAGMENTS_MAX: usize = 10;
/// Characters of one piece.
pub const FRAGMENT_CHARS_MAX: usize = 1_000;
/// Bytes of what is put before a word, or behind it.
pub const TAG_BYTES_MAX: usize = 100;
/// Objects of one list that are left out and shown.
pub const INNER_HITS_MAX: usize = 256;
