//! The file `log.state`: which log this is, how far it surely reaches, and in which segment it goes on.
//!
//! ```text
//! slot at 0 and slot at 4096, written in turn:
//!  0  4  magic "TdLs"    8  8  sequence: the valid slot with the higher one counts    32  8  position surely in the log
//!  4  1  format (3)     16 16  log ID                                                 40  8  newest segment's first position
//!  5  1  1 = clean shutdown                                                           48  4  CRC-32C of bytes 0..48
//! ```
//!
//! Format 1 has no newest segment; its CRC is at 40. Format 2 is the same, of a log without squeezed frames: a program
//! that does not know these refuses the file. Owns: this layout. Promises: a torn write leaves the slot before
//! it, and writing needs no free space on the disk, so that a full disk can't keep a server from starting. Must not:
//! decide what the position means. Written at opening and closing, before the first frame of each segment, and about
//! every second while frames are written.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{BufMut, BytesMut};

use super::super::error::Error;
use super::storage::{File, Storage};
use tideline_base::ids::{HistoryId, Position};

/// The file's name.
pub(super) const NAME: &str = "log.state";

const MAGIC: [u8; 4] = *b"TdLs";
const FORMAT: u8 = 3;
const SLOT_BYTES: usize = 52;
const SLOT_BYTES_FORMAT_1: usize = 44;
const SLOT_STEP: u64 = 4096;
/// What was acknowledged longer ago than this is known here: its loss is noticed at the next start.
const NOTE_EVERY: Duration = Duration::from_secs(1);

/// What the newest slot says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogState {
    pub(super) log: HistoryId,
    /// Every batch up to this one was synced when the slot was written.
    pub(super) position: Position,
    /// The first position of the newest segment; zero = not known (format 1).
    pub(super) newest: Position,
    /// Whether the log was closed then.
    pub(super) clean: bool,
    sequence: u64,
}

/// The open file.
pub(in crate::log) struct StateFile {
    file: Arc<dyn File>,
    state: LogState,
    written: Instant,
}

impl StateFile {
    /// Makes the file for a log whose frames reach up to `position`, in one segment. The caller has synced that before.
    pub(in crate::log) fn create(
        storage: &dyn Storage,
        log: HistoryId,
        position: Position,
        segment: Position,
    ) -> Result<StateFile, Error> {
        let file = storage.create(NAME).map_err(|e| Error::io(NAME, e))?;
        let state = LogState {
            log,
            position,
            newest: segment,
            clean: false,
            sequence: 0,
        };
        let mut state = StateFile::new(file, state);
        // Both slots, so that later writes never change the file's length.
        for _ in 0..2 {
            let written = state.write(position, segment, false);
            written.map_err(|e| Error::io(NAME, e))?;
        }
        storage.sync_dir().map_err(|e| Error::io("directory", e))?;
        Ok(state)
    }

    fn new(file: Arc<dyn File>, state: LogState) -> StateFile {
        StateFile {
            file,
            state,
            written: Instant::now(),
        }
    }

    /// Reads the file; `None` if it is not there or holds no valid slot.
    pub(in crate::log) fn read(
        storage: &dyn Storage,
        names: &[String],
    ) -> Result<Option<StateFile>, Error> {
        if !names.iter().any(|name| name == NAME) {
            return Ok(None);
        }
        let io = |e| Error::io(NAME, e);
        let file = storage.open(NAME).map_err(io)?;
        let mut newest: Option<LogState> = None;
        for slot in 0..2 {
            let mut bytes = [0; SLOT_BYTES];
            let read = file.read_at(&mut bytes, slot * SLOT_STEP).map_err(io)?;
            let Some(state) = parse(&bytes[..read])? else {
                continue;
            };
            if newest.is_none_or(|other| other.sequence < state.sequence) {
                newest = Some(state);
            }
        }
        Ok(newest.map(|state| StateFile::new(file, state)))
    }

    /// What the newest slot says.
    pub(super) fn state(&self) -> LogState {
        self.state
    }

    /// Writes the newest slot once more, as it is, and syncs it. After a kill it may have been read from the page cache
    /// only; a power cut while the other slot is written would then leave neither.
    pub(super) fn make_durable(&mut self) -> Result<(), Error> {
        let state = self.state;
        self.put(state).map_err(|e| Error::io(NAME, e))
    }

    /// Writes the other slot and syncs it. Everything up to `position` is synced already.
    pub(in crate::log) fn write(
        &mut self,
        position: Position,
        newest: Position,
        clean: bool,
    ) -> io::Result<()> {
        self.put(LogState {
            position,
            newest,
            clean,
            sequence: self.state.sequence + 1,
            ..self.state
        })
    }

    /// Notes that the log goes on in the segment that begins with `newest`, unless that is known.
    pub(super) fn note_segment(&mut self, position: Position, newest: Position) -> io::Result<()> {
        if self.state.newest == newest {
            return Ok(());
        }
        self.write(position, newest, false)
    }

    /// Notes how far the log surely reaches, if that has moved and a while has passed.
    pub(super) fn note_position(&mut self, position: Position) -> io::Result<()> {
        if position <= self.state.position || self.written.elapsed() < NOTE_EVERY {
            return Ok(());
        }
        self.write(position, self.state.newest, false)
    }

    fn put(&mut self, state: LogState) -> io::Result<()> {
        let at = state.sequence % 2 * SLOT_STEP;
        self.file.write_at(&encode(&state), at)?;
        self.file.sync_data()?;
        self.state = state;
        self.written = Instant::now();
        Ok(())
    }
}

pub(super) fn encode(state: &LogState) -> BytesMut {
    let mut out = BytesMut::with_capacity(SLOT_BYTES);
    out.put_slice(&MAGIC);
    out.put_u8(FORMAT);
    out.put_u8(u8::from(state.clean));
    out.put_u16(0);
    out.put_u64(state.sequence);
    out.put_slice(&state.log.0);
    out.put_u64(state.position.0);
    out.put_u64(state.newest.0);
    out.put_u32(crc32c::crc32c(&out));
    out
}

/// `Ok(None)`: not a whole slot.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<LogState>, Error> {
    let slot_bytes = match bytes.get(4) {
        Some(1) => SLOT_BYTES_FORMAT_1,
        _ => SLOT_BYTES,
    };
    let slot = bytes.get(..slot_bytes);
    let Some((body, crc)) = slot.and_then(|slot| slot.split_at_checked(slot_bytes - 4)) else {
        return Ok(None);
    };
    if body[..4] != MAGIC || crc != crc32c::crc32c(body).to_be_bytes() {
        return Ok(None);
    }
    if !(1..=FORMAT).contains(&body[4]) {
        return Err(Error::Format {
            file: NAME.to_owned(),
            format: body[4],
        });
    }
    let number = |at: usize| {
        let mut array = [0; 8];
        array.copy_from_slice(&body[at..at + 8]);
        u64::from_be_bytes(array)
    };
    let mut log = [0; 16];
    log.copy_from_slice(&body[16..32]);
    Ok(Some(LogState {
        log: HistoryId(log),
        position: Position(number(32)),
        newest: Position(if body[4] == 1 { 0 } else { number(40) }),
        clean: body[5] == 1,
        sequence: number(8),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_survives_the_round_trip_and_any_flipped_bit_is_noticed() {
        let state = LogState {
            log: HistoryId::random(),
            position: Position(0x0102_0304_0506_0708),
            newest: Position(0x0102_0304_0506_0700),
            clean: true,
            sequence: 77,
        };
        let bytes = encode(&state);
        assert_eq!(bytes.len(), SLOT_BYTES);
        assert_eq!(parse(&bytes).unwrap(), Some(state));
        for bit in 0..SLOT_BYTES * 8 {
            let mut bent = bytes.clone();
            bent[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parse(&bent).unwrap(), None, "bit {bit}");
        }
        for length in 0..SLOT_BYTES {
            assert_eq!(parse(&bytes[..length]).unwrap(), None);
        }
    }

    #[test]
    fn a_slot_of_format_1_is_read() {
        let mut bytes = b"TdLs\x01\x01\0\0".to_vec();
        bytes.put_u64(7);
        bytes.put_slice(&[9; 16]);
        bytes.put_u64(1_234);
        bytes.put_u32(crc32c::crc32c(&bytes));
        // What follows in the file may be the rest of a slot of format 2.
        bytes.put_u64(u64::MAX);
        let state = parse(&bytes).unwrap().unwrap();
        assert_eq!(state.log, HistoryId([9; 16]));
        assert_eq!(
            (state.position, state.newest),
            (Position(1_234), Position(0))
        );
        assert!(state.clean && state.sequence == 7);
    }
}
