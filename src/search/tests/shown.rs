//! What is shown of rows that were found, against a plain look at their texts and objects.
//!
//! Owns: the comparison. Must not: look at which rows are found (`searches.rs`).

use tideline_model::search::{
    Bool, Fragments, Highlight, HighlightField, InnerHits, Inside, InvalidSearch, Match, Nested,
    ObjectScores, Query, Search, Sort, Sorter,
};
use tideline_model::{Error, FoundRow, Value};

use super::bed::{Bed, INDEX, key_of, search};
use super::plain::Row;
use super::random::Random;

fn of_field(field: &str, size: usize, count: usize) -> Highlight {
    Highlight {
        fields: vec![HighlightField {
            field: field.to_owned(),
            count,
            size,
            before: "<<".to_owned(),
            behind: ">>".to_owned(),
            order: Fragments::AsInText,
        }],
        is_html: false,
    }
}

fn words(field: &str, text: &str) -> Query {
    Query::Match(Match {
        field: field.to_owned(),
        text: text.to_owned(),
        is_and: false,
        minimum: None,
        weight: 1.0,
    })
}

/// A text with all words of some others in marks.
fn marked(text: &str, asked: &[&str]) -> String {
    let (mut marked, mut word) = (String::new(), String::new());
    for one in text.chars().map(Some).chain([None]) {
        if let Some(letter) = one.filter(|one| one.is_alphanumeric()) {
            word.push(letter);
            continue;
        }
        match asked.contains(&word.to_lowercase().as_str()) {
            true => marked.push_str(&format!("<<{word}>>")),
            false => marked.push_str(&word),
        }
        word.clear();
        marked.extend(one);
    }
    marked
}

fn text_of(cells: &super::bed::Cells) -> Option<&str> {
    match cells.get("text") {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_that_were_looked_for_are_marked() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(0x9e9e);
    let mut bed = Bed::open(folder.path());
    bed.create().await;
    bed.index().await;
    for _ in 0..120 {
        let (key, cells) = (random.key(), random.cells());
        bed.write(key, Some(cells)).await;
    }
    let query = Query::Bool(Box::new(Bool {
        should: vec![words("text", "Red x1"), words("whole_text", "green")],
        must_not: vec![words("text", "ship")],
        ..Bool::default()
    }));
    for (size, count) in [(1_000, 1), (9, 10), (1, 10), (12, 1)] {
        let found = bed.search(Search {
            highlight: of_field("text", size, count),
            ..search(query.clone(), None, 100)
        });
        let found = found.await;
        assert!(found.rows.len() > 9 && found.rows.len() == found.shown.len());
        for ((row, _), shown) in found.rows.iter().zip(&found.shown) {
            let text = text_of(&bed.rows[&key_of(&row[0])]).unwrap_or_default();
            let whole = marked(text, &["red", "x1"]);
            let pieces = shown.fields.first().map_or(&[][..], |one| &one.fragments);
            if !whole.contains("<<") {
                assert!(pieces.is_empty());
                continue;
            }
            assert!(!pieces.is_empty() && pieces.len() <= count);
            let mut rest = whole.as_str();
            for piece in pieces {
                let at = rest
                    .find(piece.as_str())
                    .expect("pieces of the text, in order");
                rest = &rest[at + piece.len()..];
                let plain = piece.replace("<<", "").replace(">>", "");
                // A word alone is not cut, nor are signs behind it.
                let longest = size.max(6) + 2;
                assert!(
                    piece.contains("<<") && plain.chars().count() <= longest,
                    "{piece}"
                );
            }
            assert!(count == 1 || !rest.contains("<<"), "{whole}: {pieces:?}");
        }
    }
    let table = bed.table().await;
    for field in ["word", "none", "tags.text", "whole_text"] {
        let asked = Search {
            highlight: of_field(field, 10, 1),
            ..search(query.clone(), None, 1)
        };
        let refused = bed.searches.search::<Vec<FoundRow>>(&table, INDEX, asked);
        let why = InvalidSearch::Highlight(field.to_owned());
        assert_eq!(refused.await.err(), Some(Error::Search(why)));
    }
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_that_match_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(0x0b1e);
    let mut bed = Bed::open(folder.path());
    bed.create().await;
    bed.index().await;
    for _ in 0..120 {
        let (key, cells) = (random.key(), random.cells());
        bed.write(key, Some(cells)).await;
    }
    let asked = |query: Query, sort, limit| {
        Query::Nested(Box::new(Nested {
            path: "tags".to_owned(),
            query,
            scores: ObjectScores::Avg,
            weight: 1.0,
            hits: Some(Box::new(InnerHits {
                sort,
                offset: 0,
                limit,
                highlight: of_field("tags.text", 100, 1),
            })),
        }))
    };
    let by_place = Sort {
        sorters: vec![Sorter::Doc { is_desc: false }],
        keys_last: true,
    };
    let mut objects_seen = 0;
    for _ in 0..30 {
        let query = super::random::of_objects(random.query(1));
        let either = Query::Bool(Box::new(Bool {
            should: vec![
                asked(query.clone(), Some(by_place.clone()), 256),
                Query::All,
            ],
            ..Bool::default()
        }));
        let found = bed.search(search(either, None, 100)).await;
        assert_eq!(found.rows.len(), bed.rows.len());
        for ((row, _), shown) in found.rows.iter().zip(&found.shown) {
            let key = key_of(&row[0]);
            let cells = &bed.rows[&key];
            let row = Row {
                number: key.1,
                cells,
            };
            let objects = row.objects();
            let is = |object: &&(usize, super::bed::Cells)| {
                let object = Row {
                    cells: &object.1,
                    ..row
                };
                object.is_found(&query)
            };
            let numbered: Vec<_> = objects.into_iter().enumerate().collect();
            let due: Vec<usize> = numbered.iter().filter(is).map(|(at, _)| *at).collect();
            let [Inside { path, hits }] = &shown.inside[..] else {
                panic!("{shown:?}");
            };
            let places: Vec<usize> = hits.iter().map(|hit| hit.place).collect();
            assert!(path == "tags" && places == due, "{query:#?} {cells:?}");
            objects_seen += places.len();
        }
    }
    assert!(objects_seen > 200);
    // By score, the highest first, and with their words.
    let found = bed.search(search(
        asked(words("tags.text", "red sea"), None, 2),
        None,
        100,
    ));
    let found = found.await;
    assert!(found.rows.len() > 9);
    for ((row, _), shown) in found.rows.iter().zip(&found.shown) {
        let key = key_of(&row[0]);
        let row = Row {
            number: key.1,
            cells: &bed.rows[&key],
        };
        let objects = row.objects();
        let mut last = f32::INFINITY;
        assert!((1..=2).contains(&shown.inside[0].hits.len()));
        for hit in &shown.inside[0].hits {
            let text = text_of(&objects[hit.place]).unwrap();
            assert!(hit.score <= last);
            last = hit.score;
            let pieces = &hit.shown.fields[0].fragments;
            assert_eq!(pieces[..], [marked(text, &["red", "sea"])]);
        }
    }
    bed.close().await;
}
