//! The timeline family: create, get, update, delete, trim, list.
//!
//! Owns: the calls behind these methods. Promises: a write is queued when its function returns. Must not: check what
//! the wire has checked.

use std::sync::Arc;

use super::shape::{self, entry_limits, page_bytes, size};
use super::{Caller, Shared, Work, refusal};
use crate::timeline::{List, UpdateMeta};
use crate::wire::{Reply, timeline};

pub(super) fn create(shared: &Arc<Shared>, caller: &Caller, request: timeline::Create) -> Work {
    let timeline::Create {
        timeline,
        meta,
        epoch,
    } = request;
    let meta = meta.map(|meta| meta.columns.into_owned());
    let queued = shared
        .timelines
        .create(caller.target(timeline, epoch), meta);
    Work::Write(Box::pin(async move {
        let (info, created) = queued.await.map_err(refusal)?;
        Ok(Reply::TimelineCreate(timeline::Created {
            timeline: info.timeline,
            epoch: info.head.epoch,
            created,
            created_at: info.created_at,
        }))
    }))
}

pub(super) fn get(shared: &Arc<Shared>, caller: &Caller, request: timeline::Get) -> Work {
    let (timelines, integers) = (shared.timelines.clone(), caller.integers);
    let timeline::Get { timeline, epoch } = request;
    let target = caller.target(timeline, epoch);
    Work::Read(Box::pin(async move {
        let info = timelines.get(target).await.map_err(refusal)?;
        Ok(Reply::TimelineGet(Box::new(shape::info(info, integers))))
    }))
}

pub(super) fn update(shared: &Arc<Shared>, caller: &Caller, request: timeline::Update) -> Work {
    let integers = caller.integers;
    let timeline::Update {
        timeline,
        meta,
        expect_version,
        epoch,
    } = request;
    let queued = shared.timelines.update(UpdateMeta {
        user: caller.user.clone(),
        timeline,
        set: meta.put,
        remove: meta.remove,
        expect_version,
        epoch,
        limits: entry_limits(&shared.options.limits),
    });
    Work::Write(Box::pin(async move {
        let (meta, version) = queued.await.map_err(|error| {
            let mut failure = refusal(error);
            if failure.field.as_deref() == Some("entry") {
                failure.field = Some("meta".to_owned());
            }
            failure
        })?;
        Ok(Reply::TimelineUpdate(timeline::Updated {
            meta: Some(shape::entry(meta, integers)),
            version,
        }))
    }))
}

pub(super) fn delete(shared: &Arc<Shared>, caller: &Caller, request: timeline::Delete) -> Work {
    let timeline::Delete { timeline, epoch } = request;
    let queued = shared.timelines.delete(caller.target(timeline, epoch));
    Work::Write(Box::pin(async move {
        let deleted = queued.await.map_err(refusal)?;
        Ok(Reply::TimelineDelete(timeline::Deleted { deleted }))
    }))
}

pub(super) fn trim(shared: &Arc<Shared>, caller: &Caller, request: timeline::Trim) -> Work {
    let timeline::Trim {
        timeline,
        before,
        epoch,
    } = request;
    let queued = shared
        .timelines
        .trim(caller.target(timeline, epoch), before);
    Work::Write(Box::pin(async move {
        let floor = queued.await.map_err(refusal)?;
        Ok(Reply::TimelineTrim(timeline::Trimmed { floor }))
    }))
}

pub(super) fn list(shared: &Arc<Shared>, caller: &Caller, request: timeline::List) -> Work {
    let (shared, user, integers) = (Arc::clone(shared), caller.user.clone(), caller.integers);
    Work::Read(Box::pin(async move {
        let timeline::List {
            prefix,
            after,
            limit,
        } = request;
        let listed = shared
            .timelines
            .list(List {
                user,
                prefix: prefix.unwrap_or_default(),
                after,
                limit: size(limit),
                bytes_max: page_bytes(&shared.options.limits),
            })
            .await
            .map_err(refusal)?;
        Ok(Reply::TimelineList(timeline::Listed {
            timelines: listed
                .timelines
                .into_iter()
                .map(|info| shape::info(info, integers))
                .collect(),
            next: listed.next,
        }))
    }))
}
