//! Scores that are a meaning of their own: vectors, functions, the best of several.
//!
//! Owns: the comparison with a plain look. Must not: look at words (`pages.rs`).

use tideline_model::search::{
    Best, Bool, Combine, Curve, Decay, Fold, Function, FunctionKind, Functions, Match, Measure,
    MeasureKind, Measured, Missing, Modifier, Near, Nested, ObjectScores, Origin, Query, Sort,
    Sorter,
};
use tideline_model::{Error, FoundRow, Value};

use super::bed::{Bed, INDEX, key_of, search};
use super::plain::Row;
use super::random::Random;

type Key = (String, i64);

fn by_score() -> Option<Sort> {
    Some(Sort {
        sorters: vec![Sorter::Score { is_desc: true }],
        keys_last: true,
    })
}

async fn filled(bed: &mut Bed, random: &mut Random) {
    bed.create().await;
    for round in 0..6 {
        for _ in 0..40 {
            let key = random.key();
            let cells = (random.below(8) > 0).then(|| random.cells());
            bed.write(key, cells).await;
        }
        match round {
            0 => bed.index().await,
            // Segments of their own.
            _ => drop(bed.search(search(Query::All, None, 1)).await),
        }
    }
    bed.built().await;
}

/// The numbers of a row's vector.
fn vector(value: Option<&Value>) -> Option<Vec<f32>> {
    match value {
        Some(Value::String(text)) => serde_json::from_str(text).ok(),
        #[allow(clippy::little_endian_bytes)] // as SDKs write them
        Some(Value::Binary(bytes)) => {
            let (numbers, _) = bytes.as_chunks::<4>();
            Some(numbers.iter().map(|one| f32::from_le_bytes(*one)).collect())
        }
        _ => None,
    }
}

fn near_by(field: &str, one: &[f32], other: &[f32]) -> f64 {
    let pairs = || {
        let pairs = one.iter().zip(other);
        pairs.map(|(one, other)| (f64::from(*one), f64::from(*other)))
    };
    let dot: f64 = pairs().map(|(one, other)| one * other).sum();
    match field {
        "place" => {
            let distances = pairs().map(|(one, other)| (one - other) * (one - other));
            1.0 / (1.0 + distances.sum::<f64>())
        }
        _ => {
            let norm = |of: &[f32]| of.iter().map(|one| one * one).sum::<f32>().sqrt();
            let norms = f64::from(norm(one)) * f64::from(norm(other));
            let cosine = if norms > 0.0 { dot / norms } else { 0.0 };
            f64::midpoint(1.0, cosine)
        }
    }
}

/// All rows of a filter with a vector, with their scores, the nearest first.
fn nearest(bed: &Bed, near: &Near) -> Vec<(f64, Key)> {
    let rows = bed.rows.iter().filter_map(|(key, cells)| {
        let row = Row {
            number: key.1,
            cells,
        };
        let is_in = near
            .filter
            .as_ref()
            .is_none_or(|filter| row.is_found(filter));
        let vector = vector(cells.get("place")).filter(|_| is_in)?;
        Some((near_by(&near.field, &near.vector, &vector), key.clone()))
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    rows
}

async fn scores(bed: &Bed, query: Query, limit: usize) -> Vec<(f64, Key)> {
    let mut asked = search(query, by_score(), limit);
    let mut found = Vec::new();
    loop {
        let page = bed.search(asked.clone()).await;
        assert!(page.is_all);
        let rows = page.rows.iter();
        found.extend(rows.map(|(rows, score)| (f64::from(score.unwrap()), key_of(&rows[0]))));
        let Some(token) = page.next else { return found };
        // The order may be said once more.
        asked.token = Some(token);
    }
}

fn alike(one: &[(f64, Key)], other: &[(f64, Key)]) -> bool {
    let mut pairs = one.iter().zip(other);
    one.len() == other.len() && pairs.all(|((one, _), (other, _))| (one - other).abs() < 1e-4)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_nearest_rows_are_those_that_a_look_at_each_row_finds() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(0x5151_0203);
    let mut bed = Bed::open(folder.path());
    filled(&mut bed, &mut random).await;
    let mut found_some = 0;
    for round in 0..40 {
        let near = Near {
            field: ["place", "way"][round % 2].to_owned(),
            vector: random.vector(),
            top: 7,
            filter: (round % 3 > 0).then(|| random.query(1)),
            min_score: None,
            weight: 1.0,
        };
        let expected = nearest(&bed, &near);
        let query = Query::Near(Box::new(near.clone()));
        let top = scores(&bed, query.clone(), 4).await;
        let first = &expected[..expected.len().min(7)];
        assert!(alike(&top, first), "{near:#?} {top:?} {first:?}");
        found_some += top.len();
        // A page that wants more goes on to the last one; each row comes once.
        let mut all = scores(&bed, query, 8).await;
        assert!(alike(&all, &expected), "{near:#?}");
        all.sort_by(|(_, one), (_, other)| one.cmp(other));
        all.dedup_by(|(_, one), (_, other)| one == other);
        assert_eq!(all.len(), expected.len());
        let least = Query::Near(Box::new(Near {
            min_score: Some(0.4),
            weight: 2.0,
            ..near
        }));
        let expected = expected.iter().filter(|(score, _)| *score >= 0.4);
        let expected = expected.map(|(score, key)| (2.0 * score, key.clone()));
        let expected: Vec<_> = expected.take(7).collect();
        assert!(alike(&scores(&bed, least, 5).await, &expected));
    }
    assert!(found_some > 100);
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_and_vectors_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = Bed::open(folder.path());
    filled(&mut bed, &mut Random(99)).await;
    let near = Near {
        field: "place".to_owned(),
        vector: vec![1.0, 0.0, -1.0],
        top: 10,
        filter: None,
        min_score: None,
        weight: 1.0,
    };
    let words = Query::Match(Match {
        field: "text".to_owned(),
        text: "red ship".to_owned(),
        is_and: false,
        minimum: None,
        weight: 1.0,
    });
    let near = Query::Near(Box::new(near));
    let (of_words, of_vectors) = (
        scores(&bed, words.clone(), 90).await,
        scores(&bed, near.clone(), 10).await,
    );
    let both = Query::Bool(Box::new(Bool {
        should: vec![words, near],
        ..Bool::default()
    }));
    let both = scores(&bed, both, 10).await;
    let part = |of: &[(f64, Key)], key: &Key| {
        let found = of.iter().find(|(_, own)| own == key);
        found.map(|(score, _)| *score)
    };
    let mut in_both = 0;
    for (score, key) in &both {
        let (one, other) = (part(&of_words, key), part(&of_vectors, key));
        in_both += usize::from(one.is_some() && other.is_some());
        let sum = one.unwrap_or(0.0) + other.unwrap_or(0.0);
        assert!((score - sum).abs() < 1e-4, "{key:?}");
    }
    let alone = of_words.len() + of_vectors.len();
    assert!(in_both > 0 && both.len() == alone - in_both);
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_give_scores() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = Bed::open(folder.path());
    bed.create().await;
    bed.index().await;
    for number in 0..6 {
        let mut cells = super::bed::Cells::new();
        cells.insert("double", Value::Double(number as f64));
        if number == 5 {
            cells.clear();
        }
        bed.write(("a".to_owned(), number), Some(cells)).await;
    }
    let field = |modifier, missing| FunctionKind::Field {
        field: "double".to_owned(),
        factor: 2.0,
        modifier,
        missing,
    };
    let decay = FunctionKind::Decay(Decay {
        field: "double".to_owned(),
        origin: Origin::Number(0.0),
        scale: 2.0,
        offset: 1.0,
        decay: 0.5,
        curve: Curve::Linear,
        of_many: Fold::Min,
    });
    let odd = Query::Terms {
        field: "double".to_owned(),
        values: vec![Value::Double(1.0), Value::Double(3.0)],
        weight: 1.0,
    };
    let one = |kind, filter| Function {
        kind,
        filter,
        weight: 1.0,
    };
    let of = |functions, combine, min_score, max_score| {
        Query::Functions(Box::new(Functions {
            query: Query::Constant(Box::new(Query::All)),
            functions,
            fold: Fold::Sum,
            combine,
            min_score,
            max_score,
        }))
    };
    for (query, expected) in [
        (
            of(
                vec![one(field(Modifier::None, None), None)],
                Combine::Replace,
                None,
                None,
            ),
            vec![(4, 8.0), (3, 6.0), (2, 4.0), (1, 2.0), (5, 1.0), (0, 0.0)],
        ),
        (
            of(
                vec![one(field(Modifier::None, Some(3.5)), None)],
                Combine::Sum,
                Some(6.0),
                Some(7.0),
            ),
            vec![(4, 8.0), (5, 8.0), (3, 7.0)],
        ),
        (
            of(vec![one(decay, None)], Combine::Multiply, None, None),
            vec![(0, 1.0), (1, 1.0), (5, 1.0), (2, 0.75), (3, 0.5), (4, 0.25)],
        ),
        (
            of(
                vec![
                    one(FunctionKind::One, Some(odd)),
                    one(
                        field(Modifier::Square, None),
                        Some(Query::Exists {
                            field: "double".to_owned(),
                        }),
                    ),
                ],
                Combine::Sum,
                None,
                None,
            ),
            vec![
                (4, 65.0),
                (3, 38.0),
                (2, 17.0),
                (1, 6.0),
                (5, 2.0),
                (0, 1.0),
            ],
        ),
    ] {
        let found = scores(&bed, query.clone(), 2).await;
        let found: Vec<_> = found.iter().map(|(score, key)| (key.1, *score)).collect();
        assert_eq!(found, expected, "{query:#?}");
    }
    let weighed = |number: i64, weight| Query::Terms {
        field: "n".to_owned(),
        values: vec![Value::Integer(number), Value::Integer(0)],
        weight,
    };
    let best = Query::Best(Best {
        queries: vec![weighed(1, 3.0), weighed(2, 2.0)],
        tie_breaker: 0.5,
        weight: 10.0,
    });
    let found = scores(&bed, best, 2).await;
    let found: Vec<_> = found.iter().map(|(score, key)| (key.1, *score)).collect();
    assert_eq!(found, [(0, 40.0), (1, 30.0), (2, 20.0)]);
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vector_of_another_kind_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bed = Bed::open(folder.path());
    bed.create().await;
    bed.index().await;
    let table = bed.table().await;
    for (field, numbers) in [("place", 2), ("place", 4), ("double", 3), ("nowhere", 3)] {
        let query = Query::Near(Box::new(Near {
            field: field.to_owned(),
            vector: vec![1.0; numbers],
            top: 1,
            filter: None,
            min_score: None,
            weight: 1.0,
        }));
        let found = bed
            .searches
            .search::<Vec<FoundRow>>(&table, INDEX, search(query, None, 1));
        assert!(matches!(found.await, Err(Error::Search(_))), "{field}");
    }
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_object_matches_the_whole_of_a_nested_query() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = Bed::open(folder.path());
    bed.create().await;
    bed.index().await;
    for (number, tags) in [
        (0, r#"[{"word": "a", "long": 1}, {"word": "b", "long": 2}]"#),
        (1, r#"[{"word": "a", "long": 2, "more": [{"word": "x"}]}]"#),
        (
            2,
            r#"[{"word": "b", "more": [{"word": "y"}, {"word": "x"}]}, {"word": "a"}]"#,
        ),
        (3, "[]"),
        (4, r#"{"word": "a", "long": 2}"#),
        (5, r#"[{"word": "a", "long": 2}, 7]"#),
    ] {
        let cells = [("tags", Value::String(tags.to_owned()))].into();
        bed.write(("a".to_owned(), number), Some(cells)).await;
    }
    let term = |field: &str, value: Value| Query::Terms {
        field: field.to_owned(),
        values: vec![value],
        weight: 1.0,
    };
    let word = |field: &str, word: &str| term(field, Value::String(word.to_owned()));
    let nested = |path: &str, query| {
        Query::Nested(Box::new(Nested {
            path: path.to_owned(),
            query,
            scores: ObjectScores::Total,
            weight: 2.0,
            hits: None,
        }))
    };
    let both = |one, other| {
        Query::Bool(Box::new(Bool {
            must: vec![one, other],
            ..Bool::default()
        }))
    };
    let without = |one, other| {
        Query::Bool(Box::new(Bool {
            must: vec![one],
            must_not: vec![other],
            ..Bool::default()
        }))
    };
    let (a, two) = (word("tags.word", "a"), term("tags.long", Value::Integer(2)));
    let (x, in_more) = (word("tags.more.word", "x"), "tags.more");
    let found = async |query: Query| {
        let found = scores(&bed, query, 10).await;
        found
            .into_iter()
            .map(|(score, key)| (key.1, score))
            .collect::<Vec<_>>()
    };
    // Each in another object is not enough.
    assert_eq!(
        found(nested("tags", both(a.clone(), two.clone()))).await,
        [(1, 4.0)]
    );
    // What is excluded excludes objects.
    let not_two = nested("tags", without(Query::All, two.clone()));
    assert_eq!(found(not_two).await, [(2, 4.0), (0, 2.0)]);
    assert_eq!(
        found(nested("tags", nested(in_more, x.clone()))).await,
        [(1, 4.0), (2, 4.0)]
    );
    assert_eq!(
        found(nested(in_more, x.clone())).await,
        [(1, 2.0), (2, 2.0)]
    );
    let here = nested("tags", both(a.clone(), nested(in_more, x.clone())));
    assert_eq!(found(here).await, [(1, 6.0)]);
    let table = bed.table().await;
    for query in [
        a,
        nested("tags", x),
        nested("word", Query::All),
        nested("tags.word", Query::All),
    ] {
        let found =
            bed.searches
                .search::<Vec<FoundRow>>(&table, INDEX, search(query.clone(), None, 1));
        assert!(matches!(found.await, Err(Error::Search(_))), "{query:?}");
    }
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_is_of_rows_and_not_of_what_is_computed() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = Bed::open(folder.path());
    filled(&mut bed, &mut Random(7)).await;
    let exists = |field: &str| Query::Exists {
        field: field.to_owned(),
    };
    let count = Measure {
        name: "count".to_owned(),
        kind: MeasureKind::Count,
        field: "n".to_owned(),
        missing: None,
    };
    let mut asked = search(exists("long"), None, 3);
    asked.filter = Some(exists("word"));
    asked.aggregates.metrics = vec![count];
    let has = |cells: &super::bed::Cells| matches!(cells.get("long"), Some(Value::Integer(_)));
    let longs = bed.rows.values().filter(|cells| has(cells)).count();
    let both = bed
        .rows
        .iter()
        .filter(|(_, cells)| has(cells) && matches!(cells.get("word"), Some(Value::String(_))));
    let both: Vec<_> = both.map(|(key, _)| key.clone()).collect();
    let mut keys = Vec::new();
    loop {
        let page = bed.search(asked.clone()).await;
        assert_eq!(page.total, Some(both.len() as u64));
        let computed = &page.aggregated.metrics[0].2;
        assert_eq!(*computed, Measured::Count(longs as u64));
        keys.extend(page.rows.iter().map(|(rows, _)| key_of(&rows[0])));
        let Some(token) = page.next else { break };
        asked.token = Some(token);
    }
    assert!(keys == both && both.len() < longs);
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_rows_that_are_alike_the_first_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = Bed::open(folder.path());
    filled(&mut bed, &mut Random(70_707)).await;
    for (field, by) in [("word", "double"), ("long", "n"), ("double", "long")] {
        for is_desc in [false, true] {
            let sort = Sort {
                sorters: vec![Sorter::Field {
                    name: by.to_owned(),
                    is_desc,
                    mode: None,
                    missing: Missing::Last,
                    missing_field: None,
                }],
                keys_last: true,
            };
            let all = bed.keys(&Query::All, Some(sort.clone()), 90).await;
            let mut seen = std::collections::BTreeSet::new();
            let first = all.iter().filter(|key| {
                let value = match (field, bed.rows[*key].get(field)) {
                    ("word", Some(Value::String(text))) => Some(text.clone()),
                    ("long", Some(Value::Integer(number))) => Some(number.to_string()),
                    ("double", Some(Value::Double(number))) => Some(number.to_string()),
                    _ => None,
                };
                seen.insert(value)
            });
            let first: Vec<_> = first.cloned().collect();
            assert!(first.len() > 4 && first.len() < all.len());
            for limit in [1, 3, 50] {
                let mut asked = search(Query::All, Some(sort.clone()), limit);
                asked.collapse = Some(field.to_owned());
                let page = bed.search(asked.clone()).await;
                assert!(page.next.is_none() && page.total == Some(all.len() as u64));
                let keys: Vec<_> = page.rows.iter().map(|(rows, _)| key_of(&rows[0])).collect();
                assert_eq!(keys, first[..limit.min(first.len())], "{field} by {by}");
                asked.offset = 2;
                let page = bed.search(asked).await;
                let keys: Vec<_> = page.rows.iter().map(|(rows, _)| key_of(&rows[0])).collect();
                let rest = &first[2..(limit + 2).min(first.len())];
                assert_eq!(keys, rest, "{field} by {by}");
            }
        }
    }
    let table = bed.table().await;
    for field in ["text", "words", "day", "point", "nothing", "tags.word"] {
        let mut asked = search(Query::All, None, 1);
        asked.collapse = Some(field.to_owned());
        let found = bed.searches.search::<Vec<FoundRow>>(&table, INDEX, asked);
        assert!(matches!(found.await, Err(Error::Search(_))), "{field}");
    }
    bed.close().await;
}
