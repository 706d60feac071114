//! Parts for those who follow a message while it grows.
//!
//! Owns: what a batch's parts are to subscribers, and the parts behind a reader's place. Promises: an answer is of one
//! view or batch alone; parts come in order, joined, without a hole. Must not: know a subscription.

use tideline_base::entry::{EntryKind, KeyedEntry};
use tideline_base::faults::is_named;
use tideline_base::ids::PartitionId;
use tideline_base::ordered;
use tideline_model::timelines::Grown;
use tideline_table::{Batch, Malformed, ReadError, Source, View, split_key};

use super::super::members::Reader;
use super::super::read::page::Room;
use super::super::read::position::NONE_YET;
use super::super::rows::head::HeadRow;
use super::super::rows::stored;
use super::super::rows::tables::{HIDES, Name, PARTS, incarnation_of};
use super::super::time::shown;
use super::super::unread::is_hidden;
use super::super::write::Site;
use super::super::write::edit::load_whole;
use super::super::{Error, Message, Resume, Target, Timelines};
use super::end::open_between;
use super::row::{Part, each_part, inner_bytes, last_part};

/// Parts of one message that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth {
    /// Where.
    pub timeline: String,
    /// The timeline's epoch.
    pub epoch: String,
    /// Which message.
    pub sequence: u64,
    /// The first of the parts.
    pub from: u64,
    /// The last of them.
    pub parts: u64,
    /// Their texts, one behind the other.
    pub text: String,
}

/// What a batch means to those who follow growth.
#[derive(Debug, Default)]
pub struct Grew {
    /// Timelines, and users who have hidden messages of them.
    pub hidden: Vec<(String, String)>,
    /// Parts, in order.
    pub parts: Vec<Growth>,
}

impl Timelines {
    /// The parts in a committed batch, of timelines for which `wants` them.
    #[must_use]
    pub fn growths(
        &self,
        partition: PartitionId,
        batch: &Batch,
        wants: impl Fn(&str) -> bool,
    ) -> Grew {
        let site = self.site(partition);
        let mut found = Grew::default();
        for entry in batch.entries() {
            if site.growth(entry, &wants, &mut found).is_err() {
                let position = batch.position.0;
                tracing::error!(
                    position,
                    "a committed batch has a part or a hide that can't be read"
                );
            }
        }
        found
    }

    /// The parts of an open message behind those that a reader has, perhaps none, up to about so many bytes; `None` =
    /// the message is not open for this reader.
    pub async fn grown(
        &self,
        target: Target,
        (sequence, after): (u64, u64),
        bytes_max: usize,
    ) -> Result<Option<Growth>, Error> {
        let partition = self.place(&target.timeline);
        let site = self.site(partition);
        let read = self.read(partition, move |view| {
            let (name, head, reader) = site.enter(view, &target)?;
            if !reader.sees(head).holds(sequence) {
                return Ok(None);
            }
            let row = stored::load(view, &name, &head, sequence, None)?;
            let message = shown(row, &site.time);
            let reader = (target.asker.user(), &reader);
            let is_hidden = is_hidden(view, (&name, &head), reader, sequence)?;
            if message.open.is_none() || is_hidden {
                return Ok(None);
            }
            let (parts, text) = since(view, &name, &head, (sequence, after), bytes_max)?;
            Ok(Some(Growth {
                epoch: site.epoch(&name, &head)?,
                timeline: target.timeline,
                sequence,
                from: after + 1,
                parts,
                text,
            }))
        });
        read.await
    }
}

/// The texts of the parts behind those that a reader has, joined, up to about so many bytes of JSON or one part, and
/// the number of the last one.
pub(in super::super) fn since(
    rows: &impl Source,
    name: &Name,
    head: &HeadRow,
    (sequence, after): (u64, u64),
    bytes_max: usize,
) -> Result<(u64, String), ReadError> {
    let after = after + u64::from(is_named("grown_late"));
    let (mut joined, mut bytes) = (String::new(), 0);
    let last = each_part(rows, name, head, (sequence, after), |text| {
        bytes += inner_bytes(text);
        let fits = joined.is_empty() || bytes <= bytes_max as u64;
        if fits {
            joined.push_str(text);
        }
        fits
    })?;
    Ok((last, joined))
}

impl Site {
    fn growth(
        &self,
        entry: KeyedEntry<'_>,
        wants: impl Fn(&str) -> bool,
        found: &mut Grew,
    ) -> Result<(), Malformed> {
        let Some((table @ (PARTS | HIDES), columns)) = split_key(entry.key) else {
            return Ok(());
        };
        let timeline = ordered::Reader::new(columns).string()?;
        if entry.kind != EntryKind::Put || !wants(&timeline) {
            return Ok(());
        }
        let (incarnation, mut rest) = incarnation_of(columns)?;
        if table == HIDES {
            let hidden = (timeline.into_owned(), rest.string()?.into_owned());
            if found.hidden.last() != Some(&hidden) {
                found.hidden.push(hidden);
            }
            return Ok(());
        }
        let (sequence, number) = (rest.u64()?, rest.u64()?);
        let text = Part::decode(entry.value)?.text;
        let epoch = self.epochs.text(timeline.as_bytes(), incarnation);
        let before = found.parts.iter_mut().rev().find(|one| {
            one.sequence == sequence && one.timeline == *timeline && one.epoch == epoch
        });
        match before {
            Some(growth) if growth.parts + 1 == number => {
                growth.parts = number;
                growth.text.push_str(text);
            }
            _ => found.parts.push(Growth {
                timeline: timeline.into_owned(),
                epoch,
                sequence,
                from: number,
                parts: number,
                text: text.to_owned(),
            }),
        }
        Ok(())
    }
}

/// What a reader at a position is missing of messages that were open.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in super::super) struct Missing {
    /// Parts of those that are open.
    pub(in super::super) grown: Vec<Grown>,
    /// Of each of these, how many parts the reader has by now.
    pub(in super::super) open: Vec<(u64, u64)>,
    /// Not all had room.
    pub(in super::super) more: bool,
    /// The lowest change of the messages that had none.
    pub(in super::super) left_out: Option<u64>,
}

impl Site {
    /// What a reader is missing that has so many parts of each message in `open`. What is above its position comes with
    /// its page, and what is below the floor is gone. A reader that follows parts gets the other open messages whole.
    /// A message that is not open any more is put among those that have changed; one that is among them already is
    /// there whole. A message that the reader has hidden does not grow for it.
    pub(in super::super) fn missing_parts(
        &self,
        view: &View,
        (name, head): (&Name, &HeadRow),
        (resume, after, reader): (&Resume, u64, &Reader),
        (changed, room): (&mut Option<Vec<Message>>, &mut Room),
    ) -> Result<Missing, ReadError> {
        let mut missing = Missing::default();
        let mut asked = resume.open.clone();
        if resume.parts {
            let is_asked = |at: &u64| resume.open.iter().any(|(sequence, _)| sequence == at);
            let mut others = open_between(view, name, head, (head.floor, after))?;
            others.retain(|at| !is_asked(at));
            asked.extend(others.into_iter().map(|at| (at, NONE_YET)));
        }
        for (sequence, parts) in asked {
            let is_it = |one: &Message| one.sequence == sequence;
            if !(head.floor..=after).contains(&sequence) || changed.iter().flatten().any(is_it) {
                continue;
            }
            let row = stored::load(view, name, head, sequence, None)?;
            // Of one whose time is over nothing more is shown.
            let is_open = shown(row, &self.time).open.is_some();
            let user = (resume.asker.user(), reader);
            if is_open && is_hidden(view, (name, head), user, sequence)? {
                continue;
            }
            let last = last_part(view, name, head, sequence)?.map_or(0, |(last, ..)| last);
            if !is_open || last < parts {
                let message = shown(load_whole(view, name, head, sequence)?, &self.time);
                room.limit = room.limit.max(1);
                if !room.take(&message) {
                    missing.more = true;
                    if is_open && parts == NONE_YET {
                        missing.open.push((sequence, NONE_YET));
                        continue;
                    }
                    let left_out = missing.left_out.unwrap_or(u64::MAX);
                    missing.left_out = Some(left_out.min(message.change));
                    continue;
                }
                if message.open.is_some() {
                    let parts = message.parts.unwrap_or(0);
                    missing.open.push((sequence, parts));
                }
                let changed = changed.get_or_insert_default();
                let place = changed.partition_point(|one| one.change < message.change);
                changed.insert(place, message);
                continue;
            }
            let mut told = parts;
            if last > parts && (room.bytes > 0 || room.first_anyway) {
                room.first_anyway = false;
                let (reached, text) = since(view, name, head, (sequence, parts), room.bytes)?;
                room.bytes = room.bytes.saturating_sub(Grown::json_bytes_max(&text));
                missing.grown.push(Grown {
                    sequence,
                    from: parts + 1,
                    parts: reached,
                    text,
                });
                told = reached;
            }
            missing.more |= told < last;
            missing.open.push((sequence, told));
        }
        Ok(missing)
    }
}
