//! A data directory seen from outside, while nobody serves it: for `tideline verify` and `tideline dump`.
//!
//! Owns: the checks that need log and image together. Promises: changes nothing on disk, so it may run on damaged data
//! and on a copy that can't be written to; takes the directory's lock, so no server writes meanwhile. Must not: know
//! what a row means.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use super::super::memory::memtable::Memtable;
use super::super::memory::view::View;
use super::super::{ImageOptions, Map, OpenError, Origin, ReadError, Rules, Share};
use super::Directory;
use super::identity;
use crate::image::{DropContext, Image, Problem, Verdict};
use crate::log;
use crate::log::{Frame, LocalStorage};
use tideline_base::clock::Clock;
use tideline_base::entry::{Entry, EntryKind, KeyedEntry};
use tideline_base::ids::{PartitionId, Position};

/// A data directory, opened for looking only.
pub struct Inspection {
    directory: Directory,
    rules: Arc<dyn Rules>,
    clock: Clock,
}

/// One partition, checked as far as bytes go.
pub struct Inspected {
    /// Which.
    pub partition: PartitionId,
    /// What the server would serve after its next start.
    pub view: View,
    /// Frames in the log.
    pub frames: u64,
    /// Bytes of these frames.
    pub log_bytes: u64,
    /// The last committed position.
    pub last: Position,
    /// What the image covers.
    pub covered: Position,
    /// Runs in the image; 0 if not asked to be thorough.
    pub runs: u64,
    /// Rows in the image, older versions of the same row counted again; 0 if not asked to be thorough.
    pub rows: u64,
    /// Keys of the log that were held against the image.
    pub compared: u64,
    /// Bytes of a batch that was being written when the process ended; the next start cuts them.
    pub torn_bytes: u64,
}

/// What there is of a partition's image.
#[derive(Default)]
pub(in super::super) struct ImageState {
    /// What is damaged, each as a line; none = it is whole.
    pub(in super::super) problems: Vec<String>,
    /// What it covers, if it can be opened.
    pub(in super::super) covered: Position,
    /// It was made by a repair with a loss that has not come to its end.
    pub(in super::super) is_of_next: bool,
}

/// The newest thing that the covered part of the log says about a key.
struct Last {
    position: Position,
    kind: EntryKind,
    value_hash: u64,
}

/// The partitions of a directory that nobody works on, from a look at its manifest; `None` = there is none yet.
pub fn directory_map(dir: &Path) -> Result<Option<Map>, OpenError> {
    match Directory::look(dir) {
        Ok(directory) => Ok(Some(directory.map().clone())),
        Err(OpenError::NothingThere { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Inspection {
    /// Opens a data directory that is there.
    pub fn open(dir: &Path, rules: Arc<dyn Rules>) -> Result<Inspection, OpenError> {
        let directory = Directory::look(dir)?;
        Ok(Inspection {
            directory,
            rules,
            clock: Clock::system(),
        })
    }

    /// The directory's history, and how many partitions it had when it was new.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.directory.origin()
    }

    /// Its partitions.
    #[must_use]
    pub fn map(&self) -> &Map {
        self.directory.map()
    }

    /// Gives each batch of a partition's log, as far back as it is kept, to `each`.
    pub fn log(
        &self,
        inspected: &Inspected,
        each: &mut dyn FnMut(&Frame),
    ) -> Result<(), OpenError> {
        let storage = self.log_of(inspected.partition)?;
        log::verify(&storage, inspected.covered, each)?;
        Ok(())
    }

    /// Reads the log of a partition that has ended; gives how many batches and bytes it has.
    pub fn ended_log(&self, share: &Share) -> Result<(u64, u64), OpenError> {
        let storage = self.log_of(share.id)?;
        let last = share.ends.unwrap_or_default();
        let report = log::verify(&storage, last, &mut |_| {})?;
        match report.last == last {
            true => Ok((report.frames, report.bytes)),
            false => Err(OpenError::DoesNotFit {
                text: format!("the log ends with {}, not with {last}", report.last),
            }),
        }
    }

    /// Opens the image of a partition, of which each part was read when it was copied, and reads its log; the first
    /// thing that is wrong is an error, and so is the first of `goes_on`, which is asked at each batch. Takes little
    /// memory, however large they are.
    pub(in super::super) fn check(
        &self,
        id: PartitionId,
        goes_on: &dyn Fn() -> io::Result<()>,
    ) -> Result<(), OpenError> {
        identity::presence(&self.directory, id)?;
        let (storage, image) = (self.log_of(id)?, self.image_of(id)?);
        identity::mark_fits(&self.directory, id, &image, log::identity(&storage)?)?;
        let mut wrong = None;
        image.verify_catalog(&mut |Problem { place, what }| {
            wrong.get_or_insert_with(|| format!("partition {id}, image, {place}: {what}"));
        });
        if let Some(text) = wrong {
            return Err(OpenError::Damaged { text });
        }
        log::verify_while(&storage, image.covered(), &mut |_| {
            goes_on().map_err(|error| log::Error::io("directory", error))
        })?;
        Ok(())
    }

    /// What is damaged of a partition's image, and what it covers; it may be missing, too.
    pub(in super::super) fn image_state(&self, id: PartitionId) -> Result<ImageState, OpenError> {
        let mut state = ImageState::default();
        let mut look = || {
            identity::presence(&self.directory, id)?;
            let (storage, image) = (self.log_of(id)?, self.image_of(id)?);
            let log = log::identity(&storage)?;
            state.is_of_next = identity::is_of_next(&self.directory, id, &image, log)?;
            let fits = identity::mark_fits(&self.directory, id, &image, log);
            if let (false, Err(error)) = (state.is_of_next, fits) {
                return Err(match image.mark() {
                    Ok(Some(_)) => foreign(&error),
                    _ => error,
                });
            }
            state.covered = image.covered();
            image.verify(&mut |Problem { place, what }| {
                let problem = format!("partition {id}, image, {place}: {what}");
                state.problems.push(problem);
            })?;
            Ok(())
        };
        match look() {
            Err(error @ (OpenError::Damaged { .. } | OpenError::DoesNotFit { .. })) => {
                state.problems.push(format!("partition {id}: {error}"));
            }
            looked => looked?,
        }
        Ok(state)
    }

    /// Refuses an image in a folder that does not say that it is this partition's.
    pub(in super::super) fn owns(&self, id: PartitionId, folder: &Path) -> Result<(), OpenError> {
        let (log, image) = (log::identity(&self.log_of(id)?)?, self.image_in(folder)?);
        if !identity::is_of_next(&self.directory, id, &image, log)? {
            let fits = identity::mark_fits(&self.directory, id, &image, log);
            fits.map_err(|error| foreign(&error))?;
        }
        Ok(())
    }

    fn image_of(&self, id: PartitionId) -> Result<Image, OpenError> {
        self.image_in(&self.directory.image(id))
    }

    fn image_in(&self, folder: &Path) -> Result<Image, OpenError> {
        let options = ImageOptions {
            read_only: true,
            ..ImageOptions::default()
        };
        Ok(Image::open(folder, options, Arc::clone(&self.rules))?)
    }

    fn log_of(&self, id: PartitionId) -> Result<LocalStorage, OpenError> {
        let folder = self.directory.log(id);
        LocalStorage::read_only(&folder).map_err(|error| OpenError::from_io("open", &folder, error))
    }

    /// What there is of partitions that the directory does not have, each as a line.
    pub fn surplus(&self) -> Result<Vec<String>, OpenError> {
        self.directory.surplus()
    }

    /// Reads a partition's log and gives what it and the image show together. With `is_thorough` every checksum of the
    /// image is tested, its catalog is held against its runs, and the log against the image; each problem found goes to
    /// `problem`. `Err` = so damaged that there is nothing to look at.
    pub fn partition(
        &self,
        id: PartitionId,
        is_thorough: bool,
        problem: &mut dyn FnMut(String),
    ) -> Result<Inspected, OpenError> {
        identity::presence(&self.directory, id)?;
        let (storage, image) = (self.log_of(id)?, self.image_of(id)?);
        match identity::mark_fits(&self.directory, id, &image, log::identity(&storage)?) {
            Err(error) if is_thorough => problem(format!("partition {id}: {error}")),
            fits => drop(fits?),
        }
        let covered = image.covered();
        let mut verified = None;
        if is_thorough {
            verified = Some(image.verify(&mut |Problem { place, what }| {
                problem(format!("partition {id}, image, {place}: {what}"));
            })?);
        }
        let memtable = Memtable::new(covered, self.clock.now_ms(), 0);
        let mut newest = HashMap::new();
        let report = log::verify(&storage, covered, &mut |frame| {
            if frame.position > covered {
                memtable.insert(frame, &*self.rules);
            } else if is_thorough {
                remember(frame, &mut newest);
            }
        })?;
        let last = report.last.max(covered);
        let view = View::new(
            last,
            Arc::new(vec![Arc::new(memtable)]),
            &image,
            Arc::clone(&self.rules),
        )
        .map_err(|error| OpenError::Damaged { text: error.0 })?;
        let suspects = differing(&image, &newest, &self.rules)?;
        if !suspects.is_empty() {
            // Only now are the values needed: most keys fit, and keeping all values would take the log's size in
            // memory.
            log::verify(&storage, covered, &mut |frame| {
                for text in self.judge(frame, &suspects, &image) {
                    problem(format!("partition {id}, log against image: {text}"));
                }
            })?;
        }
        Ok(Inspected {
            partition: id,
            view,
            frames: report.frames,
            log_bytes: report.bytes,
            last,
            covered,
            runs: verified.as_ref().map_or(0, |image| image.runs),
            rows: verified.as_ref().map_or(0, |image| image.rows),
            compared: newest.len() as u64,
            torn_bytes: report.torn.map_or(0, |cut| cut.bytes),
        })
    }

    /// Of a frame's entries, those of which the image should have something else than it has, once the rules have taken
    /// what has expired out of both.
    fn judge(
        &self,
        frame: &Frame,
        suspects: &HashMap<Bytes, Position>,
        image: &Image,
    ) -> Vec<String> {
        let here = |written: &KeyedEntry<'_>| suspects.get(written.key) == Some(&frame.position);
        let mut found = Vec::new();
        for written in frame.entries().filter(here) {
            let Ok(view) = covered_view(image, &self.rules) else {
                return found;
            };
            let read = |key: &[u8]| view.get(key).ok().flatten();
            let context = DropContext {
                now_ms: self.clock.now_ms(),
                oldest: true,
                read: &read,
            };
            let left = |entry: Entry| match self.rules.verdict(written.key, &entry, &context) {
                _ if entry.kind != EntryKind::Put => None,
                Verdict::Keep => Some(entry.value),
                Verdict::Replace(less, _) => Some(less.value),
                Verdict::Drop(_) => None,
            };
            let stored = read(written.key);
            let is_gone = stored.is_none();
            if left(written.to_entry()) != stored.and_then(|value| left(Entry::put(value))) {
                let (batch, key) = (frame.position, written.key.escape_ascii());
                let what = if is_gone {
                    "lacks it"
                } else {
                    "has another value"
                };
                found.push(format!(
                    "batch {batch} wrote key {key}, and the image {what}"
                ));
            }
        }
        found
    }
}

/// Keys whose newest entry in the covered part of the log is not what the image shows, with that entry's position.
fn differing(
    image: &Image,
    newest: &HashMap<Bytes, Last>,
    rules: &Arc<dyn Rules>,
) -> Result<HashMap<Bytes, Position>, OpenError> {
    let damaged = |error: ReadError| OpenError::Damaged { text: error.0 };
    let view = covered_view(image, rules).map_err(damaged)?;
    let mut suspects = HashMap::new();
    for (key, last) in newest {
        let stored = view.get(key).map_err(damaged)?;
        let fits = match last.kind {
            EntryKind::Put => stored.is_some_and(|value| xxh3_64(&value) == last.value_hash),
            EntryKind::Tombstone => stored.is_none(),
            // A delta alone does not tell the row.
            EntryKind::Delta => true,
        };
        if !fits {
            suspects.insert(key.clone(), last.position);
        }
    }
    Ok(suspects)
}

fn foreign(error: &OpenError) -> OpenError {
    OpenError::Refused {
        text: format!(
            "{error}; a repair takes no image of another place: put it back where it belongs, with its log: nothing \
             was changed"
        ),
    }
}

/// What the image alone shows.
fn covered_view(image: &Image, rules: &Arc<dyn Rules>) -> Result<View, ReadError> {
    View::new(
        image.covered(),
        Arc::new(Vec::new()),
        image,
        Arc::clone(rules),
    )
}

fn remember(frame: &Frame, newest: &mut HashMap<Bytes, Last>) {
    for entry in frame.entries() {
        let last = Last {
            position: frame.position,
            kind: entry.kind,
            value_hash: xxh3_64(entry.value),
        };
        match newest.get_mut(entry.key) {
            Some(known) => *known = last,
            // A copy: a slice would keep its whole frame in memory.
            None => {
                newest.insert(Bytes::copy_from_slice(entry.key), last);
            }
        }
    }
}
