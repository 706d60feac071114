//! Positions and devices as rows.
//!
//! Owns: the columns of those rows. Promises: the version of a row's cells is the time of its writing. Must not: read
//! or write a store.

use crate::table::columns;

/// How far a device has stored a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePosition {
    /// The timeline's ID.
    pub timeline: String,
    /// What is stored.
    pub place: Place,
}

/// A place in one history of a timeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The history.
    pub epoch: String,
    /// Everything up to this sequence is stored.
    pub after: u64,
    /// Every change up to this number is stored; `None` = the device does not follow changes.
    pub changes_after: Option<u64>,
}

/// A device of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub device: String,
    /// Its last use, exact to a day, ms since 1970.
    pub used_at: u64,
    /// How many positions it has.
    pub positions: u64,
}

impl Place {
    /// What is stored after this was set above `stored`: in one history forward only.
    pub(in super::super) fn above(self, stored: &Place) -> Place {
        if self.epoch != stored.epoch {
            return self;
        }
        Place {
            after: self.after.max(stored.after),
            changes_after: self.changes_after.max(stored.changes_after),
            epoch: self.epoch,
        }
    }
}

columns! { Place {
    "$after" always: after,
    "$change": changes_after,
    "$epoch" always: epoch,
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
            let place = Place { epoch, after, changes_after };
            prop_assert_eq!(Place::decode(&place.encode().finish(7)), Ok(place));
            let device = DeviceRow { count, used };
            prop_assert_eq!(DeviceRow::decode(&device.encode().finish(7)), Ok(device));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = (Place::decode(&bytes), DeviceRow::decode(&bytes));
        }
    }
}
