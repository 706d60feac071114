//! A directory on its way into a cluster, whose log goes on where its own ends, and on its way out of it.
//!
//! Owns: which directory may be adopted, which first frame follows its log, and which may leave. Promises: history, log
//! and positions stay; a directory is a member's while the file `place` is there, whose making or removal is the last
//! step, so an attempt that was interrupted is repeated by the same calls. Must not: talk to the log's stream.

use std::path::Path;
use std::sync::Arc;

use tideline_base::faults;
use tideline_base::ids::{HistoryId, Position};
use tideline_cluster::{CommitTime, Content, Frame, Genesis, Place};

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
        let of = member_of(&directory)?;
        if of.as_deref() == Some(cluster) {
            return Ok(None);
        }
        if let Some(of) = of {
            return Err(refused(&format!("{shown} is a part of cluster {of}")));
        }
        if directory.ids() != [ONLY] {
            return Err(refused(&format!(
                "{shown} has other partitions than the one that it was made with, and a node of a cluster has that one"
            )));
        }
        if faults::is_named("adopt_renews") {
            renewal::renew(&mut directory, rules)?;
        }
        let options = ImageOptions::default();
        identity::settle(&mut directory, &options, rules, &identity::make_log)?;
        let opened = log_of(&directory, rules)?;
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
                "{shown} ends at {position}, and the cluster's log goes on behind {behind}: it is an older copy; take \
                 one of the directory that was adopted, as it was then"
            )));
        }
        if faults::is_named("adopt_unchecked") {
            before.chained = first.sealed.previous_crc;
        }
        let follows = before.clone().replay(&first.sealed);
        if position > behind || follows != Ok(false) {
            return Err(refused(&format!(
                "{shown} was served after it was copied, and the cluster's log goes on without that: take a copy of \
                 the directory that was adopted, as it was then"
            )));
        }
        faults::reached("adopt_step");
        place::write(&self.directory.folder(ONLY), &before, first)?;
        faults::reached("adopt_step");
        Ok(())
    }
}

/// Whose log a directory has.
pub enum Belongs {
    /// That of this cluster.
    Cluster(String),
    /// Its own, which was a cluster's that has ended, and nothing was written since.
    Dissolved,
    /// Its own.
    Nobody,
}

/// Looks whose log a directory has that nobody serves.
pub fn belongs(path: &Path, rules: &Arc<dyn Rules>) -> Result<Belongs, OpenError> {
    let directory = Directory::take(path)?;
    if let Some(cluster) = member_of(&directory)? {
        return Ok(Belongs::Cluster(cluster));
    }
    if directory.ids() != [ONLY] {
        return Ok(Belongs::Nobody);
    }
    let log = log_of(&directory, rules)?;
    let last = Position(log.settled().0.saturating_sub(1));
    let mut is_ended = false;
    for frame in log.replay(last)? {
        let whole = Frame::read(frame?.encoded().clone());
        is_ended = whole.is_some_and(|whole| whole.sealed.content == Content::Ends);
    }
    log.close()?;
    Ok(match is_ended {
        true => Belongs::Dissolved,
        false => Belongs::Nobody,
    })
}

/// Makes a member's directory, whose log was closed for good, one that is served alone.
pub fn leave(path: &Path) -> Result<(), OpenError> {
    let directory = Directory::take(path)?;
    let folder = directory.folder(ONLY);
    let is_quiet = faults::is_named("dissolve_quietly");
    if !place::read(&folder)?.0.is_ended && !is_quiet {
        let shown = path.display();
        return Err(refused(&format!(
            "{shown} has not all of the cluster's log"
        )));
    }
    faults::reached("dissolve_step");
    place::remove(&folder)?;
    faults::reached("dissolve_step");
    Ok(())
}

/// The cluster that a directory is a part of.
fn member_of(directory: &Directory) -> Result<Option<String>, OpenError> {
    let folder = directory.folder(ONLY);
    match place::is_there(&folder)? {
        true => Ok(Some(genesis_of(&place::read(&folder)?.1)?.cluster)),
        false => Ok(None),
    }
}

/// The log of a directory that is no member's.
fn log_of(directory: &Directory, rules: &Arc<dyn Rules>) -> Result<Log, OpenError> {
    let image = Image::open(
        &directory.image(ONLY),
        ImageOptions::default(),
        Arc::clone(rules),
    )?;
    let folder = directory.log(ONLY);
    let storage =
        LocalStorage::new(&folder).map_err(|error| OpenError::from_io("open", &folder, error))?;
    let opened = Log::open(Arc::new(storage), LogOptions::default(), image.covered());
    let (log, _) = opened.map_err(|error| OpenError::from(error).within(&folder))?;
    Ok(log)
}
