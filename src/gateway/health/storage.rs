//! What there is on the disk, and when it will be full.
//!
//! Owns: the sums over all partitions, and the guess. Promises: no guess is made from less than ten minutes of history,
//! nor while the room does not shrink. Must not: write.

use std::path::Path;

use super::sample::Sample;
use tideline_base::disk;
pub use tideline_model::server::Storage;

/// Of this moment. The room of earlier ones comes with its time, ms, the oldest first.
pub(super) fn look(
    data: &Path,
    sample: &Sample<'_>,
    earlier: Option<(u64, f64)>,
    now: u64,
) -> Storage {
    let sum = |name| sample.sum(name).max(0.0) as u64;
    let (used, dead) = (
        sum("tideline_image_used_bytes"),
        sum("tideline_image_dead_bytes"),
    );
    let mut storage = Storage {
        live: used.saturating_sub(dead),
        dead,
        free: sum("tideline_image_free_bytes"),
        log: sum("tideline_log_bytes"),
        disk_free: disk::free(data),
        disk_bytes: disk::total(data),
        full_in_s: None,
    };
    storage.full_in_s = earlier
        .zip(room(&storage))
        .and_then(|(earlier, room)| full_in_s(earlier, (now, room)));
    storage
}

/// What may still be written: on the disk, and into free pages.
pub(super) fn room(storage: &Storage) -> Option<f64> {
    Some((storage.disk_free? + storage.free) as f64)
}

/// Seconds until there is no room, from how it has shrunk since an earlier time.
fn full_in_s((then, before): (u64, f64), (now, room): (u64, f64)) -> Option<u64> {
    let elapsed_s = now.saturating_sub(then) as f64 / 1e3;
    let shrunk = before - room;
    if elapsed_s < 600.0 || shrunk <= 0.0 {
        return None;
    }
    let seconds = room * elapsed_s / shrunk;
    (seconds < YEAR_S).then_some(seconds as u64)
}

/// Nobody can say anything about longer times.
const YEAR_S: f64 = 366.0 * 86_400.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_full_when_what_is_left_has_gone_as_the_rest_went() {
        let minute = 60_000;
        assert_eq!(
            full_in_s((0, 1_000.0), (60 * minute, 900.0)),
            Some(9 * 3_600)
        );
        assert_eq!(full_in_s((0, 1_000.0), (9 * minute, 100.0)), None);
        assert_eq!(full_in_s((0, 1_000.0), (60 * minute, 1_000.0)), None);
        assert_eq!(full_in_s((0, 1e15), (60 * minute, 1e15 - 1.0)), None);
        assert_eq!(full_in_s((0, 1_000.0), (20 * minute, 0.0)), Some(0));
    }
}
