//! `directory.toml`: what a data directory is and which partitions it has and had.
//!
//! Owns: the file and its formats. Promises: the file is replaced whole or not at all; an older format is read, another
//! one and a map that contradicts itself are refused with the file's name. Must not: look at anything else in the
//! directory.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::super::OpenError;
use super::map::{Map, Origin, Share};
use tideline_base::ids::{HistoryId, PartitionId, Position};

/// The version of everything under a data directory. One that is not known is refused.
pub(in super::super) const FORMAT: u32 = 3;
/// The same, but the partitions are only counted: they own equal ranges, and none has ended.
const FORMAT_COUNTED: u32 = 2;
/// The same, and the partitions do not say yet whose they are. They are made to when such a directory is served.
const FORMAT_UNMARKED: u32 = 1;

pub(in super::super) const MANIFEST: &str = "directory.toml";
/// A manifest on its way. Without `directory.toml` beside it: a first start that did not come to its end.
pub(in super::super) const MANIFEST_NEW: &str = "directory.toml.new";

/// A draft that may be written only in part.
pub(in super::super) const MANIFEST_PART: &str = "directory.toml.part";
/// What says what a backup is, beside the data directory in it.
pub(in super::super) const BACKUP_MANIFEST: &str = "backup.json";
/// In a directory that is being restored: what was fetched, until it is moved to its place.
pub(in super::super) const RESTORE_STAGING: &str = "restore.partial";

/// What a data directory is.
#[derive(Clone, Debug)]
pub(in super::super) struct Manifest {
    pub(in super::super) origin: Origin,
    pub(in super::super) map: Map,
    /// The format that it was read in.
    format: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    /// Of the whole directory.
    format: u32,
    /// 32 hexadecimal digits.
    history: String,
    /// How many partitions there were at the beginning.
    roots: u16,
    partition: Vec<Listed>,
}

/// A partition.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    number: u16,
    /// The lowest and the highest hash that it owns, 16 hexadecimal digits each.
    hashes: [String; 2],
    /// Whose keys it took over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parents: Vec<u16>,
    /// The first position of its log.
    begins: u64,
    /// The last one, if it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ends: Option<u64>,
    /// It has ended, and its log is there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    keeps_log: bool,
}

/// What formats 1 and 2 have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Counted {
    #[serde(rename = "format")]
    _format: u32,
    history: String,
    partitions: u16,
}

/// Only what every format has.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

impl Manifest {
    /// Of a new directory.
    pub(in super::super) fn new(partitions: u16) -> Manifest {
        let origin = Origin {
            history: HistoryId::random(),
            roots: partitions,
        };
        Manifest {
            origin,
            map: Map::new(partitions),
            format: FORMAT,
        }
    }

    /// Whether all partitions say whose they are.
    pub(in super::super) fn is_marked(&self) -> bool {
        self.format > FORMAT_UNMARKED
    }

    /// Whether it was read in today's format.
    pub(in super::super) fn is_current(&self) -> bool {
        self.format == FORMAT
    }

    /// Reads a file.
    pub(in super::super) fn read(name: &Path) -> Result<Manifest, OpenError> {
        let text =
            fs::read_to_string(name).map_err(|error| OpenError::from_io("read", name, error))?;
        let damaged = |what: &str| OpenError::Damaged {
            text: format!("{}: {what}", name.display()),
        };
        let wrong = |error: toml::de::Error| damaged(error.message());
        let format = toml::from_str::<Format>(&text).map_err(wrong)?.format;
        let manifest = match format {
            FORMAT => toml::from_str::<Written>(&text).map_err(wrong)?.read(),
            FORMAT_COUNTED | FORMAT_UNMARKED => {
                toml::from_str::<Counted>(&text).map_err(wrong)?.read()
            }
            found => {
                return Err(OpenError::OtherVersion {
                    path: name.parent().unwrap_or(name).to_owned(),
                    found,
                    known: FORMAT,
                });
            }
        };
        let (origin, map) = manifest.map_err(|what| damaged(&what))?;
        Ok(Manifest {
            origin,
            map,
            format,
        })
    }

    /// Writes it beside the one that counts.
    pub(in super::super) fn write(&self, folder: &Path) -> Result<(), OpenError> {
        let Manifest {
            origin: Origin { history, roots },
            map,
            ..
        } = self;
        let written = Written {
            format: FORMAT,
            history: history.to_string(),
            roots: *roots,
            partition: map.shares().map(Listed::of).collect(),
        };
        let text = toml::to_string(&written).expect("a manifest is plain TOML");
        let name = folder.join(MANIFEST_NEW);
        let part = folder.join(MANIFEST_PART);
        // There may be a draft already, which says what is being made: a rename replaces it as a whole.
        let written = File::create(&part).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&part, &name)?;
            sync(folder)
        });
        written.map_err(|error| OpenError::from_io("write", &name, error))
    }

    /// Makes the one that was written count.
    pub(in super::super) fn put(&mut self, folder: &Path) -> Result<(), OpenError> {
        let (new, name) = (folder.join(MANIFEST_NEW), folder.join(MANIFEST));
        fs::rename(&new, &name)
            .and_then(|()| sync(folder))
            .map_err(|error| OpenError::from_io("write", &name, error))?;
        self.format = FORMAT;
        Ok(())
    }
}

/// Makes the names in a folder durable.
pub(in super::super) fn sync(folder: &Path) -> io::Result<()> {
    #[cfg(test)]
    SYNCED.with_borrow_mut(|synced| synced.push(folder.to_owned()));
    File::open(folder)?.sync_all()
}

#[cfg(test)]
thread_local! {
    static SYNCED: std::cell::RefCell<Vec<std::path::PathBuf>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// The folders that this thread has synced since it last asked.
#[cfg(test)]
pub(super) fn synced_folders() -> Vec<std::path::PathBuf> {
    SYNCED.take()
}

fn history(text: &str) -> Result<HistoryId, String> {
    HistoryId::parse(text).ok_or_else(|| "history is not an ID".to_owned())
}

impl Counted {
    fn read(self) -> Result<(Origin, Map), String> {
        if self.partitions == 0 {
            return Err("there can't be 0 partitions".to_owned());
        }
        let origin = Origin {
            history: history(&self.history)?,
            roots: self.partitions,
        };
        Ok((origin, Map::new(self.partitions)))
    }
}

impl Written {
    fn read(self) -> Result<(Origin, Map), String> {
        if self.roots == 0 {
            return Err("there can't be 0 roots".to_owned());
        }
        let origin = Origin {
            history: history(&self.history)?,
            roots: self.roots,
        };
        let shares = self.partition.into_iter().map(Listed::read);
        let map = Map::of(shares.collect::<Result<_, _>>()?)?;
        // A root's range follows from their number, which each image says too.
        for root in Map::new(self.roots).shares() {
            let id = root.id;
            let listed = map.share(id).filter(|listed| {
                (listed.first, listed.last, listed.begins) == (root.first, root.last, root.begins)
                    && listed.parents.is_empty()
            });
            listed
                .ok_or_else(|| format!("partition {id} is not as it was in the new directory"))?;
        }
        Ok((origin, map))
    }
}

impl Listed {
    fn of(share: &Share) -> Listed {
        Listed {
            number: share.id.0,
            hashes: [share.first, share.last].map(|hash| format!("{hash:016x}")),
            parents: share.parents.iter().map(|parent| parent.0).collect(),
            begins: share.begins.0,
            ends: share.ends.map(|ends| ends.0),
            keeps_log: share.keeps_log,
        }
    }

    fn read(self) -> Result<Share, String> {
        let number = self.number;
        let hash = |text: &str| {
            let is_hash = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            let hash = is_hash
                .then(|| u64::from_str_radix(text, 16).ok())
                .flatten();
            hash.ok_or_else(|| format!("partition {number}: {text:?} is not a hash"))
        };
        Ok(Share {
            id: PartitionId(number),
            first: hash(&self.hashes[0])?,
            last: hash(&self.hashes[1])?,
            parents: self.parents.into_iter().map(PartitionId).collect(),
            begins: Position(self.begins),
            ends: self.ends.map(Position),
            keeps_log: self.keeps_log,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(folder: &Path, text: &str) -> Result<Manifest, OpenError> {
        fs::write(folder.join(MANIFEST), text).unwrap();
        Manifest::read(&folder.join(MANIFEST))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn a_manifest_comes_back(roots in 1u16..9, ends in 1u64..1 << 50, keeps_log: bool) {
            let home = tempfile::tempdir().unwrap();
            let mut manifest = Manifest::new(roots);
            let mut shares: Vec<Share> = manifest.map.shares().cloned().collect();
            let last = shares.last_mut().unwrap();
            let child = Share {
                id: PartitionId(roots),
                parents: vec![last.id],
                begins: Position(ends + 1),
                ..last.clone()
            };
            (last.ends, last.keeps_log) = (Some(Position(ends)), keeps_log);
            shares.push(child);
            manifest.map = Map::of(shares).unwrap();
            manifest.write(home.path()).unwrap();
            manifest.put(home.path()).unwrap();
            let read = Manifest::read(&home.path().join(MANIFEST)).unwrap();
            prop_assert_eq!((read.origin, &read.map), (manifest.origin, &manifest.map));
            prop_assert!(read.is_current() && read.is_marked());
        }
    }

    #[test]
    fn older_formats_are_read_and_what_contradicts_itself_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let history = "07070707070707070707070707070707";
        let counted = |format, partitions| {
            format!("format = {format}\nhistory = \"{history}\"\npartitions = {partitions}\n")
        };
        for format in [1, 2] {
            let read = at(home.path(), &counted(format, 3)).unwrap();
            assert_eq!(read.origin.history.to_string(), history);
            assert_eq!(read.origin.roots, 3);
            assert_eq!(read.map, Map::new(3));
            assert_eq!(read.is_marked(), format == 2);
            assert!(!read.is_current());
        }
        let whole = |number: &str, hashes: &str| {
            format!(
                "format = 3\nhistory = \"{history}\"\nroots = 1\n[[partition]]\nnumber = {number}\n\
                 hashes = {hashes}\nbegins = 1\n"
            )
        };
        let all = "[\"0000000000000000\", \"ffffffffffffffff\"]";
        assert_eq!(at(home.path(), &whole("0", all)).unwrap().map, Map::new(1));
        for wrong in [
            counted(2, 0),
            counted(4, 1),
            counted(3, 1),
            whole("0", "[\"0000000000000000\", \"fffffffffffffffe\"]"),
            whole("0", "[\"0\", \"ffffffffffffffff\"]"),
            whole("0", "[\"+000000000000000\", \"ffffffffffffffff\"]"),
            whole("70000", all),
            whole("1", all),
            whole("0", all) + "more = 1\n",
            whole("0", all).replace("roots = 1", "roots = 0"),
            whole("0", all).replace("07", "0x"),
        ] {
            assert!(at(home.path(), &wrong).is_err(), "{wrong}");
        }
    }
}
