//! A partition whose log is shared by the nodes of a cluster: it follows what others write, or owns and writes.
//!
//! Owns: the seam to what drives the log, the place of the mirror, and the writer's other way of life. Promises: a
//! write is answered "done" only when the log has acknowledged it; what another owner's frames say is what a restart
//! would bring back; a node that can't be sure writes nothing more. Must not: decide who owns (`tideline_cluster`
//! does), or know how frames travel.

mod adopt;
mod came;
mod host;
mod keep;
mod line;
mod member;
mod place;
mod proof;
mod run;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tideline_cluster::{Content, Frame, Genesis, Place};
use tokio::sync::watch;

use super::directory::{Directory, Standing, partition_folder};
use super::{OpenError, Options, Partitions, Rules, directory_map};
use crate::log::{LocalStorage, make_mirror};
use tideline_base::clock::Clock;
use tideline_base::ids::{HistoryId, PartitionId, Position};

pub use adopt::{Adoption, Belongs, belongs, leave};
pub use host::MemberHost;
pub(super) use line::Line;
pub(super) use member::Member;
pub(super) use place::{NAME as PLACE, copy as copy_place};

/// The one partition that a member has.
const ONLY: PartitionId = PartitionId(0);
/// A batch of a shared log is written at so many bytes: it crosses the network several times.
const BATCH_BYTES: usize = 512 * 1024;

/// How a directory takes part in a cluster.
#[derive(Clone, Debug)]
pub struct MemberOptions {
    /// The log's first frame, as its stream has it. A directory that is new can't be made without.
    pub first: Option<Frame>,
    /// A write is answered after this time at the latest: "outcome unknown" if it may be in the log, else
    /// "unavailable".
    pub forward_ms_max: u64,
    /// The largest frame that the stream takes.
    pub frame_bytes_max: usize,
}

/// What a member's part in the log is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// It takes what others write.
    Follows {
        /// The owner's name; `None` before the first one and after a resignation.
        owner: Option<String>,
        /// The present term.
        term: u64,
    },
    /// It writes.
    Owns {
        /// Its term.
        term: u64,
    },
    /// The log was closed for good: nobody writes to it any more.
    Ended,
    /// It takes no further part, for this reason.
    Stopped(String),
}

/// What a driver of the log is begun with.
pub struct Seat {
    /// What the log's genesis says.
    pub genesis: Genesis,
    /// Where the mirror ends.
    pub place: Place,
    /// What the driver tells what happens.
    pub host: MemberHost,
}

/// How a partition is opened as a member's.
pub(super) struct Seating {
    first: Option<Frame>,
    line: Arc<Line>,
    forward: Duration,
}

impl Partitions {
    /// Opens a data directory as a part of a cluster. It follows at first, as far as it is told to: a driver is begun
    /// with what is returned beside it, and then named by [`Partitions::attach`].
    pub fn open_member(
        dir: &Path,
        mut options: Options,
        rules: Arc<dyn Rules>,
        clock: Arc<Clock>,
        member: MemberOptions,
    ) -> Result<(Partitions, Seat), OpenError> {
        let MemberOptions {
            first,
            forward_ms_max,
            frame_bytes_max,
        } = member;
        options.log.frame_bytes_max = options.log.frame_bytes_max.min(frame_bytes_max);
        options.batch_bytes_max = options.batch_bytes_max.min(BATCH_BYTES);
        let genesis = first.as_ref().map(genesis_of).transpose()?;
        if let Some(first) = &first {
            refuse_empty(dir, first.sealed.position)?;
        }
        let history = genesis.map(|genesis| genesis.history);
        let directory = Directory::open(dir, 1, history)?;
        check(&directory, history)?;
        let file = directory.folder(ONLY);
        let seating = Seating {
            first,
            line: Arc::default(),
            forward: Duration::from_millis(forward_ms_max),
        };
        let partitions = Partitions::begin(directory, options, (rules, clock), Some(&seating))?;
        let (place, first) = place::read(&file)?;
        // What the file says is older than what the mirror has.
        let place = seating.line.take_place().unwrap_or(place);
        let seat = Seat {
            genesis: genesis_of(&first)?,
            place,
            host: MemberHost::new(Arc::clone(&seating.line)),
        };
        Ok((partitions, seat))
    }

    /// What a member's part in its log is, and what it becomes; `None` = this directory is no member's.
    #[must_use]
    pub fn role(&self) -> Option<watch::Receiver<Role>> {
        Some(self.at(ONLY)?.line.as_ref()?.role.subscribe())
    }

    /// Names the driver. `wake` tells it of a batch; `proves` says whether this node owns the log for sure at the
    /// moment of the call; `read` finds that out, and up to where a view must reach, and blocks meanwhile.
    pub fn attach(
        &self,
        wake: impl Fn() + Send + Sync + 'static,
        proves: impl Fn() -> bool + Send + Sync + 'static,
        read: impl Fn() -> Option<Position> + Send + Sync + 'static,
    ) {
        if let Some(line) = self.at(ONLY).as_ref().and_then(|one| one.line.as_ref()) {
            line.attach(Box::new(wake), Box::new(proves), Box::new(read));
        }
    }
}

impl Seating {
    /// Makes the mirror of a new directory, with its first frame.
    pub(super) fn make_log(
        &self,
        folder: &Path,
        log: &LocalStorage,
    ) -> Result<HistoryId, OpenError> {
        let first = self.first.as_ref().ok_or_else(unread)?;
        let frame = crate::log::Frame::read(&first.bytes, false);
        let frame = frame.ok_or_else(|| refused("the genesis of the cluster's log is no frame"))?;
        let sealed = &first.sealed;
        let before = Position(sealed.position.0 - 1);
        let mut place = Place::before_genesis(sealed.log, before, sealed.previous_crc, sealed.term);
        place.replay(sealed).map_err(|what| {
            refused(&format!(
                "the cluster's log does not begin well: its first frame is {what}"
            ))
        })?;
        let id = make_mirror(log, sealed.log, &frame)?;
        place::write(folder, &place, first)?;
        Ok(id)
    }

    /// What the partition in this folder takes part with.
    pub(super) fn member(&self, folder: &Path) -> Result<Member, OpenError> {
        let (place, first) = place::read(folder)?;
        let files = (folder.to_owned(), first);
        Ok(Member::new(
            Arc::clone(&self.line),
            place,
            files,
            self.forward,
        ))
    }
}

/// Where a member's mirror was known to be right, and the log's first frame; `None` = the directory is new, or no
/// member's.
pub fn mirror(data: &Path) -> Result<Option<(Place, Frame)>, OpenError> {
    let folder = partition_folder(data, ONLY);
    match place::is_there(&folder)? {
        true => place::read(&folder).map(Some),
        false => Ok(None),
    }
}

/// Whether a member's directory has all that its node acknowledged as the owner of the term that it ends in: it has
/// ended in order, or for want of the stream.
pub fn has_all_it_owned(data: &Path) -> Result<bool, OpenError> {
    place::owned(&partition_folder(data, ONLY))
}

/// Writes where a member's directory is, which nobody serves: behind all that it has, or before a first frame that its
/// log is to go on with.
pub fn set_mirror(data: &Path, place: &Place, first: &Frame, owned: bool) -> Result<(), OpenError> {
    let directory = Directory::take(data)?;
    place::write_owned(&directory.folder(ONLY), place, first, owned)
}

/// The IDs of a member's log and history.
pub(super) fn log_of(directory: &Directory) -> Result<(HistoryId, HistoryId), OpenError> {
    let (place, _) = place::read(&directory.folder(ONLY))?;
    Ok((place.log, directory.origin().history))
}

/// Refuses a member's directory where it would be written to alone: its log would become another one.
pub(super) fn refuse_member(directory: &Directory) -> Result<(), OpenError> {
    match place::is_there(&directory.folder(ONLY))? {
        false => Ok(()),
        true => Err(refused(&format!(
            "{} belongs to a cluster, whose log it follows: serve it with [cluster]",
            directory.path().display()
        ))),
    }
}

/// Refuses a new directory where the log does not have all that it would need.
fn refuse_empty(dir: &Path, begins: Position) -> Result<(), OpenError> {
    if begins == Position(1) || directory_map(dir)?.is_some() {
        return Ok(());
    }
    Err(refused(&format!(
        "{} is empty, and the cluster's log begins at {begins}: start the node again, and it takes a snapshot of \
         another one",
        dir.display()
    )))
}

fn check(directory: &Directory, history: Option<HistoryId>) -> Result<(), OpenError> {
    let shown = directory.path().display();
    if directory.ids() != [ONLY] {
        return Err(refused(&format!(
            "{shown} has other partitions than one, and a node of a cluster has one"
        )));
    }
    if history.is_some_and(|history| history != directory.origin().history) {
        return Err(refused(&format!(
            "{shown} is of another history than the cluster: begin with an empty data directory"
        )));
    }
    match directory.standing() {
        Standing::Draft if history.is_none() => Err(unread()),
        Standing::Draft => Ok(()),
        _ if place::is_there(&directory.folder(ONLY))? => Ok(()),
        _ => Err(refused(&format!(
            "{shown} was served alone, and its log is not the cluster's: begin with an empty data directory, or \
             with a copy of the directory that `tideline cluster adopt` made the cluster's"
        ))),
    }
}

fn genesis_of(frame: &Frame) -> Result<Genesis, OpenError> {
    match &frame.sealed.content {
        Content::Genesis(genesis) => Ok(genesis.clone()),
        _ => Err(refused("the cluster's log does not begin with a genesis")),
    }
}

fn unread() -> OpenError {
    refused("a new data directory is made with the cluster's log, which could not be read")
}

fn refused(text: &str) -> OpenError {
    OpenError::Refused {
        text: text.to_owned(),
    }
}
