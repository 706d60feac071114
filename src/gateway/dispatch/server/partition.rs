//! The partition family: list, split, merge.
//!
//! Owns: the calls behind these methods. Promises: only back ends may change partitions; a change goes on if its caller
//! goes away. Must not: know how partitions are split or merged.

use std::sync::Arc;

use super::super::tables::stream::back_end;
use super::super::{BUSY_RETRY_MS, Caller, Shared, Work};
use tideline_base::ids::{PartitionId, Position};
use tideline_timelines::reshape::{
    Asked, Change, Holder, Live, PARTITIONS_MAX, Refused, Shown, Stage, State,
};
use tideline_wire::server::partition;
use tideline_wire::{Failure, Reason, Reply};

pub(in super::super) fn list(shared: &Arc<Shared>) -> Work {
    let shared = Arc::clone(shared);
    Work::Read(Box::pin(async move {
        let partitions = shared.reshaper.list().await;
        Ok(Reply::PartitionList(partition::Listed {
            partitions: partitions.into_iter().map(shown_partition).collect(),
            change: shared.reshaper.last().map(shown_change),
        }))
    }))
}

pub(in super::super) fn split(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: &partition::Split,
) -> Work {
    let asked = Asked::Split(id(request.partition));
    begin(shared, caller, asked, Reply::PartitionSplit)
}

pub(in super::super) fn merge(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: &partition::Merge,
) -> Work {
    let asked = Asked::Merge(id(request.partition), id(request.with));
    begin(shared, caller, asked, Reply::PartitionMerge)
}

fn begin(
    shared: &Arc<Shared>,
    caller: &Caller,
    asked: Asked,
    reply: fn(partition::Begun) -> Reply,
) -> Work {
    let alone = match shared.options.cluster {
        None => Ok(()),
        Some(_) => Err(Failure::new(Reason::Forbidden).saying(OF_CLUSTER)),
    };
    let begun = back_end(caller).and(alone);
    let begun = begun.and_then(|()| shared.reshaper.begin(asked).map_err(refusal));
    Work::Now(begun.map(|()| reply(partition::Begun {})))
}

const OF_CLUSTER: &str =
    "the partition of a cluster is not split: it stays as `tideline cluster create` made it";

fn id(number: u16) -> PartitionId {
    PartitionId(number)
}

fn shown_partition(shown: Shown) -> partition::Partition {
    let (first, last) = shown.hashes;
    let live = shown.live.as_ref();
    let (state, reason) = live.map_or((partition::PartitionState::Ended, None), state);
    partition::Partition {
        state,
        reason,
        log: live.map(|live| log(live, shown.log_bytes)),
        queue: live.map(|Live { doing, .. }| partition::PartitionQueue {
            writes: doing.queue_writes as u64,
            bytes: doing.queue_bytes as u64,
            fill: doing.queue_fill,
        }),
        memtable: live.map(|Live { doing, .. }| partition::PartitionMemtable {
            bytes: doing.memtable_bytes as u64,
            frozen: doing.frozen as u64,
        }),
        image: live.map(|Live { doing, .. }| partition::PartitionImage {
            runs: doing.runs as u64,
            level0: doing.level0_runs as u64,
            used: doing.used_bytes,
            dead: doing.dead_bytes,
        }),
        feed: live.map(|live| partition::PartitionFeed {
            lag_ms: live.feed_lag_ms,
        }),
        relay: live.map(|live| partition::PartitionRelay {
            lag_ms: live.relay_lag.0,
            backlog: live.relay_lag.1,
        }),
        jobs: live.map(|live| live.jobs),
        partition: shown.id.0,
        first: format!("{first:016x}"),
        last: format!("{last:016x}"),
        parents: shown.parents.iter().map(|id| id.0).collect(),
        begins: shown.begins.0,
        ends: shown.ends.map(|ends| ends.0),
        bytes: shown.bytes,
        log_bytes: shown.log_bytes,
    }
}

/// Whether it takes writes, and why it does not or only slowly.
fn state(live: &Live) -> (partition::PartitionState, Option<String>) {
    use partition::PartitionState as Shown;
    let doing = &live.doing;
    let behind = format!(
        "{} runs of level 0 and {} memtables wait for the disk",
        doing.level0_runs, doing.frozen
    );
    match &doing.state {
        State::Serving => (Shown::Serving, None),
        State::Slowed => (Shown::Slowed, Some(behind)),
        State::Busy => (Shown::Busy, Some(behind)),
        State::Full => (Shown::Full, Some("the disk has no room".to_owned())),
        State::Stopped(why) => (Shown::Stopped, Some(why.clone())),
    }
}

fn log(live: &Live, bytes: u64) -> partition::PartitionLog {
    let doing = &live.doing;
    let mut holds: Vec<_> = doing.holds.iter().collect();
    holds.retain(|(_, above)| *above < doing.position);
    holds.sort_by_key(|(_, above)| *above);
    let hold = |(by, above): &(Holder, Position)| partition::PartitionHold {
        by: *by,
        position: above.0,
    };
    partition::PartitionLog {
        position: doing.position.0,
        oldest: doing.oldest.0,
        bytes,
        holds: holds.into_iter().map(hold).collect(),
    }
}

fn shown_change(change: Change) -> partition::Change {
    use partition::ChangeState as State;
    let partitions = match change.asked {
        Asked::Split(id) => vec![id.0],
        Asked::Merge(one, other) => vec![one.0, other.0],
    };
    let mut shown = partition::Change {
        partitions,
        since: change.since,
        state: State::Copying,
        given_up: change.given_up,
        pause_ms: None,
        error: None,
    };
    shown.state = match change.stage {
        Stage::Copies => State::Copying,
        Stage::CatchesUp => State::CatchingUp,
        Stage::Cuts => State::Cutting,
        Stage::Done(pause) => {
            shown.pause_ms = u64::try_from(pause.as_millis()).ok();
            State::Done
        }
        Stage::Failed(error) => {
            shown.error = Some(error);
            State::Failed
        }
    };
    shown
}

fn refusal(refused: Refused) -> Failure {
    match refused {
        Refused::NoSuchPartition => Failure::new(Reason::PartitionNotFound).about("partition"),
        Refused::NotNeighbours => {
            Failure::invalid("with", "owns no hashes beside those of the other")
        }
        Refused::TooMany => Failure::new(Reason::TooMany)
            .about("partition")
            .over(PARTITIONS_MAX as u64, PARTITIONS_MAX as u64 + 1),
        Refused::Busy => Failure::new(Reason::Busy)
            .saying("another change of the partitions is under way")
            .retry_after(BUSY_RETRY_MS),
    }
}
