//! Positions and devices as rows.
//!
//! Owns: the columns of those rows. Promises: the version of a row's cells is the time of its writing. Must not: read
//! or write a store.

pub use tideline_model::people::{Device, Place};
use tideline_table::{Malformed, columns};

/// How far a device has stored a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePosition {
    /// The timeline's ID.
    pub timeline: String,
    /// What is stored.
    pub place: Place,
}

/// A position's row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct PlaceRow {
    pub(in super::super) place: Place,
}

impl PlaceRow {
    pub(in super::super) fn read(value: &[u8]) -> Result<Place, Malformed> {
        Ok(PlaceRow::decode(value)?.place)
    }
}

columns! { PlaceRow {
    "$after" always: place.after,
    "$change": place.changes_after,
    "$epoch" always: place.epoch,
} }

/// A device's row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct DeviceRow {
    /// Of its positions.
    pub(in super::super) count: u64,
    /// Its last use, ms.
    pub(in super::super) used: u64,
}

impl DeviceRow {
    /// With its name.
    pub(in super::super) fn named(self, device: String) -> Device {
        Device {
            device,
            used_at: self.used,
            positions: self.count,
        }
    }
}

columns! { DeviceRow {
    "$count": count,
    "$used": used,
} }

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_come_back(
            epoch in "[A-Za-z0-9]{1,32}", after: u64, changes_after: Option<u64>, count: u64, used: u64,
        ) {
            let position = PlaceRow { place: Place { epoch, after, changes_after } };
            prop_assert_eq!(PlaceRow::decode(&position.encode().finish(7)), Ok(position));
            let device = DeviceRow { count, used };
            prop_assert_eq!(DeviceRow::decode(&device.encode().finish(7)), Ok(device));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = (PlaceRow::decode(&bytes), DeviceRow::decode(&bytes));
        }
    }
}
