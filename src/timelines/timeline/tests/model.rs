//! Timelines as a plain model in memory: what every method must answer.
//!
//! Owns: the model that `commands.rs` runs against. Promises: written from the protocol, with nothing of the store's
//! way of doing it: no rows, no keys, no pages. Must not: be in a build that is not a test.

use std::collections::{BTreeMap, BTreeSet};

use crate::timeline::{
    Admission, Append, Appended, Burial, Changed, Columns, EntryLimits, Error, Extend, Extended,
    Finish, Finished, Head, Limits, Message, Meta, OPEN_MAX, Outcome, PARTS_MAX, Page, Pinned,
    Range, React, Reaction, ReactionPage, Reactions, ReactionsOf, Resume, ResumeState, Settings,
    SyncPosition, SyncState, Synced, Target, TimelineInfo, UpdateMessage, UpdateMeta,
};
use tideline_model::access::Asker;
use tideline_model::timelines::Grown;
use tideline_model::{Value, json_bytes};

/// A timeline that stands.
#[derive(Clone, Debug)]
pub(super) struct ModelTimeline {
    pub(super) head: Head,
    pub(super) messages: BTreeMap<u64, Message>,
    ids: BTreeMap<(String, String), (Appended, Columns)>,
    /// The users of each reaction to each message, newest first.
    reacted: BTreeMap<(u64, String), Vec<String>>,
    /// The parts of messages that were appended open.
    parts: BTreeMap<u64, Vec<String>>,
    pub(super) info: TimelineInfo,
}

/// All timelines. Epochs can't be predicted: the test fills them in when a timeline was made.
pub(super) struct Model {
    pub(super) timelines: BTreeMap<String, ModelTimeline>,
    pub(super) limits: Limits,
    pub(super) now: u64,
    pub(super) epochs: BTreeSet<String>,
}

type Answer<T> = Result<T, Error>;

impl Model {
    /// The timeline, if it stands and has this epoch.
    pub(super) fn standing(&self, name: &str, epoch: &Option<String>) -> Answer<&ModelTimeline> {
        let timeline = self.timelines.get(name).ok_or(Error::TimelineNotFound)?;
        match epoch {
            Some(epoch) if *epoch != timeline.head.epoch => Err(Error::EpochChanged {
                actual: timeline.head.epoch.clone(),
            }),
            _ => Ok(timeline),
        }
    }

    fn standing_mut(&mut self, name: &str, epoch: &Option<String>) -> Answer<&mut ModelTimeline> {
        self.standing(name, epoch)?;
        Ok(self.timelines.get_mut(name).expect("it was just there"))
    }

    fn may_create(&self, name: &str, create: bool, epoch: &Option<String>) -> Answer<()> {
        match (self.timelines.get(name), epoch) {
            (Some(_), epoch) => self.standing(name, epoch).map(|_| ()),
            (None, _) if !create => Err(Error::TimelineNotFound),
            (None, Some(_)) => Err(Error::EpochChanged {
                actual: String::new(),
            }),
            (None, None) => Ok(()),
        }
    }

    fn make(&self, name: &str, meta: Meta) -> ModelTimeline {
        let head = Head {
            epoch: String::new(),
            head: 0,
            floor: 1,
            change_head: 0,
        };
        ModelTimeline {
            info: TimelineInfo {
                timeline: name.to_owned(),
                epoch: String::new(),
                meta: sorted(meta),
                version: 1,
                head: 0,
                floor: 1,
                change_head: 0,
                created_at: self.now,
                updated_at: self.now,
                last_at: None,
                closed: false,
                settings: Settings::default().with_defaults(),
                settings_version: 0,
                members_count: 0,
            },
            head,
            messages: BTreeMap::new(),
            ids: BTreeMap::new(),
            reacted: BTreeMap::new(),
            parts: BTreeMap::new(),
        }
    }

    /// Server-made message IDs are `None` in the model's answer: empty texts.
    pub(super) fn append(&mut self, append: &Append) -> Answer<Vec<Appended>> {
        self.may_create(&append.timeline, append.create, &append.epoch)?;
        let standing = self.timelines.get(&append.timeline);
        let mut timeline = standing
            .cloned()
            .unwrap_or_else(|| self.make(&append.timeline, Meta::new()));
        let (old_head, now) = (timeline.head.head, self.now);
        let mut answers = Vec::new();
        for (index, one) in append.messages.iter().enumerate() {
            let entry = sorted(one.entry.clone());
            let key = |id: &String| (append.asker.sender().to_owned(), id.clone());
            let known = one
                .message_id
                .as_ref()
                .and_then(|id| timeline.ids.get(&key(id)));
            if let Some((first, first_entry)) = known
                && (first.timestamp + self.limits.message_id_window_ms > now
                    || first.sequence + self.limits.message_id_window_count > old_head)
            {
                if *first_entry != entry {
                    return Err(Error::MessageIdConflict { index });
                }
                let there = timeline.messages.get(&first.sequence);
                let parts = there.and_then(|message| message.parts);
                answers.push(Appended {
                    duplicate: true,
                    parts: one.open.as_ref().and(parts),
                    ..first.clone()
                });
                continue;
            }
            timeline.head.head += 1;
            let answer = Appended {
                sequence: timeline.head.head,
                timestamp: now,
                message_id: one.message_id.clone().unwrap_or_default(),
                duplicate: false,
                scheduled: None,
                parts: one.open.as_ref().map(|_| 0),
            };
            if one.open.is_some() {
                timeline.parts.insert(answer.sequence, Vec::new());
            }
            let message = Message {
                open: one.open.clone().map(Box::new),
                parts: answer.parts,
                sequence: answer.sequence,
                timestamp: now,
                message_id: answer.message_id.clone(),
                sender: append.asker.sender().to_owned(),
                entry: Some(entry.clone()),
                ..Message::default()
            };
            timeline.messages.insert(answer.sequence, message);
            answers.push(answer.clone());
            if let Some(id) = &one.message_id {
                timeline.ids.insert(key(id), (answer, entry));
            }
        }
        if timeline.head.head > old_head {
            match append.expect_head {
                Some(expected) if expected != old_head => {
                    return Err(Error::ConditionFailed { actual: old_head });
                }
                _ => timeline.info.last_at = Some(now),
            }
            let open = timeline.messages.values().filter(|one| one.open.is_some());
            let open = open.count() as u64;
            if append.messages.iter().any(|one| one.open.is_some()) && open > u64::from(OPEN_MAX) {
                return Err(Error::TooMany {
                    field: "open",
                    limit: u64::from(OPEN_MAX),
                    actual: open,
                });
            }
            self.timelines.insert(append.timeline.clone(), timeline);
        }
        Ok(answers)
    }

    /// Gives the messages from `first` on their IDs and the timeline its epoch, which only the store knows.
    pub(super) fn learn(&mut self, name: &str, answers: &[Appended], epoch: &str) {
        let timeline = self.timelines.get_mut(name).expect("it stands");
        for answer in answers {
            if let Some(message) = timeline.messages.get_mut(&answer.sequence)
                && message.message_id.is_empty()
            {
                message.message_id.clone_from(&answer.message_id);
            }
        }
        if timeline.head.epoch.is_empty() {
            timeline.head.epoch = epoch.to_owned();
            assert!(self.epochs.insert(epoch.to_owned()), "an epoch came back");
        }
        assert_eq!(timeline.head.epoch, epoch);
    }

    pub(super) fn info(&self, name: &str, epoch: &Option<String>) -> Answer<TimelineInfo> {
        let timeline = self.standing(name, epoch)?;
        Ok(TimelineInfo {
            epoch: timeline.head.epoch.clone(),
            head: timeline.head.head,
            floor: timeline.head.floor,
            change_head: timeline.head.change_head,
            ..timeline.info.clone()
        })
    }

    pub(super) fn create(
        &mut self,
        name: &str,
        meta: Option<Meta>,
        epoch: &Option<String>,
    ) -> Answer<bool> {
        self.may_create(name, true, epoch)?;
        let is_new = !self.timelines.contains_key(name);
        if is_new {
            let timeline = self.make(name, meta.unwrap_or_default());
            self.timelines.insert(name.to_owned(), timeline);
        }
        Ok(is_new)
    }

    pub(super) fn update(&mut self, update: &UpdateMeta) -> Answer<(Meta, u64)> {
        let now = self.now;
        let info = &mut self.standing_mut(&update.timeline, &update.epoch)?.info;
        if update
            .expect_version
            .is_some_and(|version| version != info.version)
        {
            return Err(Error::ConditionFailed {
                actual: info.version,
            });
        }
        info.meta = merged(&info.meta, &update.set, &update.remove, update.limits)?;
        info.version += 1;
        info.updated_at = now;
        Ok((info.meta.clone(), info.version))
    }

    pub(super) fn delete(&mut self, name: &str, epoch: &Option<String>) -> Answer<bool> {
        match self.standing(name, epoch) {
            Err(Error::TimelineNotFound) => Ok(false),
            Err(error) => Err(error),
            Ok(_) => Ok(self.timelines.remove(name).is_some()),
        }
    }

    pub(super) fn trim(&mut self, name: &str, before: u64, epoch: &Option<String>) -> Answer<u64> {
        let timeline = self.standing_mut(name, epoch)?;
        timeline.head.floor = before.clamp(timeline.head.floor, timeline.head.head + 1);
        timeline.messages = timeline.messages.split_off(&timeline.head.floor);
        Ok(timeline.head.floor)
    }

    pub(super) fn message(&self, name: &str, at: u64, epoch: &Option<String>) -> Answer<Message> {
        let message = self.standing(name, epoch)?.messages.get(&at);
        message.cloned().ok_or(Error::MessageNotFound)
    }

    pub(super) fn update_message(&mut self, update: &UpdateMessage) -> Answer<Message> {
        let mut message = self.message(&update.timeline, update.sequence, &update.epoch)?;
        let entry = message.entry.as_ref().ok_or(Error::Deleted)?;
        if update
            .expect_change
            .is_some_and(|change| change != message.change)
        {
            return Err(Error::ConditionFailed {
                actual: message.change,
            });
        }
        if message.open.is_some() {
            if update.set.iter().any(|(name, _)| name == GROWS) {
                return Err(Error::Grows("set"));
            }
            if update.remove.iter().any(|name| name == GROWS) {
                return Err(Error::Grows("remove"));
            }
        }
        let entry = merged(entry, &update.set, &update.remove, update.limits)?;
        message.entry = Some(entry);
        message.edited_at = Some(self.now);
        Ok(self.change(&update.timeline, message))
    }

    pub(super) fn extend(&mut self, extend: &Extend) -> Answer<Extended> {
        let Target {
            timeline,
            epoch,
            asker,
        } = &extend.target;
        let mut message = self.message(timeline, extend.sequence, epoch)?;
        let entry = message.entry.as_mut().ok_or(Error::Deleted)?;
        if message.open.is_none() {
            return Err(closed(&message));
        }
        if !asker.user().is_empty() && asker.user() != message.sender {
            return Err(Error::OtherSender);
        }
        let texts = &self.standing(timeline, epoch)?.parts[&extend.sequence];
        let parts = texts.len() as u64;
        if extend.part <= parts {
            return match texts[extend.part as usize - 1] == extend.text {
                true => Ok(Extended {
                    parts,
                    duplicate: true,
                }),
                false => Err(Error::PartConflict { parts }),
            };
        }
        if extend.part > parts + 1 {
            return Err(Error::ConditionFailed { actual: parts });
        }
        if parts == PARTS_MAX {
            return Err(Error::TooMany {
                field: "part",
                limit: PARTS_MAX,
                actual: parts + 1,
            });
        }
        grow(entry, &extend.text);
        let (bytes, limit) = (json_bytes(entry) as u64, extend.limits.entry_bytes_max);
        if bytes > limit {
            return Err(Error::TooLarge {
                limit: "entry_bytes_max",
                limit_bytes: limit,
                actual_bytes: bytes,
            });
        }
        message.parts = Some(parts + 1);
        let (sequence, text) = (extend.sequence, extend.text.clone());
        let timeline = self.standing_mut(timeline, epoch)?;
        timeline.messages.insert(sequence, message);
        let texts = timeline.parts.get_mut(&sequence).expect("it was open");
        texts.push(text);
        Ok(Extended {
            parts: parts + 1,
            duplicate: false,
        })
    }

    pub(super) fn finish(&mut self, finish: &Finish) -> Answer<Finished> {
        let Target {
            timeline,
            epoch,
            asker,
        } = &finish.target;
        let mut message = self.message(timeline, finish.sequence, epoch)?;
        let entry = message.entry.as_ref().ok_or(Error::Deleted)?;
        if !asker.user().is_empty() && asker.user() != message.sender {
            return Err(Error::OtherSender);
        }
        if message.open.is_none() {
            let is_same = message.outcome == Some(finish.outcome)
                && message.parts == Some(finish.parts)
                && message.stopped_by.is_none();
            return match is_same {
                true => Ok(Finished {
                    message,
                    duplicate: true,
                }),
                false => Err(closed(&message)),
            };
        }
        let parts = message.parts.unwrap_or(0);
        if finish.parts != parts {
            return Err(Error::ConditionFailed { actual: parts });
        }
        if !finish.set.is_empty() {
            message.entry = Some(merged(entry, &finish.set, &finish.remove, finish.limits)?);
        }
        (message.open, message.outcome) = (None, Some(finish.outcome));
        Ok(Finished {
            message: self.change(timeline, message),
            duplicate: false,
        })
    }

    pub(super) fn stop(&mut self, target: &Target, at: u64) -> Answer<Message> {
        let mut message = self.message(&target.timeline, at, &target.epoch)?;
        if message.entry.is_none() {
            return Err(Error::Deleted);
        }
        if message.open.is_none() {
            return match message.outcome {
                Some(_) => Ok(message),
                None => Err(closed(&message)),
            };
        }
        (message.open, message.outcome) = (None, Some(Outcome::Cancelled));
        message.stopped_by = Some(target.asker.user().to_owned());
        Ok(self.change(&target.timeline, message))
    }

    pub(super) fn bury(
        &mut self,
        name: &str,
        at: u64,
        burial: Burial,
        epoch: &Option<String>,
    ) -> Answer<bool> {
        let mut message = self.message(name, at, epoch)?;
        if message.entry.is_none() {
            return Ok(false);
        }
        message.bury(burial);
        message.pinned = false;
        message.reactions = None;
        self.change(name, message);
        Ok(true)
    }

    pub(super) fn pin(&mut self, target: &Target, at: u64, pins: bool) -> Answer<bool> {
        let mut message = self.message(&target.timeline, at, &target.epoch)?;
        if message.entry.is_none() && pins {
            return Err(Error::Deleted);
        }
        let changes = message.pinned != pins;
        if changes {
            message.pinned = pins;
            self.change(&target.timeline, message);
        }
        Ok(changes)
    }

    pub(super) fn pinned(&self, pinned: &Pinned) -> Answer<(Vec<Message>, Option<u64>)> {
        let timeline = self.standing(&pinned.target.timeline, &pinned.target.epoch)?;
        let above = timeline.messages.range(pinned.after + 1..);
        let all = above.map(|(_, message)| message.clone());
        let mut all: Vec<_> = all.filter(|message| message.pinned).collect();
        let more = all.len() > pinned.limit;
        all.truncate(pinned.limit);
        let next = all.last().filter(|_| more).map(|last| last.sequence);
        Ok((all, next))
    }

    pub(super) fn react(&mut self, react: &React) -> Answer<Vec<Reaction>> {
        let Target {
            timeline,
            epoch,
            asker,
        } = &react.target;
        let user = &asker.user().to_owned();
        let mut message = self.message(timeline, react.sequence, epoch)?;
        if message.entry.is_none() {
            return Err(Error::Deleted);
        }
        let timeline = self.standing_mut(timeline, epoch)?;
        let key = (react.sequence, react.reaction.clone());
        let users = timeline.reacted.entry(key).or_default();
        if users.contains(user) == react.adds {
            let all = message.reactions.map_or_else(Vec::new, |all| all.by_name);
            return Ok(self.owned(&react.target, react.sequence, all));
        }
        if react.adds {
            users.insert(0, user.clone());
        } else {
            users.retain(|other| other != user);
        }
        let all = timeline.reacted.iter();
        let of_this = all.filter(|((at, _), users)| *at == react.sequence && !users.is_empty());
        let by_name = of_this.map(|((_, name), users)| Reaction {
            name: name.clone(),
            count: users.len() as u64,
            users: users.iter().take(10).cloned().collect(),
            mine: false,
        });
        let by_name: Vec<_> = by_name.collect();
        let before = message.reactions.take();
        message.reactions = Some(Box::new(Reactions {
            entry_change: before.map_or(message.change, |before| before.entry_change),
            by_name: by_name.clone(),
        }));
        timeline.head.change_head += 1;
        message.change = timeline.head.change_head;
        timeline.messages.insert(react.sequence, message);
        Ok(self.owned(&react.target, react.sequence, by_name))
    }

    /// Reactions to a message as the caller sees them.
    fn owned(&self, target: &Target, sequence: u64, mut all: Vec<Reaction>) -> Vec<Reaction> {
        let reacted = &self.timelines[target.timeline.as_str()].reacted;
        for reaction in &mut all {
            let users = &reacted[&(sequence, reaction.name.clone())];
            let mut not_named = users.iter().skip(reaction.users.len());
            reaction.mine = not_named.any(|user| user == target.asker.user());
        }
        all
    }

    pub(super) fn reactions(&self, of: &ReactionsOf) -> Answer<ReactionPage> {
        let (timeline, epoch) = (&of.target.timeline, &of.target.epoch);
        let message = self.message(timeline, of.sequence, epoch)?;
        if message.entry.is_none() {
            return Err(Error::Deleted);
        }
        let reactions = message.reactions.map_or_else(Vec::new, |all| all.by_name);
        let mut reactions = self.owned(&of.target, of.sequence, reactions);
        let Some(name) = &of.reaction else {
            return Ok(ReactionPage {
                reactions,
                next: None,
            });
        };
        reactions.retain(|reaction| reaction.name == *name);
        let mut more = false;
        for reaction in &mut reactions {
            let key = (of.sequence, name.clone());
            let mut users = self.timelines[timeline].reacted[&key].clone();
            users.sort();
            users.retain(|user| of.after.as_ref().is_none_or(|after| user > after));
            more = users.len() > of.limit;
            users.truncate(of.limit);
            reaction.users = users;
        }
        let last = reactions
            .iter()
            .filter_map(|reaction| reaction.users.last());
        let next = last.last().filter(|_| more).cloned();
        Ok(ReactionPage { reactions, next })
    }

    fn change(&mut self, name: &str, mut message: Message) -> Message {
        let timeline = self.timelines.get_mut(name).expect("it stands");
        timeline.head.change_head += 1;
        message.change = timeline.head.change_head;
        if let Some(reactions) = &mut message.reactions {
            reactions.entry_change = message.change;
        }
        timeline.messages.insert(message.sequence, message.clone());
        message
    }

    /// With room for any number of bytes.
    pub(super) fn range(&self, range: &Range) -> Answer<Page> {
        let timeline = self.standing(&range.timeline, &range.epoch)?;
        let mut messages: Vec<_> = timeline.messages.values().cloned().collect();
        if range.backward {
            messages.reverse();
            messages.retain(|message| range.from.is_none_or(|from| message.sequence <= from));
            messages.retain(|message| range.to.is_none_or(|to| message.sequence > to));
        } else {
            messages.retain(|message| range.from.is_none_or(|from| message.sequence >= from));
            messages.retain(|message| range.to.is_none_or(|to| message.sequence < to));
        }
        let next = messages.get(range.limit).map(|message| message.sequence);
        messages.truncate(range.limit);
        if let Some(columns) = &range.columns {
            for entry in messages.iter_mut().flat_map(|message| &mut message.entry) {
                entry.retain(|(name, _)| columns.contains(name));
            }
        }
        Ok(Page {
            messages,
            next,
            head: timeline.head.clone(),
            closed: false,
        })
    }

    /// With room for any number of bytes, and a limit that no changes reach.
    pub(super) fn resume(&self, resume: &Resume) -> Answer<Changed> {
        let ModelTimeline {
            head,
            messages,
            parts: timeline_parts,
            ..
        } = self.standing(&resume.timeline, &None)?;
        let oldest = head.floor - 1;
        let after = match (resume.after, resume.rewind) {
            (Some(after), _) => after,
            (None, Some(count)) => head.head.saturating_sub(count).max(oldest),
            (None, None) => head.head,
        };
        let is_foreign = resume
            .epoch
            .as_ref()
            .is_some_and(|epoch| *epoch != head.epoch);
        if is_foreign || after > head.head {
            return Ok(Changed {
                head: head.clone(),
                state: ResumeState::EpochChanged,
                messages: vec![],
                changed: None,
                grown: vec![],
                open: vec![],
                position: after,
                change_position: resume.changes_after.unwrap_or(0),
                more: false,
                admission: Admission::default(),
            });
        }
        let news = messages
            .range(after + 1..)
            .map(|(_, message)| message.clone());
        let news: Vec<_> = news.take(resume.limit).collect();
        let changed = resume.changes_after.map(|changes_after| {
            let known = messages.range(..=after).map(|(_, message)| message.clone());
            let mut changed: Vec<_> = known
                .filter(|message| message.change > changes_after)
                .collect();
            changed.sort_by_key(|message| message.change);
            changed
        });
        let mut changed = changed;
        let (mut grown, mut open) = (vec![], vec![]);
        for &(sequence, has) in &resume.open {
            let is_shown =
                |changed: &Vec<Message>| changed.iter().any(|one| one.sequence == sequence);
            let Some(message) = messages.get(&sequence).filter(|_| sequence <= after) else {
                continue;
            };
            if changed.as_ref().is_some_and(is_shown) {
                continue;
            }
            let parts = message.parts.unwrap_or(0);
            if message.open.is_some() {
                open.push((sequence, parts));
            }
            if message.open.is_none() || parts < has {
                let changed = changed.get_or_insert_default();
                changed.push(message.clone());
                changed.sort_by_key(|one| one.change);
            } else if parts > has {
                grown.push(Grown {
                    sequence,
                    from: has + 1,
                    parts,
                    text: timeline_parts[&sequence][has as usize..].concat(),
                });
            }
        }
        let position = news
            .last()
            .map_or_else(|| after.max(oldest), |last| last.sequence);
        Ok(Changed {
            state: if after < oldest {
                ResumeState::TooOld
            } else {
                ResumeState::Ok
            },
            messages: news,
            changed,
            grown,
            open,
            position,
            change_position: head.change_head,
            more: position < head.head,
            admission: Admission::default(),
            head: head.clone(),
        })
    }

    /// With room for everything.
    pub(super) fn sync(&self, position: &SyncPosition<'_>, limit: usize) -> Option<Synced> {
        let resume = Resume {
            timeline: position.timeline.to_owned(),
            asker: Asker::default(),
            after: Some(position.after),
            rewind: None,
            epoch: position.epoch.map(str::to_owned),
            changes_after: position.changes_after,
            open: position.open.to_vec(),
            parts: false,
            limit,
            bytes_max: usize::MAX,
        };
        let synced = |state, page| Synced {
            timeline: position.timeline.to_owned(),
            state,
            page,
        };
        let Ok(page) = self.resume(&resume) else {
            let is_new = position.after == 0 && position.epoch.is_none();
            return (!is_new).then(|| synced(SyncState::Deleted, None));
        };
        let is_quiet = page.position == position.after
            && page.grown.is_empty()
            && page.changed.iter().all(Vec::is_empty)
            && position
                .changes_after
                .is_none_or(|after| after >= page.head.change_head);
        let state = match page.state {
            ResumeState::Ok if is_quiet => return None,
            ResumeState::Ok => SyncState::Ok,
            ResumeState::TooOld => SyncState::TooOld,
            ResumeState::EpochChanged => SyncState::EpochChanged,
        };
        Some(synced(state, Some(page)))
    }

    pub(super) fn list(&self, prefix: &str, after: &str) -> Vec<TimelineInfo> {
        let shown = |name: &&String| {
            name.starts_with(prefix) && name.as_str() > after && !name.starts_with('$')
        };
        let names = self.timelines.keys().filter(shown);
        names
            .map(|name| self.info(name, &None).expect("it stands"))
            .collect()
    }
}

/// The column that open messages grow in.
pub(super) const GROWS: &str = "m";

/// Adds to the text of that column.
pub(super) fn grow(entry: &mut Columns, text: &str) {
    match entry.iter_mut().find(|(name, _)| name == GROWS) {
        Some((_, Value::String(before))) => before.push_str(text),
        Some(_) => panic!("it grows in what is no text"),
        None => {
            entry.push((GROWS.to_owned(), Value::String(text.to_owned())));
            entry.sort_by(|a, b| a.0.cmp(&b.0));
        }
    }
}

fn closed(message: &Message) -> Error {
    Error::MessageClosed {
        outcome: message.outcome,
        parts: message.parts.unwrap_or(0),
        stopped_by: message.stopped_by.clone(),
    }
}

fn sorted(mut columns: Columns) -> Columns {
    columns.sort_by(|a, b| a.0.cmp(&b.0));
    columns
}

fn merged(
    columns: &Columns,
    set: &Columns,
    remove: &[String],
    limits: EntryLimits,
) -> Answer<Columns> {
    let mut map: BTreeMap<_, _> = columns.iter().cloned().collect();
    remove.iter().for_each(|name| drop(map.remove(name)));
    map.extend(set.iter().cloned());
    let columns: Columns = map.into_iter().collect();
    let too_large = |limit, allowed, actual| {
        Err(Error::TooLarge {
            limit,
            limit_bytes: allowed,
            actual_bytes: actual,
        })
    };
    match (columns.len() as u64, json_bytes(&columns) as u64) {
        (names, _) if names > limits.entry_names_max => {
            too_large("entry_names_max", limits.entry_names_max, names)
        }
        (_, bytes) if bytes > limits.entry_bytes_max => {
            too_large("entry_bytes_max", limits.entry_bytes_max, bytes)
        }
        _ => Ok(columns),
    }
}
