//! Messages that are to be appended later: the calls that make, list and cancel them.
//!
//! Owns: how many a user may have, how far ahead. Promises: while a message is
//! scheduled its ID row leads to sequence 0 and is never forgotten, so that its ID can't be taken by another message;
//! the row, its due row and its ID row come and go in one batch. Must not: append; `deliver.rs` does.

use bytes::Bytes;

use tideline_base::ordered::{Column, Reader};
use tideline_model::access::{Asker, Membership};
use tideline_model::{Direction, ValueRef, json_bytes};
use tideline_table::{
    Malformed, Purpose, ReadError, Txn, View, damaged, delete, put, read_row, scan, scan_all,
};

use super::super::members::checked;
use super::super::rows::head::HeadRow;
use super::super::rows::stored::IdRow;
use super::super::rows::tables::{Name, id_columns, id_text};
use super::super::write::{Site, version};
use super::super::{Columns, Error, Target, Timelines};
use super::due::{Kind, due_key, put_due};
use super::scheduled_row::{Later, Refused, ScheduledRow};

/// Scheduled messages of one sender in one timeline, those that were refused included.
const SCHEDULED_MAX: u64 = 100;
/// How far ahead a message may be scheduled: a year, and a leap day.
const AHEAD_MS_MAX: u64 = 366 * 86_400_000;

/// A scheduled message as its sender sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scheduled {
    /// Its message ID.
    pub message_id: String,
    /// When it is to be appended, ms.
    pub deliver_at: u64,
    /// How long it is to be shown from then on, ms.
    pub expires_in_ms: Option<u64>,
    /// What it holds.
    pub entry: Columns,
    /// Why and when (ms) it was refused.
    pub refused: Option<(Refused, u64)>,
}

/// Which scheduled messages a page should hold.
#[derive(Clone, Debug)]
pub struct ListScheduled {
    /// Where.
    pub timeline: String,
    /// The asker. The messages are those of its sender: its user, else its key's name; without `[auth]`, of nobody.
    pub asker: Asker,
    /// Only message IDs behind this one in the order of the list.
    pub after: Option<String>,
    /// Messages at most (already clamped).
    pub limit: usize,
    /// Approximate bytes of JSON at most; at least one message is returned all the same.
    pub bytes_max: usize,
    /// Refuse unless this is the timeline's epoch.
    pub epoch: Option<String>,
}

impl Timelines {
    /// The messages that a sender has scheduled in a timeline, in the order of their IDs, and whether there are more
    /// behind them.
    pub async fn scheduled(&self, list: ListScheduled) -> Result<(Vec<Scheduled>, bool), Error> {
        let partition = self.place(&list.timeline);
        let (site, now_ms) = (self.site(partition), self.now_ms());
        self.read(partition, move |view| site.scheduled(view, &list, now_ms))
            .await
    }

    /// Takes back a message that the caller has scheduled, or a refused one off the list.
    pub fn cancel_scheduled(
        &self,
        target: Target,
        message_id: &str,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let columns = id_columns(target.asker.sender(), message_id);
        let partition = self.place(&target.timeline);
        let bytes = columns.len();
        self.submit(Purpose::MakesRoom, partition, bytes, move |txn, site| {
            site.cancel(txn, &target, &columns)
        })
    }
}

impl Site {
    /// Schedules a message that has passed the tests of an append. `columns`: sender and message ID.
    pub(in super::super) fn schedule(
        &self,
        txn: &mut Txn<'_>,
        (name, head): (&Name, &HeadRow),
        later: &Later,
        (columns, hash): (&[u8], u128),
    ) {
        let (now, at) = (txn.now_ms(), later.deliver_at);
        let row = ScheduledRow {
            deliver_at: at,
            expires_in_ms: later.expires_in_ms,
            given: later.given.clone(),
            incarnation: head.incarnation,
            refused: None,
            entry: later.entry.clone(),
        };
        put(txn, name.scheduled_key(columns), row.encode(), version(now));
        let id_key = name.id_key(head.incarnation, columns);
        put(txn, id_key, IdRow::encode(0, hash), version(at));
        put_due(txn, &self.alarm(), (Kind::Deliver, at), name, columns);
    }

    /// Whether the sender may schedule one more at this time. If there is no room the oldest refused one goes.
    pub(in super::super) fn check_later(
        &self,
        txn: &mut Txn<'_>,
        name: &Name,
        later: &Later,
        columns: &[u8],
    ) -> Result<(), Error> {
        let now = txn.now_ms();
        if later.deliver_at < now || later.deliver_at > now.saturating_add(AHEAD_MS_MAX) {
            return Err(Error::DeliverAt);
        }
        let sender = sender_of(columns).map_err(|_| damaged(columns, "not a message ID"))?;
        let (mut count, mut oldest): (u64, Option<(u64, Vec<u8>)>) = (0, None);
        let mut replaced = None;
        let own = name.scheduled_key(columns);
        for row in scan_all(txn, &name.scheduled_key(sender)) {
            let (key, value) = row?;
            let outline = ScheduledRow::outline(&value);
            let (deliver_at, refused_at) = outline.map_err(|_| damaged(&key, WHAT))?;
            if key[..] == *own.as_bytes() {
                // One of this ID is replaced: it was refused, or is of a timeline that is gone.
                replaced = Some(deliver_at).filter(|_| refused_at.is_none());
                continue;
            }
            count += 1;
            if let Some(at_ms) = refused_at
                && oldest.as_ref().is_none_or(|(oldest, _)| at_ms < *oldest)
            {
                oldest = Some((at_ms, key.to_vec()));
            }
        }
        if let Some(at) = replaced {
            delete(txn, due_key(Kind::Deliver, at, name, columns));
        }
        match oldest {
            _ if count < SCHEDULED_MAX => {}
            Some((_, key)) => drop(txn.delete(key)),
            None => {
                return Err(Error::TooMany {
                    field: "deliver_at",
                    limit: SCHEDULED_MAX,
                    actual: count + 1,
                });
            }
        }
        Ok(())
    }

    fn scheduled(
        &self,
        view: &View,
        list: &ListScheduled,
        now_ms: u64,
    ) -> Result<(Vec<Scheduled>, bool), Error> {
        let name = Name::new(&list.timeline);
        check_key(&name, &list.asker)?;
        if list.epoch.is_some() {
            self.admit(view, &name, list.epoch.as_deref(), &list.asker)?;
        }
        let mut sender = Vec::new();
        tideline_base::ordered::push_string(&mut sender, list.asker.sender());
        let of_sender = || name.scheduled_key(&sender);
        let from = match &list.after {
            Some(after) => name
                .scheduled_key(&id_columns(list.asker.sender(), after))
                .above_all(),
            None => of_sender().below_all(),
        };
        let (mut found, mut bytes) = (Vec::new(), 0);
        for row in scan(view, &from, &of_sender().above_all(), Direction::Forward) {
            let (key, value) = row?;
            if read(&key, &value)?.is_forgotten(now_ms) {
                continue;
            }
            let (_, _, one) = listed(&(key, value))?;
            bytes += json_bytes(&one.entry) + ROW_BYTES;
            if found.len() == list.limit || (bytes > list.bytes_max && !found.is_empty()) {
                return Ok((found, true));
            }
            found.push(one);
        }
        if found.is_empty() {
            // A sender sees refused messages even if the timeline is gone; a caller that has none is answered as by a
            // read.
            self.admit(view, &name, None, &list.asker)?;
        }
        Ok((found, false))
    }

    fn cancel(&self, txn: &mut Txn<'_>, target: &Target, columns: &[u8]) -> Result<(), Error> {
        let (name, epoch) = (&Name::new(&target.timeline), target.epoch.as_deref());
        check_key(name, &target.asker)?;
        if epoch.is_some() {
            self.admit(txn, name, epoch, &target.asker)?;
        }
        let key = name.scheduled_key(columns);
        let Some(value) = txn.get(key.as_bytes())? else {
            self.admit(txn, name, None, &target.asker)?;
            return Err(Error::ScheduledNotFound);
        };
        let row = read(key.as_bytes(), &value)?;
        if row.is_forgotten(txn.now_ms()) {
            return Err(Error::ScheduledNotFound);
        }
        delete(txn, key);
        if row.refused.is_none() {
            delete(txn, due_key(Kind::Deliver, row.deliver_at, name, columns));
            delete(txn, name.id_key(row.incarnation, columns));
        }
        Ok(())
    }
}

/// Users find what they have scheduled whatever rights they have there now. A key must have the right itself.
fn check_key(name: &Name, asker: &Asker) -> Result<(), Error> {
    let claim = asker.claim();
    match claim.is_some_and(|claim| claim.identity().key().is_some()) {
        true => checked(asker, asker.rights(name.id(), Membership::default())),
        false => Ok(()),
    }
}

/// About what a scheduled message takes in JSON beside its entry.
const ROW_BYTES: usize = 256;

pub(super) fn read(key: &[u8], value: &[u8]) -> Result<ScheduledRow, ReadError> {
    ScheduledRow::decode(value).map_err(|_| damaged(key, WHAT))
}

const WHAT: &str = "not a scheduled message";

/// The encoded sender that the columns of an ID begin with.
fn sender_of(columns: &[u8]) -> Result<&[u8], Malformed> {
    Reader::new(columns).skip()
}

/// A scheduled message as it is stored: its timeline, its sender, and what the sender sees.
pub(in super::super) fn listed(
    row: &(Bytes, Bytes),
) -> Result<(String, String, Scheduled), ReadError> {
    read_row(row, WHAT, |columns, value| {
        let mut reader = Reader::new(columns);
        let timeline = reader.string()?.into_owned();
        let (sender, message_id) = sender_and_id(reader.rest())?;
        let row = ScheduledRow::decode(value)?;
        let scheduled = Scheduled {
            message_id,
            deliver_at: row.deliver_at,
            expires_in_ms: row.expires_in_ms,
            entry: row.entry,
            refused: row.refused,
        };
        Ok((timeline, sender, scheduled))
    })
}

/// Sender and message ID out of their columns.
pub(in super::super) fn sender_and_id(columns: &[u8]) -> Result<(String, String), Malformed> {
    let mut reader = Reader::new(columns);
    let sender = reader.string()?.into_owned();
    let id = match reader.column()? {
        Column::String(id) => id.into_owned(),
        Column::Binary(uuid) => id_text(ValueRef::Binary(&uuid))
            .ok_or(Malformed)?
            .into_owned(),
        _ => return Err(Malformed),
    };
    Ok((sender, id))
}
