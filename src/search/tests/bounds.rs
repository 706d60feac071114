//! What a search may take: time, turns, words, the bytes of its token.
//!
//! Owns: searches that ask for too much. Must not: assert on time.

use std::sync::{Arc, Barrier};
use std::time::Instant;

use tideline_base::bounds::{Bounds, Costs, Resource};
use tideline_base::ids::TableId;
use tideline_base::metrics::Metrics;
use tideline_model::search::{
    Aggregates, Bool, InvalidSearch, Match, Measure, MeasureKind, Missing, Point, Query, Search,
    Sort, Sorter,
};
use tideline_model::{Error, FoundRow, Value};

use super::bed::{Bed, INDEX, schema, search};
use crate::asked::Asked;
use crate::collect::{Hit, Order, PageToken, Share, SortValue};
use crate::deadline::Deadline;
use crate::index::layout::Layout;
use crate::query::compile;

fn any(should: Vec<Query>) -> Query {
    Query::Bool(Box::new(Bool {
        should,
        ..Bool::default()
    }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_that_finds_nothing_ends_in_time_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = Bed::open(folder.path());
    bed.create().await;
    bed.index().await;
    for number in 0..30 {
        let cells = [
            ("word", Value::String(format!("x{number}"))),
            ("point", Value::String(format!("{number},1"))),
            ("long", Value::Integer(2 * number)),
            ("text", Value::String("red blue red".to_owned())),
        ];
        bed.write(("a".to_owned(), number), Some(cells.into()))
            .await;
    }
    let pattern = Query::Wildcard {
        field: "word".to_owned(),
        pattern: "*y?????".to_owned(),
        weight: 1.0,
    };
    let suffix = Query::Suffix {
        field: "word".to_owned(),
        suffix: "y".repeat(1_000),
        weight: 1.0,
    };
    let circle = Query::GeoDistance {
        field: "point".to_owned(),
        center: Point::parse("-50,-50").unwrap(),
        metres: 1.0,
    };
    let word = Query::Wildcard {
        field: "word".to_owned(),
        pattern: "*x*".to_owned(),
        weight: 1.0,
    };
    let globe = Query::GeoDistance {
        field: "point".to_owned(),
        center: Point::parse("0,0").unwrap(),
        metres: 3e7,
    };
    let between = |field: &str, from: Value, to: Value| Query::Range {
        field: field.to_owned(),
        from: Some((from, true)),
        to: Some((to, false)),
    };
    let odd = between("long", Value::Integer(7), Value::Integer(8));
    let phrase = Query::Phrase {
        field: "text".to_owned(),
        text: "blue blue".to_owned(),
        slop: 0,
        weight: 1.0,
    };
    for (none, every) in [
        (pattern, word.clone()),
        (suffix, word.clone()),
        (circle, globe),
        (odd, word.clone()),
        (phrase, word),
    ] {
        let mut some = vec![none; 200];
        let query = any(some.clone());
        // The control.
        let all = bed.search(search(query.clone(), None, 10)).await;
        assert!(all.is_all && all.rows.is_empty(), "{query:?}");
        let hasty = Search {
            timeout_ms: Some(0),
            ..search(query.clone(), None, 10)
        };
        assert!(!bed.search(hasty).await.is_all, "{query:?}");
        // What was not looked at any more is not taken for what is not excluded.
        some.push(every);
        let excluded = Query::Bool(Box::new(Bool {
            must_not: vec![any(some)],
            ..Bool::default()
        }));
        let hasty = Search {
            timeout_ms: Some(0),
            ..search(excluded, None, 10)
        };
        let found = bed.search(hasty).await;
        assert!(!found.is_all && found.rows.is_empty());
    }
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_that_gets_no_turn_in_time_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bed = Bed::open(folder.path());
    bed.create().await;
    bed.index().await;
    bed.built().await;
    let turns = std::thread::available_parallelism().unwrap().get();
    let barrier = Arc::new(Barrier::new(turns + 1));
    let busy: Vec<_> = (0..turns)
        .map(|_| {
            let (searches, barrier) = (bed.searches.clone(), Arc::clone(&barrier));
            let held = move || {
                barrier.wait();
                Ok(())
            };
            let until = Instant::now() + std::time::Duration::from_secs(60);
            tokio::spawn(async move { searches.run(until, held).await })
        })
        .collect();
    let table = bed.table().await;
    let asked = || Search {
        timeout_ms: Some(20),
        ..search(Query::All, None, 1)
    };
    let ask = || bed.searches.search::<Vec<FoundRow>>(&table, INDEX, asked());
    while ask().await != Err(Error::Busy) {}
    // What is computed waits for its turn too, whatever it is.
    let sum = Measure {
        name: "sum".to_owned(),
        kind: MeasureKind::Sum,
        field: "nowhere".to_owned(),
        missing: None,
    };
    let computes = || Search {
        aggregates: Aggregates {
            metrics: vec![sum.clone()],
            groups: Vec::new(),
        },
        ..asked()
    };
    let compute = || {
        bed.searches
            .search::<Vec<FoundRow>>(&table, INDEX, computes())
    };
    assert_eq!(compute().await, Err(Error::Busy));
    tokio::task::spawn_blocking(move || barrier.wait())
        .await
        .unwrap();
    for one in busy {
        one.await.unwrap().unwrap();
    }
    assert_eq!(bed.search(search(Query::All, None, 1)).await.total, Some(0));
    let refused = InvalidSearch::AggregateField("sum agg", "nowhere".to_owned());
    let computes = Search {
        timeout_ms: Some(30_000),
        ..computes()
    };
    let found = bed
        .searches
        .search::<Vec<FoundRow>>(&table, INDEX, computes);
    assert_eq!(found.await, Err(Error::Search(refused)));
    bed.close().await;
}

#[test]
fn all_texts_of_a_search_have_so_many_words_and_bytes_together() {
    let layout = Layout::new(&schema());
    let bounds = Bounds::new(|_| 1 << 20, 100, Costs::UNBOUNDED, &Metrics::default());
    let share = bounds.of(Resource::SearchBytes).share(None);
    let asked = Arc::new(Asked {
        deadline: Arc::new(Deadline::new(Instant::now())),
        share: Arc::new(Share::new(share)),
        since_ms: None,
        limit: 10,
    });
    let texts = |count: usize, text: String| {
        let words = Query::Match(Match {
            field: "text".to_owned(),
            text,
            is_and: false,
            minimum: None,
            weight: 1.0,
        });
        compile(&layout, &asked, &any(vec![words; count])).err()
    };
    assert_eq!(texts(2, "a ".repeat(512)), None);
    let words = Some(InvalidSearch::QueryNodes(1_024));
    assert_eq!(texts(3, "a ".repeat(512)), words);
    let long = Some(InvalidSearch::TooLong("texts of a search", 64 << 10));
    assert_eq!(texts(17, "a".repeat(4_000)), long);
}

#[test]
fn the_longest_token_is_taken_back() {
    let layout = Layout::new(&schema());
    let by = Sorter::Field {
        name: "word".to_owned(),
        is_desc: true,
        mode: None,
        missing: Missing::Text("\0".repeat(4 << 10)),
        missing_field: None,
    };
    let sort = Sort {
        sorters: vec![by; 32],
        keys_last: true,
    };
    assert_eq!(Order::new(&layout, &sort).unwrap().len(), 33);
    let value = SortValue {
        tier: 1,
        number: u64::MAX,
        text: Some(vec![255; 4 << 10]),
    };
    let row = Hit {
        key: vec![255; 4 << 10],
        values: vec![value; 33],
        score: Some(1.0),
        alike: None,
    };
    let token = PageToken::behind(TableId(1), &Query::All, &sort, &row);
    let page = PageToken::read(&token, TableId(1), &Query::All, &layout).unwrap();
    assert_eq!(page.sort, sort);
}
