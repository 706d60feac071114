//! The timeline family: create, configure, get, update, delete, trim, list, prefixes.
//!
//! Owns: the calls behind these methods. Promises: a write is queued when its function returns. Must not: check what
//! the wire has checked.

use std::sync::Arc;

use super::super::shape::{entry_limits, page_bytes, size};
use super::super::{Caller, Shared, Work, refusal};
use crate::credentials::{SEALED, seal, unseal};
use tideline_timelines::timeline::{Behind, Create, Level, LevelEntry, List, UpdateMeta};
use tideline_wire::timelines::{prefixes, timeline};
use tideline_wire::{Failure, Method, Reply};

/// What is said of a `next` of before the server's start.
const NOT_SEALED: &str = "no page gave this as next since the server's start; begin anew";

pub(in super::super) fn create(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: timeline::Create,
) -> Work {
    let meta = request.meta.map(|meta| meta.columns.into_owned());
    let queued = shared.timelines.create(Create {
        target: caller.target(Method::TimelineCreate, request.timeline, request.epoch),
        meta: meta.unwrap_or_default(),
        settings: request.settings.unwrap_or_default(),
        members: request.members,
        implicit: false,
    });
    Work::write(queued, |(info, made)| {
        Reply::TimelineCreate(timeline::Created {
            timeline: info.timeline,
            epoch: info.epoch,
            created: made.created,
            created_at: info.created_at,
            differs: made.differs,
        })
    })
}

pub(in super::super) fn configure(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: timeline::Configure,
) -> Work {
    let target = caller.target(Method::TimelineConfigure, request.timeline, request.epoch);
    let (timelines, expected) = (&shared.timelines, request.expect_version);
    let queued = timelines.configure(target, request.settings, expected);
    Work::write(queued, |configured| {
        Reply::TimelineConfigure(timeline::Configured {
            settings: configured.settings.with_defaults(),
            version: configured.version,
        })
    })
}

pub(in super::super) fn get(shared: &Arc<Shared>, caller: &Caller, request: timeline::Get) -> Work {
    let timelines = shared.timelines.clone();
    let target = caller.target(Method::TimelineGet, request.timeline, request.epoch);
    Work::Read(Box::pin(async move {
        let info = timelines.get(target).await.map_err(refusal)?;
        Ok(Reply::TimelineGet(Box::new(info)))
    }))
}

pub(in super::super) fn update(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: timeline::Update,
) -> Work {
    let queued = shared.timelines.update(UpdateMeta {
        asker: caller.asking(Method::TimelineUpdate),
        timeline: request.timeline,
        set: request.meta.put,
        remove: request.meta.remove,
        expect_version: request.expect_version,
        epoch: request.epoch,
        limits: entry_limits(&shared.options.limits),
    });
    Work::write_entry("meta", queued, |(meta, version)| {
        let meta = Some(meta.into());
        Reply::TimelineUpdate(timeline::Updated { meta, version })
    })
}

pub(in super::super) fn delete(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: timeline::Delete,
) -> Work {
    let target = caller.target(Method::TimelineDelete, request.timeline, request.epoch);
    Work::write(shared.timelines.delete(target), |deleted| {
        Reply::TimelineDelete(timeline::Deleted { deleted })
    })
}

pub(in super::super) fn trim(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: timeline::Trim,
) -> Work {
    let target = caller.target(Method::TimelineTrim, request.timeline, request.epoch);
    Work::write(shared.timelines.trim(target, request.before), |floor| {
        Reply::TimelineTrim(timeline::Trimmed { floor })
    })
}

pub(in super::super) fn list(
    shared: &Arc<Shared>,
    caller: &Caller,
    request: timeline::List,
) -> Work {
    let shared = Arc::clone(shared);
    let asker = caller.asking(Method::TimelineList);
    Work::Read(Box::pin(async move {
        let list = List {
            asker,
            prefix: request.prefix.unwrap_or_default(),
            after: unsealed(request.after.as_deref())?.or(request.after),
            limit: size(request.limit),
            bytes_max: page_bytes(&shared.options.limits),
        };
        let listed = shared.timelines.list(list).await.map_err(refusal)?;
        // Where no timeline is shown, this is the name of one that may be hidden.
        let next = match listed.timelines.is_empty() {
            true => listed.next.map(|next| seal(&next)),
            false => listed.next,
        };
        Ok(Reply::TimelineList(timeline::Listed {
            timelines: listed.timelines,
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
        let after = match unsealed(request.after.as_deref())? {
            Some(name) => Some(Behind::Name(name)),
            None => request.after.map(Behind::Entry),
        };
        let level = Level {
            asker,
            prefix: request.prefix.unwrap_or_default(),
            delimiter: request.delimiter.unwrap_or_else(|| "/".to_owned()),
            after,
            limit: size(request.limit),
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
