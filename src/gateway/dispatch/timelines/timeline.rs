//! The timeline family: create, configure, get, update, delete, trim, list, prefixes.
//!
//! Owns: the calls behind these methods. Promises: a write is queued when its function returns. Must not: check what
//! the wire has checked.

use std::sync::Arc;

use super::super::shape;
use super::super::shape::{entry_limits, page_bytes, size};
use super::super::{Caller, Shared, Work, refusal};
use super::member::new_member;
use crate::credentials::{SEALED, seal, unseal};
use crate::timeline::{Behind, Create, Level, LevelEntry, List, Part, UpdateMeta};
use crate::wire::timelines::{prefixes, timeline};
use crate::wire::{Failure, Method, Reply};

/// What is said of a `next` of before the server's start.
const NOT_SEALED: &str = "no page gave this as next since the server's start; begin anew";

pub(in super::super) fn create(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: timeline::Create,
) -> Work {
    let timeline::Create {
        timeline,
        meta,
        settings,
        members,
        epoch,
    } = request;
    let meta = meta.map(|meta| meta.columns.into_owned());
    let queued = shared.timelines.create(Create {
        target: caller.target(Method::TimelineCreate, timeline, epoch),
        meta: meta.unwrap_or_default(),
        settings: settings.map(shape::settings_patch).unwrap_or_default(),
        members: members.into_iter().map(new_member).collect(),
        implicit: false,
    });
    Work::Write(Box::pin(async move {
        let (info, made) = queued.await.map_err(refusal)?;
        let differs = made.differs.into_iter().map(|part| match part {
            Part::Meta => timeline::Differs::Meta,
            Part::Settings => timeline::Differs::Settings,
            Part::Members => timeline::Differs::Members,
        });
        Ok(Reply::TimelineCreate(timeline::Created {
            timeline: info.timeline,
            epoch: info.head.epoch,
            created: made.created,
            created_at: info.created_at,
            differs: differs.collect(),
        }))
    }))
}

pub(in super::super) fn configure(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: timeline::Configure,
) -> Work {
    let timeline::Configure {
        timeline,
        settings,
        expect_version,
        epoch,
    } = request;
    let target = caller.target(Method::TimelineConfigure, timeline, epoch);
    let patch = shape::settings_patch(settings);
    let queued = shared.timelines.configure(target, patch, expect_version);
    Work::Write(Box::pin(async move {
        let configured = queued.await.map_err(refusal)?;
        Ok(Reply::TimelineConfigure(timeline::Configured {
            settings: shape::settings(&configured.settings),
            version: configured.version,
        }))
    }))
}

pub(in super::super) fn get(shared: &Arc<Shared>, caller: &Caller, request: timeline::Get) -> Work {
    let (timelines, integers) = (shared.timelines.clone(), caller.integers);
    let timeline::Get { timeline, epoch } = request;
    let target = caller.target(Method::TimelineGet, timeline, epoch);
    Work::Read(Box::pin(async move {
        let info = timelines.get(target).await.map_err(refusal)?;
        Ok(Reply::TimelineGet(Box::new(shape::info(info, integers))))
    }))
}

pub(in super::super) fn update(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: timeline::Update,
) -> Work {
    let integers = caller.integers;
    let timeline::Update {
        timeline,
        meta,
        expect_version,
        epoch,
    } = request;
    let queued = shared.timelines.update(UpdateMeta {
        asker: caller.asking(Method::TimelineUpdate),
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

pub(in super::super) fn delete(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: timeline::Delete,
) -> Work {
    let timeline::Delete { timeline, epoch } = request;
    let queued = shared
        .timelines
        .delete(caller.target(Method::TimelineDelete, timeline, epoch));
    Work::Write(Box::pin(async move {
        let deleted = queued.await.map_err(refusal)?;
        Ok(Reply::TimelineDelete(timeline::Deleted { deleted }))
    }))
}

pub(in super::super) fn trim(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: timeline::Trim,
) -> Work {
    let timeline::Trim {
        timeline,
        before,
        epoch,
    } = request;
    let queued = shared
        .timelines
        .trim(caller.target(Method::TimelineTrim, timeline, epoch), before);
    Work::Write(Box::pin(async move {
        let floor = queued.await.map_err(refusal)?;
        Ok(Reply::TimelineTrim(timeline::Trimmed { floor }))
    }))
}

pub(in super::super) fn list(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: timeline::List,
) -> Work {
    let (shared, integers) = (Arc::clone(shared), caller.integers);
    let asker = caller.asking(Method::TimelineList);
    Work::Read(Box::pin(async move {
        let timeline::List {
            prefix,
            after,
            limit,
        } = request;
        let after = unsealed(after.as_deref())?.or(after);
        let listed = shared
            .timelines
            .list(List {
                asker,
                prefix: prefix.unwrap_or_default(),
                after,
                limit: size(limit),
                bytes_max: page_bytes(&shared.options.limits),
            })
            .await
            .map_err(refusal)?;
        // Where no timeline is shown, this is the name of one that may be hidden.
        let next = match listed.timelines.is_empty() {
            true => listed.next.map(|next| seal(&next)),
            false => listed.next,
        };
        Ok(Reply::TimelineList(timeline::Listed {
            timelines: listed
                .timelines
                .into_iter()
                .map(|info| shape::info(info, integers))
                .collect(),
            next,
        }))
    }))
}

pub(in super::super) fn prefixes(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: prefixes::Prefixes,
) -> Work {
    let shared = Arc::clone(shared);
    let asker = caller.asking(Method::TimelinePrefixes);
    Work::Read(Box::pin(async move {
        let prefixes::Prefixes {
            prefix,
            delimiter,
            after,
            limit,
        } = request;
        let after = match unsealed(after.as_deref())? {
            Some(name) => Some(Behind::Name(name)),
            None => after.map(Behind::Entry),
        };
        let level = Level {
            asker,
            prefix: prefix.unwrap_or_default(),
            delimiter: delimiter.unwrap_or_else(|| "/".to_owned()),
            after,
            limit: size(limit),
            bytes_max: page_bytes(&shared.options.limits),
        };
        let page = shared.timelines.level(level).await.map_err(refusal)?;
        let entry = |entry: LevelEntry| prefixes::LevelEntry {
            name: entry.name,
            timeline: !entry.is_prefix,
            below: entry.is_prefix,
        };
        Ok(Reply::TimelinePrefixes(prefixes::Level {
            entries: page.entries.into_iter().map(entry).collect(),
            next: page.next.map(|next| match next {
                Behind::Entry(name) => name,
                Behind::Name(name) => seal(&name),
            }),
        }))
    }))
}

/// The name in an `after` that is sealed.
pub(in super::super) fn unsealed(after: Option<&str>) -> Result<Option<String>, Failure> {
    let sealed = after.filter(|after| after.starts_with(SEALED));
    let name = |sealed| unseal(sealed).ok_or_else(|| Failure::invalid("after", NOT_SEALED));
    sealed.map(name).transpose()
}
