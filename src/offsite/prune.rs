//! Removing old backups from a bucket, and what none needs any more.
//!
//! Owns: what is removed. Promises: so many whole backups stay, with all that they need, and so does everything that is
//! younger than a day: a backup under way may need it. Backups go before their files, so that whatever ends it, none is
//! left without its files. Must not: remove anything while it is not known what a backup needs.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tideline_bucket::Stored;

use super::list::{Listed, listed};
use super::send::{REMOVED_AFTER_MS, named};
use super::{Offsite, refused};
use crate::clock::Clock;
use crate::partition::{BACKUP_MANIFEST, BackupError};

/// Files that are removed at once.
const AT_ONCE: usize = 8;

/// What was removed.
#[derive(Debug, Default)]
pub struct Pruned {
    /// The backups.
    pub backups: Vec<String>,
    /// How many files that no backup needs.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
}

impl Offsite {
    /// Keeps the newest so many whole backups, and removes those that are older.
    pub async fn prune(&self, keep: usize) -> Result<Pruned, BackupError> {
        let bucket = &self.bucket;
        let there = bucket.files().await.map_err(refused)?;
        let all = listed(bucket, &there).await?;
        refuse_unknown(&all, "nothing was removed")?;
        let are_whole: Vec<bool> = all.iter().map(Listed::is_whole).collect();
        let (old, _) = all.split_at(surplus(&are_whole, keep));
        let mut pruned = Pruned::default();
        for one in old {
            bucket
                .below(&one.name)
                .remove(BACKUP_MANIFEST)
                .await
                .map_err(refused)?;
            pruned.backups.push(one.place.clone());
        }
        // Once more, right before: a backup may have come meanwhile. Files last: one that was sent anew is young then.
        let kept = listed(bucket, &there).await?;
        refuse_unknown(&kept, "no file was removed")?;
        let there = bucket.files().await.map_err(refused)?;
        let needed = named(kept.iter().filter_map(|one| one.manifest.as_ref().ok()));
        let unused = unused(&there, &needed, Clock::system().now_ms());
        pruned.files = unused.len();
        pruned.bytes = unused.iter().map(|(_, bytes)| bytes).sum();
        let removed = stream::iter(unused).map(|(sha256, _)| bucket.remove_file(sha256));
        removed
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await
            .map_err(refused)?;
        Ok(pruned)
    }
}

/// Refuses to go on where a backup can't be read: `what` is how far it has come.
fn refuse_unknown(all: &[Listed], what: &str) -> Result<(), BackupError> {
    let mut errors = all.iter().filter_map(|one| one.manifest.as_ref().err());
    errors.next().map_or(Ok(()), |error| {
        Err(BackupError::refused(format!(
            "{what}, because it is not known which files a backup needs: {error}"
        )))
    })
}

/// How many of the oldest are older than the newest so many whole ones.
fn surplus(are_whole: &[bool], keep: usize) -> usize {
    let whole = are_whole
        .iter()
        .enumerate()
        .filter(|(_, is_whole)| **is_whole);
    let kept = whole.rev().nth(keep.max(1) - 1);
    kept.map_or(0, |(at, _)| at)
}

/// The files that can go.
fn unused<'t>(
    there: &'t BTreeMap<String, Stored>,
    needed: &BTreeSet<&str>,
    now_ms: u64,
) -> Vec<(&'t str, u64)> {
    let old = |stored: &Stored| stored.since_ms + REMOVED_AFTER_MS < now_ms;
    let found = there.iter().map(|(sha256, stored)| (&**sha256, stored));
    found
        .filter(|(sha256, stored)| !needed.contains(sha256) && old(stored))
        .map(|(sha256, stored)| (sha256, stored.bytes))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_young_or_needed_stays() {
        let stored = |since_ms| Stored { bytes: 3, since_ms };
        let now_ms = 10 * REMOVED_AFTER_MS;
        let (young, old) = (now_ms - REMOVED_AFTER_MS, now_ms - REMOVED_AFTER_MS - 1);
        let there = [("a", old), ("b", young), ("c", old)];
        let there = there.map(|(name, since_ms)| (name.to_owned(), stored(since_ms)));
        let there = BTreeMap::from(there);
        assert_eq!(unused(&there, &BTreeSet::from(["a"]), now_ms), [("c", 3)]);
    }

    #[test]
    fn only_whole_backups_are_counted() {
        assert_eq!(surplus(&[true, false, true, false], 1), 2);
        assert_eq!(surplus(&[true, false, true, false], 2), 0);
        assert_eq!(surplus(&[true, true, true], 1), 2);
        assert_eq!(surplus(&[false, true], 2), 0);
        assert_eq!(surplus(&[], 1), 0);
    }
}
