//! Pages: of large rows, and over segments.
//!
//! Owns: the bytes that end one, texts that no segment has, and scores that change between two. Must not: look at other
//! orders (`searches.rs`).

use tideline_model::Value;
use tideline_model::search::{Bool, Columns, Match, Missing, Query, Search, Sort, Sorter};

use super::bed::{Bed, key_of, search};
use super::plain::Row;
use super::random::Random;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_large_rows_ends_early_and_the_next_one_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = Bed::open(folder.path());
    bed.create().await;
    bed.index().await;
    let large = Value::String("x".repeat(150_000));
    for number in 0..50 {
        let cells = [("large", large.clone())].into();
        bed.write(("a".to_owned(), number), Some(cells)).await;
    }
    let mut asked = Search {
        columns: Columns::All,
        ..search(Query::All, None, 50)
    };
    let mut pages = Vec::new();
    loop {
        let page = bed.search(asked.clone()).await;
        assert!(page.is_all && page.total == Some(50));
        pages.push(
            page.rows
                .iter()
                .map(|(rows, _)| key_of(&rows[0]).1)
                .collect::<Vec<_>>(),
        );
        let Some(next) = page.next else { break };
        asked.token = Some(next);
    }
    // 4 MiB and one row more, though more are read at a time.
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [28, 22]);
    assert_eq!(pages.concat(), (0..50).collect::<Vec<_>>());
    // The control: keys alone are one page.
    let keys = bed.search(search(Query::All, None, 50)).await;
    assert!(keys.rows.len() == 50 && keys.next.is_none());
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_without_a_text_have_their_place_in_each_segment() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = Bed::open(folder.path());
    bed.create().await;
    bed.index().await;
    // Each in a segment of its own: it is looked for before the next one comes.
    for (number, word) in [(1, None), (2, Some("z")), (3, None), (4, Some("a"))] {
        let word = word.map(|word| ("word", Value::String(word.to_owned())));
        let cells = word.into_iter().collect();
        bed.write(("a".to_owned(), number), Some(cells)).await;
        bed.search(search(Query::All, None, 1)).await;
    }
    for (is_desc, expected) in [(true, [2, 1, 3, 4]), (false, [4, 1, 3, 2])] {
        let sorter = Sorter::Field {
            name: "word".to_owned(),
            is_desc,
            mode: None,
            missing: Missing::Text("m".to_owned()),
            missing_field: None,
        };
        let sort = Sort {
            sorters: vec![sorter],
            keys_last: true,
        };
        let keys = bed.keys(&Query::All, Some(sort), 1).await;
        let numbers: Vec<i64> = keys.into_iter().map(|(_, number)| number).collect();
        assert_eq!(numbers, expected);
    }
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_by_score_go_on_where_their_last_row_is_by_then() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = Bed::open(folder.path());
    bed.create().await;
    bed.index().await;
    let red = |number: i64| {
        let others = "blue ".repeat(usize::try_from(number).unwrap());
        let text = Value::String(format!("red {others}"));
        Some([("text", text)].into())
    };
    for number in 0..9 {
        bed.write(("a".to_owned(), number), red(number)).await;
    }
    let query = Query::Match(Match {
        field: "text".to_owned(),
        text: "red".to_owned(),
        is_and: false,
        minimum: None,
        weight: 1.0,
    });
    let sort = Sort {
        sorters: vec![Sorter::Score { is_desc: true }],
        keys_last: true,
    };
    let mut asked = search(query, Some(sort), 2);
    let mut numbers = Vec::new();
    for page in 0.. {
        let found = bed.search(asked.clone()).await;
        numbers.extend(found.rows.iter().map(|(rows, _)| key_of(&rows[0]).1));
        let Some(token) = found.next else { break };
        (asked.token, asked.sort) = (Some(token), None);
        // The word is rarer now: all its scores rise.
        for number in 0..9 {
            let cells = [("text", Value::String("green".to_owned()))].into();
            let key = ("b".to_owned(), 10 * page + number);
            bed.write(key, Some(cells)).await;
        }
        // The row with the last score is gone once: then its old one counts.
        if page == 3 {
            bed.write(("a".to_owned(), 7), None).await;
        }
    }
    assert_eq!(numbers[..8], [0, 1, 2, 3, 4, 5, 6, 7]);
    bed.close().await;
}

/// What has all rows has a score of its own, also where a page looks for the row that it goes on from.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_by_score_of_all_rows_have_each_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = Bed::open(folder.path());
    bed.create().await;
    bed.index().await;
    for number in 0..7 {
        let cells = [("text", Value::String("red".to_owned()))].into();
        bed.write(("a".to_owned(), number), Some(cells)).await;
    }
    let all = Query::Bool(Box::new(Bool {
        must: vec![Query::All],
        ..Bool::default()
    }));
    for query in [Query::All, all] {
        let sort = Sort {
            sorters: vec![Sorter::Score { is_desc: true }],
            keys_last: true,
        };
        let keys = bed.keys(&query, Some(sort), 2).await;
        let numbers: Vec<i64> = keys.into_iter().map(|(_, number)| number).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6]);
    }
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_of_another_field_take_the_place_of_texts() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(0x7e87);
    let mut bed = Bed::open(folder.path());
    bed.create().await;
    bed.index().await;
    for _ in 0..4 {
        for _ in 0..40 {
            let key = random.key();
            let cells = (random.below(6) > 0).then(|| random.cells());
            bed.write(key, cells).await;
        }
        for (is_desc, missing) in [(false, Missing::Last), (true, Missing::First)] {
            let is_first = missing == Missing::First;
            let sort = Sort {
                sorters: vec![Sorter::Field {
                    name: "word".to_owned(),
                    is_desc,
                    mode: None,
                    missing,
                    missing_field: Some("whole_text".to_owned()),
                }],
                keys_last: true,
            };
            let mut due: Vec<_> = bed
                .rows
                .iter()
                .map(|(key, cells)| {
                    let row = Row {
                        number: key.1,
                        cells,
                    };
                    let texts = [row.texts("word"), row.texts("whole_text")].concat();
                    (texts.into_iter().next(), key.clone())
                })
                .collect();
            due.sort_by(|(one, one_key), (other, other_key)| {
                let texts = match (one, other) {
                    (Some(one), Some(other)) if is_desc => other.cmp(one),
                    (Some(one), Some(other)) => one.cmp(other),
                    (one, other) if is_first => one.is_some().cmp(&other.is_some()),
                    (one, other) => other.is_some().cmp(&one.is_some()),
                };
                texts.then(one_key.cmp(other_key))
            });
            let due: Vec<_> = due.into_iter().map(|(_, key)| key).collect();
            assert_eq!(bed.keys(&Query::All, Some(sort), 7).await, due);
        }
    }
    bed.close().await;
}
