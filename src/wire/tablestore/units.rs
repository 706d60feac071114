//! Capacity units as messages have them.
//!
//! Owns: their form. Promises: a number that is too large for the protocol is its largest. Must not: count any.

use super::proto;
use tideline_model::Consumed;

pub(super) fn consumed(consumed: Consumed) -> proto::ConsumedCapacity {
    proto::ConsumedCapacity {
        capacity_unit: unit(consumed.read.into(), consumed.write.into()),
    }
}

pub(super) fn unit(read: i64, write: i64) -> proto::CapacityUnit {
    proto::CapacityUnit {
        read: Some(small(read)),
        write: Some(small(write)),
    }
}

/// Numbers are smaller in the protocol than in the model.
pub(super) fn small(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
