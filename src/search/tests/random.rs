//! Random rows and queries.
//!
//! Owns: which there are. Promises: the same number gives the same. Must not: know what is found.

use tideline_model::Value;
use tideline_model::search::{
    Best, Bool, Combine, Fold, Function, FunctionKind, Functions, Match, MinimumMatch, Missing,
    Nested, ObjectScores, Point, Query, Sort, Sorter,
};

use super::bed::Cells;

/// Numbers that follow from the first one.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn one<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let at = self.below(all.len() as u64);
        &all[usize::try_from(at).unwrap()]
    }

    fn is_one_of(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub(super) fn key(&mut self) -> (String, i64) {
        let number = i64::try_from(self.below(40)).unwrap();
        (format!("p{}", self.below(8)), number)
    }

    fn word(&mut self) -> String {
        (*self.one(&["ab", "abc", "b", "Bc", "c*d", "ccc", "d?", "中文"])).to_owned()
    }

    fn text(&mut self) -> String {
        let words = ["red", "green", "Blue", "sea", "ship", "x1"];
        let count = self.below(5);
        let words: Vec<&str> = (0..count).map(|_| *self.one(&words)).collect();
        words.join(*self.one(&[" ", ", ", "-"]))
    }

    /// What stands at its first row before it is asked about rows.
    pub(super) fn part(&mut self) -> Query {
        let field = *self.one(&["long", "double", "n", "word"]);
        match self.below(4) {
            0 => self.phrase(),
            1 => Query::Prefix {
                field: "word".to_owned(),
                prefix: (*self.one(&["a", "b", "c"])).to_owned(),
                weight: 1.0,
            },
            _ => Query::Range {
                field: field.to_owned(),
                from: Some((self.value(field), true)),
                to: None,
            },
        }
    }

    /// Two or three words that follow each other in some rows.
    fn phrase(&mut self) -> Query {
        let words = ["red", "green", "blue", "sea", "ship", "x1"];
        let count = 2 + self.below(2);
        let words: Vec<&str> = (0..count).map(|_| *self.one(&words)).collect();
        Query::Phrase {
            field: "text".to_owned(),
            text: words.join(" "),
            slop: 0,
            weight: 1.0,
        }
    }

    fn point(&mut self) -> Point {
        let degrees = |random: &mut Random| degrees_of(random.below(21));
        Point {
            lat: degrees(self),
            lon: degrees(self),
        }
    }

    fn number(&mut self) -> i64 {
        i64::try_from(self.below(12)).unwrap() - 4
    }

    fn day(&mut self) -> Value {
        let day = self.below(28);
        match self.is_one_of(3) {
            true => Value::Integer(i64::try_from(day * 86_400).unwrap()),
            false => Value::String(format!("1970-01-{:02}", 1 + day)),
        }
    }

    /// A row: some columns, some of them of a type that their field does not take.
    pub(super) fn cells(&mut self) -> Cells {
        self.cells_of(&[
            "long", "double", "flag", "word", "text", "words", "day", "point", "place", "tags",
        ])
    }

    fn cells_of(&mut self, names: &[&'static str]) -> Cells {
        let mut cells = Cells::new();
        for name in names.iter().copied() {
            if self.is_one_of(5) {
                continue;
            }
            let wrong = self.is_one_of(12);
            let value = match name {
                _ if wrong => match name {
                    "long" | "double" | "flag" => Value::String("12x".to_owned()),
                    "word" | "text" => Value::Integer(3),
                    "words" => Value::String("[1, ".to_owned()),
                    _ => Value::String("no".to_owned()),
                },
                "long" => Value::Integer(self.number()),
                "double" => Value::Double(self.number() as f64 / 2.0),
                "flag" => Value::Boolean(self.is_one_of(2)),
                "word" => Value::String(self.word()),
                "text" => Value::String(self.text()),
                "words" => {
                    let count = self.below(4);
                    let words: Vec<String> = (0..count).map(|_| self.word()).collect();
                    Value::String(serde_json::to_string(&words).unwrap())
                }
                "day" => self.day(),
                "place" => self.place(),
                "tags" => self.objects(),
                _ => {
                    let point = self.point();
                    Value::String(format!("{}, {}", point.lat, point.lon))
                }
            };
            cells.insert(name, value);
        }
        cells
    }

    /// Three numbers, in one of the two forms that a vector has.
    fn place(&mut self) -> Value {
        let numbers = self.vector();
        match self.is_one_of(2) {
            true => Value::String(format!("{numbers:?}")),
            #[allow(clippy::little_endian_bytes)] // as SDKs write them
            false => {
                let bytes = numbers.into_iter().flat_map(f32::to_le_bytes);
                Value::Binary(bytes.collect::<Vec<u8>>().into())
            }
        }
    }

    /// Some objects with columns of a row.
    fn objects(&mut self) -> Value {
        let count = self.below(4);
        let objects = (0..count).map(|_| {
            let cells = self.cells_of(&["long", "double", "flag", "word", "text"]);
            let cells = cells.into_iter().map(|(name, value)| {
                let value: serde_json::Value = match value {
                    Value::Integer(number) => number.into(),
                    Value::Double(number) => number.into(),
                    Value::Boolean(flag) => flag.into(),
                    Value::String(text) => text.into(),
                    other => panic!("{other:?} is of no object"),
                };
                (name.to_owned(), value)
            });
            cells.collect::<serde_json::Map<_, _>>()
        });
        let objects: Vec<_> = objects.collect();
        Value::String(serde_json::to_string(&objects).unwrap())
    }

    pub(super) fn vector(&mut self) -> Vec<f32> {
        (0..3).map(|_| self.number() as f32 / 2.0).collect()
    }

    fn value(&mut self, field: &str) -> Value {
        match field {
            "long" | "n" => Value::Integer(self.number()),
            "double" => Value::Double(self.number() as f64 / 2.0),
            "flag" => Value::Boolean(self.is_one_of(2)),
            "day" => self.day(),
            "text" => Value::String((*self.one(&["red", "blue", "Blue", "x1"])).to_owned()),
            "whole_text" => Value::String(self.text()),
            _ => Value::String(self.word()),
        }
    }

    fn field(&mut self) -> String {
        let all = [
            "long",
            "double",
            "flag",
            "word",
            "text",
            "words",
            "day",
            "whole_text",
            "n",
        ];
        (*self.one(&all)).to_owned()
    }

    fn text_field(&mut self) -> String {
        (*self.one(&["word", "text", "words", "whole_text"])).to_owned()
    }

    fn minimum(&mut self) -> Option<MinimumMatch> {
        let text = *self.one(&["", "", "1", "2", "-1", "50%", "1<50%"]);
        (!text.is_empty()).then(|| MinimumMatch::parse(text).unwrap())
    }

    /// A query, so deep at most.
    pub(super) fn query(&mut self, depth: usize) -> Query {
        match self.below(if depth == 0 { 11 } else { 21 }) {
            0 => Query::All,
            1 | 2 => {
                let (field, count) = (self.field(), 1 + self.below(3));
                Query::Terms {
                    values: (0..count).map(|_| self.value(&field)).collect(),
                    field,
                    weight: 1.0,
                }
            }
            3 | 4 => {
                let field = self.field();
                let bound = |random: &mut Random| {
                    let is_in = random.is_one_of(2);
                    let is_there = !random.is_one_of(4);
                    is_there.then(|| (random.value(&field), is_in))
                };
                let (from, to) = (bound(self), bound(self));
                Query::Range { field, from, to }
            }
            5 => {
                let field = self.text_field();
                let prefix = *self.one(&["", "a", "ab", "b", "中", "re", "c*"]);
                Query::Prefix {
                    field,
                    prefix: prefix.to_owned(),
                    weight: 1.0,
                }
            }
            6 => {
                let field = self.text_field();
                let pattern = *self.one(&[
                    "*", "a*", "*c", "?", "?b*", "中?", "*e*", "c**d", "d?", "[a]", "\\<*",
                ]);
                match pattern.strip_prefix('*') {
                    Some(suffix) if self.is_one_of(2) => Query::Suffix {
                        field,
                        suffix: suffix.to_owned(),
                        weight: 1.0,
                    },
                    _ => Query::Wildcard {
                        field,
                        pattern: pattern.to_owned(),
                        weight: 1.0,
                    },
                }
            }
            7 => Query::Match(Match {
                field: self.text_field(),
                text: self.text(),
                is_and: self.is_one_of(2),
                minimum: self.minimum(),
                weight: 1.0,
            }),
            8 => Query::Phrase {
                field: self.text_field(),
                text: self.text(),
                slop: 0,
                weight: 1.0,
            },
            9 => Query::Exists {
                field: (*self.one(&["long", "text", "words", "point", "day", "word"])).to_owned(),
            },
            10 => self.geo(),
            11 => Query::Constant(Box::new(self.query(depth - 1))),
            12 => {
                let count = 1 + self.below(3);
                Query::Best(Best {
                    queries: (0..count).map(|_| self.query(depth - 1)).collect(),
                    tie_breaker: 0.5,
                    weight: 1.0,
                })
            }
            14..=16 => Query::Nested(Box::new(Nested {
                path: "tags".to_owned(),
                query: of_objects(self.query(depth - 1)),
                scores: ObjectScores::Avg,
                weight: 1.0,
                hits: None,
            })),
            13 => Query::Functions(Box::new(Functions {
                query: self.query(depth - 1),
                functions: vec![Function {
                    kind: FunctionKind::Random,
                    filter: self.is_one_of(2).then(|| self.query(depth - 1)),
                    weight: 2.0,
                }],
                fold: Fold::Sum,
                combine: Combine::Sum,
                min_score: None,
                max_score: None,
            })),
            _ => {
                let some = |random: &mut Random, most: u64| {
                    let count = random.below(most);
                    (0..count)
                        .map(|_| random.query(depth - 1))
                        .collect::<Vec<_>>()
                };
                Query::Bool(Box::new(Bool {
                    must: some(self, 3),
                    must_not: some(self, 2),
                    filter: some(self, 2),
                    should: some(self, 4),
                    minimum: self.minimum(),
                    weight: None,
                }))
            }
        }
    }

    fn geo(&mut self) -> Query {
        let field = "point".to_owned();
        let (one, other) = (self.point(), self.point());
        match self.below(3) {
            0 => Query::GeoBox {
                field,
                top_left: Point {
                    lat: one.lat.max(other.lat),
                    lon: one.lon.min(other.lon),
                },
                bottom_right: Point {
                    lat: one.lat.min(other.lat),
                    lon: one.lon.max(other.lon),
                },
            },
            1 => Query::GeoDistance {
                field,
                center: one,
                metres: 300_000.0,
            },
            _ => Query::GeoPolygon {
                field,
                points: vec![one, other, self.point(), self.point()],
            },
        }
    }

    /// By a number, and by keys.
    pub(super) fn sort(&mut self) -> Sort {
        let name = *self.one(&["long", "double", "flag", "day", "n"]);
        let sorter = Sorter::Field {
            missing_field: (name == "long" && self.is_one_of(2)).then(|| "day".to_owned()),
            name: name.to_owned(),
            is_desc: self.is_one_of(2),
            mode: None,
            missing: match self.is_one_of(3) {
                true => Missing::First,
                false => Missing::Last,
            },
        };
        Sort {
            sorters: vec![sorter],
            keys_last: true,
        }
    }
}

/// The same query of objects; what they do not have is left out.
pub(super) fn of_objects(query: Query) -> Query {
    let all = |queries: Vec<Query>| queries.into_iter().map(of_objects).collect();
    let name = |field: &mut String| {
        let own = match field.as_str() {
            "words" | "whole_text" => "word",
            "n" => "long",
            other => other,
        };
        *field = format!("tags.{own}");
    };
    let mut query = query;
    match &mut query {
        Query::Terms { field, .. } | Query::Range { field, .. } | Query::Exists { field }
            if ["day", "point"].contains(&field.as_str()) =>
        {
            return Query::All;
        }
        Query::Terms { field, .. }
        | Query::Range { field, .. }
        | Query::Exists { field }
        | Query::Prefix { field, .. }
        | Query::Suffix { field, .. }
        | Query::Wildcard { field, .. }
        | Query::Match(Match { field, .. })
        | Query::Phrase { field, .. } => name(field),
        Query::Constant(inner) => return Query::Constant(Box::new(of_objects(*inner.clone()))),
        Query::Best(best) => best.queries = all(best.queries.clone()),
        Query::Bool(parts) => {
            parts.must = all(parts.must.clone());
            parts.must_not = all(parts.must_not.clone());
            parts.filter = all(parts.filter.clone());
            parts.should = all(parts.should.clone());
        }
        _ => return Query::All,
    }
    query
}

/// Few, so that points meet.
fn degrees_of(step: u64) -> f64 {
    step as f64 / 2.0 - 5.0
}
