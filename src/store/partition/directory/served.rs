//! `served`: the mark of a data directory that is being served, by which a plain copy of it is noticed.
//!
//! Owns: the file. Promises: it is there before a server's first write and until after its last one; it names its own
//! inode and when that was made, which a copy of files changes, and a kill, a power cut, a move within a file system or
//! a snapshot of one does not. Must not: be made where inodes are not known to stay, because a start after a kill would
//! then be refused.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use super::super::OpenError;
use super::manifest::sync;
use super::network::file_system;

const SERVED: &str = "served";
const SERVED_PART: &str = "served.part";

/// File systems on which a file keeps its inode's number for as long as it is there.
const KEEPS_INODES: [&str; 10] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "tmpfs", "overlay",
];

/// What a copy of a file changes.
struct Identity {
    inode: u64,
    /// ns since 1970; `None` = the file system does not say.
    born_ns: Option<u128>,
}

impl Identity {
    fn of(file: &Metadata) -> Identity {
        let born = file.created().ok();
        let since = born.and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        Identity {
            inode: file.ino(),
            born_ns: since.map(|since| since.as_nanos()),
        }
    }

    fn text(&self) -> String {
        let born = self.born_ns.map_or(String::new(), |ns| ns.to_string());
        format!("inode {}, made at {born}\n", self.inode)
    }

    fn parse(text: &str) -> Option<Identity> {
        let (inode, born) = text.strip_prefix("inode ")?.split_once(", made at ")?;
        let born = born.strip_suffix('\n')?;
        Some(Identity {
            inode: inode.parse().ok()?,
            born_ns: match born {
                "" => None,
                ns => Some(ns.parse().ok()?),
            },
        })
    }

    fn is(&self, other: &Identity) -> bool {
        let both = self.born_ns.zip(other.born_ns);
        self.inode == other.inode && both.is_none_or(|(one, other)| one == other)
    }
}

/// Whether there is a mark; `Some(true)` = it is in the file that it was written to.
fn marked(path: &Path) -> io::Result<Option<bool>> {
    let mut file = match File::open(path.join(SERVED)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut text = Vec::new();
    (&mut file).take(200).read_to_end(&mut text)?;
    let says = std::str::from_utf8(&text).ok().and_then(Identity::parse);
    let here = Identity::of(&file.metadata()?);
    Ok(Some(says.is_some_and(|says| says.is(&here))))
}

/// Whether a data directory is a plain copy of one that was being served, or had been killed.
pub fn is_copy(path: &Path) -> Result<bool, OpenError> {
    if tideline_base::faults::is_named("copies_pass") {
        return Ok(false);
    }
    let found = marked(path);
    let found = found.map_err(|error| OpenError::from_io("read", &path.join(SERVED), error))?;
    Ok(found == Some(false))
}

pub(in super::super) fn refuse_copy(path: &Path) -> Result<(), OpenError> {
    match is_copy(path)? {
        false => Ok(()),
        true => Err(OpenError::Copy {
            path: path.to_owned(),
        }),
    }
}

/// Marks a directory before anything is written to it; also makes the names in it durable, which may be those that a
/// killed process gave.
pub(in super::super) fn mark(path: &Path) -> Result<(), OpenError> {
    let made = match marked(path) {
        Ok(Some(true)) => Ok(()),
        Ok(_) if !keeps_inodes(path) => Ok(()),
        Ok(_) => make(path),
        Err(error) => Err(error),
    };
    if let Err(error) = made {
        // A disk that is full for the moment keeps nobody from being served.
        tracing::warn!(%error, "the directory can't be marked as served: a plain copy of it will not be noticed");
    }
    sync(path).map_err(|error| OpenError::from_io("sync", path, error))
}

fn make(path: &Path) -> io::Result<()> {
    let part = path.join(SERVED_PART);
    let mut file = File::create(&part)?;
    let text = Identity::of(&file.metadata()?).text();
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&part, path.join(SERVED))
}

/// Takes the mark away, after the last write: from now on a plain copy is as good as the directory.
pub(in super::super) fn unmark(path: &Path) {
    let removed = match fs::remove_file(path.join(SERVED)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        removed => removed.and_then(|()| sync(path)),
    };
    if let Err(error) = removed {
        tracing::warn!(%error, "the directory stays marked as served: a plain copy of it will be refused");
    }
}

fn keeps_inodes(path: &Path) -> bool {
    file_system(path).is_some_and(|kind| KEEPS_INODES.contains(&&*kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_of_one_file() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        let (there, copy, moved) = (at("there"), at("copy"), at("moved"));
        fs::create_dir(&there).unwrap();
        assert!(!is_copy(&there).unwrap());
        make(&there).unwrap();
        mark(&there).unwrap();
        fs::create_dir(&copy).unwrap();
        fs::copy(there.join(SERVED), copy.join(SERVED)).unwrap();
        fs::rename(&there, &moved).unwrap();
        assert!(is_copy(&copy).unwrap() && !is_copy(&moved).unwrap());
        // Damage looks like a copy.
        let whole = fs::read(moved.join(SERVED)).unwrap();
        for bytes in [&b""[..], b"\xff", &whole[..whole.len() - 1]] {
            fs::write(moved.join(SERVED), bytes).unwrap();
            assert!(is_copy(&moved).unwrap(), "{bytes:?}");
        }
        unmark(&copy);
        assert!(!is_copy(&copy).unwrap());
    }

    #[test]
    fn an_inode_that_is_used_again_is_another_file() {
        let one = |inode, born_ns| Identity { inode, born_ns };
        assert!(!one(12, Some(1)).is(&one(12, Some(2))));
        assert!(one(12, Some(1)).is(&one(12, None)));
        assert!(!one(12, None).is(&one(13, None)));
        let read = Identity::parse(&one(u64::MAX, None).text()).unwrap();
        assert!(read.is(&one(u64::MAX, None)) && read.born_ns.is_none());
    }
}
