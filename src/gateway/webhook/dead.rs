//! Dead letters: changes that a webhook's receiver did not take in time.
//!
//! Owns: their rows, in the partition of the webhook's name. Promises: each names the place before its changes and the
//! one behind, so that they can be read from the log again as long as it has them. Must not: hold a change.
//!
//! ```text
//! 50 dead letters  (webhook, number)   $changes (how many), $error, $from, $replay, $to   version = when
//! ```

use tideline_base::ordered::Reader;
use tideline_model::ValueRef;
pub use tideline_model::server::DeadLetter;
use tideline_table::{
    DEAD_LETTERS, FollowError, Key, Malformed, Partitions, Purpose, ReadError, Row, RowWriter,
    SubmitError, Txn, View, delete, load, put, read_row, scan_all,
};

const CHANGES: &str = "$changes";
const ERROR: &str = "$error";
const FROM: &str = "$from";
const REPLAY: &str = "$replay";
const TO: &str = "$to";
const WHAT: &str = "not a dead letter";

/// The dead letters of one webhook.
#[derive(Clone)]
pub(super) struct DeadLetters {
    pub(super) partitions: Partitions,
    pub(super) webhook: String,
}

impl DeadLetters {
    /// All, or those to be replayed, from a number on.
    pub(super) async fn list(
        &self,
        above: u64,
        replayed_only: bool,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, FollowError> {
        let all = self.all();
        let read = move |view: &View| {
            let mut found = Vec::new();
            for row in scan_all(view, &all) {
                let letter = read_row(&row?, WHAT, decode)?;
                if letter.number > above && (letter.replaying || !replayed_only) {
                    found.push(letter);
                }
                if found.len() == limit {
                    break;
                }
            }
            Ok(found)
        };
        Ok(self.partitions.read(self.place(), read).await?)
    }

    /// How many there are.
    pub(super) async fn count(&self) -> Result<u64, FollowError> {
        let all = self.all();
        let count = move |view: &View| {
            let mut rows = scan_all(view, &all);
            rows.try_fold(0, |count, row| row.map(|_| count + 1))
        };
        Ok(self.partitions.read(self.place(), count).await?)
    }

    /// Adds one under the next number, so that the webhook goes on and the log may go.
    pub(super) async fn add(&self, letter: DeadLetter) -> Result<(), FollowError> {
        let all = self.all();
        self.submit(Purpose::LetsGo, move |txn| {
            let mut last = 0;
            for row in scan_all(txn, &all) {
                last = read_row(&row?, WHAT, decode)?.number;
            }
            store(txn, all.numbered(last + 1), &letter);
            Ok(())
        })
        .await
    }

    /// Changes one, or takes it away with `None`; whether there was one.
    pub(super) async fn change(
        &self,
        number: u64,
        change: impl FnOnce(DeadLetter) -> Option<DeadLetter> + Send + 'static,
    ) -> Result<bool, FollowError> {
        let key = self.all().number(number);
        self.submit(Purpose::MakesRoom, move |txn| {
            let Some(letter) = load(txn, &key, WHAT, |value| of_row(number, value))? else {
                return Ok(false);
            };
            match change(letter) {
                Some(letter) => store(txn, key, &letter),
                None => {
                    delete(txn, key);
                }
            }
            Ok(true)
        })
        .await
    }

    async fn submit<R: Send + 'static>(
        &self,
        purpose: Purpose,
        write: impl FnOnce(&mut Txn<'_>) -> Result<R, ReadError> + Send + 'static,
    ) -> Result<R, FollowError> {
        let write = move |txn: &mut Txn<'_>| write(txn).map_err(FollowError::from);
        let done = self
            .partitions
            .submit(purpose, self.place(), ROW_BYTES, write);
        done.await
            .map_err(|error: SubmitError<FollowError>| error.into())
    }

    fn all(&self) -> Key {
        Key::new(DEAD_LETTERS, &[], self.webhook.len() + 16).string(&self.webhook)
    }

    fn place(&self) -> tideline_base::ids::PartitionId {
        self.partitions.place(self.webhook.as_bytes())
    }
}

/// About what a call holds in the queue.
const ROW_BYTES: usize = 2_048;

fn store(txn: &mut Txn<'_>, key: Key, letter: &DeadLetter) {
    let mut row = RowWriter::new(ROW_BYTES);
    row.put(CHANGES, ValueRef::Integer(letter.changes.cast_signed()));
    row.put(ERROR, ValueRef::String(&letter.error));
    row.put(FROM, ValueRef::String(&letter.from));
    row.put(REPLAY, ValueRef::Boolean(letter.replaying));
    row.put(TO, ValueRef::String(&letter.to));
    put(txn, key, row, letter.failed_at.cast_signed());
}

pub(in super::super) fn decode(columns: &[u8], value: &[u8]) -> Result<DeadLetter, Malformed> {
    let mut reader = Reader::new(columns);
    reader.skip()?;
    of_row(reader.u64()?, value)
}

fn of_row(number: u64, value: &[u8]) -> Result<DeadLetter, Malformed> {
    let row = Row::parse(value)?;
    let mut letter = DeadLetter {
        number,
        failed_at: row.base().cast_unsigned(),
        ..DeadLetter::default()
    };
    for cell in row.columns() {
        let cell = cell?;
        match (cell.name, cell.value) {
            (CHANGES, ValueRef::Integer(count)) => letter.changes = count.cast_unsigned(),
            (ERROR, ValueRef::String(text)) => text.clone_into(&mut letter.error),
            (FROM, ValueRef::String(text)) => text.clone_into(&mut letter.from),
            (TO, ValueRef::String(text)) => text.clone_into(&mut letter.to),
            (REPLAY, ValueRef::Boolean(replay)) => letter.replaying = replay,
            _ => return Err(Malformed),
        }
    }
    Ok(letter)
}
