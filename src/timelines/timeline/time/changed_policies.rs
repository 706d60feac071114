//! Policies that were changed in the configuration, and the timelines that nobody writes to.
//!
//! Owns: the row that says by which policies the timelines of a partition are kept, and the walk over them when these
//! have changed. Promises: after a start with other policies each timeline is held to its own soon, a few at a time; a
//! walk that is cut off begins again at the next start; with the same policies there is one look-up. Must not: decide
//! what is kept; `retention.rs` does.
//!
//! ```text
//! 25 policies  (1)    $digest: of the retention in all policies; no row = there was none
//! ```

use tideline_base::ids::PartitionId;
use tideline_model::Direction;
use tideline_table::{
    Key, Purpose, ReadError, RowWriter, Txn, View, damaged, load, number_in, put, scan, split_key,
};

use super::super::members::Policies;
use super::super::rows::head::HeadRow;
use super::super::rows::tables::{HEADS, Name, POLICIES};
use super::super::write::{Site, put_head, version};
use super::super::{Error, Timelines};

const DIGEST: &str = "$digest";

/// How far a partition's timelines are held to the policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Walk {
    /// Nobody has looked.
    Unknown,
    /// Up to this key.
    From(Key),
    Done,
}

impl Walk {
    /// Goes a step further.
    pub(super) async fn step(
        &mut self,
        timelines: &Timelines,
        partition: PartitionId,
    ) -> Result<(), Error> {
        let policies = timelines.inner.policies.clone();
        let digest = policies.retention_digest();
        let from = match self {
            Walk::Done => return Ok(()),
            Walk::From(key) => key.clone(),
            Walk::Unknown => {
                let held = timelines.read(partition, |view| Ok(held_to(view)?));
                if held.await? == digest {
                    *self = Walk::Done;
                    return Ok(());
                }
                Key::new(HEADS, &[], 1).below_all()
            }
        };
        let page = timelines.read(partition, move |view| Ok(page(view, &from, &policies)?));
        let (names, next) = page.await?;
        if !names.is_empty() {
            let bytes = names.len() * HOLD_BYTES;
            let hold = |name: &mut Name, txn: &mut Txn<'_>, site: &Site| Ok(site.hold(txn, name)?);
            let held = timelines.submit_each(Purpose::MakesRoom, partition, bytes, names, hold);
            held.await.into_iter().collect::<Result<(), Error>>()?;
        }
        *self = match next {
            Some(next) => Walk::From(next),
            None => {
                let store = move |txn: &mut Txn<'_>, _: &Site| {
                    store(txn, digest);
                    Ok(())
                };
                let stored = timelines.submit(Purpose::LetsGo, partition, HOLD_BYTES, store);
                stored.await?;
                Walk::Done
            }
        };
        Ok(())
    }
}

impl Site {
    /// Keeps a timeline within the retention that is in force now.
    fn hold(&self, txn: &mut Txn<'_>, name: &Name) -> Result<(), ReadError> {
        let found = HeadRow::load_to_write(txn, name)?;
        let Some(mut head) = found.filter(|head| !head.dropped) else {
            return Ok(());
        };
        let before = head;
        self.keep(txn, name, &mut head, (std::iter::empty(), true))?;
        if head != before {
            put_head(txn, name, &head);
        }
        Ok(())
    }
}

/// Names of some timelines that have a policy, and where the next page begins.
fn page(
    view: &View,
    from: &Key,
    policies: &Policies,
) -> Result<(Vec<Name>, Option<Key>), ReadError> {
    let mut names = Vec::new();
    let to = Key::new(HEADS, &[], 1).above_all();
    for (count, row) in scan(view, from, &to, Direction::Forward).enumerate() {
        let (key, _) = row?;
        let name = split_key(&key).map(|(_, columns)| Name::of(columns));
        let Some(Ok(name)) = name else {
            return Err(damaged(&key, "not a timeline's name"));
        };
        if count == HEADS_MAX || names.len() == NAMES_MAX {
            return Ok((names, Some(name.head_key())));
        }
        if policies.of_name(&name).is_some() {
            names.push(name);
        }
    }
    Ok((names, None))
}

fn key() -> Key {
    Key::new(POLICIES, &[], 2).number(1)
}

/// What a partition's timelines are held to.
fn held_to(view: &View) -> Result<u64, ReadError> {
    let digest = |row: &[u8]| number_in(row, DIGEST);
    Ok(load(view, &key(), "not a digest of policies", digest)?.unwrap_or(0))
}

fn store(txn: &mut Txn<'_>, digest: u64) {
    let now = version(txn.now_ms());
    put(txn, key(), RowWriter::of(DIGEST, digest.into()), now);
}

/// Timelines of a step; other writes come between two. Tests go through the cut with few.
const NAMES_MAX: usize = if cfg!(test) { 2 } else { 64 };
/// Heads that a step looks at.
const HEADS_MAX: usize = 4_096;
/// About what a timeline holds in the queue.
const HOLD_BYTES: usize = 512;
/// Between two steps, ms.
pub(super) const REST_MS: u64 = 10;
