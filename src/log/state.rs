//! The file `log.state`: who the log is, and how far it surely reaches.
//!
//! ```text
//! slot at 0 and slot at 4096, written in turn:
//!  0  4  magic "TdLs"    8  8  sequence: the valid slot with the higher one counts    32  8  position surely in the log
//!  4  1  format (1)     16 16  log ID                                                 40  4  CRC-32C of bytes 0..40
//!  5  1  1 = clean shutdown
//! ```
//!
//! Owns: this layout. Promises: a torn write leaves the slot before it, and writing needs no free space on the disk, so
//! that a full disk can't keep a server from starting. Must not: decide what the position means. Written at opening and
//! closing only.

use std::sync::Arc;

use bytes::{BufMut, BytesMut};

use super::error::Error;
use super::storage::{File, Storage};
use crate::ids::{HistoryId, Position};

/// The file's name.
pub(super) const NAME: &str = "log.state";

const MAGIC: [u8; 4] = *b"TdLs";
const FORMAT: u8 = 1;
const SLOT_BYTES: usize = 44;
const SLOT_STEP: u64 = 4096;

/// What the newest slot says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) log: HistoryId,
    /// Every batch up to this one was synced when the slot was written.
    pub(super) position: Position,
    /// Whether the log was closed then.
    pub(super) clean: bool,
    sequence: u64,
}

/// The open file.
pub(super) struct StateFile {
    file: Arc<dyn File>,
    state: State,
}

impl StateFile {
    /// Makes the file for a log without frames. The caller has synced the first segment before.
    pub(super) fn create(storage: &dyn Storage, log: HistoryId) -> Result<StateFile, Error> {
        let file = storage.create(NAME).map_err(|e| Error::io(NAME, e))?;
        let state = State {
            log,
            position: Position::ZERO,
            clean: false,
            sequence: 0,
        };
        let mut state = StateFile { file, state };
        // Both slots, so that later writes never change the file's length.
        state.write(Position::ZERO, false)?;
        state.write(Position::ZERO, false)?;
        storage.sync_dir().map_err(|e| Error::io("directory", e))?;
        Ok(state)
    }

    /// Reads the file; `None` if it is not there or holds no valid slot.
    pub(super) fn read(
        storage: &dyn Storage,
        names: &[String],
    ) -> Result<Option<StateFile>, Error> {
        if !names.iter().any(|name| name == NAME) {
            return Ok(None);
        }
        let io = |e| Error::io(NAME, e);
        let file = storage.open(NAME).map_err(io)?;
        let mut newest: Option<State> = None;
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
        Ok(newest.map(|state| StateFile { file, state }))
    }

    /// What the newest slot says.
    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Writes the other slot and syncs it.
    pub(super) fn write(&mut self, position: Position, clean: bool) -> Result<(), Error> {
        let state = State {
            position,
            clean,
            sequence: self.state.sequence + 1,
            ..self.state
        };
        let io = |e| Error::io(NAME, e);
        self.file
            .write_at(&encode(&state), state.sequence % 2 * SLOT_STEP)
            .map_err(io)?;
        self.file.sync_data().map_err(io)?;
        self.state = state;
        Ok(())
    }
}

fn encode(state: &State) -> BytesMut {
    let mut out = BytesMut::with_capacity(SLOT_BYTES);
    out.put_slice(&MAGIC);
    out.put_u8(FORMAT);
    out.put_u8(u8::from(state.clean));
    out.put_u16(0);
    out.put_u64(state.sequence);
    out.put_slice(&state.log.0);
    out.put_u64(state.position.0);
    out.put_u32(crc32c::crc32c(&out));
    out
}

/// `Ok(None)`: not a whole slot.
fn parse(bytes: &[u8]) -> Result<Option<State>, Error> {
    let Some((body, crc)) = bytes.split_at_checked(SLOT_BYTES - 4) else {
        return Ok(None);
    };
    if body[..4] != MAGIC || crc != crc32c::crc32c(body).to_be_bytes() {
        return Ok(None);
    }
    if body[4] != FORMAT {
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
    Ok(Some(State {
        log: HistoryId(log),
        position: Position(number(32)),
        clean: body[5] == 1,
        sequence: number(8),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_survives_the_round_trip_and_any_flipped_bit_is_noticed() {
        let state = State {
            log: HistoryId::random(),
            position: Position(0x0102_0304_0506_0708),
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
}
