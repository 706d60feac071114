//! The catalog's bytes.
//!
//! ```text
//! under "version":  format (4) | version (8) | CRC-32C (4)         (1: as 2, but no part has a number of blocks)
//! under "catalog":  covered (8) | next run (8) | runs | jobs | version (8) | CRC-32C (4)
//! lists:            count (4) | elements          bytes: length (4) | bytes
//! ```
//!
//! Owns: this layout and its number. Promises: all integers big-endian; both values are written by the same transaction
//! and name the same version; anything that does not fit is damage, not a guess. Must not: be changed without a new
//! number.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::super::Error;
use super::super::env::Db;
use super::{Catalog, Job, Part, Run, TableCounts};
use tideline_base::ids::{Position, TableId};

/// The format of an image directory that this program writes: the next commit makes one of format 1 one of this.
pub(in super::super) const FORMAT: u32 = 2;
/// The format before rows were in blocks, which it reads as well.
const WITHOUT_BLOCKS: u32 = 1;
pub(in super::super) const VERSION_KEY: &[u8] = b"version";
pub(in super::super) const CATALOG_KEY: &[u8] = b"catalog";

/// The small value that shows a reader whether its catalog is still the current one.
pub(in super::super) fn encode_version(version: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    out.extend_from_slice(&FORMAT.to_be_bytes());
    out.extend_from_slice(&version.to_be_bytes());
    seal(&mut out);
    out
}

/// Reads what `encode_version` wrote, the format too; refuses those that it does not know.
pub(in super::super) fn decode_version(stored: &[u8]) -> Result<(u32, u64), Error> {
    let mut input = open(stored, "version")?;
    let found = input.u32()?;
    if !(WITHOUT_BLOCKS..=FORMAT).contains(&found) {
        return Err(Error::Format {
            found,
            known: FORMAT,
        });
    }
    let version = input.u64()?;
    input.end()?;
    Ok((found, version))
}

/// The whole catalog as one value.
pub(in super::super) fn encode(catalog: &Catalog) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    put_u64(&mut out, catalog.covered.0);
    put_u64(&mut out, catalog.next_run);
    put_count(&mut out, catalog.runs.len());
    for run in &catalog.runs {
        put_run(&mut out, run);
    }
    put_count(&mut out, catalog.jobs.len());
    for job in &catalog.jobs {
        out.push(job.level);
        put_count(&mut out, job.inputs.len());
        for &input in &job.inputs {
            put_u64(&mut out, input);
        }
        put_run(&mut out, &job.output);
        out.push(u8::from(job.growing));
        out.push(u8::from(job.passed.is_some()));
        put_bytes(&mut out, job.passed.as_deref().unwrap_or_default());
    }
    put_u64(&mut out, catalog.version);
    seal(&mut out);
    out
}

/// Reads what `encode` wrote, or a program that wrote this format. `slot` gives the handle of a slot.
pub(in super::super) fn decode(
    stored: &[u8],
    format: u32,
    slot: &dyn Fn(u16) -> Option<Db>,
) -> Result<Catalog, Error> {
    let mut input = open(stored, "catalog")?;
    input.has_blocks = format > WITHOUT_BLOCKS;
    let covered = Position(input.u64()?);
    let next_run = input.u64()?;
    let mut runs = Vec::new();
    for _ in 0..input.u32()? {
        runs.push(Arc::new(input.run(slot)?));
    }
    let mut jobs = Vec::new();
    for _ in 0..input.u32()? {
        let level = input.u8()?;
        let mut inputs = Vec::new();
        for _ in 0..input.u32()? {
            inputs.push(input.u64()?);
        }
        let output = input.run(slot)?;
        let growing = input.u8()? == 1;
        let some = input.u8()? == 1;
        let passed = Some(input.bytes()?).filter(|_| some);
        jobs.push(Job {
            level,
            inputs,
            output,
            growing,
            passed,
        });
    }
    let version = input.u64()?;
    input.end()?;
    Ok(Catalog {
        version,
        covered,
        next_run,
        runs,
        jobs,
    })
}

fn put_run(out: &mut Vec<u8>, run: &Run) {
    put_u64(out, run.number);
    out.push(run.level);
    put_u64(out, run.from.0);
    put_u64(out, run.to.0);
    put_count(out, run.parts.len());
    for part in &run.parts {
        out.extend_from_slice(&part.slot.to_be_bytes());
        out.extend_from_slice(&part.side.to_be_bytes());
        put_bytes(out, &part.first);
        put_bytes(out, &part.last);
        put_u64(out, part.page_bytes);
        put_u64(out, part.filter_bytes);
        put_u64(out, part.blocks);
        put_count(out, part.counts.len());
        for counts in &part.counts {
            let TableCounts {
                table,
                rows,
                bytes,
                tombstones,
                deltas,
                version_min,
                version_max,
                digest,
            } = *counts;
            out.extend_from_slice(&table.0.to_be_bytes());
            for number in [
                rows,
                bytes,
                tombstones,
                deltas,
                version_min,
                version_max,
                digest,
            ] {
                put_u64(out, number);
            }
        }
    }
}

fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_be_bytes());
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    let count = u32::try_from(count).expect("slots bound every list");
    out.extend_from_slice(&count.to_be_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn seal(out: &mut Vec<u8>) {
    let crc = crc32c::crc32c(out);
    out.extend_from_slice(&crc.to_be_bytes());
}

/// Whether a stored value has passed its checksum.
pub(in super::super) fn is_sealed(stored: &[u8]) -> bool {
    open(stored, "catalog").is_ok()
}

fn open<'a>(stored: &'a [u8], what: &'static str) -> Result<Input<'a>, Error> {
    let (bytes, crc) = stored
        .split_last_chunk::<4>()
        .ok_or_else(|| Error::damaged(what, "too short"))?;
    if crc32c::crc32c(bytes) != u32::from_be_bytes(*crc) {
        return Err(Error::damaged(what, "wrong checksum"));
    }
    Ok(Input {
        bytes,
        what,
        has_blocks: true,
    })
}

/// What is left to read.
struct Input<'a> {
    bytes: &'a [u8],
    what: &'static str,
    /// Whether parts have their numbers of blocks.
    has_blocks: bool,
}

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (taken, left) = self
            .bytes
            .split_at_checked(count)
            .ok_or_else(|| Error::damaged(self.what, "ends early"))?;
        self.bytes = left;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        Ok(self.take(N)?.try_into().expect("took that many"))
    }

    fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16, Error> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, Error> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Error> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    fn bytes(&mut self) -> Result<Bytes, Error> {
        let length = self.u32()? as usize;
        Ok(Bytes::copy_from_slice(self.take(length)?))
    }

    fn end(&self) -> Result<(), Error> {
        match self.bytes {
            [] => Ok(()),
            _ => Err(Error::damaged(self.what, "bytes left over")),
        }
    }

    fn run(&mut self, slot: &dyn Fn(u16) -> Option<Db>) -> Result<Run, Error> {
        let number = self.u64()?;
        let level = self.u8()?;
        let from = Position(self.u64()?);
        let to = Position(self.u64()?);
        let mut parts = Vec::new();
        for _ in 0..self.u32()? {
            parts.push(Arc::new(self.part(slot)?));
        }
        Ok(Run {
            number,
            level,
            from,
            to,
            parts,
        })
    }

    fn part(&mut self, slot_of: &dyn Fn(u16) -> Option<Db>) -> Result<Part, Error> {
        let slot = self.u16()?;
        let side = self.u16()?;
        let missing = || Error::damaged("catalog", "names a slot that is not there");
        Ok(Part {
            slot,
            side,
            rows_db: slot_of(slot).ok_or_else(missing)?,
            side_db: slot_of(side).ok_or_else(missing)?,
            first: self.bytes()?,
            last: self.bytes()?,
            page_bytes: self.u64()?,
            filter_bytes: self.u64()?,
            blocks: if self.has_blocks { self.u64()? } else { 0 },
            counts: self.counts()?,
            filter: OnceLock::new(),
            trees: OnceLock::new(),
        })
    }

    fn counts(&mut self) -> Result<Vec<TableCounts>, Error> {
        let mut all = Vec::new();
        for _ in 0..self.u32()? {
            all.push(TableCounts {
                table: TableId(self.u32()?),
                rows: self.u64()?,
                bytes: self.u64()?,
                tombstones: self.u64()?,
                deltas: self.u64()?,
                version_min: self.u64()?,
                version_max: self.u64()?,
                digest: self.u64()?,
            });
        }
        Ok(all)
    }
}
