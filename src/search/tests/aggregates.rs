//! What searches compute, against a plain look at each row.
//!
//! Owns: the comparison, over segments, and the bounds. Must not: know how groups are kept.

use std::collections::{BTreeMap, BTreeSet};

use tideline_model::search::{
    Aggregated, Aggregates, DateSteps, DateUnit, Group, GroupBy, GroupForm, GroupKey, GroupKind,
    GroupOrder, GroupOrderBy, InvalidSearch, Measure, MeasureKind, Measured, Missing, Point, Query,
    Search, Sort, Sorter, StoredPoint, cell_corners, cell_name, distance_m,
};
use tideline_model::{Error, FoundRow, Value};

use super::bed::{Bed, Cells, INDEX, key_of, search};
use super::plain::Row;
use super::random::Random;

fn measure(kind: MeasureKind, field: &str) -> Measure {
    Measure {
        name: format!("{kind:?} of {field}"),
        kind,
        field: field.to_owned(),
        missing: None,
    }
}

fn measures() -> Vec<Measure> {
    let mut all: Vec<Measure> = [
        MeasureKind::Avg,
        MeasureKind::Max,
        MeasureKind::Min,
        MeasureKind::Sum,
        MeasureKind::Count,
        MeasureKind::DistinctCount,
        MeasureKind::Percentiles(vec![90.0, 50.0]),
    ]
    .into_iter()
    .map(|kind| measure(kind, "double"))
    .collect();
    all.push(Measure {
        missing: Some(Value::Integer(100)),
        ..measure(MeasureKind::Sum, "long")
    });
    // A list counts each of its values.
    all.push(measure(MeasureKind::DistinctCount, "words"));
    all.push(measure(MeasureKind::Count, "words"));
    all
}

fn group_by(name: &str, by: GroupKind, inner: Aggregates) -> GroupBy {
    GroupBy {
        name: name.to_owned(),
        by,
        inner,
    }
}

fn metrics(metrics: Vec<Measure>) -> Aggregates {
    Aggregates {
        metrics,
        groups: Vec::new(),
    }
}

fn groups(groups: Vec<GroupBy>) -> Aggregates {
    Aggregates {
        metrics: Vec::new(),
        groups,
    }
}

fn by_value(field: &str, size: usize, order: Vec<GroupOrder>) -> GroupKind {
    GroupKind::Field {
        field: field.to_owned(),
        size,
        order,
    }
}

/// The values of a field of a row, as numbers, and as texts of keys.
fn values(row: &Row<'_>, field: &str) -> Vec<(f64, String)> {
    match field {
        "word" | "words" => row
            .texts(field)
            .into_iter()
            .map(|text| (0.0, text))
            .collect(),
        _ => row
            .number(field)
            .map(|number| {
                let text = match field {
                    "double" => format!("{number:?}"),
                    "flag" => (number != 0.0).to_string(),
                    _ => format!("{number}"),
                };
                (number, text)
            })
            .into_iter()
            .collect(),
    }
}

fn measured(rows: &[Row<'_>], asked: &Measure) -> Measured {
    let mut all = Vec::new();
    for row in rows {
        let own = values(row, &asked.field);
        match (&asked.missing, own.is_empty()) {
            (Some(Value::Integer(number)), true) => all.push((*number as f64, String::new())),
            _ => all.extend(own),
        }
    }
    let numbers: Vec<f64> = all.iter().map(|(number, _)| *number).collect();
    let or_nothing = |number: Option<f64>| number.map_or(Measured::Nothing, Measured::Number);
    let sum: f64 = numbers.iter().sum();
    match &asked.kind {
        MeasureKind::Sum => Measured::Number(sum),
        MeasureKind::Avg => or_nothing((!numbers.is_empty()).then(|| sum / numbers.len() as f64)),
        MeasureKind::Max => or_nothing(numbers.into_iter().reduce(f64::max)),
        MeasureKind::Min => or_nothing(numbers.into_iter().reduce(f64::min)),
        MeasureKind::Count => Measured::Count(all.len() as u64),
        MeasureKind::DistinctCount => {
            let mut texts: Vec<String> = all.into_iter().map(|(_, text)| text).collect();
            texts.sort();
            texts.dedup();
            Measured::Count(texts.len() as u64)
        }
        MeasureKind::TopRows { .. } => panic!("rows are looked at by their keys"),
        MeasureKind::Percentiles(asked) => {
            let mut sorted = numbers;
            sorted.sort_by(f64::total_cmp);
            let mut asked = asked.clone();
            asked.sort_by(f64::total_cmp);
            let items = asked.into_iter().filter_map(|percent| {
                let last = sorted.len().checked_sub(1)?;
                let place = (percent / 100.0 * sorted.len() as f64 - 0.5).clamp(0.0, last as f64);
                let (low, high) = (
                    sorted[place.floor() as usize],
                    sorted[place.ceil() as usize],
                );
                let value = low + (high - low) * place.fract();
                Some((percent, Value::Double(value)))
            });
            Measured::Percentiles(items.collect())
        }
    }
}

/// The keys of a row for one of several groupings, as numbers and as texts.
fn own_keys(row: &Row<'_>, source: &GroupKind) -> Vec<Option<(f64, String)>> {
    let found: Vec<(f64, String)> = match source {
        GroupKind::Field { field, .. } => values(row, field),
        GroupKind::Histogram {
            field, interval, ..
        } => {
            let begin = |(number, _): (f64, String)| (number / interval).floor() * interval;
            let begins = values(row, field).into_iter().map(begin);
            begins.map(|begin| (begin, format!("{begin}"))).collect()
        }
        GroupKind::Dates { steps, .. } => {
            let begin = row.number("day").map(|day| steps.begin(day as i64));
            let begin = begin.map(|begin| (begin as f64, begin.to_string()));
            begin.into_iter().collect()
        }
        other => panic!("{other:?} is not done with others"),
    };
    match found.is_empty() {
        true => vec![None],
        false => found.into_iter().map(Some).collect(),
    }
}

/// What a plain look makes of rows.
fn computed(rows: Vec<Row<'_>>, asked: &Aggregates) -> Aggregated {
    let metrics = asked.metrics.iter();
    let metrics = metrics.map(|one| (one.name.clone(), one.kind.clone(), measured(&rows, one)));
    let groups = asked.groups.iter().map(|one| {
        let of = |found: Vec<Row<'_>>, key| Group {
            key,
            rows: found.len() as u64,
            inner: computed(found, &one.inner),
        };
        let some = |is: &dyn Fn(&Row<'_>) -> bool| {
            let rows = rows.iter().filter(|row| is(row));
            rows.copied().collect::<Vec<_>>()
        };
        let groups: Vec<Group> = match &one.by {
            GroupKind::Filter(filters) => filters
                .iter()
                .map(|filter| of(some(&|row| row.is_found(filter)), GroupKey::Filter))
                .collect(),
            GroupKind::Range { field, ranges } => ranges
                .iter()
                .map(|(from, to)| {
                    let is = |row: &Row<'_>| {
                        let inside = |(number, _): &(f64, String)| from <= number && number < to;
                        values(row, field).iter().any(inside)
                    };
                    of(some(&is), GroupKey::Range(*from, *to))
                })
                .collect(),
            GroupKind::Distance { origin, ranges, .. } => ranges
                .iter()
                .map(|(from, to)| {
                    let is = |row: &Row<'_>| {
                        let far = row.point().map(|point| distance_m(*origin, point));
                        far.is_some_and(|far| *from <= far && far < *to)
                    };
                    of(some(&is), GroupKey::Range(*from, *to))
                })
                .collect(),
            GroupKind::Grid {
                precision, size, ..
            } => {
                let cell = |row: &Row<'_>| Some(StoredPoint::from(row.point()?).cell(*precision));
                let cells: BTreeSet<u64> = rows.iter().filter_map(cell).collect();
                let groups = cells.into_iter().map(|one| {
                    let (top_left, bottom_right) = cell_corners(one, *precision);
                    let key = GroupKey::Cell(cell_name(one, *precision), top_left, bottom_right);
                    of(some(&|row| cell(row) == Some(one)), key)
                });
                let mut groups: Vec<Group> = groups.collect();
                groups.sort_by_key(|group| std::cmp::Reverse(group.rows));
                groups.truncate(*size);
                groups
            }
            GroupKind::Dates { steps, least, .. } => {
                let step = |row: &Row<'_>| Some(steps.begin(row.number("day")? as i64));
                let found: BTreeSet<i64> = rows.iter().filter_map(step).collect();
                let ends = found.first().zip(found.last());
                let all = ends.map(|(first, last)| {
                    let all = std::iter::successors(Some(*first), |at| Some(steps.next(*at)));
                    all.take_while(|at| at <= last).collect::<Vec<i64>>()
                });
                let groups = all
                    .unwrap_or_default()
                    .into_iter()
                    .map(|at| of(some(&|row| step(row) == Some(at)), GroupKey::Time(at)));
                groups.filter(|group| group.rows >= *least).collect()
            }
            GroupKind::Several { sources, .. } => {
                let mut keys = vec![Vec::<Option<(f64, String)>>::new()];
                for (_, source) in sources {
                    let mut found: Vec<_> =
                        rows.iter().flat_map(|row| own_keys(row, source)).collect();
                    found.sort_by(|one, other| match (one, other) {
                        (Some(one), Some(other)) => {
                            one.0.total_cmp(&other.0).then(one.1.cmp(&other.1))
                        }
                        (one, other) => one.is_some().cmp(&other.is_some()),
                    });
                    found.dedup();
                    let longer = keys.iter().flat_map(|begin| {
                        found
                            .iter()
                            .map(|end| [&begin[..], &[end.clone()]].concat())
                    });
                    keys = longer.collect();
                }
                let groups = keys.into_iter().map(|key| {
                    let is = |row: &Row<'_>| {
                        let mut pairs = sources.iter().zip(&key);
                        pairs.all(|((_, source), key)| own_keys(row, source).contains(key))
                    };
                    let texts = key
                        .iter()
                        .map(|key| key.as_ref().map(|(_, text)| text.clone()));
                    of(some(&is), GroupKey::Several(texts.collect()))
                });
                groups.filter(|group| group.rows > 0).collect()
            }
            GroupKind::Field { field, size, order } => {
                let mut keys: Vec<(f64, String)> =
                    rows.iter().flat_map(|row| values(row, field)).collect();
                keys.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
                keys.dedup();
                let groups = keys.into_iter().map(|(_, key)| {
                    let is = |row: &Row<'_>| values(row, field).iter().any(|(_, own)| *own == key);
                    of(some(&is), GroupKey::Text(key.clone()))
                });
                let mut groups: Vec<Group> = groups.collect();
                match order.first() {
                    None => groups.sort_by_key(|group| std::cmp::Reverse(group.rows)),
                    Some(GroupOrder {
                        by: GroupOrderBy::Key,
                        ..
                    }) => groups.reverse(),
                    Some(_) => groups.sort_by(|one, other| {
                        let number = |group: &Group| match group.inner.metrics[0].2 {
                            Measured::Number(number) => number,
                            _ => 0.0,
                        };
                        number(one).total_cmp(&number(other))
                    }),
                }
                groups.truncate(*size);
                groups
            }
            GroupKind::Histogram {
                field,
                interval,
                least,
                ..
            } => {
                let mut steps = BTreeMap::<i64, Vec<Row<'_>>>::new();
                for row in &rows {
                    for (number, _) in values(row, field) {
                        let step = (number / interval).floor() as i64;
                        steps.entry(step).or_default().push(*row);
                    }
                }
                if *least == 0 {
                    let ends = steps.keys().next().zip(steps.keys().next_back());
                    if let Some((first, last)) = ends.map(|(first, last)| (*first, *last)) {
                        (first..=last).for_each(|step| {
                            steps.entry(step).or_default();
                        });
                    }
                }
                let steps = steps.into_iter();
                let steps = steps.filter(|(_, rows)| rows.len() as u64 >= *least);
                steps
                    .map(|(step, rows)| {
                        let begin = step as f64 * interval;
                        let key = match field.as_str() {
                            "long" => Value::Integer(begin as i64),
                            _ => Value::Double(begin),
                        };
                        of(rows, GroupKey::Step(key))
                    })
                    .collect()
            }
        };
        (one.name.clone(), one.by.form(), groups)
    });
    Aggregated {
        metrics: metrics.collect(),
        groups: groups.collect(),
    }
}

fn weeks(least: u64) -> GroupKind {
    GroupKind::Dates {
        field: "day".to_owned(),
        steps: DateSteps {
            unit: DateUnit::Week,
            count: 1,
            zone_ms: 3_600_000,
            offset_ms: 86_400_000,
        },
        missing: None,
        least,
        range: None,
        order: Vec::new(),
    }
}

fn asked(random: &mut Random) -> Aggregates {
    let order = |by, is_desc| vec![GroupOrder { by, is_desc }];
    let histogram = |field: &str, interval, least| GroupKind::Histogram {
        field: field.to_owned(),
        interval,
        offset: 0.0,
        missing: None,
        least,
        range: None,
        order: Vec::new(),
    };
    let deep = groups(vec![group_by(
        "flags",
        by_value("flag", 5, Vec::new()),
        groups(vec![group_by(
            "steps",
            histogram("double", 0.5, 0),
            metrics(measures()),
        )]),
    )]);
    let sum = || metrics(vec![measure(MeasureKind::Sum, "n")]);
    Aggregates {
        metrics: measures(),
        groups: vec![
            group_by(
                "words",
                by_value("words", 4, Vec::new()),
                metrics(measures()),
            ),
            group_by(
                "doubles",
                by_value("double", 2_000, Vec::new()),
                Aggregates::default(),
            ),
            group_by(
                "by key",
                by_value("word", 3, order(GroupOrderBy::Key, true)),
                deep,
            ),
            group_by(
                "by sum",
                by_value(
                    "long",
                    6,
                    order(GroupOrderBy::Metric("Sum of n".to_owned()), false),
                ),
                sum(),
            ),
            group_by(
                "ranges",
                GroupKind::Range {
                    field: "long".to_owned(),
                    ranges: vec![(f64::NEG_INFINITY, 0.0), (-2.0, 3.0), (50.0, 60.0)],
                },
                sum(),
            ),
            group_by(
                "filters",
                GroupKind::Filter(vec![random.query(1), random.query(1), random.part()]),
                groups(vec![group_by(
                    "words",
                    by_value("word", 9, Vec::new()),
                    sum(),
                )]),
            ),
            group_by("longs", histogram("long", 3.0, 1), sum()),
            group_by(
                "distances",
                GroupKind::Distance {
                    field: "point".to_owned(),
                    origin: Point { lat: 1.0, lon: 1.0 },
                    ranges: vec![(500_000.0, 900_000.0), (0.0, 600_000.0)],
                },
                sum(),
            ),
            group_by(
                "cells",
                GroupKind::Grid {
                    field: "point".to_owned(),
                    precision: 1 + u32::try_from(random.below(4)).unwrap(),
                    size: 5,
                },
                sum(),
            ),
            group_by("weeks", weeks(random.below(2)), sum()),
        ],
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_computes_what_a_look_at_each_row_computes() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(0xa66);
    let mut bed = Bed::open(folder.path());
    bed.create().await;
    bed.index().await;
    for _ in 0..5 {
        for _ in 0..40 {
            let key = random.key();
            let cells = (random.below(6) > 0).then(|| random.cells());
            bed.write(key, cells).await;
        }
        for _ in 0..4 {
            let (query, asked) = (random.query(1), asked(&mut random));
            let rows = bed.rows.iter().map(|(key, cells)| Row {
                number: key.1,
                cells,
            });
            let rows = rows.filter(|row| row.is_found(&query));
            let expected = computed(rows.collect(), &asked);
            let found = bed.search(Search {
                aggregates: asked,
                ..search(query.clone(), None, 3)
            });
            let found = found.await;
            assert!(found.is_all);
            assert_eq!(found.aggregated, expected, "{query:#?}");
        }
    }
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_of_several_kinds_come_page_by_page() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(0x5e7e);
    let mut bed = Bed::open(folder.path());
    bed.create().await;
    bed.index().await;
    for round in 0..3 {
        for _ in 0..60 {
            let key = random.key();
            let cells = random.cells();
            bed.write(key, Some(cells)).await;
        }
        for size in [1, 7, 2_000] {
            let sources = vec![
                ("word".to_owned(), by_value("words", 10, Vec::new())),
                ("day".to_owned(), weeks(1)),
                ("double".to_owned(), by_value("double", 10, Vec::new())),
            ];
            let sources = sources[round..].to_vec();
            let sum = || metrics(vec![measure(MeasureKind::Sum, "n")]);
            let of = |after| {
                let by = GroupKind::Several {
                    sources: sources.clone(),
                    size,
                    after,
                };
                groups(vec![group_by("all", by, sum())])
            };
            let rows = bed.rows.iter().map(|(key, cells)| Row {
                number: key.1,
                cells,
            });
            let expected = computed(rows.collect(), &of(None)).groups.remove(0).2;
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let page = bed.search(Search {
                    aggregates: of(after.take()),
                    ..search(Query::All, None, 0)
                });
                let (_, form, groups) = page.await.aggregated.groups.remove(0);
                assert!(groups.len() <= size);
                found.extend(groups);
                let GroupForm::Several { names, next } = form else {
                    panic!("{form:?}");
                };
                assert_eq!(names.len(), sources.len());
                let Some(next) = next else { break };
                after = Some(next);
            }
            assert_eq!(found, expected);
            assert!(found.len() > 3);
        }
    }
    let table = bed.table().await;
    for token in ["", "0", "0123456789abcdef00", "é"] {
        let by = GroupKind::Several {
            sources: vec![("word".to_owned(), by_value("word", 10, Vec::new()))],
            size: 3,
            after: Some(token.to_owned()),
        };
        let asked = Search {
            aggregates: groups(vec![group_by("all", by, Aggregates::default())]),
            ..search(Query::All, None, 0)
        };
        let refused = bed.searches.search::<Vec<FoundRow>>(&table, INDEX, asked);
        assert_eq!(
            refused.await.err(),
            Some(Error::Search(InvalidSearch::Token))
        );
    }
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn top_rows_are_the_first_of_each_group() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(0x70_b5);
    let mut bed = Bed::open(folder.path());
    bed.create().await;
    bed.index().await;
    let sort = Sort {
        sorters: vec![Sorter::Field {
            name: "long".to_owned(),
            is_desc: true,
            mode: None,
            missing: Missing::Last,
            missing_field: None,
        }],
        keys_last: true,
    };
    for limit in [1, 3, 100] {
        for _ in 0..50 {
            let key = random.key();
            let cells = (random.below(6) > 0).then(|| random.cells());
            bed.write(key, cells).await;
        }
        let top = Measure {
            name: "top".to_owned(),
            kind: MeasureKind::TopRows {
                limit,
                sort: Some(sort.clone()),
            },
            field: String::new(),
            missing: None,
        };
        let by = by_value("word", 20, Vec::new());
        let found = bed.search(Search {
            aggregates: groups(vec![group_by("words", by, metrics(vec![top]))]),
            ..search(Query::All, None, 0)
        });
        let found = found.await;
        let mut rows_seen = 0;
        for group in &found.aggregated.groups[0].2 {
            let GroupKey::Text(word) = &group.key else {
                panic!("{:?}", group.key);
            };
            let Measured::Rows(keys) = &group.inner.metrics[0].2 else {
                panic!("{:?}", group.inner);
            };
            let named = keys.iter().map(|key| key_of(&found.named[key][0]));
            let mut due: Vec<_> = bed.rows.iter().filter(|(_, cells)| {
                matches!(cells.get("word"), Some(Value::String(own)) if own == word)
            }).collect();
            due.sort_by_key(|(key, cells)| {
                let row = Row {
                    number: key.1,
                    cells,
                };
                let long = row.number("long").map_or(i64::MIN, |long| long as i64);
                (std::cmp::Reverse(long), (*key).clone())
            });
            let due = due.into_iter().take(limit).map(|(key, _)| key.clone());
            assert_eq!(named.collect::<Vec<_>>(), due.collect::<Vec<_>>(), "{word}");
            rows_seen += keys.len();
        }
        assert!(rows_seen > 3);
    }
    bed.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregations_have_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = Bed::with_memory(folder.path(), 64 << 10);
    bed.create().await;
    bed.index().await;
    for number in 0..60 {
        let mut cells = Cells::from([("word", Value::String(format!("{number}").repeat(1_000)))]);
        if number == 0 {
            let words: Vec<u32> = (0..101).collect();
            let words = words.iter().map(|word| format!("\"{word}\""));
            let words = format!("[{}]", words.collect::<Vec<_>>().join(","));
            cells.insert("words", Value::String(words));
        }
        bed.write(("a".to_owned(), number), Some(cells)).await;
    }
    let table = bed.table().await;
    let ask = async |aggregates: Aggregates| {
        let asked = Search {
            aggregates,
            ..search(Query::All, None, 0)
        };
        let found = bed.searches.search::<Vec<FoundRow>>(&table, INDEX, asked);
        found.await.map(|found| found.aggregated)
    };
    let by = |by| groups(vec![group_by("all", by, Aggregates::default())]);
    let words = |size| by(by_value("word", size, Vec::new()));
    // All groups are made before the first ones are chosen: 60 texts of 2 KB, twice.
    assert_eq!(ask(words(1)).await, Err(Error::Busy));
    let rows = metrics(vec![measure(MeasureKind::Count, "n")]);
    let count = ask(rows).await.unwrap().metrics;
    assert_eq!(count[0].2, Measured::Count(60));
    let steps = |interval, least| {
        by(GroupKind::Histogram {
            field: "n".to_owned(),
            interval,
            offset: 0.0,
            missing: None,
            least,
            range: None,
            order: Vec::new(),
        })
    };
    let many = Err(Error::Search(InvalidSearch::Groups(2_000)));
    assert_eq!(ask(steps(0.001, 0)).await, many);
    assert_eq!(ask(steps(0.001, 1)).await.unwrap().groups[0].2.len(), 60);
    // One row of 101 words is in 101 combinations, and would be in 10,201.
    let pairs = |count: usize| {
        let source = |at: usize| (format!("source {at}"), by_value("words", 200, Vec::new()));
        by(GroupKind::Several {
            sources: (0..count).map(source).collect(),
            size: 200,
            after: None,
        })
    };
    assert_eq!(ask(pairs(1)).await.unwrap().groups[0].2.len(), 102);
    let many = Err(Error::Search(InvalidSearch::Groups(100_000)));
    assert_eq!(ask(pairs(2)).await, many);
    for (kind, field, why) in [
        (
            MeasureKind::Sum,
            "word",
            InvalidSearch::AggregateKind("sum agg", "word".to_owned(), "keyword", "long, double"),
        ),
        (
            MeasureKind::Avg,
            "none",
            InvalidSearch::AggregateField("avg agg", "none".to_owned()),
        ),
    ] {
        let refused = ask(metrics(vec![measure(kind, field)])).await;
        assert_eq!(refused, Err(Error::Search(why)));
    }
    bed.close().await;
}
