//! What `tests/fuzz` reaches of search indexes. Only in builds with the feature `faults`.
//!
//! Owns: the list, and three rows in memory that are searched. Promises: each takes any bytes. Must not: be called by
//! anything but that test.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use tantivy::{Index, Searcher};
use tideline_base::bounds::{Bounds, Resource};
use tideline_base::faults::Decoder;
use tideline_base::ids::TableId;
use tideline_model::search::{
    Analyzer, Bool, Field, FieldType, Metric, Query, Search, SearchSchema, VectorOptions,
};
use tideline_model::{FoundCell, FoundRow, Value};

use crate::Words;
use crate::aggregate::Tree;
use crate::asked::Asked;
use crate::checked::Checked;
use crate::collect::{Order, OrderPart, Page, Share};
use crate::deadline::Deadline;
use crate::index::layout::Layout;
use crate::query::{compile, living, shows};

/// Decoders by name.
pub const TARGETS: &[Decoder] = &[
    ("search_objects", objects),
    ("search_vector", vector),
    ("search_words", words),
];

/// The document of a row with this value in a field.
fn indexed(of: Field, value: Value) {
    let schema = SearchSchema {
        fields: vec![of],
        ..SearchSchema::default()
    };
    let Ok(schema) = schema.checked() else {
        return;
    };
    let row = FoundRow {
        key: Vec::new(),
        cells: vec![FoundCell {
            name: "a".to_owned(),
            version: 1,
            value,
        }],
    };
    let _ = Layout::new(&schema).document(&[], b"key", &row);
}

/// A field of objects with values of each kind, and with objects inside.
fn nested() -> Field {
    let kinds = [
        ("k", FieldType::Keyword),
        ("t", FieldType::Text),
        ("n", FieldType::Long),
        ("d", FieldType::Double),
        ("g", FieldType::GeoPoint),
    ];
    let mut fields: Vec<Field> = kinds.map(|(name, kind)| Field::new(name, kind)).into();
    fields.push(Field {
        is_array: true,
        ..Field::new("l", FieldType::Long)
    });
    fields.push(Field {
        fields: fields.clone(),
        ..Field::new("o", FieldType::Nested)
    });
    Field {
        fields,
        ..Field::new("a", FieldType::Nested)
    }
}

fn objects(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        indexed(nested(), Value::String(text.to_owned()));
    }
}

/// A query for messages, and whether a message has it.
fn words(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let (query, entry) = text.split_once('\n').unwrap_or((text, "the tide is in"));
    if let Ok(words) = Words::read(Some(query)) {
        let entry = [("text".to_owned(), Value::String(entry.to_owned()))];
        let _ = words.hold(&entry);
        for piece in words.found(&entry) {
            assert!(!piece.parts.is_empty(), "a piece has a text");
        }
    }
}

/// Rows with a field of each kind, in an index in memory.
struct Rows {
    layout: Layout,
    searcher: Searcher,
    rows: Vec<FoundRow>,
}

static ROWS: LazyLock<Rows> = LazyLock::new(Rows::new);

impl Rows {
    #[allow(clippy::expect_used)] // it is no input
    fn new() -> Rows {
        let kinds = [
            ("k", FieldType::Keyword),
            ("n", FieldType::Long),
            ("d", FieldType::Double),
            ("b", FieldType::Boolean),
            ("g", FieldType::GeoPoint),
            ("w", FieldType::Date),
        ];
        let mut fields: Vec<Field> = kinds.map(|(name, kind)| Field::new(name, kind)).into();
        for (name, analyzer) in [("t", Analyzer::default()), ("m", Analyzer::MaxWord)] {
            fields.push(Field {
                analyzer: Some(analyzer),
                highlights: Some(true),
                ..Field::new(name, FieldType::Text)
            });
        }
        fields.push(Field {
            is_array: true,
            ..Field::new("l", FieldType::Long)
        });
        fields.push(Field {
            vector: Some(VectorOptions {
                dimension: 2,
                metric: Metric::Euclidean,
            }),
            ..Field::new("v", FieldType::Vector)
        });
        fields.push(nested());
        let schema = SearchSchema {
            fields,
            ..SearchSchema::default()
        };
        let layout = Layout::new(&schema.checked().expect("fields"));
        let index = Index::create_in_ram(layout.engine.clone());
        let mut writer = index.writer_with_num_threads(1, 15 << 20).expect("memory");
        let text = |text: &str| Value::String(text.to_owned());
        let rows = [1_i64, 2, 3].map(|number| {
            let cells = [
                ("k", text(["red", "Red mud", "\u{1F6A2}"][usize::try_from(number).unwrap_or(1) - 1])),
                ("n", Value::Integer(number)),
                ("d", Value::Double(0.5)),
                ("b", Value::Boolean(number == 1)),
                ("g", text("53.5,10")),
                ("w", Value::Integer(1_700_000_000_000)),
                ("t", text("The tide is in, the tide is high")),
                ("m", text("\u{660e}\u{5929}\u{6e2f}\u{53e3}")),
                ("l", text("[1, 2, 3]")),
                ("v", text("[0.5, 1]")),
                ("a", text(r#"[{"k": "x", "n": 1, "t": "the tide", "o": [{"n": 2}]}, {"n": 2, "g": "1,1"}]"#)),
            ];
            let cell = |(name, value): (&str, Value)| FoundCell {
                name: name.to_owned(),
                version: 1,
                value,
            };
            FoundRow {
                key: Vec::new(),
                cells: cells.map(cell).into(),
            }
        });
        for (key, row) in rows.iter().enumerate() {
            let (document, _) = layout
                .document(&[], &[u8::try_from(key).unwrap_or(0)], row)
                .expect("a row");
            writer.add_document(document).expect("room");
            writer.commit().expect("room");
        }
        let searcher = index.reader().expect("files").searcher();
        Rows {
            layout,
            searcher,
            rows: rows.into(),
        }
    }
}

/// How long one search may take.
const TIME: Duration = Duration::from_secs(2);

/// Does a search in rows with a field of each kind: `k`, `n`, `d`, `b`, `g`, `w`, `t`, `m`, `l`, `v`, and `a`, of
/// objects. `None` makes the rows alone.
pub fn search(search: Option<Search>) {
    let Rows {
        layout,
        searcher,
        rows,
    } = &*ROWS;
    let Some(search) = search else { return };
    let share = Bounds::default().of(Resource::SearchBytes).share(None);
    let asked = Arc::new(Asked {
        deadline: Arc::new(Deadline::new(Instant::now() + TIME)),
        share: Arc::new(Share::new(share)),
        since_ms: None,
        limit: search.limit,
    });
    let (whole, unfiltered) = match search.filter {
        None => (search.query, None),
        Some(filter) => {
            let both = Bool {
                must: vec![search.query.clone()],
                filter: vec![filter],
                ..Bool::default()
            };
            (Query::Bool(Box::new(both)), Some(search.query))
        }
    };
    let Ok(shows) = shows(layout, &asked, (&whole, &search.highlight)) else {
        return;
    };
    if let Some(shows) = &shows {
        let mut left = 1 << 20;
        for row in rows {
            let _ = shows.of(&[], row, &mut left);
        }
    }
    let Ok(compiled) = compile(layout, &asked, &whole) else {
        return;
    };
    let unfiltered = unfiltered.map(|query| compile(layout, &asked, &query));
    let page = Page::first(search.sort.unwrap_or(tideline_model::search::Sort {
        sorters: Vec::new(),
        keys_last: true,
    }));
    let alike = search.collapse.map(|name| OrderPart::alike(layout, &name));
    let (Ok(unfiltered), Ok(alike), Ok(order), Ok(tree)) = (
        unfiltered.transpose(),
        alike.transpose(),
        Order::new(layout, &page.sort),
        Tree::new(layout, &asked, searcher, &search.aggregates),
    ) else {
        return;
    };
    let checked = Checked {
        index: TableId(1),
        compiled: living(layout, &asked, compiled),
        unfiltered: unfiltered.map(|query| living(layout, &asked, query)),
        layout: layout.clone(),
        query: whole,
        order: Arc::new(order),
        alike,
        page,
        aggregates: search.aggregates,
        shows,
        offset: search.offset,
        limit: search.limit,
        asked,
    };
    if let Ok(found) = checked.run(searcher, tree) {
        assert!(
            found.hits.len() <= rows.len().min(checked.limit),
            "no row comes twice"
        );
        for hit in &found.hits {
            let _ = checked.behind(hit);
        }
    }
}

/// How many numbers, and a vector as a text and as bytes.
fn vector(input: &[u8]) {
    let Some((dimension, input)) = input.split_first() else {
        return;
    };
    let of = Field {
        vector: Some(VectorOptions {
            dimension: usize::from(*dimension),
            metric: Metric::Cosine,
        }),
        ..Field::new("a", FieldType::Vector)
    };
    indexed(of.clone(), Value::Binary(input.to_vec().into()));
    if let Ok(text) = std::str::from_utf8(input) {
        indexed(of, Value::String(text.to_owned()));
    }
}
