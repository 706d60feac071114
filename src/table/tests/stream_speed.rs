//! By hand: how fast a table's stream is read, from memory and from disk, alone and beside 50 busy tables.
//!
//! Owns: the measurement. Must not: assert on time, or be in a build that is not a test.

use std::io::Write as _;
use std::time::Instant;

use super::super::{ShardIterator, ShardPage};
use super::streams::{Bed, NAME, hours, put, write};
use tideline_model::{ChangeRef, ChangeSink};
use tideline_store::partition::LogOptions;

/// Counts changes, and looks at each.
#[derive(Default)]
struct Count(usize);

impl ChangeSink for Count {
    fn push(&mut self, change: ChangeRef<'_>) {
        self.0 += usize::from(!change.cells.is_empty());
    }
}

/// Changes of the table, and of all others together for each of them.
const CHANGES: usize = 60_000;

#[tokio::test]
#[ignore = "measures"]
async fn how_fast_a_stream_is_read() {
    for others in [0, 1, 50] {
        // Nothing of the log stays in memory, or all of it.
        for tail_bytes in [1, 1 << 30] {
            let dir = tempfile::tempdir().unwrap();
            let log = LogOptions {
                tail_bytes,
                retention_bytes: 1 << 40,
                ..LogOptions::default()
            };
            let bed = Bed::open(dir.path(), log).await;
            let id = bed.specify(hours(24)).await;
            let mut tables = vec![bed.tables.describe(NAME).await.unwrap()];
            for number in 0..others {
                tables.push(bed.make(&format!("other_{number}")).await);
            }
            for first in (0..CHANGES).step_by(200) {
                for table in &tables {
                    let rows = (first..first + 200).map(|number| {
                        let number = i64::try_from(number).unwrap();
                        (table.clone(), write(number, put(number)))
                    });
                    bed.tables.write_batch(rows.collect(), false).await.unwrap();
                }
            }
            // Twice: the first time the index is not there.
            for turn in ["first", "second"] {
                let began = Instant::now();
                let mut at: ShardIterator = bed.begin(&id, None).await;
                let mut count = 0;
                loop {
                    let page: ShardPage<Count> =
                        bed.tables.shard_changes(at.clone(), 5_000).await.unwrap();
                    count += page.changes.0;
                    let next = page.next.unwrap();
                    if next == at {
                        break;
                    }
                    at = next;
                }
                assert_eq!(count, CHANGES);
                let rate = count as f64 / began.elapsed().as_secs_f64();
                let from = if tail_bytes == 1 { "disk" } else { "memory" };
                let out = &mut std::io::stdout();
                writeln!(out, "{others} others, {from}, {turn}: {rate:.0} changes/s").unwrap();
            }
            bed.partitions.close().await;
        }
    }
}
