//! The documented rules of series: names, sources, tags, attributes, tables.
//!
//! Owns: which are legal, and how tags and attributes are written: `["name=value","name=value"]`, sorted, without any
//! escape, since neither names nor values have quotes. Must not: know a table.

use std::collections::BTreeMap;

use super::{
    ATTRIBUTES_BYTES_MAX, ATTRIBUTES_MAX, InvalidSeries, KEY_FIELDS_MAX, MEASUREMENT,
    METAS_LIFE_S_MIN, NewSeries, POINTS_LIFE_S_MIN, Point, SERIES_KEYS_MAX, SERIES_NAME_BYTES_MAX,
    SOURCE, SOURCE_BYTES_MAX, SeriesKey, SeriesMeta, TAGS, TAGS_BYTES_MAX,
};
use crate::limits::{COLUMNS_MAX, VERSION_END};
use crate::{Error, check_table_name};

type Checked<T = ()> = Result<T, InvalidSeries>;

/// A table's name: that of a table, and shorter.
pub fn check_series_table_name(name: &str) -> Result<(), Error> {
    check_table_name(name)?;
    match name.len() <= SERIES_NAME_BYTES_MAX {
        true => Ok(()),
        false => Err(Error::InvalidTableName(name.to_owned())),
    }
}

/// The name of a field: lower-case letters, digits and underscores, no digit first, none that the service uses.
pub fn check_field_name(name: &str) -> Checked {
    const TAKEN: [&str; 6] = [
        MEASUREMENT,
        SOURCE,
        TAGS,
        "_time",
        "_meta_update_time",
        "_attributes",
    ];
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let first = name.bytes().next();
    let begins = first.is_some_and(|byte| !byte.is_ascii_digit());
    let is_short = name.len() <= SERIES_NAME_BYTES_MAX;
    match begins && is_short && name.bytes().all(is_word) && !TAKEN.contains(&name) {
        true => Ok(()),
        false => Err(InvalidSeries::Field(name.to_owned())),
    }
}

/// Tags or attributes as they are written.
#[must_use]
pub fn tags_text(pairs: &BTreeMap<String, String>) -> String {
    let written = pairs
        .iter()
        .map(|(name, value)| format!("\"{name}={value}\""));
    format!("[{}]", written.collect::<Vec<_>>().join(","))
}

/// The pairs of tags or attributes that are written so; an empty text has none.
pub fn parse_pairs(text: &str) -> Checked<BTreeMap<String, String>> {
    let mut pairs = BTreeMap::new();
    if text.is_empty() || text == "[]" {
        return Ok(pairs);
    }
    let inner = text
        .strip_prefix("[\"")
        .and_then(|rest| rest.strip_suffix("\"]"));
    // No name or value has a quote, so this can be nothing but an end and a beginning.
    for pair in inner.ok_or(InvalidSeries::Pairs)?.split("\",\"") {
        let (name, value) = pair.split_once('=').ok_or(InvalidSeries::Pairs)?;
        if pairs.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(InvalidSeries::Duplicate(name.to_owned()));
        }
    }
    Ok(pairs)
}

fn check_pairs(pairs: &BTreeMap<String, String>, what: &'static str, most: usize) -> Checked {
    for (name, value) in pairs {
        let is_plain = |text: &str| !text.is_empty() && !text.contains(['"', '=']);
        let is_named = name.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_plain(name) || !is_plain(value) || !is_named {
            return Err(InvalidSeries::Pair(name.clone()));
        }
    }
    let length = tags_text(pairs).len();
    match length <= most {
        true => Ok(()),
        false => Err(InvalidSeries::PairsTooLong { what, most, length }),
    }
}

impl SeriesKey {
    /// Checks all that needs no table. A measurement may be missing: only tables say whether they have one.
    pub fn check(&self) -> Checked {
        let measurement = &self.measurement;
        let is_seen =
            |letter: char| letter != '#' && !letter.is_whitespace() && !letter.is_control();
        if measurement.len() > SERIES_NAME_BYTES_MAX || !measurement.chars().all(is_seen) {
            return Err(InvalidSeries::Measurement(measurement.clone()));
        }
        if self.source.len() > SOURCE_BYTES_MAX {
            return Err(InvalidSeries::Source(self.source.len()));
        }
        check_pairs(&self.tags, "tags", TAGS_BYTES_MAX)
    }
}

impl Point {
    /// Checks all that needs no table.
    pub fn check(&self) -> Result<(), Error> {
        self.key.check().map_err(Error::Series)?;
        if !(0..VERSION_END).contains(&(self.time_us.div_euclid(1_000))) {
            return Err(Error::Series(InvalidSeries::Time(self.time_us)));
        }
        if self.fields.len() > COLUMNS_MAX {
            return Err(Error::ColumnCount(self.fields.len()));
        }
        let mut names: Vec<&String> = self.fields.iter().map(|(name, _)| name).collect();
        for name in &names {
            check_field_name(name).map_err(Error::Series)?;
        }
        names.sort_unstable();
        match names.windows(2).find(|two| two[0] == two[1]) {
            Some(two) => Err(Error::Series(InvalidSeries::Duplicate(two[0].clone()))),
            None => Ok(()),
        }
    }
}

impl SeriesMeta {
    /// Checks all that needs no table.
    pub fn check(&self) -> Checked {
        self.key.check()?;
        if self.attributes.len() > ATTRIBUTES_MAX {
            return Err(InvalidSeries::Count("attribute", ATTRIBUTES_MAX));
        }
        check_pairs(&self.attributes, "attributes", ATTRIBUTES_BYTES_MAX)
    }
}

impl NewSeries {
    /// Checks everything.
    pub fn check(&self) -> Result<(), Error> {
        check_series_table_name(&self.name)?;
        self.check_columns().map_err(Error::Series)?;
        check_lives(
            self.points_life_s,
            self.metas_life_s,
            self.allows_attributes,
        )
        .map_err(Error::Series)
    }

    fn check_columns(&self) -> Checked {
        if self.keys.len() > SERIES_KEYS_MAX {
            return Err(InvalidSeries::Count("timeseries key", SERIES_KEYS_MAX));
        }
        if self.fields.len() > KEY_FIELDS_MAX {
            return Err(InvalidSeries::Count("field primary key", KEY_FIELDS_MAX));
        }
        let fields = self.fields.iter().map(|field| &field.name);
        let mut names: Vec<&String> = self.keys.iter().chain(fields.clone()).collect();
        let usual = |name: &&String| [MEASUREMENT, SOURCE, TAGS].contains(&name.as_str());
        let own = self.keys.iter().filter(|name| !usual(name));
        own.chain(fields)
            .try_for_each(|name| check_field_name(name))?;
        names.sort_unstable();
        match names.windows(2).find(|two| two[0] == two[1]) {
            Some(two) => Err(InvalidSeries::Duplicate(two[0].clone())),
            None => Ok(()),
        }
    }
}

/// Checks how long points and what is known of series live.
pub fn check_lives(points_s: i64, metas_s: i64, allows_attributes: bool) -> Checked {
    if points_s != -1 && points_s < POINTS_LIFE_S_MIN {
        return Err(InvalidSeries::Life(POINTS_LIFE_S_MIN));
    }
    if metas_s == -1 {
        return Ok(());
    }
    if metas_s < METAS_LIFE_S_MIN {
        return Err(InvalidSeries::Life(METAS_LIFE_S_MIN));
    }
    match allows_attributes || points_s == -1 || metas_s < points_s {
        true => Err(InvalidSeries::MetasLife),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(of: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        of.iter().map(owned).collect()
    }

    #[test]
    fn tags_are_written_sorted_and_read_back() {
        let tags = pairs(&[("b", "2,3"), ("a", "x\\y"), ("Ä", "é")]);
        let text = tags_text(&tags);
        assert_eq!(text, "[\"a=x\\y\",\"b=2,3\",\"Ä=é\"]");
        assert_eq!(parse_pairs(&text), Ok(tags));
        assert_eq!(parse_pairs(""), Ok(pairs(&[])));
        assert_eq!(parse_pairs("[]"), Ok(pairs(&[])));
        for bad in ["[", "a=b", "[a=b]", "[\"a\"]", "[\"]", "[\"a=1\",\"b\"]"] {
            assert_eq!(parse_pairs(bad), Err(InvalidSeries::Pairs), "{bad}");
        }
        let twice = InvalidSeries::Duplicate("a".to_owned());
        assert_eq!(parse_pairs("[\"a=1\",\"a=2\"]"), Err(twice));
    }

    #[test]
    fn names_are_as_documented() {
        for good in ["a", "_", "a_9", &"x".repeat(128)] {
            check_field_name(good).unwrap();
        }
        for bad in [
            "",
            "9a",
            "A",
            "a-b",
            "ä",
            "_time",
            "_tags",
            &"x".repeat(129),
        ] {
            assert!(check_field_name(bad).is_err(), "{bad}");
        }
        let key = |measurement: &str, source: usize, tags: &[(&str, &str)]| SeriesKey {
            measurement: measurement.to_owned(),
            source: "s".repeat(source),
            tags: pairs(tags),
        };
        for good in [
            key(&"m".repeat(128), 256, &[("k", &"v".repeat(506))]),
            key("测试", 0, &[("k", "标签, \\ and more")]),
            key("", 0, &[]),
        ] {
            good.check().unwrap();
        }
        for bad in [
            key(&"m".repeat(129), 0, &[]),
            key("a b", 0, &[]),
            key("a#b", 0, &[]),
            key("m", 257, &[]),
            key("m", 0, &[("k", &"v".repeat(507))]),
            key("m", 0, &[("k", "a\"b")]),
            key("m", 0, &[("k", "a=b")]),
            key("m", 0, &[("k", "")]),
            key("m", 0, &[("", "v")]),
            key("m", 0, &[("k k", "v")]),
            key("m", 0, &[("ä", "v")]),
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_series_has_so_many_attributes_and_bytes_of_them() {
        let checked = |count: usize, bytes: usize| {
            let pair = |number: usize| (format!("{number:04}"), "v".repeat(bytes));
            let meta = SeriesMeta {
                attributes: (0..count).map(pair).collect(),
                ..SeriesMeta::default()
            };
            meta.check()
        };
        assert_eq!(checked(256, 1), Ok(()));
        let many = InvalidSeries::Count("attribute", 256);
        assert_eq!(checked(257, 1), Err(many));
        assert!(checked(256, 9).is_err());
    }

    #[test]
    fn what_is_known_of_series_ends_with_the_points_or_later() {
        for (points, metas, allows) in [
            (-1, -1, true),
            (86_400, -1, true),
            (86_400, 604_800, false),
            (604_800, 604_800, false),
        ] {
            check_lives(points, metas, allows).unwrap();
        }
        for (points, metas, allows) in [
            (86_399, -1, true),
            (0, -1, true),
            (-2, -1, true),
            (86_400, 604_799, false),
            (86_400, 604_800, true),
            (604_801, 604_800, false),
            (-1, 604_800, false),
        ] {
            assert!(check_lives(points, metas, allows).is_err());
        }
    }
}
