//! Random statements on random rows, against a plain look at each row.
//!
//! Owns: the statements, and a second opinion on what they mean. Promises: the same seed gives the same statements.
//! Must not: use the executor for its opinion.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write;

use tideline_model::ColumnType::{Double, Integer, String as Text};

use tideline_model::Error;

use super::bed::Bed;
use crate::{Refusal, kind_of};

/// A row: town, n, size, name. Integers stand for doubles too: halves of them.
type Row = (String, i64, Option<i64>, Option<String>);

/// Numbers that look random.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % end
    }

    fn word(&mut self) -> String {
        const WORDS: [&str; 5] = ["", "a", "ab", "b", "ba"];
        WORDS[usize::try_from(self.below(5)).unwrap()].to_owned()
    }

    fn number(&mut self) -> i64 {
        self.below(7).cast_signed() - 3
    }
}

enum Condition {
    Town(&'static str, String),
    N(&'static str, i64),
    Size(&'static str, i64),
    NameIn(Vec<String>),
    NameNull,
    TownBegins(String),
    NBetween(i64, i64),
    Not(Box<Condition>),
    Both(bool, Box<Condition>, Box<Condition>),
}

const SIGNS: [&str; 6] = ["=", "<>", "<", "<=", ">", ">="];

fn holds(sign: &str, order: Ordering) -> bool {
    match sign {
        "=" => order.is_eq(),
        "<>" => order.is_ne(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        _ => order.is_ge(),
    }
}

impl Condition {
    fn random(dice: &mut Dice, depth: u64) -> Condition {
        let sign = SIGNS[usize::try_from(dice.below(6)).unwrap()];
        match dice.below(if depth > 3 { 7 } else { 11 }) {
            0 => Condition::Town(sign, dice.word()),
            1 => Condition::N(sign, dice.number()),
            2 => Condition::Size(sign, dice.number()),
            3 => Condition::NameIn((0..1 + dice.below(3)).map(|_| dice.word()).collect()),
            4 => Condition::NameNull,
            5 => Condition::TownBegins(dice.word()),
            6 => Condition::NBetween(dice.number(), dice.number()),
            7 => Condition::Not(Box::new(Condition::random(dice, depth + 1))),
            kind => {
                let one = Box::new(Condition::random(dice, depth + 1));
                let other = Box::new(Condition::random(dice, depth + 1));
                Condition::Both(kind != 8, one, other)
            }
        }
    }

    fn text(&self) -> String {
        match self {
            Condition::Town(sign, word) => format!("town {sign} '{word}'"),
            Condition::N(sign, number) => format!("{number} {sign} n"),
            Condition::Size(sign, half) => format!("size {sign} {half} / 2"),
            Condition::NameIn(words) => format!("name in ('{}')", words.join("', '")),
            Condition::NameNull => "name is null".to_owned(),
            Condition::TownBegins(word) => format!("town like '{word}%'"),
            Condition::NBetween(low, high) => format!("n between {low} and {high}"),
            Condition::Not(inner) => format!("not ({})", inner.text()),
            Condition::Both(is_and, one, other) => {
                let word = if *is_and { "and" } else { "or" };
                format!("({} {word} {})", one.text(), other.text())
            }
        }
    }

    fn of(&self, (town, n, size, name): &Row) -> Option<bool> {
        match self {
            Condition::Town(sign, word) => Some(holds(sign, town.cmp(word))),
            Condition::N(sign, number) => Some(holds(sign, number.cmp(n))),
            Condition::Size(sign, half) => size.map(|size| holds(sign, size.cmp(half))),
            Condition::NameIn(words) => name.as_ref().map(|name| words.contains(name)),
            Condition::NameNull => Some(name.is_none()),
            Condition::TownBegins(word) => Some(town.starts_with(word.as_str())),
            Condition::NBetween(low, high) => Some((low..=high).contains(&n)),
            Condition::Not(inner) => inner
                .of(&(town.clone(), *n, *size, name.clone()))
                .map(|is| !is),
            Condition::Both(is_and, one, other) => {
                let row = (town.clone(), *n, *size, name.clone());
                match (one.of(&row), other.of(&row)) {
                    (Some(is), _) | (_, Some(is)) if is != *is_and => Some(is),
                    (Some(_), Some(_)) => Some(*is_and),
                    _ => None,
                }
            }
        }
    }
}

fn shown_size(size: Option<i64>) -> String {
    match size {
        None => "NULL".to_owned(),
        Some(half) if half % 2 == 0 => (half / 2).to_string(),
        Some(half) => format!("{}{}.5", if half < 0 { "-" } else { "" }, half.abs() / 2),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::too_many_lines)] // the statement and its opinion are made side by side
async fn statements_say_what_a_look_at_each_row_says() {
    let folder = tempfile::tempdir().unwrap();
    let bed = Bed::open(folder.path());
    let columns = [
        ("town", Text),
        ("n", Integer),
        ("size", Double),
        ("name", Text),
    ];
    bed.create("t", 2, &columns).await;
    let mut dice = Dice(7);
    let mut rows: BTreeMap<(String, i64), Row> = BTreeMap::new();
    for _ in 0..40 {
        let (town, n) = (dice.word(), dice.number());
        let size = (dice.below(4) > 0).then(|| dice.number());
        let name = (dice.below(4) > 0).then(|| dice.word());
        rows.insert((town.clone(), n), (town, n, size, name));
    }
    for (town, n, size, name) in rows.values() {
        let name = name
            .as_ref()
            .map_or_else(|| "null".to_owned(), |name| format!("'{name}'"));
        let size = size.map_or_else(|| "null".to_owned(), |half| format!("{half} / 2"));
        let insert = format!("insert into t values ('{town}', {n}, {size}, {name})");
        bed.run(&insert).await.unwrap();
    }
    for _ in 0..400 {
        let mut condition = Condition::random(&mut dice, 0);
        if dice.below(4) == 0 {
            // A range behind the first column of the key.
            let n = Condition::N(
                SIGNS[usize::try_from(dice.below(6)).unwrap()],
                dice.number(),
            );
            let town = Condition::Town("=", dice.word());
            let both = Condition::Both(true, Box::new(town), Box::new(n));
            condition = match dice.below(2) {
                0 => both,
                _ => Condition::Both(true, Box::new(both), Box::new(condition)),
            };
        }
        let mut found: Vec<&Row> = rows
            .values()
            .filter(|row| condition.of(row) == Some(true))
            .collect();
        let mut statement = format!(
            "select n, size, town, name from t where {}",
            condition.text()
        );
        match dice.below(4) {
            0 => {
                found.reverse();
                statement.push_str(" order by town desc, n desc");
            }
            1 => {
                found.sort_by(|one, other| {
                    (one.2, &other.0, one.1).cmp(&(other.2, &one.0, other.1))
                });
                statement.push_str(" order by size, town desc, n");
            }
            _ => {}
        }
        let count = found.len();
        if dice.below(2) == 0 {
            let (limit, offset) = (dice.below(6), dice.below(3));
            write!(statement, " limit {limit} offset {offset}").unwrap();
            let (limit, offset) = (
                usize::try_from(limit).unwrap(),
                usize::try_from(offset).unwrap(),
            );
            found = found.into_iter().skip(offset).take(limit).collect();
        }
        let line = |row: &&Row| {
            let name = row.3.as_deref().unwrap_or("NULL");
            format!("{},{},{},{name}", row.1, shown_size(row.2), row.0)
        };
        let expected: Vec<String> = found.iter().map(line).collect();
        assert_eq!(
            bed.shown(&statement).await,
            expected.join(";"),
            "{statement}"
        );
        let counts = format!("select count(*) from t where {}", condition.text());
        assert_eq!(bed.shown(&counts).await, count.to_string(), "{counts}");
        let mut groups: BTreeMap<Option<&str>, (i64, Option<i64>)> = BTreeMap::new();
        for row in rows.values().filter(|row| condition.of(row) == Some(true)) {
            let group = groups.entry(row.3.as_deref()).or_default();
            group.0 += 1;
            group.1 = match (group.1, row.2) {
                (None, other) | (other, None) => other,
                (Some(one), Some(other)) => Some(one + other),
            };
        }
        let grouped = format!(
            "select name, count(*), sum(size) from t where {} group by name order by name",
            condition.text()
        );
        let lines = groups.iter().map(|(name, (count, sum))| {
            format!("{},{count},{}", name.unwrap_or("NULL"), shown_size(*sum))
        });
        let expected: Vec<String> = lines.collect();
        assert_eq!(bed.shown(&grouped).await, expected.join(";"), "{grouped}");
    }
    bed.close().await;
}

/// Parts of statements, from which texts are made that are nearly some.
const PARTS: &str = "select insert into update delete from t where and or not in ( ) , , = < <=> like between is null \
    case when then else end group by having order desc limit offset join left on using as x t.n n town size name count ( \
    * mod ) sum distinct concat substring date_add interval 1 day month 0 1 -1 2.5 9223372036854775807 1e308 '' 'a%' \
    '2026-01-31' '0000-01-01' x'ff' null true values set + - * / % div xor ->> '$.a[0]' text_match array_extract cast \
    signed char from_unixtime timediff round locate show tables describe create table bigint primary key ; ` ' \" /* # @";

#[tokio::test(flavor = "multi_thread")]
async fn texts_near_statements_are_answered_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bed = Bed::open(folder.path());
    let columns = [
        ("town", Text),
        ("n", Integer),
        ("size", Double),
        ("name", Text),
    ];
    bed.create("t", 2, &columns).await;
    bed.run("insert into t values ('a', 1, 0.5, 'x'), ('a', 2, null, '{\"a\": [1]}')")
        .await
        .unwrap();
    let parts: Vec<&str> = PARTS.split_whitespace().collect();
    let whole =
        "select n , count ( * ) from t where town = 'a' and size < 9 group by n order by n limit 3";
    let whole: Vec<&str> = whole.split(' ').collect();
    let mut dice = Dice(11);
    let (mut answered, mut refused) = (0, 0);
    for _ in 0..3_000 {
        let mut words = match dice.below(4) {
            0 => vec!["select"],
            _ => whole.clone(),
        };
        for _ in 0..1 + dice.below(4) {
            let at = usize::try_from(dice.below(words.len() as u64 + 1)).unwrap();
            let part = parts[usize::try_from(dice.below(parts.len() as u64)).unwrap()];
            match dice.below(3) {
                0 if at < words.len() => {
                    words.remove(at);
                }
                1 if at < words.len() => words[at] = part,
                _ => words.insert(at, part),
            }
        }
        let text = words.join(" ");
        let _ = kind_of(&text);
        match bed.run(&text).await {
            Ok(_) => answered += 1,
            // A panic is an error of ours.
            Err(Refusal::Table(Error::Internal)) => panic!("{text}"),
            Err(refusal) => {
                refused += 1;
                assert!(refusal.to_string().chars().count() <= 501, "{text}");
            }
        }
    }
    assert!(answered > 20 && refused > 20, "{answered} {refused}");
    bed.close().await;
}
