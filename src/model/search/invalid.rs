//! Why a search index or a search was refused.
//!
//! Owns: the typed reasons. Promises: each means that nothing was done. Must not: know texts or codes; the wire does.

/// What is wrong with a definition of an index, or with a search.
#[derive(Clone, Debug, PartialEq)]
pub enum InvalidSearch {
    /// So many fields, counted with those inside of others, are more than an index may have, or there are none.
    FieldCount(usize),
    /// Two fields have one name.
    DuplicateField(String),
    /// A field's name is empty or too long.
    FieldName(String),
    /// Fields inside of fields, deeper than allowed.
    FieldDepth,
    /// A field of this name can't be so: the second says what is not possible.
    Field(String, &'static str),
    /// An index can't have, or a search can't ask for, what this names.
    Unsupported(&'static str),
    /// The index has no such field.
    NoField(String),
    /// The field's type can't be asked this way: field, type, what was asked.
    FieldKind(String, &'static str, &'static str),
    /// A value that the field's type can't be compared with.
    Value(String),
    /// A point that is not `latitude,longitude`.
    Point(String),
    /// More parts of a query, or deeper ones, than allowed.
    QueryNodes(usize),
    /// A text that is longer than may be asked for: what it is, and the limit in bytes.
    TooLong(&'static str, usize),
    /// Two aggregations beside each other have one name, or one has none.
    AggregateName(String),
    /// The field of an aggregation is not there: what is computed, field.
    AggregateField(&'static str, String),
    /// The field of an aggregation is of another type: what is computed, field, type, the types that go.
    AggregateKind(&'static str, String, &'static str, &'static str),
    /// Pieces of this field's texts can't be shown.
    Highlight(String),
    /// So many groups are more than a search makes.
    Groups(usize),
    /// A number of a search is outside of its range: its name, lowest and highest.
    Range(&'static str, usize, usize),
    /// A token of another query or index, or none of ours.
    Token,
    /// A token and something that its first page decided: this.
    WithToken(&'static str),
    /// Which rows a minimum of matching parts leaves is not to be read from this text.
    MinimumMatch(String),
    /// A scan by a part that there is not.
    ScanPart {
        /// As asked.
        id: i32,
        /// How many there are.
        parts: i32,
    },
    /// More parts of a scan than there are: as asked.
    ScanParts(i32),
    /// The table that is to be searched is not there.
    NoTable(String),
    /// The search index that the table should have is not there.
    NoIndex(String),
    /// The table has a search index, by which it is kept.
    Kept,
    /// A search index of this name is there.
    IndexExists(String),
    /// So many search indexes are all a table may have.
    IndexQuota(usize),
    /// The rows that a search holds until its end take more than so many MiB.
    Memory(usize),
    /// A table whose rows expire has a search index only where rows are not updated.
    TimeToLive,
    /// The table has more than one version of a column.
    Versions,
    /// The session of a scan has expired.
    Session,
}
