//! Which field of a search index is which of the engine's.
//!
//! Owns: the engine's schema for an index. Promises: it follows from the definition alone, so that an index is opened
//! by the schema that it was made with; names of fields are never names of the engine. Must not: read a row.
//!
//! ```text
//! key      the row's encoded key columns: by it rows are deleted and sorted
//! version  the row's newest version, ms
//! oldest   its oldest one
//! has      the numbers of the fields that the row has
//! f<n>     the values of field n, in the order of the definition; those of a nested field after it, of all its objects
//! ```

use tantivy::schema::{
    BytesOptions, FAST, Field as EngineField, INDEXED, IndexRecordOption, NumericOptions, STORED,
    Schema, SchemaBuilder, TextFieldIndexing, TextOptions,
};

use tideline_model::search::{
    Analyzer, DateFormats, Field, FieldType, InvalidSearch, MESSAGE_INDEX, SearchIndex,
    SearchSchema, TIMELINE_INDEX,
};

/// The engine's tokenizer that takes a text as it is.
const RAW: &str = "raw";

/// The name of the column of keys.
pub(crate) const KEY: &str = "key";
/// The name of the column of versions.
pub(crate) const VERSION: &str = "version";

/// A search index against the engine.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) engine: Schema,
    pub(crate) key: EngineField,
    pub(crate) version: EngineField,
    pub(crate) oldest: EngineField,
    pub(crate) has: EngineField,
    pub(crate) fields: Vec<Placed>,
    pub(crate) of: Of,
}

/// What an index is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// Rows of a table: a field is a column.
    Rows,
    /// All messages, or all timelines by their metas: see `message.rs`.
    Texts,
}

/// A field and where it is.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    /// By its whole path, if it is inside of a nested one.
    pub(crate) field: Field,
    /// The place of the nested field around it, and its name there.
    pub(crate) inside: Option<usize>,
    pub(crate) key: String,
    /// Its place among all fields, as a text.
    pub(crate) number: String,
    /// `None` = only whether a row has it is known.
    pub(crate) at: Option<EngineField>,
    /// The engine's name of it.
    pub(crate) name: String,
    pub(crate) formats: DateFormats,
    pub(crate) analyzer: Analyzer,
}

impl Layout {
    /// The layout of an index.
    pub(crate) fn new(schema: &SearchSchema) -> Layout {
        let mut engine = Schema::builder();
        let raw = TextFieldIndexing::default()
            .set_tokenizer(RAW)
            .set_fieldnorms(false)
            .set_index_option(IndexRecordOption::Basic);
        let key = engine.add_bytes_field(KEY, BytesOptions::default().set_indexed().set_fast());
        let version = engine.add_i64_field(VERSION, FAST);
        let oldest = engine.add_i64_field("oldest", FAST);
        let keyword = TextOptions::default().set_indexing_options(raw);
        let has = engine.add_text_field("has", keyword.clone());
        let mut fields = Vec::new();
        for field in &schema.fields {
            add(&mut fields, (&mut engine, &keyword), field, None);
        }
        Layout {
            engine: engine.build(),
            key,
            version,
            oldest,
            has,
            fields,
            of: Of::Rows,
        }
    }

    /// The layout of an index, also of one of the server's own.
    pub(crate) fn of(index: &SearchIndex) -> Layout {
        let of = match &*index.name {
            MESSAGE_INDEX | TIMELINE_INDEX => Of::Texts,
            _ => Of::Rows,
        };
        let layout = Layout::new(&index.schema);
        Layout { of, ..layout }
    }

    /// A field by its name.
    pub(crate) fn field(&self, name: &str) -> Result<&Placed, InvalidSearch> {
        let found = self.fields.iter().find(|placed| placed.field.name == name);
        found.ok_or_else(|| InvalidSearch::NoField(name.to_owned()))
    }
}

impl Placed {
    /// Whether it has objects.
    pub(crate) fn is_nested(&self) -> bool {
        self.field.kind == FieldType::Nested
    }

    /// The refusal of what can't be asked of it.
    pub(crate) fn no(&self, what: &'static str) -> InvalidSearch {
        InvalidSearch::FieldKind(self.field.name.clone(), self.field.kind.name(), what)
    }

    /// Where it is searched.
    pub(crate) fn searched(&self, what: &'static str) -> Result<EngineField, InvalidSearch> {
        match self.at {
            Some(at) if self.field.index => Ok(at),
            _ => Err(self.no(what)),
        }
    }
}

/// Adds a field, and those inside of it.
fn add(
    fields: &mut Vec<Placed>,
    (engine, keyword): (&mut SchemaBuilder, &TextOptions),
    field: &Field,
    inside: Option<usize>,
) {
    let at = fields.len();
    let (name, mut whole) = (format!("f{at}"), field.clone());
    if let Some(around) = inside {
        whole.name = format!("{}.{}", fields[around].field.name, field.name);
    }
    fields.push(Placed {
        at: match field.kind {
            FieldType::Nested if inside.is_some() => None,
            _ => place(engine, &name, field, keyword),
        },
        formats: DateFormats::new(&field.date_formats),
        analyzer: field.analyzer.clone().unwrap_or_default(),
        field: whole,
        inside,
        key: field.name.clone(),
        number: at.to_string(),
        name,
    });
    for inner in &field.fields {
        add(fields, (&mut *engine, keyword), inner, Some(at));
    }
}

fn place(
    engine: &mut SchemaBuilder,
    name: &str,
    field: &Field,
    keyword: &TextOptions,
) -> Option<EngineField> {
    let number = match field.index {
        true => NumericOptions::from(INDEXED | FAST),
        false => NumericOptions::from(FAST),
    };
    Some(match field.kind {
        FieldType::Long | FieldType::Date => engine.add_i64_field(name, number),
        FieldType::Double => engine.add_f64_field(name, number),
        FieldType::Boolean => engine.add_bool_field(name, number),
        FieldType::GeoPoint => engine.add_u64_field(name, FAST),
        FieldType::Keyword | FieldType::FuzzyKeyword => {
            let options = match field.index {
                true => keyword.clone(),
                false => TextOptions::default(),
            };
            engine.add_text_field(name, options.set_fast(RAW))
        }
        FieldType::Text if field.index => {
            let words = TextFieldIndexing::default()
                .set_tokenizer(RAW)
                .set_index_option(IndexRecordOption::WithFreqsAndPositions);
            engine.add_text_field(name, TextOptions::default().set_indexing_options(words))
        }
        FieldType::Vector | FieldType::Nested => engine.add_bytes_field(name, STORED),
        FieldType::Text => return None,
    })
}
