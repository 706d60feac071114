//! One search index on disk.
//!
//! Owns: its folder, its writer and its commits. Promises: a commit has the documents and the place that speaks of
//! them, both or neither; after an error it is not used again but opened anew, from its last commit on. Must not: know
//! where rows come from. Blocks on the disk.

pub(crate) mod document;
pub(crate) mod layout;
pub(crate) mod message;
pub(crate) mod object;
pub(crate) mod place;
mod remove;
pub(crate) mod stored;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tantivy::columnar::BytesColumn;
use tantivy::directory::MmapDirectory;
use tantivy::directory::error::{LockError, OpenDirectoryError, OpenReadError, OpenWriteError};
use tantivy::error::DataCorruption;
use tantivy::merge_policy::LogMergePolicy;
use tantivy::query::EnableScoring;
use tantivy::store::Compressor;
use tantivy::{
    Directory as _, DocId, DocSet as _, Index as Engine, IndexMeta, IndexReader, IndexSettings,
    IndexWriter, ReloadPolicy, Searcher, TERMINATED, TantivyError,
};

use tideline_base::ids::HistoryId;
use tideline_base::{disk, faults};
use tideline_model::search::SearchIndex;
use tideline_model::{FoundRow, KeyColumn};

use crate::query::{partly_older, term_of_key};
use layout::{KEY, Layout};
use place::{Bent, Place};

/// Memory of a writer before it writes a segment.
const ARENA_BYTES: usize = 32 << 20;
/// Bytes of documents between two commits.
const QUEUED_BYTES_MAX: usize = 32 << 20;
/// Room on the disk that an index leaves to others, or a 16th of it if that is less.
const KEPT_BYTES: u64 = 256 << 20;
/// Segments with so large a part of deleted documents are merged.
const DELETED_MAX: f32 = 0.3;

/// What is kept as it was given lies in blocks of so many bytes. Numbers of vectors do not compress.
const BLOCK_BYTES: usize = 64 << 10;

/// Why an index can't go on.
#[derive(Debug)]
pub(crate) enum Broken {
    /// Nothing is known to be wrong with its files: it is opened again later, from its last commit, and held against
    /// its checksums then.
    Later(String),
    /// It is made anew.
    Damaged(String),
}

/// An open index.
pub(crate) struct Index {
    pub(crate) layout: Arc<Layout>,
    engine: Engine,
    reader: IndexReader,
    /// Open while there is something to write.
    writer: Option<IndexWriter>,
    /// Documents were written or deleted since the last commit.
    is_changed: bool,
    /// Bytes of the documents that were put since then, which may wait in the engine's queue.
    queued: usize,
    folder: PathBuf,
}

/// A row, by its encoded key; `None` = there is none any more.
pub(crate) type Put = (Vec<u8>, Option<FoundRow>);

impl Index {
    /// Opens the index in a folder, or makes it; with the place of its last commit, if that is of this index. Reads all
    /// of it once, against its checksums.
    pub(crate) fn open(
        folder: &Path,
        definition: &SearchIndex,
        history: HistoryId,
    ) -> Result<(Index, Option<Place>), Broken> {
        let layout = Arc::new(Layout::of(definition));
        let analyzers = layout.fields.iter().map(|placed| &placed.analyzer);
        analyzers.for_each(crate::analyze::load);
        let broken = |error: TantivyError| unopened(folder, error);
        fs::create_dir_all(folder).map_err(|error| broken(error.into()))?;
        let directory = MmapDirectory::open(folder).map_err(|error| broken(error.into()))?;
        let engine = Engine::builder().schema(layout.engine.clone());
        let engine = engine.settings(IndexSettings {
            docstore_compression: Compressor::None,
            docstore_blocksize: BLOCK_BYTES,
            ..IndexSettings::default()
        });
        let engine = engine.open_or_create(directory).map_err(broken)?;
        let metas = engine.load_metas().map_err(broken)?;
        let place = match &metas.payload {
            None => None,
            Some(payload) => Place::read(payload, definition.id, history)
                .map_err(|Bent| Broken::Damaged("its place is damaged".to_owned()))?,
        };
        let reader = engine.reader_builder().reload_policy(ReloadPolicy::Manual);
        let reader: IndexReader = reader.try_into().map_err(broken)?;
        check(&engine, &metas, &reader.searcher()).map_err(broken)?;
        let index = Index {
            layout,
            engine,
            reader,
            writer: None,
            is_changed: false,
            queued: 0,
            folder: folder.to_owned(),
        };
        Ok((index, place))
    }

    /// Puts rows in as they are now, in the place of what it had of them, until it is full; returns how many.
    pub(crate) fn put(&mut self, columns: &[KeyColumn], rows: &[Put]) -> Result<usize, Broken> {
        let layout = Arc::clone(&self.layout);
        for (at, (key, row)) in rows.iter().enumerate() {
            if self.is_full() {
                return Ok(at);
            }
            self.is_changed = true;
            let writer = self.writer()?;
            writer.delete_term(term_of_key(&layout, key));
            let document = row.as_ref();
            let document = document.and_then(|row| layout.document(columns, key, row));
            if let Some((document, bytes)) = document {
                let added = writer.add_document(document);
                added.map_err(|error| why(&self.folder, error))?;
                self.queued += bytes;
            }
        }
        Ok(rows.len())
    }

    /// Whether so much waits in the engine's queue that a commit should empty it.
    pub(crate) fn is_full(&self) -> bool {
        self.queued >= QUEUED_BYTES_MAX
    }

    /// The encoded keys of rows of which some columns are from before a time, ms since 1970, and some are not; of so
    /// many at most.
    pub(crate) fn partly_older(&self, since_ms: i64, most: usize) -> Result<Vec<Vec<u8>>, Broken> {
        let mut keys = Vec::new();
        let mut look = || {
            let searcher = self.searcher();
            let query = partly_older(&self.layout, since_ms);
            let weight = query.weight(EnableScoring::disabled_from_searcher(&searcher))?;
            for segment in searcher.segment_readers() {
                let Some(column) = segment.fast_fields().bytes(KEY)? else {
                    continue;
                };
                let (mut rows, alive) = (weight.scorer(segment, 1.0)?, segment.alive_bitset());
                while rows.doc() != TERMINATED && keys.len() < most {
                    let row = rows.doc();
                    if alive.is_none_or(|alive| alive.is_alive(row)) {
                        keys.push(key_in(&column, row)?);
                    }
                    rows.advance();
                }
            }
            Ok(())
        };
        look().map_err(|error| why(&self.folder, error))?;
        Ok(keys)
    }

    /// Whether there is something that no commit has.
    pub(crate) fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Commits what was put, and how far the index has come with it. What is committed is found.
    pub(crate) fn commit(&mut self, place: &Place) -> Result<(), Broken> {
        let payload = place.payload();
        let writer = self.writer()?;
        let mut commit = || {
            let mut prepared = writer.prepare_commit()?;
            prepared.set_payload(&payload);
            prepared.commit()
        };
        let done = commit().and_then(|_| self.reader.reload());
        done.map_err(|error| why(&self.folder, error))?;
        (self.is_changed, self.queued) = (false, 0);
        Ok(())
    }

    /// Whether the disk has more room than an index leaves to others.
    pub(crate) fn has_room(&self) -> bool {
        let kept = disk::total(&self.folder).map_or(0, |total| (total / 16).min(KEPT_BYTES));
        disk::left(&self.folder, 0).is_none_or(|left| left >= kept)
    }

    /// Removes the files that no commit names: what failed merges have left, and writers that were killed.
    pub(crate) fn collect(&mut self) -> Result<(), Broken> {
        let collected = self.writer()?.garbage_collect_files().wait();
        collected
            .map(drop)
            .map_err(|error| why(&self.folder, error))
    }

    /// Lets go of the writer, whose merges end first.
    pub(crate) fn rest(&mut self) -> Result<(), Broken> {
        match self.writer.take() {
            Some(writer) => writer
                .wait_merging_threads()
                .map_err(|error| why(&self.folder, error)),
            None => Ok(()),
        }
    }

    /// What is found now.
    pub(crate) fn searcher(&self) -> Searcher {
        self.reader.searcher()
    }

    fn writer(&mut self) -> Result<&mut IndexWriter, Broken> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => {
                let writer = self.engine.writer_with_num_threads(1, ARENA_BYTES);
                let writer: IndexWriter = writer.map_err(|error| why(&self.folder, error))?;
                let mut policy = LogMergePolicy::default();
                policy.set_del_docs_ratio_before_merge(DELETED_MAX);
                writer.set_merge_policy(Box::new(policy));
                // A kill has left files that no commit names; one of their names may be needed again.
                drop(writer.garbage_collect_files().wait());
                if !faults::is_named("search_stamp_twice") {
                    // The engine gives a writer's first operation the number of the last commit. A removal would count
                    // as committed where a merge looks at it, and not where it has looked already, and be lost.
                    writer
                        .run(Vec::new())
                        .map_err(|error| why(&self.folder, error))?;
                }
                writer
            }
        };
        Ok(self.writer.insert(writer))
    }
}

/// Holds the files of a commit against their checksums, and against what the commit, which has none, says of them.
fn check(engine: &Engine, metas: &IndexMeta, searcher: &Searcher) -> tantivy::Result<()> {
    for path in metas.list_segment_files() {
        let directory = engine.directory();
        if directory.exists(&path)? && !directory.validate_checksum(&path)? {
            let damage = DataCorruption::new(path, "its checksum is another one".to_owned());
            return Err(damage.into());
        }
    }
    for segment in searcher.segment_readers() {
        let keys = segment.fast_fields().bytes(KEY)?;
        if keys.is_some_and(|keys| keys.num_rows() != segment.max_doc()) {
            let damage = "a segment has another number of rows than its commit says";
            return Err(DataCorruption::comment_only(damage).into());
        }
    }
    Ok(())
}

/// Removes the files of an index.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => fs::remove_file(folder),
        done => done,
    }
}

/// Bytes of the files in a folder.
pub(crate) fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| Some(entry.metadata().ok()?.len()));
    sizes.sum()
}

/// The encoded key of a row, from the column of keys of its segment.
pub(crate) fn key_in(keys: &BytesColumn, row: DocId) -> io::Result<Vec<u8>> {
    let mut key = Vec::new();
    if let Some(ordinal) = keys.term_ords(row).next() {
        keys.ord_to_bytes(ordinal, &mut key)?;
    }
    Ok(key)
}

/// Why an index that was open can't go on. The engine's threads report that they have ended, and not why: whether the
/// files are as they were is found out when the index is opened again.
fn why(folder: &Path, error: TantivyError) -> Broken {
    Broken::Later(with_advice(folder, &error))
}

/// Why it can't be opened. What the system refuses for now says nothing of its files.
fn unopened(folder: &Path, error: TantivyError) -> Broken {
    let text = with_advice(folder, &error);
    let is_refused = match io_error(&error) {
        Some(error) => {
            let is_short = [io::ErrorKind::OutOfMemory, io::ErrorKind::WouldBlock];
            let is_full = disk::is_full(error, || disk::left(folder, 0));
            is_full || disk::is_no_descriptor(error) || is_short.contains(&error.kind())
        }
        None => matches!(
            error,
            TantivyError::LockFailure(..) | TantivyError::SystemError(_)
        ),
    };
    match is_refused {
        true => Broken::Later(text),
        false => Broken::Damaged(text),
    }
}

/// The text of an error, and what to do about it. One without a reason is of a full disk if little room is left.
fn with_advice(folder: &Path, error: &TantivyError) -> String {
    let advice = match io_error(error).map_or("", disk::advice) {
        "" if disk::left(folder, 0).is_some_and(|left| left < disk::LITTLE_BYTES) => disk::FULL,
        advice => advice,
    };
    format!("{error}{advice}")
}

/// The system's error in one of the engine.
fn io_error(error: &TantivyError) -> Option<&io::Error> {
    match error {
        TantivyError::IoError(error)
        | TantivyError::LockFailure(LockError::IoError(error), _)
        | TantivyError::OpenReadError(OpenReadError::IoError {
            io_error: error, ..
        })
        | TantivyError::OpenWriteError(OpenWriteError::IoError {
            io_error: error, ..
        })
        | TantivyError::OpenDirectoryError(OpenDirectoryError::IoError {
            io_error: error, ..
        }) => Some(error),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tantivy::merge_policy::NoMergePolicy;
    use tideline_base::ids::TableId;
    use tideline_model::search::{FieldType, SearchSchema};
    use tideline_table::Map;

    use super::*;
    use crate::tests::field;

    /// An index in a folder, and its place.
    struct Bed {
        folder: tempfile::TempDir,
        definition: SearchIndex,
        history: HistoryId,
        place: Place,
    }

    impl Bed {
        fn new() -> Bed {
            let schema = SearchSchema {
                fields: vec![field("long", FieldType::Long)],
                ..SearchSchema::default()
            };
            let definition = SearchIndex {
                id: TableId(7),
                name: "index".to_owned(),
                schema: schema.checked().unwrap(),
                time_to_live_s: -1,
                created_us: 0,
            };
            let history = HistoryId::random();
            Bed {
                folder: tempfile::tempdir().unwrap(),
                place: Place::begin(definition.id, history, &Map::new(1)),
                definition,
                history,
            }
        }

        fn open(&self) -> Index {
            let opened = Index::open(self.folder.path(), &self.definition, self.history);
            opened.unwrap().0
        }

        /// Puts a row for each capital letter, and takes out that of each other one.
        fn write(&self, index: &mut Index, letters: &str) {
            let row = || FoundRow {
                key: Vec::new(),
                cells: Vec::new(),
            };
            let rows = letters.bytes().map(|letter| {
                let key = vec![letter.to_ascii_uppercase()];
                (key, letter.is_ascii_uppercase().then(row))
            });
            let rows: Vec<Put> = rows.collect();
            assert_eq!(index.put(&[], &rows).unwrap(), rows.len());
            index.commit(&self.place).unwrap();
        }
    }

    /// The letters that are found, in order, each as often as it is.
    fn found(index: &Index) -> String {
        let searcher = index.searcher();
        let letters = searcher.segment_readers().iter().flat_map(|segment| {
            let keys = segment.fast_fields().bytes(KEY).unwrap().unwrap();
            let all = segment.doc_ids_alive();
            let letters = all.map(|row| key_in(&keys, row).unwrap()[0]);
            letters.collect::<Vec<_>>()
        });
        let mut letters: Vec<u8> = letters.collect();
        letters.sort_unstable();
        String::from_utf8(letters).unwrap()
    }

    /// After a kill there are segments that were to be merged. The next writer merges them as of the last commit, while
    /// its first change waits for the next one.
    #[test]
    fn the_first_change_behind_a_start_is_not_lost_in_a_merge() {
        for (change, after) in [("xN", "ABCDEFGHNZ"), ("XN", "ABCDEFGHNXZ")] {
            let bed = Bed::new();
            let mut index = bed.open();
            let writer = index.writer().unwrap();
            writer.set_merge_policy(Box::new(NoMergePolicy));
            // The last commit has taken out so many of the second segment that it is to be merged.
            for letters in ["ABCDEFGH", "XYZ", "y"] {
                bed.write(&mut index, letters);
            }
            drop(index);
            let mut index = bed.open();
            assert_eq!(index.searcher().segment_readers().len(), 2);
            bed.write(&mut index, change);
            index.rest().unwrap();
            let index = bed.open();
            assert_eq!(index.searcher().segment_readers().len(), 2, "not merged");
            assert_eq!(found(&index), after, "{change}");
        }
    }

    /// A kill comes when the files of a commit are written, and before it counts. The same changes have it made again
    /// with the same names.
    #[test]
    fn a_commit_that_did_not_come_to_count_is_made_again() {
        let bed = Bed::new();
        let metas = bed.folder.path().join("meta.json");
        bed.write(&mut bed.open(), "ABCD");
        let before = fs::read(&metas).unwrap();
        for _ in 0..2 {
            fs::write(&metas, &before).unwrap();
            bed.write(&mut bed.open(), "aN");
        }
        assert_eq!(found(&bed.open()), "BCDN");
    }

    #[test]
    fn what_the_system_refuses_is_no_damage() {
        let folder = tempfile::tempdir().unwrap();
        let read = |code| {
            let error = io::Error::from_raw_os_error(code);
            TantivyError::from(OpenReadError::wrap_io_error(error, "a.idx".into()))
        };
        // EMFILE, ENFILE, ENOMEM, EAGAIN, ENOSPC; the controls: EACCES, EIO.
        for (code, is_later) in [24, 23, 12, 11, 28]
            .map(|code| (code, true))
            .into_iter()
            .chain([(13, false), (5, false)])
        {
            let opened = unopened(folder.path(), read(code));
            assert_eq!(matches!(opened, Broken::Later(_)), is_later, "{opened:?}");
            assert!(matches!(why(folder.path(), read(code)), Broken::Later(_)));
        }
        let Broken::Later(text) = why(folder.path(), read(24)) else {
            panic!("a descriptor is no damage");
        };
        assert!(text.contains("ulimit -n"), "{text}");
    }
}
