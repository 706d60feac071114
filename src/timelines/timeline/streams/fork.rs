//! Forks: a stream that begins with what another one holds.
//!
//! Owns: the rows that name a source's forks, and how a fork begins. Promises: a fork has the source's messages with
//! the same sequences, and is its own from then on; while a fork lives, the name of a source that is gone is held, so
//! that no other stream takes it. Must not: read the source's messages; the caller copies them.
//!
//! The rows lie at the source and say only where to look: whether a fork lives is asked of the fork. One that leads to
//! nothing does no harm; a look that finds it deletes it.

use std::collections::HashSet;

use tideline_base::ordered::Reader;
use tideline_table::{Purpose, ReadError, RowWriter, Source, damaged, delete, put, scan_all};

use super::super::rows::head::HeadRow;
use super::super::rows::tables::Name;
use super::super::write::version;
use super::super::{Error, SMALL_BYTES, Target, Timelines};
use super::row::{Fork, StreamRow};

/// What a fork begins with beside its first messages.
#[derive(Clone, Debug, Default)]
pub struct Inherited {
    /// Where it comes from.
    pub fork: Fork,
    /// The sequence of its first message.
    pub first: u64,
    /// Those of its first messages that are deleted.
    pub deleted: Vec<u64>,
}

/// Forks of a name that are remembered.
pub const FORKS_MAX: usize = 100;
/// Names that are looked at for a fork that lives; beyond these, one is taken for living.
const LOOKS_MAX: usize = 300;

impl Timelines {
    /// Notes at the source that there may be a fork of it. Where there are too many, those that live no more go first.
    pub async fn note_fork(&self, source: Target, fork: String) -> Result<(), Error> {
        match self.write_fork(source.clone(), fork.clone()).await {
            Err(Error::TooMany { .. }) => {}
            noted => return noted,
        }
        let mut dead = Vec::new();
        for fork in self.forks_of(&source.timeline).await? {
            let lives = match self.source_of(fork.clone()).await? {
                Some(of) => of == source.timeline,
                None => self.has_forks(fork.clone()).await?,
            };
            if !lives {
                dead.push(fork);
            }
        }
        self.forget_forks(&source.timeline, dead).await?;
        self.write_fork(source, fork).await
    }

    async fn write_fork(&self, source: Target, fork: String) -> Result<(), Error> {
        let partition = self.place(&source.timeline);
        let noting = self.submit(Purpose::Adds, partition, SMALL_BYTES, move |txn, site| {
            let (name, head, _) = site.enter(txn, &source)?;
            StreamRow::living(txn, &name, &head, txn.now_ms())?;
            let others = forks_of(txn, &name)?;
            if others.len() >= FORKS_MAX && !others.contains(&fork) {
                return Err(Error::TooMany {
                    field: "stream-forked-from",
                    limit: FORKS_MAX as u64,
                    actual: others.len() as u64 + 1,
                });
            }
            let now = version(txn.now_ms());
            put(txn, name.fork_key(&fork), RowWriter::new(0), now);
            Ok(())
        });
        noting.await
    }

    /// Writes the note of a fork that was made, also if its source is not there any more.
    pub async fn keep_fork(&self, source: String, fork: String) -> Result<(), Error> {
        let (partition, name) = (self.place(&source), Name::new(&source));
        let keeping = self.submit(Purpose::Adds, partition, SMALL_BYTES, move |txn, _| {
            let now = version(txn.now_ms());
            put(txn, name.fork_key(&fork), RowWriter::new(0), now);
            Ok(())
        });
        keeping.await
    }

    async fn forget_forks(&self, source: &str, forks: Vec<String>) -> Result<(), Error> {
        if forks.is_empty() {
            return Ok(());
        }
        let (partition, name) = (self.place(source), Name::new(source));
        let bytes = SMALL_BYTES * forks.len();
        let forget = self.submit(Purpose::MakesRoom, partition, bytes, move |txn, _| {
            for fork in &forks {
                delete(txn, name.fork_key(fork));
            }
            Ok(())
        });
        forget.await
    }

    /// Whether there is no stream of this name, but a fork of it lives, or a fork of one that is gone itself. Forgets
    /// those of the name if none does; while the stream lives they stay, as one may just be made.
    pub async fn has_forks(&self, source: String) -> Result<bool, Error> {
        if self.source_of(source.clone()).await?.is_some() {
            return Ok(false);
        }
        let first = self.forks_of(&source).await?;
        let mut seen = HashSet::from([source.clone()]);
        let mut open = vec![(source.clone(), first.clone())];
        while let Some((source, forks)) = open.pop() {
            for fork in forks {
                if seen.len() > LOOKS_MAX {
                    return Ok(true);
                }
                match self.source_of(fork.clone()).await? {
                    Some(of) if of == source => return Ok(true),
                    None if seen.insert(fork.clone()) => {
                        let forks = self.forks_of(&fork).await?;
                        open.push((fork, forks));
                    }
                    Some(_) | None => {}
                }
            }
        }
        self.forget_forks(&source, first).await?;
        Ok(false)
    }

    async fn forks_of(&self, source: &str) -> Result<Vec<String>, Error> {
        let name = Name::new(source);
        let read = self.read(self.place(source), move |view| Ok(forks_of(view, &name)?));
        read.await
    }

    /// Of what a stream that lives is a fork; empty = of none. `None` = it does not live.
    async fn source_of(&self, timeline: String) -> Result<Option<String>, Error> {
        let partition = self.place(&timeline);
        let site = self.site(partition);
        let read = self.read(partition, move |view| {
            let name = Name::new(&timeline);
            let Some(head) = HeadRow::existing(view, &name)? else {
                return Ok(None);
            };
            let stream = StreamRow::load(view, &name, &head)?;
            let lives = !stream.is_over(site.time.now_ms());
            Ok(lives.then_some(stream.fork.source))
        });
        read.await
    }
}

/// The forks that the rows of a name lead to.
fn forks_of(rows: &impl Source, name: &Name) -> Result<Vec<String>, ReadError> {
    let of = name.forks();
    let fork = |row: Result<(bytes::Bytes, _), ReadError>| {
        let (key, _) = row?;
        let columns = key.get(of.as_bytes().len()..).unwrap_or_default();
        let fork = Reader::new(columns).string();
        let fork = fork.map_err(|_| damaged(&key, "not the row of a fork"))?;
        Ok(fork.into_owned())
    };
    scan_all(rows, &of).take(FORKS_MAX).map(fork).collect()
}
