//! Messages at given numbers of many timelines, and timelines by their names, as a caller sees them.
//!
//! Owns: what a search reads of what it has found. Promises: the doors are those of `newest.rs`: what the caller may
//! not see, has cleared or has hidden, what is deleted or has expired is none. Must not: know how it was found.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use tideline_base::ids::PartitionId;
use tideline_model::access::{Asker, Right, Rights};
use tideline_model::json_bytes;
use tideline_table::View;

use super::super::members::Reader;
use super::super::rows::head::HeadRow;
use super::super::rows::tables::Name;
use super::super::time::shown;
use super::super::unread;
use super::super::write::Site;
use super::super::write::edit::load_whole;
use super::super::{Error, FeedMessage, Target, TimelineInfo, Timelines};

/// Things of one read.
const AT_ONCE: usize = 16;

/// Which timelines a caller may read, asked one after the other. Blocks on the disk.
pub struct Doors {
    timelines: Timelines,
    asker: Asker,
    views: BTreeMap<PartitionId, View>,
}

impl Doors {
    /// The lowest number that the caller may see in a timeline; `None` = they may not read it.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn lowest(&mut self, timeline: &str) -> Result<Option<u64>, Error> {
        let partition = self.timelines.place(timeline);
        let view = match self.views.entry(partition) {
            Entry::Occupied(view) => view.into_mut(),
            Entry::Vacant(none) => none.insert(self.timelines.inner.partitions.view(partition)?),
        };
        let site = self.timelines.site(partition);
        let found = open(&site, view, &Name::new(timeline), &self.asker)?;
        Ok(found.map(|(head, _)| head.floor))
    }
}

impl Timelines {
    /// The timelines that a caller may read.
    #[must_use]
    pub fn doors(&self, asker: &Asker) -> Doors {
        Doors {
            timelines: self.clone(),
            asker: reading(asker),
            views: BTreeMap::new(),
        }
    }

    /// Messages at numbers, each as the caller sees it; `None` = they don't. Ends behind about so many bytes of JSON:
    /// those of the places that are left are not in the answer, which has one at least.
    ///
    /// # Errors
    /// The store can't be read.
    pub async fn at_numbers(
        &self,
        asker: &Asker,
        places: &[(String, u64)],
        bytes_max: usize,
    ) -> Result<Vec<Option<FeedMessage>>, Error> {
        let asker = reading(asker);
        let read = move |site: &Site, view: &View, (timeline, sequence): &(String, u64)| {
            let name = Name::new(timeline);
            let found = open(site, view, &name, &asker)?;
            found.map_or(Ok(None), |(head, reader)| {
                message(site, view, (&name, &head), (&asker, &reader), *sequence)
            })
        };
        let place = |(timeline, _): &(String, u64)| self.place(timeline);
        let bytes = |message: &FeedMessage| message.json_bytes_max();
        self.read_each(places, place, read, bytes, bytes_max).await
    }

    /// Timelines by their names, as [`Timelines::get`] gives them; `None` = the caller may not read it, or there is
    /// none. Ends as [`Timelines::at_numbers`] does.
    ///
    /// # Errors
    /// The store can't be read.
    pub async fn by_names(
        &self,
        asker: &Asker,
        names: &[String],
        bytes_max: usize,
    ) -> Result<Vec<Option<TimelineInfo>>, Error> {
        let asker = reading(asker);
        let read = move |site: &Site, view: &View, timeline: &String| {
            let target = Target {
                timeline: timeline.clone(),
                epoch: None,
                asker: asker.clone(),
            };
            match site.get(view, target) {
                Ok(info) => Ok(Some(info)),
                Err(Error::TimelineNotFound | Error::NoRight) => Ok(None),
                Err(error) => Err(error),
            }
        };
        let place = |timeline: &String| self.place(timeline);
        let bytes = |info: &TimelineInfo| 512 + json_bytes(&info.meta);
        self.read_each(names, place, read, bytes, bytes_max).await
    }

    /// Reads things in order, some at a time, each from its partition.
    async fn read_each<T, R>(
        &self,
        things: &[T],
        place: impl Fn(&T) -> PartitionId,
        read: impl Fn(&Site, &View, &T) -> Result<Option<R>, Error> + Clone + Send + 'static,
        bytes: impl Fn(&R) -> usize,
        bytes_max: usize,
    ) -> Result<Vec<Option<R>>, Error>
    where
        T: Clone + Send + 'static,
        R: Send + 'static,
    {
        let (mut all, mut taken) = (Vec::with_capacity(things.len()), 0);
        for some in things.chunks(AT_ONCE) {
            let mut parts: BTreeMap<PartitionId, Vec<(usize, T)>> = BTreeMap::new();
            for (at, thing) in some.iter().enumerate() {
                let part = parts.entry(place(thing)).or_default();
                part.push((at, thing.clone()));
            }
            let mut found: Vec<Option<R>> = some.iter().map(|_| None).collect();
            for (partition, part) in parts {
                let (site, read) = (self.site(partition), read.clone());
                let looked = move |view: &View| {
                    let each = part.into_iter();
                    let each = each.map(|(at, thing)| Ok((at, read(&site, view, &thing)?)));
                    each.collect::<Result<Vec<_>, Error>>()
                };
                for (at, one) in self.read(partition, looked).await? {
                    found[at] = one;
                }
            }
            for one in found {
                taken += one.as_ref().map_or(0, &bytes);
                if taken > bytes_max && !all.is_empty() {
                    return Ok(all);
                }
                all.push(one);
            }
        }
        Ok(all)
    }
}

/// Whoever finds something needs the right to read it.
fn reading(asker: &Asker) -> Asker {
    asker.needing(Rights::NONE.with(Right::Read))
}

/// A timeline as the caller sees it; `None` = they don't.
fn open(
    site: &Site,
    view: &View,
    name: &Name,
    asker: &Asker,
) -> Result<Option<(HeadRow, Reader)>, Error> {
    let Some(head) = HeadRow::existing(view, name)? else {
        return Ok(None);
    };
    match site.reader(view, name, &head, asker) {
        Ok(reader) => Ok(Some((reader.sees(head), reader))),
        Err(Error::TimelineNotFound | Error::NoRight) => Ok(None),
        Err(error) => Err(error),
    }
}

fn message(
    site: &Site,
    view: &View,
    (name, head): (&Name, &HeadRow),
    (asker, reader): (&Asker, &Reader),
    sequence: u64,
) -> Result<Option<FeedMessage>, Error> {
    if !head.holds(sequence) {
        return Ok(None);
    }
    let message = shown(load_whole(view, name, head, sequence)?, &site.time);
    let is_there = message.entry.is_some();
    if !is_there || unread::is_hidden(view, (name, head), (asker.user(), reader), sequence)? {
        return Ok(None);
    }
    let timeline = String::from_utf8_lossy(name.id()).into_owned();
    Ok(Some(FeedMessage {
        epoch: site.epochs.text(&timeline, head.incarnation),
        timeline,
        message,
    }))
}
