//! Pages of searches over an index in memory.
//!
//! Owns: the plain list of what it holds, in order. Promises: pages come to an end. Must not: know tables.

use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

use tantivy::indexer::NoMergePolicy;
use tantivy::tokenizer::{PreTokenizedString, Token as Word};
use tantivy::{Index, IndexWriter, Searcher, TantivyDocument};

use tideline_base::bounds::{Bounds, Costs, Resource};
use tideline_base::metrics::Metrics;
use tideline_model::search::{Bool, Query, SearchIndex, fields, message_index, timeline_index};

use super::page::{Page, Token};
use super::walk::{By, Door, Doors};
use crate::collect::Share;
use crate::index::layout::Layout;

/// A message: its timeline, its number and its time.
type Row = (String, i64, i64);

const NOW_MS: i64 = 10_000_000;

struct Sea {
    layout: Layout,
    searcher: Searcher,
    rows: Vec<Row>,
}

/// An index of five segments in which each row has the word `x`.
fn sea(of: &SearchIndex, rows: Vec<Row>) -> Sea {
    let layout = Layout::of(of);
    let index = Index::create_in_ram(layout.engine.clone());
    let mut writer: IndexWriter = index.writer_with_num_threads(1, 20_000_000).unwrap();
    writer.set_merge_policy(Box::new(NoMergePolicy));
    let at = |name| layout.field(name).unwrap().at.unwrap();
    for part in rows.chunks(rows.len().div_ceil(5)) {
        for (timeline, sequence, time) in part {
            let mut row = TantivyDocument::new();
            row.add_bytes(layout.key, format!("{timeline} {sequence}").as_bytes());
            row.add_i64(layout.version, *time);
            row.add_i64(layout.oldest, i64::MAX);
            row.add_text(at(fields::TIMELINE), timeline);
            row.add_i64(at(fields::SEQUENCE), *sequence);
            let word = Word {
                position: 0,
                text: "x".to_owned(),
                ..Word::default()
            };
            let words = PreTokenizedString {
                text: String::new(),
                tokens: vec![word],
            };
            row.add_pre_tokenized_text(at(fields::WORDS), words);
            writer.add_document(row).unwrap();
        }
        writer.commit().unwrap();
    }
    let searcher = index.reader().unwrap().searcher();
    assert_eq!(searcher.segment_readers().len(), 5);
    Sea {
        layout,
        searcher,
        rows,
    }
}

impl Sea {
    /// The places of all pages, and whether one of them said that something is missing.
    fn pages(&self, by: By, limit: usize, door: fn(&str) -> Option<u64>) -> (Vec<Row>, bool) {
        let bounds = Bounds::new(|_| 256 << 20, 50, Costs::UNBOUNDED, &Metrics::default());
        let words = super::Words::read(Some("x")).unwrap();
        let mut all = Bool::default();
        words.add_to(&mut all);
        let page = Page {
            layout: self.layout.clone(),
            query: Query::Bool(Box::new(all)),
            by,
            from: None,
            to: None,
            limit,
            now_ms: NOW_MS,
            share: Arc::new(Share::new(bounds.of(Resource::SearchBytes).share(None))),
        };
        let (mut found, mut is_behind, mut token) = (Vec::new(), false, None);
        for _ in 0..self.rows.len() + 20 {
            let door: Door = Box::new(move |timeline| Ok(door(timeline)));
            let doors = Arc::new(Mutex::new(Doors::new(door)));
            let of = token
                .as_ref()
                .map_or_else(Token::default, |token: &Vec<u8>| {
                    serde_json::from_slice(token).unwrap()
                });
            let one = page.run(&self.searcher, &doors, of).unwrap().unwrap();
            is_behind |= one.is_behind;
            for (timeline, sequence) in &one.places {
                let is = |row: &&Row| row.0 == *timeline && row.1 == sequence.cast_signed();
                let row = match by {
                    By::Name => (timeline.clone(), 0, 0),
                    By::Time | By::Score => self.rows.iter().find(is).unwrap().clone(),
                };
                found.push(row);
            }
            let next = one.next(one.places.len());
            let Some(next) = next else {
                return (found, is_behind);
            };
            assert_ne!(Some(&next), token.as_ref(), "a token that leads nowhere");
            token = Some(next);
        }
        panic!("no end");
    }

    fn in_order(&self, is_seen: fn(&str) -> Option<u64>) -> Vec<Row> {
        let rows = self.rows.iter();
        let seen = rows.filter(|row| is_seen(&row.0).is_some_and(|from| from as i64 <= row.1));
        let mut seen: Vec<Row> = seen.cloned().collect();
        seen.sort_by(|one, other| (-one.2, &one.0, -one.1).cmp(&(-other.2, &other.0, -other.1)));
        seen
    }
}

fn open(_: &str) -> Option<u64> {
    Some(0)
}

/// Few may be read, and those come late.
fn few(timeline: &str) -> Option<u64> {
    (timeline > "t39").then_some(3)
}

fn slow(_: &str) -> Option<u64> {
    sleep(Duration::from_millis(20));
    Some(0)
}

/// Messages of 50 timelines at some times.
fn messages(count: i64, time: impl Fn(i64) -> i64) -> Sea {
    // 7,919 is prime to each count: all numbers, in no order.
    let each = (0..count).map(|at| (at * 7_919) % count);
    let row = |at: i64| (format!("t{:02}", at % 50), at / 50, time(at));
    sea(&message_index(&[]), each.map(row).collect())
}

#[test]
fn pages_by_time_and_score_are_all_hits_in_order() {
    for sea in [
        messages(2_000, |_| 5),
        messages(2_000, |at| at * 37 % 4_001),
        messages(2_000, |at| at / 500 * 2_000_000),
    ] {
        for (by, door, limit) in [
            (By::Time, open as fn(&str) -> Option<u64>, 100),
            (By::Time, few, 7),
            (By::Score, open, 100),
            (By::Score, few, 7),
        ] {
            let (found, is_behind) = sea.pages(by, limit, door);
            assert!(!is_behind, "{by:?} {limit}");
            assert_eq!(found, sea.in_order(door), "{by:?} {limit}");
        }
    }
}

#[test]
fn pages_by_name_are_all_timelines_in_order() {
    let row = |at: i64| (format!("t{:04}", (at * 7_919) % 2_000), 0, 5);
    let sea = sea(&timeline_index(), (0..2_000).map(row).collect());
    for (door, limit) in [
        (open as fn(&str) -> Option<u64>, 100),
        (|name: &str| (name > "t1990").then_some(0), 2),
        (|name: &str| name.ends_with('7').then_some(0), 3),
    ] {
        let (found, is_behind) = sea.pages(By::Name, limit, door);
        let names: Vec<String> = found.into_iter().map(|(name, ..)| name).collect();
        let mut expected: Vec<String> = sea.rows.iter().map(|row| row.0.clone()).collect();
        expected.retain(|name| door(name).is_some());
        expected.sort();
        assert!(!is_behind);
        assert_eq!(names, expected, "{limit}");
    }
}

#[test]
fn what_a_walk_has_no_time_for_is_said_to_be_missing() {
    // 100 doors of 20 ms each, where a walk has a second.
    let row = |at: i64| (format!("t{at:03}"), 1, 5);
    let sea = sea(&message_index(&[]), (0..100).map(row).collect());
    for by in [By::Time, By::Score] {
        let (found, is_behind) = sea.pages(by, 200, slow);
        assert!(is_behind && found.len() < 100, "{by:?} {}", found.len());
    }
    let (found, is_behind) = sea.pages(By::Time, 200, open);
    assert!(!is_behind && found.len() == 100);
}
