//! A table's options: how long and how many versions live, and which ones may be written.
//!
//! Owns: their defaults, ranges and changes. Promises: options that were made of a checked update are within their
//! ranges. Must not: look at cells; `table/format/versions.rs` does.

use serde::{Deserialize, Serialize};

use super::super::Error;
use super::super::limits::{VERSION_BYTES, VERSION_OFFSET_S_MAX};

/// What decides which versions of a table's cells live.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableOptions {
    /// Seconds that a version lives, counted from the version's own time; -1 = for ever.
    pub time_to_live_s: i64,
    /// How many versions of a column live.
    pub max_versions: i64,
    /// How far from now a given version may be, seconds.
    pub max_version_offset_s: i64,
    /// Whether rows can be updated (or only put and deleted).
    pub allow_update: bool,
    /// Whether an update gives the columns that it does not name its version too, so that rows expire as a whole.
    pub update_full_row: bool,
    /// Versions below this have expired under earlier options of a table with indexes, and stay so.
    #[serde(default = "nothing")]
    pub expired_before_ms: i64,
}

impl Default for TableOptions {
    fn default() -> TableOptions {
        TableOptions {
            time_to_live_s: -1,
            max_versions: 1,
            max_version_offset_s: 86_400,
            allow_update: true,
            update_full_row: false,
            expired_before_ms: nothing(),
        }
    }
}

/// Before all times.
fn nothing() -> i64 {
    i64::MIN
}

/// A change of options: only what is given changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionsUpdate {
    /// See [`TableOptions::time_to_live_s`].
    pub time_to_live_s: Option<i64>,
    /// See [`TableOptions::max_versions`].
    pub max_versions: Option<i64>,
    /// See [`TableOptions::max_version_offset_s`].
    pub max_version_offset_s: Option<i64>,
    /// See [`TableOptions::allow_update`].
    pub allow_update: Option<bool>,
}

impl OptionsUpdate {
    /// Checks that all it gives is within its range.
    pub fn check(&self) -> Result<(), Error> {
        if self.time_to_live_s.is_some_and(|s| s == 0 || s < -1) {
            return Err(Error::InvalidTimeToLive);
        }
        if self.max_versions.is_some_and(|versions| versions <= 0) {
            return Err(Error::InvalidMaxVersions);
        }
        let offsets = 0..=VERSION_OFFSET_S_MAX;
        if self
            .max_version_offset_s
            .is_some_and(|s| !offsets.contains(&s))
        {
            return Err(Error::InvalidMaxOffset);
        }
        Ok(())
    }
}

impl TableOptions {
    /// Makes a change that was checked.
    pub fn change(&mut self, update: &OptionsUpdate) {
        let OptionsUpdate {
            time_to_live_s,
            max_versions,
            max_version_offset_s,
            allow_update,
        } = update;
        self.time_to_live_s = time_to_live_s.unwrap_or(self.time_to_live_s);
        self.max_versions = max_versions.unwrap_or(self.max_versions);
        self.max_version_offset_s = max_version_offset_s.unwrap_or(self.max_version_offset_s);
        self.allow_update = allow_update.unwrap_or(self.allow_update);
    }

    /// Bytes that a version's time counts: none where a column has one version, and for ever.
    #[must_use]
    pub fn version_bytes(&self) -> usize {
        match (self.max_versions, self.time_to_live_s) {
            (1, -1) => 0,
            _ => VERSION_BYTES,
        }
    }

    /// Whether a version has expired.
    #[must_use]
    pub fn is_expired(&self, version: i64, now_ms: i64) -> bool {
        let life_ms = self.time_to_live_s.saturating_mul(1_000);
        (self.time_to_live_s > 0 && now_ms >= version.saturating_add(life_ms))
            || version < self.expired_before_ms
    }

    /// Whether a version may be written now.
    #[must_use]
    pub fn takes(&self, version: i64, now_ms: i64) -> bool {
        let (at, now) = (version.div_euclid(1_000), now_ms.div_euclid(1_000));
        let offset = self.max_version_offset_s;
        at >= now - offset && at < now.saturating_add(offset) && !self.is_expired(version, now_ms)
    }
}

impl TableOptions {
    /// Checks that a table with these options may have indexes: a row there has one version of a column, and an update
    /// does not make a part of it live longer.
    pub(in super::super) fn check_indexed(&self) -> Result<(), Error> {
        if self.max_versions != 1 {
            return Err(Error::IndexedVersions);
        }
        if self.time_to_live_s != -1 && self.allow_update && !self.update_full_row {
            return Err(Error::IndexedTimeToLive);
        }
        Ok(())
    }

    /// What has expired by now under the options `before` stays so: of a row and its rows in indexes one may have been
    /// reclaimed and the other not.
    pub fn keep_expired(&mut self, before: &TableOptions, now_ms: i64) {
        if before.time_to_live_s > 0 {
            let life_ms = before.time_to_live_s.saturating_mul(1_000);
            let end = now_ms.saturating_sub(life_ms).saturating_add(1);
            self.expired_before_ms = self.expired_before_ms.max(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_expired_stays_so() {
        let before = TableOptions {
            time_to_live_s: 2,
            ..TableOptions::default()
        };
        let mut after = TableOptions::default();
        after.keep_expired(&before, 10_000);
        assert!(before.is_expired(8_000, 10_000) && after.is_expired(8_000, 10_000));
        assert!(!before.is_expired(8_001, 10_000) && !after.is_expired(8_001, 10_000));
        after.keep_expired(&TableOptions::default(), 20_000);
        assert_eq!(after.expired_before_ms, 8_001);
    }
}
