//! The position family: set, list, remove.
//!
//! Owns: the calls behind these methods. Promises: a write is queued when its function returns. Must not: check what
//! the wire has checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::shape::page_bytes;
use super::super::{Caller, Shared, Started, Work, refusal};
use tideline_timelines::people::{DevicePosition, Place, SetPositions};
use tideline_wire::Reply;
use tideline_wire::people::position;

pub(in super::super) fn set(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: position::Set,
) -> Started {
    let user = caller.user()?;
    let queued = shared.people.set_positions(SetPositions {
        user,
        device: request.device,
        positions: places(&request.positions),
        force: request.force,
    });
    Ok(Work::write(queued, |stored| {
        let positions = Some(shown(stored));
        Reply::PositionSet(position::Stored { positions })
    }))
}

pub(in super::super) fn list(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: position::List,
) -> Work {
    let (shared, user) = (Arc::clone(shared), caller.user());
    Work::Read(Box::pin(async move {
        let (people, user) = (&shared.people, user?);
        let position::List { device, after } = request;
        let Some(device) = device else {
            let devices = people.devices(&user).await.map_err(refusal)?;
            return Ok(Reply::PositionList(position::Listed {
                devices: Some(devices),
                ..position::Listed::default()
            }));
        };
        let bytes = page_bytes(&shared.options.limits);
        let listed = people.positions(&user, device, after, bytes).await;
        let (positions, is_all) = listed.map_err(refusal)?;
        let last = positions.last().filter(|_| !is_all);
        Ok(Reply::PositionList(position::Listed {
            next: last.map(|last| last.timeline.clone()),
            positions: Some(shown(positions)),
            devices: None,
        }))
    }))
}

pub(in super::super) fn remove(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: position::Remove,
) -> Started {
    let user = caller.user()?;
    let queued = shared.people.remove_device(&user, request.device);
    Ok(Work::write(queued, |removed| {
        Reply::PositionRemove(position::Removed { removed })
    }))
}

/// Checked positions, each of which has an epoch.
pub(in super::super) fn places(positions: &position::Positions) -> Vec<DevicePosition> {
    let place = |position: tideline_wire::timelines::sync::Position<'_>| DevicePosition {
        timeline: position.timeline.to_owned(),
        place: Place {
            epoch: position.epoch.unwrap_or_default().to_owned(),
            after: position.after,
            changes_after: position.changes_after,
        },
    };
    positions.iter().map(place).collect()
}

fn shown(positions: Vec<DevicePosition>) -> BTreeMap<String, position::Place> {
    let one = |DevicePosition { timeline, place }| (timeline, place);
    positions.into_iter().map(one).collect()
}
