//! A directory that was served alone, on its way into a cluster: the log that nodes share goes on where its own ends.
//!
//! Owns: which directory may be adopted, and which first frame follows its log. Promises: history, log and positions
//! stay; the directory is a member's once the file `place` is there, which is the last step, so an attempt that was
//! interrupted is repeated by the same calls. Must not: talk to the log's stream.

use std::path::Path;
use std::sync::Arc;

use tideline_base::faults;
use tideline_base::ids::{HistoryId, Position};
use tideline_cluster::{CommitTime, Frame, Genesis, Place};

use super::super::directory::{Directory, identity, renewal, served};
use super::super::{ImageOptions, LogOptions, OpenError, Rules};
use super::{ONLY, genesis_of, place, refused};
use crate::image::Image;
use crate::log::{Last, LocalStorage, Log};

/// A directory that nobody serves, which is to be a member's. No other process opens it meanwhile.
pub struct Adoption {
    directory: Directory,
    cluster: String,
    log: HistoryId,
    last: Last,
}

impl Adoption {
    /// Opens a directory, and makes the end of its log durable. `None` = it is a part of this cluster already.
    pub fn open(
        path: &Path,
        cluster: &str,
        rules: &Arc<dyn Rules>,
    ) -> Result<Option<Adoption>, OpenError> {
        let mut directory = Directory::take(path)?;
        served::refuse_copy(path)?;
        let shown = path.display();
        if directory.ids() != [ONLY] {
            return Err(refused(&format!(
                "{shown} has other partitions than the one that it was made with, and a node of a cluster has that one"
            )));
        }
        let folder = directory.folder(ONLY);
        if place::is_there(&folder)? {
            let of = genesis_of(&place::read(&folder)?.1)?.cluster;
            return match of == cluster {
                true => Ok(None),
                false => Err(refused(&format!("{shown} is a part of cluster {of}"))),
            };
        }
        if faults::is_named("adopt_renews") {
            renewal::renew(&mut directory, rules)?;
        }
        let options = ImageOptions::default();
        identity::settle(&mut directory, &options, rules, &identity::make_log)?;
        let image = Image::open(&directory.image(ONLY), options, Arc::clone(rules))?;
        let log_folder = directory.log(ONLY);
        let storage = LocalStorage::new(&log_folder)
            .map_err(|error| OpenError::from_io("open", &log_folder, error))?;
        let opened = Log::open(Arc::new(storage), LogOptions::default(), image.covered());
        let (opened, _) = opened.map_err(|error| OpenError::from(error).within(&log_folder))?;
        let (log, last) = opened.end();
        opened.close()?;
        // Nothing is written to it any more: a plain copy is as good as the directory.
        served::unmark(path);
        Ok(Some(Adoption {
            directory,
            cluster: cluster.to_owned(),
            log,
            last,
        }))
    }

    /// What the first frame of the shared log says.
    #[must_use]
    pub fn genesis(&self) -> Genesis {
        Genesis::of(&self.cluster, self.directory.origin().history)
    }

    /// What the shared log goes on behind, and the commit time there.
    #[must_use]
    pub fn end(&self) -> (Place, CommitTime) {
        let Last {
            position,
            crc,
            commit_ms,
            in_ms,
            term,
        } = self.last;
        let time = CommitTime {
            ms: commit_ms,
            in_ms,
        };
        let place = Place::before_genesis(self.log, position, crc, term);
        (place, time)
    }

    /// Makes it follow the log that begins with this frame. A copy of a directory that was adopted may do the same.
    pub fn join(self, first: &Frame) -> Result<(), OpenError> {
        let (mut before, _) = self.end();
        let shown = self.directory.path().display();
        if genesis_of(first)? != self.genesis() || first.sealed.log != self.log {
            return Err(refused(&format!(
                "the stream of cluster {} is there already and goes on behind another directory than {shown}: name \
                 another cluster, or delete that stream if nobody needs it",
                self.cluster
            )));
        }
        let behind = Position(first.sealed.position.0 - 1);
        let Last { position, .. } = self.last;
        if position < behind {
            return Err(refused(&format!(
                "{shown} ends at {position}, and the cluster's log goes on behind {behind}: it is an older copy; take one \
                 of the directory that was adopted, as it was then"
            )));
        }
        if faults::is_named("adopt_unchecked") {
            before.chained = first.sealed.previous_crc;
        }
        let follows = before.clone().replay(&first.sealed);
        if position > behind || follows != Ok(false) {
            return Err(refused(&format!(
                "{shown} was served after it was copied, and the cluster's log goes on without that: take a copy of the \
                 directory that was adopted, as it was then"
            )));
        }
        faults::reached("adopt_step");
        place::write(&self.directory.folder(ONLY), &before, first)?;
        faults::reached("adopt_step");
        Ok(())
    }
}
