//! The file `place`: how far a mirror was known to be right, and the log's first frame.
//!
//! Owns: the file in a partition's folder. Promises: it is replaced as a whole; it never speaks of frames that are not
//! on disk here, and never of fewer than the image covers, so that a start can follow the log from it. Must not: judge
//! frames.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use tideline_cluster::{Claim, Frame, Place};

use super::super::OpenError;
use tideline_base::ids::{HistoryId, Position};

pub(in super::super) const NAME: &str = "place";
const PART: &str = "place.part";
/// The version of the file.
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    format: u32,
    log: String,
    position: u64,
    recent: Vec<u32>,
    chained: u32,
    term: u64,
    claimed: u64,
    owner: Option<WrittenClaim>,
    lease_ms_max: u32,
    /// 32 hexadecimal digits.
    digest: String,
    trimmed: u64,
    began: u64,
    is_ended: bool,
    /// See [`owned`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    owned: bool,
    /// The first frame, in base64.
    first: String,
    /// CRC-32C of all but this, as the file has it with 0 here.
    crc: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenClaim {
    node: String,
    boot: u64,
    lease_ms: u32,
}

/// Whether a partition's folder has one.
pub(super) fn is_there(folder: &Path) -> Result<bool, OpenError> {
    let name = folder.join(NAME);
    let found = name.try_exists();
    found.map_err(|error| OpenError::from_io("look at", &name, error))
}

/// Copies it to another folder, if there is one.
pub(in super::super) fn copy(from: &Path, to: &Path) -> Result<(), OpenError> {
    if is_there(from)? {
        let copied = fs::copy(from.join(NAME), to.join(NAME));
        copied.map_err(|error| OpenError::from_io("write", &to.join(NAME), error))?;
    }
    Ok(())
}

/// Writes it, and makes it durable. All that it speaks of is.
pub(super) fn write(folder: &Path, place: &Place, first: &Frame) -> Result<(), OpenError> {
    write_owned(folder, place, first, false)
}

/// The same of a node that owned the present term up to there, and ends.
pub(super) fn write_owned(
    folder: &Path,
    place: &Place,
    first: &Frame,
    owned: bool,
) -> Result<(), OpenError> {
    let Place {
        log,
        position,
        recent,
        chained,
        term,
        claimed,
        owner,
        lease_ms_max,
        digest,
        trimmed,
        began,
        is_ended,
    } = place;
    let mut written = Written {
        format: FORMAT,
        log: log.to_string(),
        position: position.0,
        recent: recent.clone(),
        chained: *chained,
        term: *term,
        claimed: claimed.0,
        owner: owner.as_ref().map(|claim| WrittenClaim {
            node: claim.node.clone(),
            boot: claim.boot,
            lease_ms: claim.lease_ms,
        }),
        lease_ms_max: *lease_ms_max,
        digest: format!("{digest:032x}"),
        trimmed: trimmed.0,
        began: began.0,
        is_ended: *is_ended,
        owned,
        first: STANDARD.encode(&first.bytes),
        crc: 0,
    };
    written.crc = crc32c::crc32c(text(&written).as_bytes());
    let (name, part) = (folder.join(NAME), folder.join(PART));
    let write = || -> io::Result<()> {
        let mut file = File::create(&part)?;
        file.write_all(text(&written).as_bytes())?;
        file.sync_all()?;
        fs::rename(&part, &name)?;
        File::open(folder)?.sync_all()
    };
    write().map_err(|error| OpenError::from_io("write", &name, error))
}

/// Takes it away, for good.
pub(super) fn remove(folder: &Path) -> Result<(), OpenError> {
    let name = folder.join(NAME);
    let removed = fs::remove_file(&name).and_then(|()| File::open(folder)?.sync_all());
    removed.map_err(|error| OpenError::from_io("remove", &name, error))
}

fn text(written: &Written) -> String {
    serde_json::to_string(written).expect("numbers and texts are JSON")
}

/// Reads it: the place, and the log's first frame.
pub(super) fn read(folder: &Path) -> Result<(Place, Frame), OpenError> {
    let (place, first, _) = read_all(folder)?;
    Ok((place, first))
}

/// Whether the node owned the term of the place up to there, so that the mirror has all that it has acknowledged.
pub(super) fn owned(folder: &Path) -> Result<bool, OpenError> {
    let (_, _, owned) = read_all(folder)?;
    Ok(owned)
}

fn read_all(folder: &Path) -> Result<(Place, Frame, bool), OpenError> {
    let name = folder.join(NAME);
    let found = fs::read(&name).map_err(|error| OpenError::from_io("read", &name, error))?;
    parse(&found).ok_or_else(|| OpenError::Damaged {
        text: format!("{} does not say where the mirror is", name.display()),
    })
}

fn parse(found: &[u8]) -> Option<(Place, Frame, bool)> {
    let mut written: Written = serde_json::from_slice(found).ok()?;
    let crc = std::mem::take(&mut written.crc);
    if written.format != FORMAT || crc != crc32c::crc32c(text(&written).as_bytes()) {
        return None;
    }
    let first = Frame::read(STANDARD.decode(&written.first).ok()?.into())?;
    let place = Place {
        log: HistoryId::parse(&written.log)?,
        position: Position(written.position),
        recent: written.recent,
        chained: written.chained,
        term: written.term,
        claimed: Position(written.claimed),
        owner: written.owner.map(|claim| Claim {
            node: claim.node,
            boot: claim.boot,
            lease_ms: claim.lease_ms,
        }),
        lease_ms_max: written.lease_ms_max,
        digest: u128::from_str_radix(&written.digest, 16).ok()?,
        trimmed: Position(written.trimmed),
        began: Position(written.began),
        is_ended: written.is_ended,
    };
    Some((place, first, written.owned))
}
