//! Searches while an index reads the logs of partitions that were merged meanwhile.
//!
//! Owns: what is read in which order, as a search sees it. Must not: wait for a moment.

use std::collections::BTreeMap;

use tideline_model::Value;
use tideline_model::search::Query;
use tideline_store::partition::Reshape;

use super::bed::{Bed, search};

/// The log of one of two partitions that were merged takes an index several steps, and each of them a commit. A search
/// that waits for the partition that has come of them waits for the last step, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_waits_for_the_logs_before_a_merge() {
    let folder = tempfile::tempdir().unwrap();
    let mut bed = Bed::open(folder.path());
    bed.create().await;
    bed.index().await;
    bed.built().await;
    // From now on the index is left behind.
    bed.searches.stop();
    let tails = |bed: &Bed| {
        let all = bed.partitions.ids();
        let tails = all.map(|id| bed.partitions.tail(id).position());
        tails.collect::<Vec<_>>()
    };
    let mut state = 7_u64;
    let mut word = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005) ^ 0x9e37_79b9;
        format!("{state:016x}{:016x} ", state.rotate_left(23))
    };
    let (mut key, mut long) = (0_i64, 0);
    while long < 10 {
        key += 1;
        let name = format!("row {key}");
        let before = tails(&bed)[1];
        let columns = BTreeMap::from([("long", Value::Integer(key))]);
        bed.write((name.clone(), 0), Some(columns)).await;
        if tails(&bed)[1] == before {
            continue;
        }
        // In the second partition, the step that comes last in a turn.
        let text: String = (0..30_000).map(|_| word()).collect();
        let columns = BTreeMap::from([("text", Value::String(text))]);
        bed.write((name, 0), Some(columns)).await;
        long += 1;
    }
    let merged = Reshape::equal(1);
    tokio::task::block_in_place(|| bed.partitions.reshape(&merged, true)).unwrap();
    let bed = bed.reopen(folder.path()).await;
    loop {
        let all = search(Query::All, None, 100);
        let found = bed.search(all).await;
        if found.is_all {
            assert_eq!(found.total, Some(bed.rows.len() as u64));
            break;
        }
    }
    bed.close().await;
}
