//! Positions and devices as rows.
//!
//! Owns: the columns of those rows. Promises: the version of a row's cells is the time of its writing. Must not: read
//! or write a store.
//!
//! ```text
//! position  $after, $change (absent = not asked for), $epoch
//! device    $count (of its positions), $used (ms since 1970)          absent = 0
//! ```

use crate::model::ValueRef;
pub use crate::model::people::{Device, Place};
use crate::table::{Malformed, Row, RowWriter};

const AFTER: &str = "$after";
const CHANGE: &str = "$change";
const COUNT: &str = "$count";
const EPOCH: &str = "$epoch";
const USED: &str = "$used";

/// How far a device has stored a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePosition {
    /// The timeline's ID.
    pub timeline: String,
    /// What is stored.
    pub place: Place,
}

/// A place as a row.
pub(in super::super) fn place_row(place: &Place) -> RowWriter {
    let mut row = RowWriter::new(48);
    row.put(AFTER, number(place.after));
    if let Some(change) = place.changes_after {
        row.put(CHANGE, number(change));
    }
    row.put(EPOCH, ValueRef::String(&place.epoch));
    row
}

/// A place from its row.
pub(in super::super) fn read_place(value: &[u8]) -> Result<Place, Malformed> {
    let mut place = Place {
        epoch: String::new(),
        after: 0,
        changes_after: None,
    };
    for cell in Row::parse(value)?.cells() {
        let cell = cell?;
        match (cell.name, cell.value) {
            (AFTER, ValueRef::Integer(after)) => place.after = after.cast_unsigned(),
            (CHANGE, ValueRef::Integer(change)) => {
                place.changes_after = Some(change.cast_unsigned());
            }
            (EPOCH, ValueRef::String(epoch)) => epoch.clone_into(&mut place.epoch),
            _ => return Err(Malformed),
        }
    }
    Ok(place)
}
/// A device's row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct DeviceRow {
    pub(in super::super) count: u64,
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

    pub(in super::super) fn encode(self) -> RowWriter {
        let mut row = RowWriter::new(24);
        for (name, value) in [(COUNT, self.count), (USED, self.used)] {
            if value != 0 {
                row.put(name, number(value));
            }
        }
        row
    }

    pub(in super::super) fn decode(value: &[u8]) -> Result<DeviceRow, Malformed> {
        let mut device = DeviceRow::default();
        for cell in Row::parse(value)?.cells() {
            let cell = cell?;
            match (cell.name, cell.value) {
                (COUNT, ValueRef::Integer(count)) => device.count = count.cast_unsigned(),
                (USED, ValueRef::Integer(used)) => device.used = used.cast_unsigned(),
                _ => return Err(Malformed),
            }
        }
        Ok(device)
    }
}

fn number(value: u64) -> ValueRef<'static> {
    ValueRef::Integer(value.cast_signed())
}

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
            prop_assert_eq!(read_place(&place_row(&place).finish(7)), Ok(place));
            let device = DeviceRow { count, used };
            prop_assert_eq!(DeviceRow::decode(&device.encode().finish(7)), Ok(device));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = (read_place(&bytes), DeviceRow::decode(&bytes));
        }
    }
}
