//! What there is on the disk, and when it will be full.
//!
//! Owns: the sums over all partitions, and the guess. Promises: a guess is made from what this server writes, whatever
//! other programs do with the disk: not from less than ten minutes of history, nor while it takes no more than before.
//! Must not: write.

use std::path::Path;

use super::sample::Sample;
use tideline_base::disk;
pub use tideline_model::server::Storage;

/// Of this moment. What the server took of the disk earlier comes with its time, ms.
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
    let taken = (used + storage.log) as f64;
    storage.full_in_s = earlier
        .zip(room(&storage))
        .and_then(|(earlier, room)| full_in_s(earlier, (now, taken), room));
    storage
}

/// What may still be written: on the disk, and into free pages.
fn room(storage: &Storage) -> Option<f64> {
    Some((storage.disk_free? + storage.free) as f64)
}

/// Seconds until there is no room, from what the server takes more than at an earlier time.
fn full_in_s((then, before): (u64, f64), (now, taken): (u64, f64), room: f64) -> Option<u64> {
    let elapsed_s = now.saturating_sub(then) as f64 / 1e3;
    let grown = taken - before;
    if elapsed_s < 600.0 || grown <= 0.0 {
        return None;
    }
    let seconds = room * elapsed_s / grown;
    (seconds < YEAR_S).then_some(seconds as u64)
}

/// Nobody can say anything about longer times.
const YEAR_S: f64 = 366.0 * 86_400.0;

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    #[test]
    fn it_is_full_when_what_is_left_has_gone_as_the_server_took_the_rest() {
        let full = |minutes: u64, (before, taken): (f64, f64), room| {
            full_in_s((0, before), (minutes * MINUTE, taken), room)
        };
        assert_eq!(full(60, (500.0, 600.0), 900.0), Some(9 * 3_600));
        assert_eq!(full(9, (0.0, 900.0), 100.0), None);
        assert_eq!(full(60, (500.0, 500.0), 1_000.0), None);
        assert_eq!(full(60, (500.0, 400.0), 1_000.0), None);
        assert_eq!(full(60, (0.0, 1.0), 1e15), None);
        assert_eq!(full(20, (0.0, 1_000.0), 0.0), Some(0));
    }

    /// As it was on a machine whose builds wrote 21 GB in an hour, beside a server that nobody used.
    #[test]
    fn what_other_programs_write_is_no_pace_of_this_server() {
        let (gb, hour) = (1e9, 60 * MINUTE);
        let ((then, was), (now, is)) = ((0, 0.262 * gb), (hour, 0.262 * gb + 4_096.0));
        let (room_before, room) = (252.0 * gb, 231.0 * gb);
        assert_eq!(full_in_s((then, was), (now, is), room), None);
        // The control: the same rule, asked by how the room has shrunk, as it was.
        let by_room = full_in_s((then, -room_before), (now, -room), room);
        assert_eq!(by_room, Some(39_600));
        // Of a server that writes as much itself it is true.
        let own = full_in_s((then, was), (now, was + 21.0 * gb), room);
        assert_eq!(own, Some(39_600));
    }
}
