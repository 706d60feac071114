//! A data directory made of a backup, as of its end or of a time before.
//!
//! Owns: the order of its steps. Promises: a backup is held against its checksums while it is copied, and nothing is
//! made of the copy before all of them fit; the directory counts once all is there, by its `directory.toml`, and a
//! restore that fails removes what it made; it has a new history, so that clients which saw more than there is now are
//! told by its epochs. Must not: change the backup, or restore over anything.
//!
//! A time cuts logs, and no image can be cut: so the earliest one is that of the last batch that an image covers. A
//! position cuts the log of its partition, and the time of its batch those of the others.
//!
//! What comes from elsewhere is fetched into a folder in the data directory, on the same disk, and moved from there.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use super::super::cluster::PLACE;
use super::super::directory::identity;
use super::super::directory::manifest::{MANIFEST, Manifest, RESTORE_STAGING};
use super::super::directory::seal::Seal;
use super::super::directory::{Directory, partition_folder};
use super::super::{ImageOptions, OpenError, Rules};
use super::manifest::{BackupManifest, BackupPartition};
use super::place::{check_room, sync_parent, within};
use super::point::{Cut, RestorePoint, before_log, check_point, check_time_of};
use super::progress::Progress;
use super::secrets::{self, Passphrase, SEALED, Secrets};
use super::target::Target;
use super::{BACKUP_DATA, BackupError};
use crate::image::Image;
use crate::log::{self, LocalStorage, LogCopy, segment_firsts};
use tideline_base::ids::{HistoryId, PartitionId, Position};

/// A directory that was made.
#[derive(Clone, Debug)]
pub struct Restored {
    /// Its history, a new one.
    pub history: HistoryId,
    /// The partitions, each with the last position of its log.
    pub partitions: Vec<(PartitionId, Position)>,
    /// The moment that it shows, ms since 1970.
    pub as_of_ms: u64,
    /// How many secrets it has got; `None` = they were not asked for.
    pub secrets: Option<usize>,
}

/// A backup that is not on this machine yet.
pub struct Fetched<'f> {
    /// What it is.
    pub manifest: BackupManifest,
    /// Has its files in a folder that is there and empty, each with its checksum verified.
    pub fetch: &'f mut dyn FnMut(&Path) -> Result<(), BackupError>,
}

/// Makes the data directory `data` of a backup in a folder, up to a point, and with the secrets that a passphrase
/// opens. Blocks.
pub fn restore(
    source: &Path,
    data: &Path,
    (point, passphrase): (RestorePoint, Option<&Passphrase>),
    rules: &Arc<dyn Rules>,
) -> Result<Restored, BackupError> {
    let manifest = BackupManifest::read(source)?;
    check_point(&manifest, point)?;
    manifest.check_secrets(passphrase)?;
    let target = Target::begin(data)?;
    if within(data, source) {
        return Err(BackupError::refused(format!(
            "{} is in the backup; name a folder elsewhere",
            data.display()
        )));
    }
    let (copied, secrets) = thread::scope(|scope| {
        let checked = scope.spawn(|| manifest.check_files(source, &Progress::new(0)));
        let copied = secrets_of(source, passphrase).and_then(|secrets| {
            let copied = Restore::of(source, target, false)?.copied(&manifest, point)?;
            Ok((copied, secrets))
        });
        // If a file has other bytes, the error names that: it may be why the rest has failed, too.
        let checked = checked.join().unwrap_or_else(|panic| resume_unwind(panic));
        checked.and(copied)
    })?;
    copied.finish(&manifest, (point, secrets), rules)
}

/// The same of a backup that has to be fetched first.
pub fn restore_fetched(
    of: Fetched<'_>,
    data: &Path,
    (point, passphrase): (RestorePoint, Option<&Passphrase>),
    rules: &Arc<dyn Rules>,
) -> Result<Restored, BackupError> {
    let manifest = of.manifest;
    check_point(&manifest, point)?;
    manifest.check_secrets(passphrase)?;
    let mut target = Target::begin(data)?;
    let source = target.stage()?;
    // A log that is cut is written anew.
    let logs = manifest
        .files()
        .iter()
        .filter(|file| is_of_log(Path::new(&file.path)));
    let cut: u64 = match point {
        RestorePoint::End => 0,
        _ => logs.map(|file| file.bytes).sum(),
    };
    check_room(data, manifest.bytes() + cut)?;
    (of.fetch)(&source)?;
    let secrets = secrets_of(&source, passphrase)?;
    let copied = Restore::of(&source, target, true)?.copied(&manifest, point)?;
    copied.finish(&manifest, (point, secrets), rules)
}

/// Opened before anything is made.
fn secrets_of(
    source: &Path,
    passphrase: Option<&Passphrase>,
) -> Result<Option<Secrets>, BackupError> {
    let open = |passphrase| secrets::open(&source.join(BACKUP_DATA), passphrase);
    passphrase.map(open).transpose()
}

fn is_of_log(path: &Path) -> bool {
    path.parent().is_some_and(|folder| folder.ends_with("log"))
}

/// A restore under way, which has the directory for itself.
struct Restore {
    /// The time that cuts the logs, ms since 1970.
    to_ms: Option<u64>,
    source: PathBuf,
    /// Whether the files of the source are ours, and on the same disk.
    is_moved: bool,
    data: PathBuf,
    target: Target,
    /// Locked until all is removed.
    directory: Directory,
}

impl Restore {
    fn of(source: &Path, mut target: Target, is_moved: bool) -> Result<Restore, BackupError> {
        let below = source.join(BACKUP_DATA);
        let mut described = Manifest::read(&below.join(MANIFEST))?;
        described.origin.history = HistoryId::random();
        let directory = Directory::restoring(&target.data, described)?;
        target.is_ours = true;
        Ok(Restore {
            to_ms: None,
            source: below,
            is_moved,
            data: target.data.clone(),
            target,
            directory,
        })
    }

    /// Copies what is not cut.
    fn copied(
        mut self,
        manifest: &BackupManifest,
        point: RestorePoint,
    ) -> Result<Restore, BackupError> {
        if !self.is_moved {
            check_room(&self.data, manifest.bytes())?;
        }
        self.to_ms = self.time_of(manifest, point)?;
        let below = Path::new(BACKUP_DATA);
        for path in manifest.paths() {
            let Ok(path) = path.strip_prefix(below) else {
                continue;
            };
            let is_cut = self.to_ms.is_some() && is_of_log(path) && self.is_live(path);
            let is_ours = [MANIFEST, SEALED]
                .iter()
                .any(|name| path == Path::new(name));
            // What is restored follows no cluster's log.
            let is_ours = is_ours || path.ends_with(PLACE);
            if !is_ours && !is_cut {
                self.copy(path)?;
            }
        }
        Ok(self)
    }

    /// Cuts the logs, and makes a directory of it.
    fn finish(
        mut self,
        manifest: &BackupManifest,
        (point, secrets): (RestorePoint, Option<Secrets>),
        rules: &Arc<dyn Rules>,
    ) -> Result<Restored, BackupError> {
        let to_ms = self.to_ms;
        let mut partitions = Vec::new();
        for one in &manifest.partitions {
            let id = PartitionId(one.partition);
            let last = match (to_ms, point) {
                (None, _) => Position(one.position),
                (Some(_), RestorePoint::Position(of, at)) if of == id => {
                    self.cut(one, Cut::Position(at))?
                }
                (Some(to_ms), _) => self.cut(one, Cut::Time(to_ms))?,
            };
            self.mark(id, rules)?;
            partitions.push((id, last));
        }
        if self.is_moved {
            let staging = self.data.join(RESTORE_STAGING);
            fs::remove_dir_all(&staging)
                .map_err(|error| BackupError::io("remove", &staging, error))?;
        }
        let secrets = secrets.map(|secrets| secrets::write(&self.data, &secrets));
        let secrets = secrets.transpose()?;
        Seal::of(&self.data, true)?;
        self.directory.seal()?;
        sync_parent(&self.data).map_err(|error| BackupError::io("sync", &self.data, error))?;
        self.target.is_done = true;
        Ok(Restored {
            history: self.directory.origin().history,
            partitions,
            as_of_ms: to_ms.unwrap_or(manifest.as_of_ms),
            secrets,
        })
    }

    /// The time that cuts the logs; that of a position is when its batch was committed.
    fn time_of(
        &self,
        manifest: &BackupManifest,
        point: RestorePoint,
    ) -> Result<Option<u64>, BackupError> {
        let (id, at) = match point {
            RestorePoint::End => return Ok(None),
            RestorePoint::Time(to_ms) => return Ok(Some(to_ms)),
            RestorePoint::Position(id, at) => (id, at),
        };
        let found = manifest.partitions.iter().find(|one| one.partition == id.0);
        let of = found.ok_or_else(|| BackupError::refused(format!("no partition {id}")))?;
        let folder = partition_folder(&self.source, id).join("log");
        let log = LocalStorage::read_only(&folder)
            .map_err(|error| BackupError::io("open", &folder, error))?;
        // The batch of the first position may be in the image only.
        let mut time = of.from_ms;
        log::verify(&log, Position(of.covered), &mut |frame| {
            if frame.position <= at {
                time = time.max(frame.commit_ms);
            }
        })?;
        check_time_of((id, at), time, manifest)?;
        Ok(Some(time))
    }

    /// Whether a file is of a partition that is served.
    fn is_live(&self, path: &Path) -> bool {
        let mut ids = self.directory.map().ids();
        ids.any(|id| path.starts_with(partition_folder(Path::new(""), id)))
    }

    fn copy(&self, path: &Path) -> Result<(), BackupError> {
        let (from, to) = (self.source.join(path), self.data.join(path));
        let copied = || -> io::Result<()> {
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder)?;
            }
            match self.is_moved {
                true => fs::rename(&from, &to)?,
                false => drop(fs::copy(&from, &to)?),
            }
            let copy = File::open(&to)?;
            copy.set_permissions(Permissions::from_mode(0o600))?;
            copy.sync_all()?;
            let folders = to.ancestors().skip(1);
            for folder in folders.take_while(|folder| folder.starts_with(&self.data)) {
                File::open(folder)?.sync_all()?;
            }
            Ok(())
        };
        copied().map_err(|error| BackupError::io("write", &to, error))
    }

    /// Writes the log of a partition up to a point. A log of which nothing would be left behind an image that covers
    /// something is refused, because no server opens it.
    fn cut(&self, of: &BackupPartition, end: Cut) -> Result<Position, BackupError> {
        let (id, covered) = (PartitionId(of.partition), Position(of.covered));
        let at = |data: &Path| partition_folder(data, id).join("log");
        let (from, to) = (at(&self.source), at(&self.data));
        let opened =
            LocalStorage::read_only(&from).and_then(|from| Ok((from, LocalStorage::new(&to)?)));
        let (from, to) = opened.map_err(|error| BackupError::io("open", &to, error))?;
        let mut copy = LogCopy::new(&to, segment_firsts(&from)?);
        let (mut put, mut is_past) = (Ok(()), false);
        let (mut last, mut first) = (Position::ZERO, None);
        log::verify(&from, covered, &mut |frame| {
            if frame.position >= covered {
                first.get_or_insert((frame.position, frame.commit_ms));
            }
            is_past |= end.leaves_out(frame);
            if !is_past && put.is_ok() {
                put = copy.put(frame);
                last = frame.position;
            }
        })?;
        put?;
        if last < covered {
            let first = first.unwrap_or_else(|| (covered.next(), of.to_ms));
            return Err(before_log(id, first));
        }
        Ok(copy.finish(log::identity(&from)?)?)
    }

    /// Says in an image that it is of the new history.
    fn mark(&self, id: PartitionId, rules: &Arc<dyn Rules>) -> Result<(), BackupError> {
        let directory = &self.directory;
        let (folder, log_folder) = (directory.image(id), directory.log(id));
        let storage = LocalStorage::read_only(&log_folder)
            .map_err(|error| BackupError::io("open", &log_folder, error))?;
        let log = log::identity(&storage)?;
        let image = Image::open(&folder, ImageOptions::default(), Arc::clone(rules))
            .map_err(OpenError::from)?;
        identity::set_mark(directory, (id, directory.map()), &image, log)?;
        Ok(())
    }
}
