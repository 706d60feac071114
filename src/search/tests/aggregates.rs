//! What searches compute, against a plain look at each row.
//!
//! Owns: the comparison, over segments, and the bounds. Must not: know how groups are kept.

use std::collections::BTreeMap;

use tideline_model::search::{
    Aggregated, Aggregates, Group, GroupBy, GroupKey, GroupKind, GroupOrder, GroupOrderBy,
    InvalidSearch, Measure, MeasureKind, Measured, Query, Search,
};
use tideline_model::{Error, FoundRow, Value};

use super::bed::{Bed, INDEX, search};
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

fn asked(random: &mut Random) -> Aggregates {
    let order = |by, is_desc| vec![GroupOrder { by, is_desc }];
    let histogram = |field: &str, interval, least| GroupKind::Histogram {
        field: field.to_owned(),
        interval,
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
async fn aggregations_have_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = Bed::with_memory(folder.path(), 64 << 10);
    bed.create().await;
    bed.index().await;
    for number in 0..60 {
        let cells = [("word", Value::String(format!("{number}").repeat(1_000)))];
        bed.write(("a".to_owned(), number), Some(cells.into()))
            .await;
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
            missing: None,
            least,
            range: None,
            order: Vec::new(),
        })
    };
    let many = Err(Error::Search(InvalidSearch::Groups(2_000)));
    assert_eq!(ask(steps(0.001, 0)).await, many);
    assert_eq!(ask(steps(0.001, 1)).await.unwrap().groups[0].2.len(), 60);
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
