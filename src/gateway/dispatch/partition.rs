//! The partition family: list, split, merge.
//!
//! Owns: the calls behind these methods. Promises: only back ends may call them; a change goes on if its caller goes
//! away. Must not: know how partitions are split or merged.

use std::sync::Arc;

use super::webhook::for_back_ends;
use super::{BUSY_RETRY_MS, Caller, Shared, Work};
use crate::reshape::{Asked, Change, PARTITIONS_MAX, Refused, Shown, Stage};
use crate::wire::{Failure, Reason, Reply, partition};

pub(super) fn list(shared: &Arc<Shared>, caller: &Caller) -> Work {
    let shared = Arc::clone(shared);
    let listed = async move {
        let partitions = shared.reshaper.list().await;
        Ok(Reply::PartitionList(partition::Listed {
            partitions: partitions.into_iter().map(shown_partition).collect(),
            change: shared.reshaper.last().map(shown_change),
        }))
    };
    for_back_ends(caller, |work| Work::Read(Box::pin(work)), listed)
}

pub(super) fn split(shared: &Arc<Shared>, caller: &Caller, request: &partition::Split) -> Work {
    let asked = Asked::Split(id(request.partition));
    begin(shared, caller, asked, Reply::PartitionSplit)
}

pub(super) fn merge(shared: &Arc<Shared>, caller: &Caller, request: &partition::Merge) -> Work {
    let asked = Asked::Merge(id(request.partition), id(request.with));
    begin(shared, caller, asked, Reply::PartitionMerge)
}

fn begin(
    shared: &Arc<Shared>,
    caller: &Caller,
    asked: Asked,
    reply: fn(partition::Begun) -> Reply,
) -> Work {
    let shared = Arc::clone(shared);
    let begun = async move {
        shared.reshaper.begin(asked).map_err(refusal)?;
        Ok(reply(partition::Begun {}))
    };
    for_back_ends(caller, |work| Work::Write(Box::pin(work)), begun)
}

fn id(number: u16) -> crate::ids::PartitionId {
    crate::ids::PartitionId(number)
}

fn shown_partition(shown: Shown) -> partition::Partition {
    let (first, last) = shown.hashes;
    partition::Partition {
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
