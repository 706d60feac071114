//! Another history for a data directory that is there, so that clients which saw more than it holds are told by its
//! epochs.
//!
//! Owns: the order of its steps, and when a plain copy counts as a directory. Promises: whenever the process ends, the
//! same call made again comes to the end. Must not: judge whether the data is whole; its callers do that before.

use std::path::Path;
use std::sync::Arc;

use super::super::{ImageOptions, OpenError, Rules};
use super::manifest::{MANIFEST_NEW, Manifest};
use super::seal::Seal;
use super::{Directory, identity, remove, served};
use crate::image::Image;
use crate::log::{self, LocalStorage};
use tideline_base::faults;
use tideline_base::ids::HistoryId;

impl Directory {
    /// The history that was announced last, if it does not count yet.
    pub(in super::super) fn next_history(&self) -> Option<HistoryId> {
        let counts = Manifest::read(&self.manifest()).ok()?;
        let next = Manifest::read(&self.path.join(MANIFEST_NEW)).ok()?;
        let is_next = next.map == *self.map() && next.origin.roots == self.origin().roots;
        let history = next.origin.history;
        (is_next && history != counts.origin.history).then_some(history)
    }

    /// Takes the announcement of a history back; the caller knows that no image is of it.
    pub(in super::super) fn forget_history(&self) -> Result<(), OpenError> {
        match self.next_history() {
            Some(_) => remove(&self.path.join(MANIFEST_NEW)),
            None => Ok(()),
        }
    }

    /// Announces a new history and works with it from here on. It counts with [`Directory::replace`].
    pub(in super::super) fn announce_history(&mut self) -> Result<HistoryId, OpenError> {
        let history = self.next_history().unwrap_or_else(HistoryId::random);
        self.manifest.origin.history = history;
        self.manifest.write(&self.path)?;
        Ok(history)
    }
}

/// Makes a plain copy of a served directory count as a directory, with a new history, which is given. It must have been
/// verified.
pub fn accept_copy(path: &Path, rules: &Arc<dyn Rules>) -> Result<HistoryId, OpenError> {
    let mut directory = Directory::take(path)?;
    let history = renew(&mut directory, rules)?;
    served::unmark(path);
    Ok(history)
}

/// Whether [`accept_copy`] has begun and not ended: images and `directory.toml` do not fit each other then.
pub fn is_acceptance_under_way(path: &Path) -> bool {
    Directory::take(path).is_ok_and(|directory| directory.next_history().is_some())
}

/// Gives a directory a new history: in its images, then in `directory.toml`, and no position of before is taken.
pub(in super::super) fn renew(
    directory: &mut Directory,
    rules: &Arc<dyn Rules>,
) -> Result<HistoryId, OpenError> {
    directory.sweep()?;
    let history = directory.announce_history()?;
    for id in directory.ids() {
        let (log_folder, folder) = (directory.log(id), directory.image(id));
        let storage = LocalStorage::read_only(&log_folder)
            .map_err(|error| OpenError::from_io("open", &log_folder, error))?;
        let log = log::identity(&storage)?;
        let image = Image::open(&folder, ImageOptions::default(), Arc::clone(rules))
            .map_err(|error| OpenError::from(error).within(&folder))?;
        identity::set_mark(directory, (id, directory.map()), &image, log)?;
        faults::reached("repair_step");
    }
    Seal::renew(directory.path())?;
    directory.replace(directory.map().clone())?;
    Ok(history)
}
