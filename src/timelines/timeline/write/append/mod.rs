//! Appending: numbers, idempotence, the condition on the head.
//!
//! Owns: promises 1 and 5 of the protocol. Promises: all of an append's messages or none; an ID that is remembered
//! gives its first answer again, before the condition on the head is looked at. What does not need the writer
//! (encoding, hashing, keys) is done by the caller; the writer's thread looks up, numbers and puts. Must not: check
//! names and sizes; the caller has.

mod answer;
mod duplicates;

use std::future::Future;
use std::sync::Arc;

use tideline_base::faults::is_named;
use tideline_base::ids::PartitionId;
use tideline_base::trace::TraceParent;
use tideline_model::access::{Asker, Given};
use tideline_model::timelines::Open;
use tideline_table::{Action, Key, Purpose, RowWriter, StoreError, Txn, put, record};

use super::super::inbox::record_posts;
use super::super::rows::head::HeadRow;
use super::super::rows::stored::{IdRow, MessageRow, Stamp};
use super::super::rows::tables::{MESSAGES, Name, id_columns};
use super::super::time::{Kind, Later, expiry_columns, put_due};
use super::super::traces::Traces;
use super::super::unread;
use super::super::{Append, Appended, Error, Meta, Timelines};
use super::{Site, check_open, new_head, put_head, put_new_meta, sort, version};
use answer::Answer;

impl Timelines {
    /// Appends one or more messages, all or none. Also gives the timeline's epoch.
    pub fn append(
        &self,
        append: Append,
    ) -> impl Future<Output = Result<(Vec<Appended>, String), Error>> + Send + use<> {
        let answers = self.append_all(vec![self.prepare(append, None)]);
        async move { answers.await.pop().expect("one append, one answer") }
    }

    /// Does what an append needs before it is queued: encodes and hashes, and makes the IDs that the client did not
    /// give. What is sent of the messages while they are new has their trace. Nothing has happened yet.
    #[must_use]
    pub fn prepare(&self, append: Append, trace: Option<TraceParent>) -> Prepared {
        let partition = self.place(&append.timeline);
        let now_ms = || self.inner.time.now_ms();
        let prepared = Prepared::new(partition, append, now_ms, || self.inner.ids.next());
        let trace = trace.map(|trace| (trace, Arc::clone(&self.inner.traces)));
        Prepared { trace, ..prepared }
    }

    /// Queues appends of one partition together, in order. Each is done or refused for itself; the answers, in the
    /// same order, cost one waking.
    ///
    /// # Panics
    /// If there is none, or one of another partition among them.
    pub fn append_all(
        &self,
        appends: Vec<Prepared>,
    ) -> impl Future<Output = Vec<Result<(Vec<Appended>, String), Error>>> + Send + use<> {
        let partition = appends[0].partition();
        assert!(appends.iter().all(|append| append.partition() == partition));
        let bytes = appends.iter().map(Prepared::bytes).sum();
        let site = self.site(partition);
        let epochs = Arc::clone(&self.inner.epochs);
        let metrics = Arc::clone(self.inner.partitions.metrics());
        let run = move |append: &mut Prepared, txn: &mut Txn<'_>| append.run(txn, &site);
        let submitted = self.inner.partitions.submit_looking(
            Purpose::Adds,
            partition,
            bytes,
            (appends, Some(Prepared::look)),
            run,
        );
        async move {
            let answered = |answer: Result<(Prepared, u64), _>| {
                let (append, incarnation) = answer.map_err(Error::from)?;
                let epoch = epochs.text(append.timeline(), incarnation);
                Ok((append.appended(), epoch))
            };
            let answers: Vec<_> = submitted.await.into_iter().map(answered).collect();
            let appended = answers.iter().flatten().flat_map(|(appended, _)| appended);
            let is_new = |one: &&Appended| !one.duplicate && one.scheduled.is_none();
            let new = appended.filter(is_new).count();
            metrics.server.messages.increment(new as u64);
            answers
        }
    }
}

/// An append, ready for the writer of its partition.
pub struct Prepared {
    partition: PartitionId,
    name: Name,
    /// Whether they may append is decided in the batch.
    asker: Asker,
    messages: Vec<PreparedMessage>,
    when: When,
    expect_head: Option<u64>,
    create: bool,
    epoch: Option<String>,
    /// And where that is kept.
    trace: Option<(TraceParent, Arc<Traces>)>,
}

/// When an append takes effect.
enum When {
    Now,
    /// Its one message is scheduled.
    Later(Box<Later>),
    /// It was scheduled in this incarnation, and its time has come.
    Delivery(u64),
}

struct PreparedMessage {
    message_id: String,
    row: RowWriter,
    open: Option<Open>,
    expires_at: Option<u64>,
    /// The users that the entry mentions; for timelines with members.
    mentions: Vec<String>,
    /// What an ID row needs, if the client gave the ID.
    known_by: Option<KnownBy>,
    answer: Answer,
}

struct KnownBy {
    columns: Vec<u8>,
    hash: u128,
    /// If that was looked up before.
    looked: Option<Looked>,
}

/// What was found out of a message's ID before its append runs.
struct Looked {
    incarnation: u64,
    /// Of the ID's row there.
    key: Key,
    /// No row of it was committed.
    is_new: bool,
}

impl Prepared {
    /// `new_id` makes the IDs that the client did not give; times to live count from `now_ms()`.
    pub(in super::super) fn new(
        partition: PartitionId,
        append: Append,
        now_ms: impl Fn() -> u64,
        new_id: impl Fn() -> String,
    ) -> Prepared {
        let Append {
            timeline,
            asker,
            messages,
            expect_head,
            create,
            epoch,
        } = append;
        let mut when = When::Now;
        let prepare = |mut message: super::super::AppendOne| {
            sort(&mut message.entry);
            let deliver_at = message.deliver_at;
            // A scheduled message's ID leads to it from the start, whether the client or the server made the ID.
            let by_client = message.message_id.is_some() || deliver_at.is_some();
            let message_id = message.message_id.unwrap_or_else(&new_id);
            let expires_in_ms = message.expires_in_ms;
            let expires_at = expires_in_ms.map(|ms| now_ms().saturating_add(ms));
            let stamp = Stamp {
                message_id: &message_id,
                sender: asker.sender(),
                expires_at,
                open: message.open.as_ref(),
                ..Stamp::default()
            };
            let row = MessageRow::new(&message.entry, &stamp);
            let known_by = by_client.then(|| KnownBy {
                columns: id_columns(asker.sender(), &message_id),
                hash: row.entry_hash(),
                looked: None,
            });
            let mentions = unread::named(&message.entry);
            if let Some(deliver_at) = deliver_at {
                when = When::Later(Box::new(Later {
                    deliver_at,
                    expires_in_ms,
                    given: Given::of(&asker, &timeline),
                    entry: message.entry,
                }));
            }
            PreparedMessage {
                message_id,
                mentions,
                row: row.row,
                open: message.open,
                expires_at,
                known_by,
                answer: Answer::default(),
            }
        };
        let messages = messages.into_iter().map(prepare).collect();
        Prepared {
            partition,
            name: Name::new(&timeline),
            messages,
            when,
            asker,
            expect_head,
            create,
            epoch,
            trace: None,
        }
    }

    /// The same message as one that was scheduled in this incarnation and whose time has come.
    pub(in super::super) fn delivering(self, incarnation: u64) -> Prepared {
        Prepared {
            when: When::Delivery(incarnation),
            ..self
        }
    }

    /// The partition that it goes to: what goes to the same one may be submitted together.
    #[must_use]
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// The timeline that it goes to.
    pub(in super::super) fn timeline(&self) -> &[u8] {
        self.name.id()
    }

    /// About how many bytes this holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let message = |message: &PreparedMessage| {
            let known = message.known_by.as_ref().map_or(0, |by| by.columns.len());
            message.row.cells().len() + message.message_id.len() + known + 128
        };
        self.messages.iter().map(message).sum::<usize>() + 128
    }

    /// Runs on the writer's thread, once. Gives the timeline's incarnation; what became of the messages stays in here.
    pub(in super::super) fn run(&mut self, txn: &mut Txn<'_>, site: &Site) -> Result<u64, Error> {
        let found = site.free(txn, &self.name)?;
        let existing = found.filter(|head| !head.dropped);
        let epoch = self.epoch.as_deref();
        site.check_asker(txn, &self.name, existing.as_ref(), &self.asker, self.create)?;
        site.check_epoch_or_create(&self.name, &existing, self.create, epoch)?;
        let mut head = existing.unwrap_or_else(|| new_head(txn, found));
        if let When::Delivery(incarnation) = self.when
            && incarnation != head.incarnation
        {
            let actual = site.epoch(&self.name, &head)?;
            return Err(Error::EpochChanged { actual });
        }
        let known = self.look_up(txn, site, existing.as_ref())?;
        if known < self.messages.len() {
            check_open(&head)?;
            if self
                .expect_head
                .is_some_and(|expected| expected != head.last && !is_named("condition_ignored"))
            {
                return Err(Error::ConditionFailed { actual: head.last });
            }
            if matches!(self.when, When::Later(_)) {
                self.schedule(txn, site, (&mut head, existing.is_none()))?;
            } else {
                site.turn_by_policy(txn, &self.name, &mut head)?;
                if head.inbox_from > 0 && !site.has_room() {
                    return Err(Error::Store(StoreError::Busy));
                }
                if existing.is_none() {
                    put_new_meta(txn, &self.name, Meta::new());
                    site.add_creator(txn, &self.name, &mut head, &self.asker)?;
                }
                self.write(txn, site, &mut head)?;
            }
        }
        Ok(head.incarnation)
    }

    /// Schedules its one message. The timeline is made if it `is_new`.
    fn schedule(
        &mut self,
        txn: &mut Txn<'_>,
        site: &Site,
        (head, is_new): (&mut HeadRow, bool),
    ) -> Result<(), Error> {
        let (When::Later(later), [message]) = (&self.when, &mut self.messages[..]) else {
            return Ok(());
        };
        let Some(by) = &message.known_by else {
            return Ok(());
        };
        site.check_later(txn, &self.name, later, &by.columns)?;
        if is_new {
            put_new_meta(txn, &self.name, Meta::new());
            site.add_creator(txn, &self.name, head, &self.asker)?;
            put_head(txn, &self.name, head);
        }
        site.schedule(txn, (&self.name, head), later, (&by.columns, by.hash));
        message.answer.scheduled = Some(later.deliver_at);
        Ok(())
    }

    /// Numbers and writes what is new. The messages' entries lie together, so that one record names them all.
    pub(in super::super) fn write(
        &mut self,
        txn: &mut Txn<'_>,
        site: &Site,
        head: &mut HeadRow,
    ) -> Result<(), Error> {
        let least = if is_named("times_fall") {
            0
        } else {
            head.last_at
        };
        let now = txn.now_ms().max(least);
        let mut entries = None;
        let is_new = |message: &&mut PreparedMessage| !message.answer.duplicate;
        for message in self.messages.iter_mut().filter(is_new) {
            head.last += 1;
            (message.answer.sequence, message.answer.timestamp) = (head.last, now);
            let key = self.name.message_key(head.incarnation, head.last);
            let entry = put(txn, key, &mut message.row, version(now));
            let (_, count) = entries.get_or_insert((entry, 0u32));
            *count += 1;
        }
        for message in self.messages.iter_mut().filter(is_new) {
            if let Some(by) = &mut message.known_by {
                let key = match by.looked.take() {
                    Some(looked) if looked.incarnation == head.incarnation => looked.key,
                    _ => self.name.id_key(head.incarnation, &by.columns),
                };
                let row = IdRow::encode(message.answer.sequence, by.hash);
                put(txn, key, row, version(now));
            }
            if let Some(at) = message.expires_at {
                let columns = expiry_columns(head.incarnation, message.answer.sequence);
                put_due(txn, &site.alarm(), (Kind::Expire, at), &self.name, &columns);
            }
            if let Some(open) = &message.open {
                let sequence = message.answer.sequence;
                message.answer.parts = Some(0);
                site.opened(txn, &self.name, head, (sequence, open))?;
            }
        }
        self.keep_trace();
        let new = || self.messages.iter().filter(|one| !one.answer.duplicate);
        if head.members > 0 {
            let new = new().map(|one| (one.answer.sequence, one.mentions.as_slice()));
            unread::appended(txn, &self.name, head, self.asker.sender(), new)?;
        }
        head.last_at = now;
        let sizes = new().map(|one| (one.answer.sequence, one.row.cells().len() as u64));
        site.keep(txn, &self.name, head, (sizes, false))?;
        if self.messages.iter().any(|one| one.open.is_some()) {
            site.mark(txn, &self.name, head)?;
        }
        head.store(txn, &self.name, version(now));
        if let Some((first, count)) = entries {
            record(txn, MESSAGES, Action::Put, first, count);
            if head.inbox_from > 0 {
                record_posts(txn, first, count);
            }
        }
        Ok(())
    }
}
