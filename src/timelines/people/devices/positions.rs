//! Where a user's devices are in their timelines.
//!
//! Owns: the rules of `position.set`, `.list`, `.remove`. Promises: in one history a position moves forward only,
//! unless it is forced; a device that was not used for 90 days is gone, whether its rows are still there or not. Must
//! not: know whether a timeline exists.
//!
//! The rows of a device that is gone are removed when its user adds a new device (one for each), or when it comes back
//! and begins anew. Merges drop nothing here: they read the image alone, which may lack a device's last use.

use crate::timeline::Error;
use tideline_table as table;
use tideline_table::{
    Key, ReadError, Source, Txn, View, delete, put, read_row, scan_all, scan_behind,
};

use super::super::tables::{Home, last_text};
use super::places::Places;
use super::stored::{Device, DevicePosition, DeviceRow, PlaceRow};

/// Devices of a user.
pub const DEVICES_MAX: usize = 100;
/// Positions of a device.
const POSITIONS_MAX: u64 = 10_000;

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
/// The last use of a device is written once a day: a poll that finds nothing writes nothing.
const USE_STEP_MS: u64 = DAY_MS;
/// A device is gone after 90 days without use, and a day more because its last use may have been so much later.
const UNUSED_MS_MAX: u64 = 90 * DAY_MS + USE_STEP_MS;

/// Positions of one device, to be set.
#[derive(Clone, Debug)]
pub struct SetPositions {
    /// Whose device.
    pub user: String,
    /// Its name.
    pub device: String,
    /// Each timeline once.
    pub positions: Vec<DevicePosition>,
    /// Also backwards.
    pub force: bool,
}

impl SetPositions {
    /// About what it holds in the queue.
    pub(in super::super) fn bytes(&self) -> usize {
        let held = |one: &DevicePosition| 128 + one.timeline.len() + one.place.epoch.len();
        self.positions.iter().map(held).sum::<usize>() + super::super::SMALL_BYTES
    }
}

impl DeviceRow {
    pub(in super::super) fn is_gone(self, now_ms: u64) -> bool {
        self.used.saturating_add(UNUSED_MS_MAX) <= now_ms
    }

    /// A device that is not gone.
    fn load(rows: &impl Source, key: &Key, now_ms: u64) -> Result<Option<DeviceRow>, ReadError> {
        let device = table::load(rows, key, NO_DEVICE, DeviceRow::decode)?;
        Ok(device.filter(|device| !device.is_gone(now_ms)))
    }

    /// Whether its use now is to be written.
    pub(in super::super) fn is_stale(self, now_ms: u64) -> bool {
        self.used.saturating_add(USE_STEP_MS) <= now_ms
    }
}

pub(in super::super) fn set(
    txn: &mut Txn<'_>,
    home: &Home,
    set: SetPositions,
) -> Result<Vec<DevicePosition>, Error> {
    let SetPositions {
        device,
        positions,
        force,
        ..
    } = set;
    let now_ms = txn.now_ms();
    let key = home.device_key(&device);
    let found = DeviceRow::load(txn, &key, now_ms)?;
    let mut row = match found {
        Some(row) => row,
        None => {
            make_room(txn, home, &device, now_ms)?;
            DeviceRow::default()
        }
    };
    let mut stored = Vec::with_capacity(positions.len());
    for DevicePosition { timeline, place } in positions {
        let key = home.position_key(&device, &timeline);
        let before = match found {
            Some(_) => table::load(txn, &key, NO_POSITION, PlaceRow::read)?,
            None => None,
        };
        row.count += u64::from(before.is_none());
        let place = match &before {
            Some(before) if !force => place.above(before),
            _ => place,
        };
        let position = PlaceRow { place };
        if before.as_ref() != Some(&position.place) {
            put(txn, key, position.encode(), now_ms.cast_signed());
        }
        let place = position.place;
        stored.push(DevicePosition { timeline, place });
    }
    if row.count > POSITIONS_MAX {
        return Err(too_many("positions", POSITIONS_MAX, row.count));
    }
    if row.is_stale(now_ms) {
        row.used = now_ms;
    }
    if found != Some(row) {
        put(txn, key, row.encode(), now_ms.cast_signed());
    }
    Ok(stored)
}

/// Makes room for a new device: removes what is left of an earlier one of its name; if there was none, the longest
/// unused of those that are gone.
fn make_room(txn: &mut Txn<'_>, home: &Home, device: &str, now_ms: u64) -> Result<(), Error> {
    let devices = devices(txn, home)?;
    if devices.iter().any(|(name, _)| name == device) {
        return Ok(remove_rows(txn, home, device)?);
    }
    let oldest = devices.iter().min_by_key(|(_, row)| row.used);
    if let Some((gone, _)) = oldest.filter(|(_, row)| row.is_gone(now_ms)) {
        remove_rows(txn, home, gone)?;
    } else if devices.len() >= DEVICES_MAX {
        let actual = devices.len() as u64 + 1;
        return Err(too_many("device", DEVICES_MAX as u64, actual));
    }
    Ok(())
}

fn too_many(field: &'static str, limit: u64, actual: u64) -> Error {
    Error::TooMany {
        field,
        limit,
        actual,
    }
}

/// Removes a device; `false` if there is none.
pub(in super::super) fn remove(
    txn: &mut Txn<'_>,
    home: &Home,
    device: &str,
) -> Result<bool, ReadError> {
    let now_ms = txn.now_ms();
    let is_there = DeviceRow::load(txn, &home.device_key(device), now_ms)?.is_some();
    if is_there {
        remove_rows(txn, home, device)?;
    }
    Ok(is_there)
}

fn remove_rows(txn: &mut Txn<'_>, home: &Home, device: &str) -> Result<(), ReadError> {
    let rows: Vec<_> = scan_all(txn, &home.positions(device)).collect::<Result<_, _>>()?;
    for (key, _) in rows {
        txn.delete(&key);
    }
    delete(txn, home.device_key(device));
    Ok(())
}

/// All devices that have a row.
fn devices(rows: &impl Source, home: &Home) -> Result<Vec<(String, DeviceRow)>, ReadError> {
    scan_all(rows, &home.devices())
        .map(|row| {
            read_row(&row?, NO_DEVICE, |columns, value| {
                Ok((last_text(columns)?, DeviceRow::decode(value)?))
            })
        })
        .collect()
}

/// A user's devices that are not gone.
pub(in super::super) fn live(
    view: &View,
    home: &Home,
    now_ms: u64,
) -> Result<Vec<Device>, ReadError> {
    let mut devices = devices(view, home)?;
    devices.retain(|(_, row)| !row.is_gone(now_ms));
    let named = |(name, row): (String, DeviceRow)| row.named(name);
    Ok(devices.into_iter().map(named).collect())
}

/// A device's positions behind a timeline's name, in order.
fn positions_behind<'v>(
    view: &'v View,
    home: &Home,
    device: &str,
    after: Option<&str>,
) -> impl Iterator<Item = Result<DevicePosition, ReadError>> + use<'v> {
    scan_behind(view, &home.positions(device), after).map(|row| {
        read_row(&row?, NO_POSITION, |columns, value| {
            let (timeline, place) = (last_text(columns)?, PlaceRow::read(value)?);
            Ok(DevicePosition { timeline, place })
        })
    })
}

const NO_DEVICE: &str = "not a device";
const NO_POSITION: &str = "not a position";

/// All positions of a device, for memory.
pub(in super::super) fn all(
    view: &View,
    home: &Home,
    device: &str,
    now_ms: u64,
) -> Result<Places, ReadError> {
    let mut places = Places::of(DeviceRow::load(view, &home.device_key(device), now_ms)?);
    if places.device.is_none() {
        return Ok(places);
    }
    for position in positions_behind(view, home, device, None) {
        let DevicePosition { timeline, place } = position?;
        places.set(&timeline, &place);
    }
    Ok(places)
}

/// A page of a device's positions, and whether that was all.
pub(in super::super) fn list(
    view: &View,
    home: &Home,
    device: &str,
    after: Option<&str>,
    bytes_max: usize,
    now_ms: u64,
) -> Result<(Vec<DevicePosition>, bool), Error> {
    if DeviceRow::load(view, &home.device_key(device), now_ms)?.is_none() {
        return Ok((Vec::new(), true));
    }
    let (mut positions, mut bytes) = (Vec::new(), 0);
    for position in positions_behind(view, home, device, after) {
        let position = position?;
        bytes += position.timeline.len() + position.place.epoch.len() + POSITION_BYTES;
        if bytes > bytes_max && !positions.is_empty() {
            return Ok((positions, false));
        }
        positions.push(position);
    }
    Ok((positions, true))
}

/// Names and numbers around a position in a reply.
const POSITION_BYTES: usize = 128;
