//! The fields of a search index: their types, analyzers and options, and which of these go together.
//!
//! Owns: what a field is. Promises: a checked field can be indexed. Must not: know queries.

use serde::{Deserialize, Serialize};

use super::{DIMENSIONS_MAX, InvalidSearch};

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldType {
    /// Integers.
    Long,
    /// Doubles.
    Double,
    /// True or false.
    Boolean,
    /// Texts as a whole.
    Keyword,
    /// The same, meant for wildcards.
    FuzzyKeyword,
    /// Texts in words.
    Text,
    /// Times, ms since 1970.
    Date,
    /// Points of the globe.
    GeoPoint,
    /// Objects with fields of their own.
    Nested,
    /// Lists of numbers.
    Vector,
}

impl FieldType {
    /// As texts of refusals name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            FieldType::Long => "long",
            FieldType::Double => "double",
            FieldType::Boolean => "boolean",
            FieldType::Keyword => "keyword",
            FieldType::FuzzyKeyword => "fuzzy_keyword",
            FieldType::Text => "text",
            FieldType::Date => "date",
            FieldType::GeoPoint => "geo_point",
            FieldType::Nested => "nested",
            FieldType::Vector => "vector",
        }
    }

    /// Whether it is a text, whole or in words.
    #[must_use]
    pub fn is_text(self) -> bool {
        self.is_keyword() || self == FieldType::Text
    }

    /// Whether it is a text that is kept whole.
    #[must_use]
    pub fn is_keyword(self) -> bool {
        matches!(self, FieldType::Keyword | FieldType::FuzzyKeyword)
    }
}

/// How a text becomes words.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Analyzer {
    /// At spaces and punctuation; each character of Chinese, Japanese and Korean by itself.
    SingleWord {
        /// Whether capitals stay.
        case_sensitive: bool,
        /// Whether letters and digits are words of their own.
        delimit_word: bool,
    },
    /// At a text.
    Split {
        /// `None` = at white space.
        delimiter: Option<String>,
    },
    /// Chinese in all words that a dictionary has in it, which overlap; all else as `SingleWord`.
    MaxWord,
    /// Chinese in the likeliest words of a dictionary, one behind the other; all else as `SingleWord`.
    MinWord,
    /// All pieces of words, so many characters long.
    Fuzzy {
        /// At least.
        min: usize,
        /// At most.
        max: usize,
    },
}

impl Default for Analyzer {
    fn default() -> Analyzer {
        Analyzer::SingleWord {
            case_sensitive: false,
            delimit_word: false,
        }
    }
}

/// How near two vectors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// By the distance of their ends.
    Euclidean,
    /// By the angle between them.
    Cosine,
    /// By their product.
    DotProduct,
}

/// What a field of vectors takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VectorOptions {
    /// So many numbers each.
    pub dimension: usize,
    /// How they are compared.
    pub metric: Metric,
}

/// A field of an index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// The column whose values it has, or a name of its own if it has a `source`.
    pub name: String,
    /// What it holds.
    pub kind: FieldType,
    /// Whether it can be searched.
    #[serde(default = "yes")]
    pub index: bool,
    /// Whether it can be sorted by, as given; `None` = it can where its type can.
    #[serde(default)]
    pub sorts: Option<bool>,
    /// Whether values are kept, as given: rows are read from their table.
    #[serde(default)]
    pub store: Option<bool>,
    /// Whether a value is a list, written as JSON.
    #[serde(default)]
    pub is_array: bool,
    /// How a text becomes words.
    #[serde(default)]
    pub analyzer: Option<Analyzer>,
    /// The column whose values it has, where that has another name.
    #[serde(default)]
    pub source: Option<String>,
    /// How dates are written, as given.
    #[serde(default)]
    pub date_formats: Vec<String>,
    /// Whether hits in it can be shown, as given.
    #[serde(default)]
    pub highlights: Option<bool>,
    /// What vectors it takes.
    #[serde(default)]
    pub vector: Option<VectorOptions>,
    /// Fields of its objects.
    #[serde(default)]
    pub fields: Vec<Field>,
}

fn yes() -> bool {
    true
}

/// A longer text is no keyword.
pub const KEYWORD_BYTES_MAX: usize = 4 << 10;
/// The most bytes of a name.
const NAME_BYTES_MAX: usize = 255;
/// Of nested fields in each other.
const DEPTH_MAX: usize = 5;
/// Fields of one nested field.
const INNER_FIELDS_MAX: usize = 100;
/// The most characters that the shortest and longest pieces may differ by, and the longest piece.
const PIECES_MAX: usize = 6;
const PIECE_MAX: usize = 100;
/// How a field's dates may be written.
const FORMATS_MAX: usize = 10;

impl Field {
    /// A field of a column's name that can be searched, and has all else as it is where nothing is said of it.
    #[must_use]
    pub fn new(name: &str, kind: FieldType) -> Field {
        Field {
            name: name.to_owned(),
            kind,
            index: true,
            sorts: None,
            store: None,
            is_array: false,
            analyzer: None,
            source: None,
            date_formats: Vec::new(),
            highlights: None,
            vector: None,
            fields: Vec::new(),
        }
    }

    /// The column whose values it has.
    #[must_use]
    pub fn column(&self) -> &str {
        self.source.as_deref().unwrap_or(&self.name)
    }

    /// Whether rows can be sorted by it.
    #[must_use]
    pub fn can_sort(&self) -> bool {
        let kind_can = !matches!(
            self.kind,
            FieldType::Text | FieldType::Nested | FieldType::Vector
        );
        kind_can && self.sorts != Some(false)
    }

    /// Checks it and the fields inside; returns how many these are in all.
    pub(super) fn check(&self, depth: usize) -> Result<usize, InvalidSearch> {
        let no = |what| Err(InvalidSearch::Field(self.name.clone(), what));
        if self.name.is_empty() || self.name.len() > NAME_BYTES_MAX {
            return Err(InvalidSearch::FieldName(self.name.clone()));
        }
        if depth > DEPTH_MAX {
            return Err(InvalidSearch::FieldDepth);
        }
        if (self.kind == FieldType::Nested) == self.fields.is_empty() {
            return no("only a nested field has fields, and has at least one");
        }
        if self.analyzer.is_some() && self.kind != FieldType::Text {
            return no("only a text field has an analyzer");
        }
        if !self.date_formats.is_empty() && self.kind != FieldType::Date {
            return no("only a date field has date formats");
        }
        if self.date_formats.len() > FORMATS_MAX {
            return no("it has more date formats than 10");
        }
        if let Some(wrong) = self
            .date_formats
            .iter()
            .find(|format| super::DateFormat::parse(format).is_none())
        {
            let name = format!("{}: {wrong}", self.name);
            return Err(InvalidSearch::Field(name, "the date format is not known"));
        }
        if self.kind == FieldType::Vector {
            let fits = |vector: VectorOptions| (1..=DIMENSIONS_MAX).contains(&vector.dimension);
            if !self.vector.is_some_and(fits) {
                return no("a vector field has a dimension from 1 to 4096");
            }
            if self.is_array {
                return no("a vector field is no array");
            }
        }
        match &self.analyzer {
            Some(Analyzer::Fuzzy { min, max })
                if *min == 0 || max < min || max - min > PIECES_MAX || *max > PIECE_MAX =>
            {
                return no(
                    "max_chars is from min_chars to min_chars + 6, and min_chars is above 0",
                );
            }
            Some(Analyzer::Split {
                delimiter: Some(delimiter),
            }) if delimiter.is_empty() || delimiter.len() > NAME_BYTES_MAX => {
                return no("a delimiter has 1 to 255 bytes");
            }
            _ => {}
        }
        if self.fields.len() > INNER_FIELDS_MAX {
            return no("it has more fields than 100");
        }
        let inner = self.fields.iter().map(|field| field.check(depth + 1));
        Ok(1 + inner.sum::<Result<usize, _>>()?)
    }
}
