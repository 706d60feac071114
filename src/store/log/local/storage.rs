//! What the log needs of a disk, as a small trait, and the real disk behind it.
//!
//! Owns: the names of the few calls through which the log touches files. Promises: `LocalStorage` turns each call into
//! the system call of that name, without caching and without retrying. Must not: know what a frame is, or hide an
//! error.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One directory of a disk. Calls are synchronous; names are plain file names without a path.
pub(crate) trait Storage: Send + Sync {
    /// Creates an empty file; an error if the name is taken. Not durable before [`Storage::sync_dir`].
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Opens a file that is there, for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// The names of all files, in any order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Gives a file another name, replacing what has it. Not durable before [`Storage::sync_dir`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a name; readers that have the file open go on reading it.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes creations, renames and removals durable.
    fn sync_dir(&self) -> io::Result<()>;

    /// Bytes that may still be written; `None` if nobody knows.
    fn left(&self) -> Option<u64> {
        None
    }
}

/// An open file. All calls take an offset, so that one handle serves the writer and every reader.
pub(crate) trait File: Send + Sync {
    /// Writes all of `bytes`. After an error any part of them may be in the file.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Fills `buffer` as far as the file reaches; less than its length only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// The file's length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Cuts the file, or extends it by zeros.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Makes what was written, and the length, durable (`fdatasync`). After an error nothing is known of what was
    /// written since the last success, and calling again proves nothing.
    fn sync_data(&self) -> io::Result<()>;
}

/// A directory of the local file system.
pub(crate) struct LocalStorage {
    path: PathBuf,
    directory: fs::File,
    read_only: bool,
}

impl LocalStorage {
    /// Opens a directory, making it (and syncing its parent) if it is not there.
    pub(crate) fn new(path: impl AsRef<Path>) -> io::Result<LocalStorage> {
        let path = path.as_ref().to_path_buf();
        if !path.is_dir() {
            fs::create_dir_all(&path)?;
            if let Some(parent) = path.parent().filter(|parent| parent.is_dir()) {
                fs::File::open(parent)?.sync_all()?;
            }
        }
        LocalStorage::at(path, false)
    }

    /// Opens a directory to read its files: they need not be writable, and writing to them fails.
    pub(crate) fn read_only(path: impl AsRef<Path>) -> io::Result<LocalStorage> {
        LocalStorage::at(path.as_ref().to_path_buf(), true)
    }

    fn at(path: PathBuf, read_only: bool) -> io::Result<LocalStorage> {
        let directory = fs::File::open(&path)?;
        Ok(LocalStorage {
            path,
            directory,
            read_only,
        })
    }
}

impl Storage for LocalStorage {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = fs::File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(self.path.join(name))?;
        Ok(Arc::new(LocalFile(file)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = fs::File::options()
            .read(true)
            .write(!self.read_only)
            .open(self.path.join(name))?;
        Ok(Arc::new(LocalFile(file)))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            // A name that is not text is none of ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        if tideline_base::faults::is_named("names_unsynced") {
            return Ok(());
        }
        self.directory.sync_all()
    }

    fn left(&self) -> Option<u64> {
        tideline_base::disk::left(&self.path, 0)
    }
}

struct LocalFile(fs::File);

impl File for LocalFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self
                .0
                .read_at(&mut buffer[filled..], offset + filled as u64)
            {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
