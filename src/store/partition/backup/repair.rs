//! Damaged images made anew, of a data directory that nobody serves: where that can be without a loss, and else of what
//! can still be read, if the caller takes the loss.
//!
//! Owns: which partitions need it, what each is made of, and the order of its steps. Promises: nothing is changed
//! before it is known that all can be made; without a loss the new image and the log together are what was committed,
//! so the history stays, and with one it is another history; the old image is kept beside the new one; whenever it
//! ends, the same call made again comes to the end. Must not: guess. What neither log nor backup has is a reason to
//! change nothing, or is named as lost.
//!
//! An image is what the log did up to a position. So an empty one will do where the log reaches back to the first
//! batch, and that of a backup where the log goes on from there: the ordinary start does the rest.

use std::fmt;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::directory::inspection::{ImageState, Inspection};
use super::super::directory::manifest::sync;
use super::super::directory::renewal::renew;
use super::super::directory::served::is_copy;
use super::super::directory::{Directory, identity, partition_folder};
use super::super::memory::flusher::flush;
use super::super::memory::memtable::Memtable;
use super::super::{ImageOptions, OpenError, Options, Rules, View};
use super::BackupError;
use super::manifest::BackupPartition;
use super::place::{check_room, folder};
use super::salvage::{self, Loss};
use super::span::{Span, of_backup, open_backup};
use crate::image::Image;
use crate::log::{self, LocalStorage};
use tideline_base::faults;
use tideline_base::ids::{HistoryId, PartitionId, Position};

/// What is going to be done.
pub struct Repair {
    directory: Directory,
    steps: Vec<RepairStep>,
    /// A repair with a loss has made images already, and not come to its end.
    goes_on: bool,
    rules: Arc<dyn Rules>,
}

/// A partition whose image is damaged.
pub struct RepairStep {
    partition: PartitionId,
    problems: Vec<String>,
    log: HistoryId,
    remedy: Remedy,
}

enum Remedy {
    /// An empty image.
    Log,
    /// The image of a backup, and those batches of the backup's log that the directory's log lacks.
    Backup { data: PathBuf, of: BackupPartition },
    /// What can be read of the damaged image; the log has what follows, and from this batch on what went before.
    Salvage {
        loss: Loss,
        log_first: Position,
        /// Why the backup that was named does not help.
        refused: Option<String>,
    },
}

/// What a repair may be made of beside the log.
#[derive(Clone, Copy, Debug)]
pub struct RepairFrom<'r> {
    /// The folder of a backup.
    pub backup: Option<&'r Path>,
    /// Where nothing else helps: what can be read of the damaged image.
    pub accepts_loss: bool,
}

impl Repair {
    /// Finds out what is damaged and what it can be made of. Reads all, and writes nothing. Refuses a damaged log, and
    /// an image that can't be made without a loss that is not taken. Blocks.
    pub fn plan(
        data: &Path,
        from: RepairFrom<'_>,
        rules: &Arc<dyn Rules>,
    ) -> Result<Repair, BackupError> {
        if is_copy(data)? {
            let path = data.to_owned();
            return Err(OpenError::Copy { path }.into());
        }
        let inspection = Inspection::open(data, Arc::clone(rules))?;
        let backup = from.backup.map(|from| open_backup(from, &inspection));
        let backup = backup.transpose()?;
        let (mut steps, mut goes_on) = (Vec::new(), false);
        for id in inspection.map().ids() {
            let of = backup.as_ref().and_then(|(_, manifest)| {
                let mut partitions = manifest.partitions.iter();
                partitions.find(|one| one.partition == id.0).copied()
            });
            let at = of.map(|of| Position(of.position));
            let span = Span::read(&partition_folder(data, id).join("log"), at);
            let span = span.map_err(|error| log_is_damaged(id, &error))?;
            let ImageState {
                problems,
                covered,
                is_of_next,
            } = inspection.image_state(id)?;
            goes_on |= is_of_next;
            if problems.is_empty() {
                if covered > span.last || covered.0 + 1 < span.first.0 {
                    return Err(log_is_damaged(id, &missing(covered, &span)));
                }
                continue;
            }
            let is_in_log = id.0 < inspection.origin().roots && span.first == Position(1);
            let given = backup.as_ref().filter(|_| !is_in_log);
            let given = given.map(|(data, _)| of_backup(data, of, (id, &span)));
            let remedy = match given.transpose()? {
                _ if is_in_log => Remedy::Log,
                Some(Ok((data, of))) => Remedy::Backup { data, of },
                refused if from.accepts_loss => Remedy::Salvage {
                    loss: salvage::look(data, (id, span.first), &inspection, rules)?,
                    log_first: span.first,
                    refused: refused.and_then(Result::err),
                },
                Some(Err(why)) => return Err(not_of_backup(id, &why)),
                None => return Err(not_without_loss(id, &problems, &span)),
            };
            steps.push(RepairStep {
                partition: id,
                problems,
                log: span.id,
                remedy,
            });
        }
        drop(inspection);
        let repair = Repair {
            directory: Directory::take(data)?,
            steps,
            goes_on,
            rules: Arc::clone(rules),
        };
        repair.check()?;
        Ok(repair)
    }

    /// The partitions whose images are damaged.
    #[must_use]
    pub fn steps(&self) -> &[RepairStep] {
        &self.steps
    }

    /// Whether a repair with a loss was interrupted and is going to be brought to its end: the new history is missing.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// What is lost.
    pub fn losses(&self) -> impl Iterator<Item = &Loss> {
        self.steps.iter().filter_map(|step| match &step.remedy {
            Remedy::Salvage { loss, .. } => Some(loss),
            _ => None,
        })
    }

    /// Gives key and value of each row that is not lost of a partition with a loss, in order, to `each`. Blocks.
    pub fn rows_left(
        &self,
        of: PartitionId,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), BackupError> {
        for step in self.steps.iter().filter(|step| step.partition == of) {
            if let Remedy::Salvage { log_first, .. } = &step.remedy {
                salvage::rows(self.directory.path(), (of, *log_first), &self.rules, each)?;
            }
        }
        Ok(())
    }

    /// Gives the keys that the log has behind the image of such a partition to `each`. Blocks.
    pub fn keys_behind(&self, of: &Loss, each: &mut dyn FnMut(&[u8])) -> Result<(), BackupError> {
        salvage::keys_behind(self.directory.path(), (of.partition, of.covered), each)
    }

    /// What such a partition shows; reads of what is damaged fail. Blocks.
    pub fn view(&self, of: PartitionId) -> Result<View, BackupError> {
        salvage::view(self.directory.path(), of, &self.rules)
    }

    /// Whether there is room, and the place where the damaged images are to be kept.
    fn check(&self) -> Result<(), BackupError> {
        let mut bytes = 0;
        for step in &self.steps {
            let kept = self.kept(step.partition);
            if kept.exists() && self.directory.image(step.partition).exists() {
                return Err(BackupError::refused(format!(
                    "{} is there from an earlier repair; move it away first",
                    kept.display()
                )));
            }
            let image = match &step.remedy {
                Remedy::Log => continue,
                Remedy::Backup { data, .. } => image_file(data, step.partition),
                Remedy::Salvage { .. } => {
                    salvage::damaged_image(self.directory.path(), step.partition).join("data.mdb")
                }
            };
            let found = fs::metadata(&image);
            bytes += found
                .map_err(|error| BackupError::io("look at", &image, error))?
                .len();
        }
        check_room(self.directory.path(), bytes)
    }

    /// Where a damaged image is kept.
    fn kept(&self, id: PartitionId) -> PathBuf {
        self.directory.folder(id).join("image.damaged")
    }

    /// Makes the images that lose nothing; gives where the damaged ones are. Blocks.
    pub fn run_without_loss(&self) -> Result<Vec<PathBuf>, BackupError> {
        if !self.goes_on && self.losses().next().is_none() {
            self.directory.forget_history()?;
        }
        self.replace(|remedy| !matches!(remedy, Remedy::Salvage { .. }))
    }

    /// Makes the images with a loss, after the others; gives where the damaged ones are. The directory has another
    /// history then. Blocks.
    pub fn run_with_loss(&mut self) -> Result<Vec<PathBuf>, BackupError> {
        if !self.goes_on && self.losses().next().is_none() {
            return Ok(Vec::new());
        }
        // Named by the marks of the new images: none of them is served before it counts.
        self.directory.announce_history()?;
        let kept = self.replace(|remedy| matches!(remedy, Remedy::Salvage { .. }))?;
        renew(&mut self.directory, &self.rules)?;
        Ok(kept)
    }

    fn replace(&self, which: fn(&Remedy) -> bool) -> Result<Vec<PathBuf>, BackupError> {
        let mut kept = Vec::new();
        for step in self.steps.iter().filter(|step| which(&step.remedy)) {
            let id = step.partition;
            let (image, old) = (self.directory.image(id), self.kept(id));
            let new = self.directory.folder(id).join("image.new");
            self.make(step, &new)?;
            let rename = |from: &Path, to: &Path| {
                faults::reached("repair_step");
                let renamed = fs::rename(from, to).and_then(|()| sync(&self.directory.folder(id)));
                renamed.map_err(|error| BackupError::io("rename", from, error))
            };
            if image.exists() {
                rename(&image, &old)?;
            }
            rename(&new, &image)?;
            kept.extend(Some(old).filter(|old| old.exists()));
        }
        Ok(kept)
    }

    /// Makes a partition's image in a folder of its own.
    fn make(&self, step: &RepairStep, new: &Path) -> Result<(), BackupError> {
        let io = |error| BackupError::io("write", new, error);
        match fs::remove_dir_all(new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io(error)),
            _ => {}
        }
        folder(new).map_err(io)?;
        if let Remedy::Backup { data, .. } = &step.remedy {
            let to = new.join("data.mdb");
            fs::copy(image_file(data, step.partition), &to).map_err(io)?;
            let copy = File::open(&to).map_err(io)?;
            copy.set_permissions(Permissions::from_mode(0o600))
                .map_err(io)?;
            copy.sync_all().map_err(io)?;
        }
        let image = Image::open(new, ImageOptions::default(), Arc::clone(&self.rules))
            .map_err(OpenError::from)?;
        match &step.remedy {
            Remedy::Log => {}
            Remedy::Backup { data, .. } => {
                self.replay(&partition_folder(data, step.partition).join("log"), &image)?;
            }
            Remedy::Salvage { log_first, .. } => {
                let of = (step.partition, *log_first);
                salvage::make(self.directory.path(), of, &image, &self.rules)?;
            }
        }
        let map = self.directory.map();
        identity::write_mark(&self.directory, (step.partition, map), &image, step.log)?;
        sync(new).map_err(io)
    }

    /// Brings what an image does not cover into it.
    fn replay(&self, log_folder: &Path, image: &Image) -> Result<(), BackupError> {
        let storage = LocalStorage::read_only(log_folder)
            .map_err(|error| BackupError::io("open", log_folder, error))?;
        let (bytes_max, covered) = (Options::default().memtable_bytes, image.covered());
        let mut memtable = Memtable::new(covered, 0, 0);
        let mut flushed = Ok(());
        log::verify(&storage, covered, &mut |frame| {
            if frame.position <= covered || flushed.is_err() {
                return;
            }
            memtable.insert(frame, &*self.rules);
            if memtable.bytes() >= bytes_max {
                flushed = flush(image, &memtable, &*self.rules, &mut || {});
                memtable = Memtable::new(frame.position, 0, 0);
            }
        })?;
        flushed.map_err(OpenError::from)?;
        if memtable.last() > memtable.after() {
            flush(image, &memtable, &*self.rules, &mut || {}).map_err(OpenError::from)?;
        }
        Ok(())
    }
}

impl RepairStep {
    /// What is damaged, each as a line with its place.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

impl fmt::Display for RepairStep {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.partition;
        write!(out, "partition {id}: its image is made anew from ")?;
        match &self.remedy {
            Remedy::Log => write!(out, "its log, which reaches back to the first batch"),
            Remedy::Backup { of, .. } => write!(
                out,
                "the backup's, to {}, and the logs from there",
                of.covered
            ),
            Remedy::Salvage { loss, refused, .. } => {
                let rows = loss.rows;
                write!(
                    out,
                    "what can be read of it and the log; {rows} rows can't be read"
                )?;
                match refused {
                    Some(why) => write!(out, ", and the backup does not help: {why}"),
                    None => Ok(()),
                }
            }
        }
    }
}

fn image_file(data: &Path, id: PartitionId) -> PathBuf {
    partition_folder(data, id).join("image/data.mdb")
}

fn not_of_backup(id: PartitionId, why: &str) -> BackupError {
    BackupError::refused(format!(
        "partition {id} can't be made of this backup: {why}; name another one with --from, or keep what can be read of \
         the image with --accept-loss: nothing was changed"
    ))
}

fn log_is_damaged(id: PartitionId, what: &dyn fmt::Display) -> BackupError {
    BackupError::refused(format!(
        "the log of partition {id} is not whole, and a repair makes images only: {what}; restore the newest backup: \
         nothing was changed"
    ))
}

fn missing(covered: Position, span: &Span) -> String {
    format!(
        "the image goes to batch {covered}, and the log has batches {} to {}",
        span.first, span.last
    )
}

fn not_without_loss(id: PartitionId, problems: &[String], span: &Span) -> BackupError {
    BackupError::refused(format!(
        "the image of partition {id} is damaged ({}), and the log goes back to batch {} only; name a backup of this \
         directory with --from, or keep what can be read of it with --accept-loss: nothing was changed",
        problems[0], span.first
    ))
}
