//! Making a backup.
//!
//! Owns: the order of its steps, and what is held meanwhile: the partitions stay the same, their logs keep everything.
//! Promises: each partition is as of one position, to which its log reaches in the backup, and what was answered before
//! the last image was copied is in it. What is the same in the backup before is not copied again. Must not: wait for a
//! writer, or let one wait.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::mem;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use super::super::cluster;
use super::super::commit::flush_lag::FlushLag;
use super::super::directory::inspection::Inspection;
use super::super::directory::partition_folder;
use super::super::follow::hold::Holder;
use super::super::follow::hold_all::AllHeld;
use super::super::shared::Shared;
use super::super::{OpenError, Partitions};
use super::manifest::{BackupManifest, BackupPartition, ListedFile};
use super::place::{Place, check_room};
use super::progress::{Progress, Stage};
use super::reuse::{Before, frame_at, log_folder};
use super::secrets::{self, Passphrase};
use super::{BACKUP_DATA, BackupError};
use crate::log::{self, LocalStorage, LogCopy, LogReader, segment_name};
use tideline_base::ids::{PartitionId, Position};

/// A copy of an image is begun so often. It is begun anew when merges could not wait for it.
const TRIES: u32 = 5;
/// An image is copied again when more log than this has come since: a start has to replay it.
const REPLAY_BYTES_MAX: u64 = 1 << 30;

/// A backup that was made.
#[derive(Clone, Debug)]
pub struct Backup {
    /// Where it is.
    pub path: PathBuf,
    /// What it is.
    pub manifest: BackupManifest,
    /// Bytes of its files that no backup before it has.
    pub new_bytes: u64,
}

/// An image in a backup.
struct Copied {
    covered: Position,
    /// When the last batch that it covers was committed, if that is known.
    from_ms: Option<u64>,
}

/// A backup under way.
struct Taking<'t> {
    partitions: &'t Partitions,
    before: Option<Before>,
    /// Its folder.
    to: PathBuf,
    progress: &'t Progress,
    /// Files that it shares with the backup before, by their paths.
    shared: BTreeMap<String, ListedFile>,
    /// Partitions whose images were copied.
    copied: Vec<PartitionId>,
}

impl Partitions {
    /// Makes a backup in a folder, which is made if it is not there. `server` is the program's version; with a
    /// passphrase it holds the secrets of the data directory. With `is_full` it shares no file with those before. A
    /// split or merge that is under way is waited for; none can begin meanwhile. Blocks.
    pub fn back_up(
        &self,
        to: &Path,
        server: (&str, Option<&Passphrase>),
        is_full: bool,
        progress: &Progress,
    ) -> Result<Backup, BackupError> {
        let data = self.directory().path().to_owned();
        let place = Place::open(to, &self.history().to_string(), &data)?;
        let done = self.make_backup(&place, server, is_full, (&[], progress));
        // Whatever failed because of it.
        match progress.is_cancelled() && done.is_err() {
            true => Err(BackupError::Cancelled),
            false => done,
        }
    }

    /// The same in an opened place. `plain`: files of the data directory that it has as they are.
    pub(super) fn make_backup(
        &self,
        place: &Place,
        (server, passphrase): (&str, Option<&Passphrase>),
        is_full: bool,
        (plain, progress): (&[&str], &Progress),
    ) -> Result<Backup, BackupError> {
        let (history, data) = (
            self.history().to_string(),
            self.directory().path().to_owned(),
        );
        let _staying = loop {
            match self.stay() {
                Some(staying) => break staying,
                None => progress.pause().map_err(|_| BackupError::Cancelled)?,
            }
        };
        let set = self.inner.set.load_full();
        let held = AllHeld::by(Holder::Backup, set.live().cloned().collect());
        progress.enter(Stage::Copying);
        let began_ms = self.inner.clock.now_ms();
        let before = (!is_full).then(|| place.newest()).transpose()?.flatten();
        let partial = place.begin(began_ms)?;
        let mut taking = Taking {
            partitions: self,
            before,
            to: partial.path().to_owned(),
            progress,
            shared: BTreeMap::new(),
            copied: Vec::new(),
        };
        let bytes = held.partitions().map(bytes_of).sum();
        progress.expect(bytes);
        if taking.before.is_none() {
            place.check_room(bytes)?;
        }
        let mut images = Vec::new();
        for id in set.map.ids() {
            let partition = set.at(id).ok_or_else(|| gone(id))?;
            images.push((id, partition, taking.image(id, partition)?));
            // Behind what the image covers, and not behind what the log will reach.
            cluster::copy_place(
                &partition_folder(&data, id),
                &partition_folder(&partial.data(), id),
            )?;
        }
        // All at once, and only now: what was answered meanwhile is in the backup, too, and what one partition's
        // changes have led to in another is there with these changes, but for what passes in this moment.
        let as_of_ms = self.inner.clock.now_ms();
        let ends: Vec<Position> = images.iter().map(|(_, one, _)| one.tail()).collect();
        let mut partitions = Vec::new();
        for ((id, partition, image), end) in images.into_iter().zip(ends) {
            partitions.push(taking.partition(id, partition, image, end)?);
        }
        for share in set.map.shares().filter(|share| share.keeps_log) {
            let ended = set.ended.get(&share.id).ok_or_else(|| gone(share.id))?;
            taking.log(share.id, &ended.log, ended.last, None)?;
        }
        drop(held);
        self.directory().write_manifest(&partial.data())?;
        for name in plain {
            let copied = fs::copy(data.join(name), partial.data().join(name));
            copied.map_err(|error| BackupError::io("copy", &data.join(name), error))?;
        }
        if let Some(passphrase) = passphrase {
            secrets::seal(&data, &partial.data(), passphrase)?;
        }
        progress.enter(Stage::Verifying);
        let shared = mem::take(&mut taking.shared);
        let shared_bytes: u64 = shared.values().map(|file| file.bytes).sum();
        // Both read all of it, and either is held up by the processor rather than by the disk.
        let (opened, manifest) = thread::scope(|both| {
            let opening = both.spawn(|| taking.open_once());
            let manifest = BackupManifest::write_manifest(
                partial.path(),
                (server, history),
                (began_ms, as_of_ms),
                partitions,
                (shared, progress),
            );
            (opening.join(), manifest)
        });
        opened.unwrap_or_else(|panic| resume_unwind(panic))?;
        let manifest = manifest?;
        Ok(Backup {
            path: partial.done()?,
            new_bytes: manifest.bytes() - shared_bytes,
            manifest,
        })
    }
}

impl Taking<'_> {
    /// The log up to a position, beside an image.
    fn partition(
        &mut self,
        id: PartitionId,
        partition: &Shared,
        image: Copied,
        end: Position,
    ) -> Result<BackupPartition, BackupError> {
        let log = &partition.log;
        let shared = image.from_ms.map(|_| image.covered);
        let first = self.log(id, log, end, shared)?;
        if first.0 > image.covered.0 + 1 {
            return Err(BackupError::refused(format!(
                "the log of partition {id} was trimmed just before the backup held it; try again"
            )));
        }
        let last = frame_at(log, end)?;
        Ok(BackupPartition {
            partition: id.0,
            covered: image.covered.0,
            position: end.0,
            from_ms: match image.from_ms {
                Some(from_ms) => from_ms,
                None => {
                    let covered = image.covered.max(first);
                    let frame = if covered > end {
                        None
                    } else {
                        frame_at(log, covered)?
                    };
                    frame.map_or(0, |frame| frame.commit_ms)
                }
            },
            to_ms: last.as_ref().map_or(0, |frame| frame.commit_ms),
            last_crc: last.as_ref().map_or(0, |frame| frame.crc()),
        })
    }

    /// So many bytes were copied. The log keeps everything meanwhile: where that takes the room that writes need, the
    /// backup gives way.
    fn pass(&self, bytes: u64) -> io::Result<()> {
        let set = self.partitions.inner.set.load();
        if set.live().any(|one| one.flush_lag.get() == FlushLag::Full) {
            return Err(io::Error::other(
                "the disk of the data directory is full, so the backup gives way",
            ));
        }
        self.progress.pass_copied(bytes)
    }

    /// An image, shared or copied.
    fn image(&mut self, id: PartitionId, partition: &Shared) -> Result<Copied, BackupError> {
        match self.shared_image(id, &partition.log) {
            Some(shared) => Ok(shared),
            None => self.copied_image(id, partition),
        }
    }

    /// Takes the image of the backup before, if the log goes on from there and is not too long.
    fn shared_image(&mut self, id: PartitionId, log: &LogReader) -> Option<Copied> {
        let before = self.before.as_ref()?;
        let partition = before.partition(id)?;
        let pieces = before.segments(id, log, Position(partition.covered));
        let first = pieces.first().map_or(Position::ZERO, |(first, _)| *first);
        let behind = pieces
            .iter()
            .filter(|(first, _)| first.0 > partition.covered);
        let bytes: u64 = behind.map(|(_, bytes)| bytes).sum();
        if first.0 > partition.covered + 1 || bytes > REPLAY_BYTES_MAX || !self.goes_on(id, log) {
            return None;
        }
        let path = partition_folder(Path::new(BACKUP_DATA), id).join("image/data.mdb");
        let (text, file) = before.link(&path, &self.to)?;
        self.shared.insert(text, file);
        Some(Copied {
            covered: Position(partition.covered),
            from_ms: Some(partition.from_ms),
        })
    }

    fn copied_image(&mut self, id: PartitionId, partition: &Shared) -> Result<Copied, BackupError> {
        let folder = partition_folder(&self.to.join(BACKUP_DATA), id).join("image");
        check_room(&self.to, partition.image().pressure().bytes_used)?;
        let goes_on = || !self.progress.is_cancelled();
        for _ in 0..TRIES {
            let copied = partition
                .image()
                .copy(
                    &folder,
                    (self.progress.slice_bytes(), &goes_on),
                    &mut |bytes| self.pass(bytes),
                )
                .map_err(|error| OpenError::from(error).within(&folder))?;
            let passing: &[&str] = match copied {
                Some(_) => &["lock.mdb", "image.lock"],
                None => &["lock.mdb", "image.lock", "data.mdb"],
            };
            for name in passing {
                let path = folder.join(name);
                fs::remove_file(&path).map_err(|error| BackupError::io("remove", &path, error))?;
            }
            if let Some(covered) = copied {
                self.copied.push(id);
                return Ok(Copied {
                    covered,
                    from_ms: None,
                });
            }
        }
        Err(BackupError::refused(format!(
            "so much is written to partition {id} that its merges can't wait for a copy; try again when less is written, \
             or with a higher rate"
        )))
    }

    /// Copies all of a log that is kept up to a position, and behind an image of the backup before what that has of it;
    /// gives the first position.
    fn log(
        &mut self,
        id: PartitionId,
        log: &LogReader,
        upto: Position,
        covered: Option<Position>,
    ) -> Result<Position, BackupError> {
        let to = self.to.join(log_folder(id));
        let from = self.partitions.directory().log(id);
        let opened = LocalStorage::read_only(&from).and_then(|from| {
            fs::create_dir_all(&to)?;
            Ok((from, LocalStorage::new(&to)?))
        });
        let (from, storage) = opened.map_err(|error| BackupError::io("open", &to, error))?;
        let failed = |error| OpenError::from(error).within(&to);
        let log_id = log::identity(&from)?;
        let segments = match (&self.before, covered) {
            (Some(before), Some(covered)) => before.segments(id, log, covered),
            _ => log.pieces(),
        };
        let mut firsts: Vec<Position> = segments.into_iter().map(|(first, _)| first).collect();
        let begins = firsts.first().copied().unwrap_or_default();
        firsts.drain(..self.shared_segments((id, log), &firsts));
        let first = firsts.first().copied().unwrap_or_default();
        if log.pieces().first().is_some_and(|kept| first < kept.0) {
            return Err(BackupError::refused(format!(
                "a segment that the backup before had of the log of partition {id} is not as it was; make one with --full"
            )));
        }
        let mut copy = LogCopy::new(&storage, firsts);
        for frame in log.kept(first, upto)? {
            let frame = frame?;
            copy.put(&frame).map_err(failed)?;
            let passed = self.pass(frame.bytes() as u64);
            passed.map_err(|error| BackupError::io("copy to", &to, error))?;
        }
        let position = copy.finish(log_id).map_err(failed)?;
        match position == upto {
            true => Ok(begins),
            false => Err(BackupError::Open(OpenError::Damaged {
                text: format!("the log of partition {id} ends with {position}, not with {upto}"),
            })),
        }
    }

    /// Takes segments of the backup before that had ended there; how many.
    fn shared_segments(
        &mut self,
        (id, log): (PartitionId, &LogReader),
        firsts: &[Position],
    ) -> usize {
        let Some(before) = self.before.as_ref().filter(|_| self.goes_on(id, log)) else {
            return 0;
        };
        let folder = log_folder(id);
        let path = |first: &Position| folder.join(segment_name(*first));
        let mut taken = 0;
        for two in firsts.windows(2) {
            // The next one is there, so this one is whole.
            let linked = match before.has(&path(&two[1])) {
                true => before.link(&path(&two[0]), &self.to),
                false => None,
            };
            let Some((text, file)) = linked else { break };
            self.shared.insert(text, file);
            taken += 1;
        }
        taken
    }

    /// Whether a log goes on from what the backup before has of it.
    fn goes_on(&self, id: PartitionId, log: &LogReader) -> bool {
        let before = self.before.as_ref();
        before.is_some_and(|before| before.leads_to(id, log, &self.partitions.directory().log(id)))
    }

    /// Opens what was copied as a start would. What an image has was read when it was copied, here or for a backup
    /// before.
    fn open_once(&self) -> Result<(), BackupError> {
        let rules = Arc::clone(&self.partitions.inner.rules);
        let inspection = Inspection::open(&self.to.join(BACKUP_DATA), rules)?;
        for id in &self.copied {
            inspection.check(*id, &|| self.progress.goes_on())?;
        }
        Ok(())
    }
}

/// What a copy of a partition takes, about.
fn bytes_of(partition: &Shared) -> u64 {
    let log: u64 = partition.log.pieces().iter().map(|(_, bytes)| bytes).sum();
    partition.image().pressure().bytes_used + log
}

fn gone(id: PartitionId) -> BackupError {
    BackupError::Open(OpenError::Refused {
        text: format!("partition {id} is not served"),
    })
}
