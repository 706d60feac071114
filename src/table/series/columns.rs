//! The columns that name a series: from its name to a key's values, and back.
//!
//! Owns: the order and form of these values in both tables. Promises: one series has one key in each. Points have the
//! tags as clients are answered them, what is known of series has them as JSON, since the search index reads a list.
//! Must not: know what else a row has.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

use tideline_model::series::{
    InvalidSeries, MEASUREMENT, SOURCE, SeriesKey, SeriesPart, TAGS, parse_pairs, tags_text,
};
use tideline_model::{Error, KeyValue, PrimaryKey};

use super::HASH;

/// The values that name a series, behind its hash, in a table's order.
pub(super) fn key_of(part: &SeriesPart, key: &SeriesKey) -> Result<PrimaryKey, Error> {
    let values = values_of(part, key).map_err(Error::Series)?;
    // The hash is of what is written for points, in both tables.
    let hashed: Vec<&str> = values.iter().map(|(_, value)| value.as_str()).collect();
    let hash = format!("{:016x}", xxh3_64(hashed.join("\0").as_bytes()));
    let written = |(name, value): (String, String)| {
        let value = match part.is_meta && name == TAGS {
            true => json_of(&parse_pairs(&value).map_err(Error::Series)?),
            false => value,
        };
        Ok((name, KeyValue::String(value)))
    };
    let named = std::iter::once(Ok((HASH.to_owned(), KeyValue::String(hash))));
    named.chain(values.into_iter().map(written)).collect()
}

fn values_of(part: &SeriesPart, key: &SeriesKey) -> Result<Vec<(String, String)>, InvalidSeries> {
    let mut tags = key.tags.clone();
    let is_own = |name: &str| part.keys.iter().any(|key| key == name);
    let mut values = Vec::with_capacity(part.keys.len());
    for name in &part.keys {
        let value = match name.as_str() {
            MEASUREMENT if key.measurement.is_empty() => {
                return Err(InvalidSeries::Measurement(String::new()));
            }
            MEASUREMENT => key.measurement.clone(),
            SOURCE => key.source.clone(),
            // The tags that no other column takes.
            TAGS => String::new(),
            own => {
                let value = tags.remove(own);
                value.ok_or_else(|| InvalidSeries::MissingKey(own.to_owned()))?
            }
        };
        values.push((name.clone(), value));
    }
    if !key.measurement.is_empty() && !is_own(MEASUREMENT) {
        return Err(InvalidSeries::NoColumn("measurement"));
    }
    if !key.source.is_empty() && !is_own(SOURCE) {
        return Err(InvalidSeries::NoColumn("data source"));
    }
    match values.iter_mut().find(|(name, _)| name == TAGS) {
        Some((_, value)) => *value = tags_text(&tags),
        None if !tags.is_empty() => return Err(InvalidSeries::NoColumn("tags")),
        None => {}
    }
    Ok(values)
}

/// The series of a key of what is known of series.
pub(super) fn series_of(part: &SeriesPart, values: &[KeyValue]) -> SeriesKey {
    let mut series = SeriesKey::default();
    for (name, value) in part.keys.iter().zip(&values[1..]) {
        let KeyValue::String(value) = value else {
            continue;
        };
        match name.as_str() {
            MEASUREMENT => series.measurement.clone_from(value),
            SOURCE => series.source.clone_from(value),
            TAGS => series.tags.extend(pairs_of(value)),
            own => {
                series.tags.insert(own.to_owned(), value.clone());
            }
        }
    }
    series
}

/// Pairs as a list that the search index reads.
pub(super) fn json_of(pairs: &BTreeMap<String, String>) -> String {
    let pairs = pairs.iter().map(|(name, value)| format!("{name}={value}"));
    serde_json::Value::from(pairs.collect::<Vec<String>>()).to_string()
}

/// The pairs of such a list, which nobody but this module writes.
pub(super) fn pairs_of(json: &str) -> BTreeMap<String, String> {
    let pairs: Vec<String> = serde_json::from_str(json).unwrap_or_default();
    let pair = |pair: String| {
        let (name, value) = pair.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    pairs.into_iter().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(keys: &[&str]) -> SeriesPart {
        SeriesPart {
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            is_meta: true,
            allows_attributes: true,
        }
    }

    fn series(measurement: &str, source: &str, tags: &[(&str, &str)]) -> SeriesKey {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        SeriesKey {
            measurement: measurement.to_owned(),
            source: source.to_owned(),
            tags: tags.iter().map(owned).collect(),
        }
    }

    #[test]
    fn a_series_comes_back_from_its_key() {
        let usual = part(&[MEASUREMENT, SOURCE, TAGS]);
        let own = part(&["region", MEASUREMENT, TAGS]);
        let odd = [("host", "C:\\x"), ("os", "温度\u{1}"), ("region", "eu")];
        let text = |key: &PrimaryKey| {
            key.iter()
                .map(|(_, value)| value.clone())
                .collect::<Vec<_>>()
        };
        for (part, key) in [
            (&usual, series("m", "", &[])),
            (&usual, series("m", "s", &odd)),
            (&own, series("m", "", &odd)),
        ] {
            let written = key_of(part, &key).unwrap();
            assert_eq!(series_of(part, &text(&written)), key);
            let mut points = part.clone();
            points.is_meta = false;
            // In both tables a series is in the same partition.
            assert_eq!(key_of(&points, &key).unwrap()[0], written[0]);
        }
    }

    #[test]
    fn a_series_fits_its_table() {
        use InvalidSeries::{Measurement, MissingKey, NoColumn};
        let usual = part(&[MEASUREMENT, SOURCE, TAGS]);
        let own = part(&["a"]);
        for (part, key, why) in [
            (&usual, series("", "s", &[]), Measurement(String::new())),
            (&own, series("", "", &[]), MissingKey("a".to_owned())),
            (
                &own,
                series("m", "", &[("a", "1")]),
                NoColumn("measurement"),
            ),
            (
                &own,
                series("", "s", &[("a", "1")]),
                NoColumn("data source"),
            ),
            (
                &own,
                series("", "", &[("a", "1"), ("b", "1")]),
                NoColumn("tags"),
            ),
        ] {
            assert_eq!(key_of(part, &key), Err(Error::Series(why)));
        }
    }
}
