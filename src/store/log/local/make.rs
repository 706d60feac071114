//! Making a log, and saying which one is there.
//!
//! Owns: the order in which a new log's files become durable. Promises: an attempt that was interrupted is gone on
//! with; a log that was in use is never made anew. Must not: open one.

use super::super::error::Error;
use super::super::frame::Frame;
use super::open::{create, create_segment, refuse_if_used, sort};
use super::segment::parse_segment_name;
use super::state::StateFile;
use super::storage::Storage;
use tideline_base::ids::{HistoryId, Position};

/// Makes a log in an empty directory, also where an earlier attempt was interrupted. Gives its ID, once it is on disk.
pub(crate) fn make(storage: &dyn Storage) -> Result<HistoryId, Error> {
    let names = storage.list().map_err(|e| Error::io("directory", e))?;
    if let Some(mut state) = StateFile::read(storage, &names)? {
        // What was read may be in memory only: the attempt was killed before its sync.
        state.make_durable()?;
        storage.sync_dir().map_err(|e| Error::io("directory", e))?;
        return Ok(state.state().log);
    }
    refuse_if_used(storage, &sort(&names).0, Position::ZERO)?;
    Ok(create(storage, &names)?.0.state().log)
}

/// Makes a log in an empty directory whose first frame is `first(its ID)`, which may have any position. Until it
/// returns there is no log that can be opened.
pub(crate) fn make_with(
    storage: &dyn Storage,
    first: impl FnOnce(HistoryId) -> Frame,
) -> Result<HistoryId, Error> {
    let id = HistoryId::random();
    make_of(storage, id, &first(id))?;
    Ok(id)
}

/// Makes the mirror of a log, also where an earlier attempt was interrupted; `first` is its first frame.
pub(crate) fn make_mirror(
    storage: &dyn Storage,
    id: HistoryId,
    first: &Frame,
) -> Result<HistoryId, Error> {
    let names = storage.list().map_err(|e| Error::io("directory", e))?;
    if StateFile::read(storage, &names)?.is_none() {
        // The state file comes last: what is there without it holds no more than the first frame.
        for name in names
            .iter()
            .filter(|name| parse_segment_name(name).is_some())
        {
            storage.remove(name).map_err(|e| Error::io(name, e))?;
        }
        make_of(storage, id, first)?;
    }
    make(storage)
}

fn make_of(storage: &dyn Storage, id: HistoryId, frame: &Frame) -> Result<(), Error> {
    let names = storage.list().map_err(|e| Error::io("directory", e))?;
    refuse_if_used(storage, &sort(&names).0, Position::ZERO)?;
    let segment = create_segment(storage, &names, frame.position)?;
    let io = |e| Error::io(&segment.name, e);
    let file = segment.file(storage).map_err(io)?;
    file.write_at(frame.encoded(), 0).map_err(io)?;
    file.sync_data().map_err(io)?;
    StateFile::create(storage, id, frame.position, frame.position)?;
    Ok(())
}

/// The ID of a log that must be there. Writes nothing.
pub(crate) fn identity(storage: &dyn Storage) -> Result<HistoryId, Error> {
    let names = storage.list().map_err(|e| Error::io("directory", e))?;
    match StateFile::read(storage, &names)? {
        Some(state) => Ok(state.state().log),
        None => Err(Error::Damaged {
            file: super::state::NAME.to_owned(),
            offset: 0,
            what: "it is missing or holds no valid slot",
        }),
    }
}
