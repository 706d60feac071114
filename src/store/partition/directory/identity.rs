//! Whether the parts of a data directory belong together: the directory, its partitions' folders, logs and images.
//!
//! Owns: the mark in each image: which partition, of which history, with which log. Promises: a folder, log
//! or image that is missing, too many or from elsewhere is named and refused before anything is served; in an existing
//! directory nothing missing is ever made anew. Must not: read rows or batches.

use std::path::Path;
use std::sync::Arc;
use std::{fs, io, iter};

use super::super::{ImageOptions, OpenError, Rules};
use super::manifest::sync;
use super::map::{Map, Origin, Share};
use super::{Directory, Standing};
use crate::image::Image;
use crate::log;
use crate::log::LocalStorage;
use tideline_base::ids::{HistoryId, PartitionId};

/// Makes the log of a new partition, which has this folder; gives the log's ID.
pub(in super::super) type MakeLog<'a> =
    dyn Fn(&Path, &LocalStorage) -> Result<HistoryId, OpenError> + 'a;

/// A log of its own.
pub(in super::super) fn make_log(_: &Path, storage: &LocalStorage) -> Result<HistoryId, OpenError> {
    Ok(log::make(storage)?)
}

/// Makes the partitions of a new directory, marks those of one that was made before there were marks, and checks those
/// of any other.
pub(in super::super) fn settle(
    directory: &mut Directory,
    options: &ImageOptions,
    rules: &Arc<dyn Rules>,
    make_log: &MakeLog<'_>,
) -> Result<(), OpenError> {
    let is_new = directory.standing() == Standing::Draft;
    if !is_new {
        for id in directory.drafted() {
            tracing::info!(partition = %id, "clearing a partition away that did not come to be");
        }
        directory.sweep()?;
        if let Some(surplus) = directory.surplus()?.first() {
            return Err(does_not_fit(surplus));
        }
        for id in directory.ids() {
            presence(directory, id)?;
        }
        let kept = directory.map().shares().filter(|share| share.keeps_log);
        for share in kept {
            is_there(&directory.log(share.id))?;
        }
    }
    let mut unmarked = Vec::new();
    for id in directory.ids() {
        let (log_folder, image_folder) = (directory.log(id), directory.image(id));
        let storage = LocalStorage::new(&log_folder)
            .map_err(|error| OpenError::from_io("open", &log_folder, error))?;
        let log = match is_new {
            true => make_log(&directory.folder(id), &storage),
            false => log::identity(&storage).map_err(OpenError::from),
        };
        let log = log.map_err(|error| error.within(&log_folder))?;
        let image = Image::open(&image_folder, options.clone(), Arc::clone(rules))
            .map_err(|error| OpenError::from(error).within(&image_folder))?;
        match mark_fits(directory, id, &image, log)? {
            // Also if an earlier attempt has set it: that one may have failed before the names were durable.
            _ if is_new => set_mark(directory, (id, directory.map()), &image, log)?,
            true => {}
            // Not before all are seen to be there.
            false => unmarked.push((id, log)),
        }
    }
    let marked = unmarked.into_iter().try_for_each(|(id, log)| {
        let folder = directory.image(id);
        let image = Image::open(&folder, options.clone(), Arc::clone(rules))
            .map_err(|error| OpenError::from(error).within(&folder))?;
        set_mark(directory, (id, directory.map()), &image, log)
    });
    match marked.and_then(|()| directory.seal()) {
        // All was seen to be there: a disk that is full for the moment keeps nobody from being served.
        Err(error) if directory.standing() != Standing::Draft => {
            tracing::warn!(%error, "the directory could not be brought to today's format; the next start tries again");
            Ok(())
        }
        done => done,
    }
}

/// Refuses a partition of which something is missing.
pub(in super::super) fn presence(directory: &Directory, id: PartitionId) -> Result<(), OpenError> {
    let (log, image) = (directory.log(id), directory.image(id));
    for folder in log.parent().into_iter().chain([&*log, &*image]) {
        is_there(folder)?;
    }
    match Image::is_there(&image) {
        Ok(true) => Ok(()),
        Ok(false) => Err(does_not_fit(&format!(
            "there is no image in {}",
            image.display()
        ))),
        Err(error) => Err(OpenError::from_io("look at", &image, error)),
    }
}

fn is_there(folder: &Path) -> Result<(), OpenError> {
    match fs::metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(missing(folder)),
        Err(error) => Err(OpenError::from_io("look at", folder, error)),
        Ok(_) => Ok(()),
    }
}

/// Whether an image's mark is that of its place; `false` = it has none, and may have none.
pub(in super::super) fn mark_fits(
    directory: &Directory,
    id: PartitionId,
    image: &Image,
    log: HistoryId,
) -> Result<bool, OpenError> {
    let folder = directory.image(id);
    let marked = image
        .mark()
        .map_err(|error| OpenError::from(error).within(&folder))?;
    let place = place(id, directory.map(), directory.origin());
    let shown = folder.display();
    let Some(marked) = marked else {
        return match directory.standing() {
            Standing::Whole => Err(does_not_fit(&format!(
                "{shown} does not say whose it is, but should be {place}"
            ))),
            Standing::Draft | Standing::Unmarked => Ok(false),
        };
    };
    match marked.strip_prefix(&*place) {
        None => Err(does_not_fit(&format!(
            "{shown} is {marked}, but {} has {place} here",
            directory.manifest().display()
        ))),
        Some(with) if with != with_log(log) => Err(does_not_fit(&format!(
            "{shown} is {marked}, but {} is log {log}",
            directory.log(id).display()
        ))),
        Some(_) => Ok(true),
    }
}

/// Whether an image's mark is that of its place in the history that is announced: a repair has made it so.
pub(in super::super) fn is_of_next(
    directory: &Directory,
    id: PartitionId,
    image: &Image,
    log: HistoryId,
) -> Result<bool, OpenError> {
    let Some(history) = directory.next_history() else {
        return Ok(false);
    };
    let roots = directory.origin().roots;
    let mark = place(id, directory.map(), Origin { history, roots }) + &with_log(log);
    let marked = image
        .mark()
        .map_err(|error| OpenError::from(error).within(&directory.image(id)))?;
    Ok(marked.is_some_and(|marked| *marked == *mark))
}

/// Writes the mark of an image, and makes the names of the partition's files durable, and its own.
pub(in super::super) fn set_mark(
    directory: &Directory,
    (id, map): (PartitionId, &Map),
    image: &Image,
    log: HistoryId,
) -> Result<(), OpenError> {
    write_mark(directory, (id, map), image, log)?;
    let folder = directory.image(id);
    let log_folder = directory.log(id);
    let mut folders = iter::once(&*log_folder).chain(folder.ancestors().take(3));
    folders.try_for_each(|folder| {
        sync(folder).map_err(|error| OpenError::from_io("sync", folder, error))
    })
}

/// The same, of an image that may lie elsewhere; no name is made durable.
pub(in super::super) fn write_mark(
    directory: &Directory,
    (id, map): (PartitionId, &Map),
    image: &Image,
    log: HistoryId,
) -> Result<(), OpenError> {
    let mark = place(id, map, directory.origin()) + &with_log(log);
    image
        .set_mark(&mark)
        .map_err(|error| OpenError::from(error).within(&directory.image(id)))
}

/// Which partition it is. Those of a new directory say how many they were, others what they own.
fn place(id: PartitionId, map: &Map, origin: Origin) -> String {
    let Origin { history, roots } = origin;
    match map.share(id) {
        Some(Share { first, last, .. }) if id.0 >= roots => {
            format!("partition {id} with hashes {first:016x} to {last:016x} of history {history}")
        }
        _ => format!("partition {id} of {roots} of history {history}"),
    }
}

fn with_log(log: HistoryId) -> String {
    format!(" with log {log}")
}

fn missing(path: &Path) -> OpenError {
    does_not_fit(&format!("{} is missing", path.display()))
}

fn does_not_fit(what: &str) -> OpenError {
    OpenError::DoesNotFit {
        text: what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::manifest::synced_folders;
    use super::*;
    use crate::partition::tests::ToyRules;

    fn serve(path: &Path, partitions: u16) -> Result<Directory, OpenError> {
        let rules: Arc<dyn Rules> = Arc::new(ToyRules);
        let mut directory = Directory::open(path, partitions, None)?;
        settle(&mut directory, &ImageOptions::default(), &rules, &make_log)?;
        Ok(directory)
    }

    fn mark_of(directory: &Directory, id: PartitionId) -> Option<String> {
        let folder = directory.image(id);
        let image = Image::open(&folder, ImageOptions::default(), Arc::new(ToyRules));
        image.unwrap().mark().unwrap()
    }

    /// As directories were made before there were marks.
    fn unmarked(path: &Path) -> Directory {
        let manifest = format!(
            "format = 1\nhistory = \"{}\"\npartitions = 2\n",
            HistoryId([7; 16])
        );
        fs::create_dir(path).unwrap();
        fs::write(path.join("directory.toml"), manifest).unwrap();
        let directory = Directory::open(path, 0, None).unwrap();
        for id in directory.ids() {
            log::make(&LocalStorage::new(directory.log(id)).unwrap()).unwrap();
            let folder = directory.image(id);
            Image::open(&folder, ImageOptions::default(), Arc::new(ToyRules)).unwrap();
        }
        directory
    }

    #[test]
    fn a_directory_without_marks_gets_them_when_all_is_there() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("data");
        drop(unmarked(&path));
        let log = path.join("partition-0001/log");
        fs::rename(&log, home.path().join("away")).unwrap();
        let error = serve(&path, 0).err().unwrap().to_string();
        assert!(error.contains("partition-0001/log is missing"), "{error}");
        let before = Directory::look(&path).unwrap();
        assert_eq!(before.standing(), Standing::Unmarked);
        assert_eq!(mark_of(&before, PartitionId(0)), None);
        drop(before);
        fs::rename(home.path().join("away"), &log).unwrap();
        // Nothing can be made here, as on a full disk.
        let taken = path.join("directory.toml.new");
        fs::create_dir(&taken).unwrap();
        let directory = serve(&path, 2).unwrap();
        assert_eq!(directory.standing(), Standing::Unmarked);
        drop(directory);
        fs::remove_dir(&taken).unwrap();
        drop(serve(&path, 2).unwrap());
        let after = Directory::look(&path).unwrap();
        assert_eq!(after.standing(), Standing::Whole);
        let mark = mark_of(&after, PartitionId(1)).unwrap();
        let of = "partition 1 of 2 of history 07070707070707070707070707070707 with log ";
        assert!(mark.starts_with(of), "{mark}");
        drop(after);
        drop(serve(&path, 0).unwrap());
    }

    /// Removes what has a name in a folder that was not synced.
    fn lose_names(folder: &Path, synced: &[PathBuf]) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match (synced.iter().any(|one| one == folder), path.is_dir()) {
                (true, false) => {}
                (true, true) => lose_names(&path, synced),
                (false, true) => fs::remove_dir_all(path).unwrap(),
                (false, false) => fs::remove_file(path).unwrap(),
            }
        }
    }

    #[test]
    fn names_of_a_first_start_that_failed_are_durable_after_the_second_one() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("data");
        drop(serve(&path, 2).unwrap());
        // All was made and marked; nothing was synced.
        fs::rename(path.join("directory.toml"), path.join("directory.toml.new")).unwrap();
        drop(synced_folders());
        let served = serve(&path, 2).unwrap();
        let marks = [0, 1].map(|id| mark_of(&served, PartitionId(id)));
        drop(served);
        lose_names(&path, &synced_folders());
        let again = serve(&path, 2).unwrap();
        assert_eq!([0, 1].map(|id| mark_of(&again, PartitionId(id))), marks);
    }

    #[test]
    fn a_first_start_may_be_interrupted_anywhere() {
        let home = tempfile::tempdir().unwrap();
        let whole = home.path().join("whole");
        drop(serve(&whole, 2).unwrap());
        let path = home.path().join("data");
        let all = [
            "partition-0000",
            "partition-0000/log",
            "partition-0000/image",
            "partition-0001",
            "partition-0001/log",
            "partition-0001/image",
        ];
        for made in 0..=all.len() {
            let draft = serve(&path, 2).unwrap();
            let origin = draft.origin();
            drop(draft);
            let manifest = path.join("directory.toml");
            fs::rename(manifest, path.join("directory.toml.new")).unwrap();
            for folder in &all[made..] {
                let _ = fs::remove_dir_all(path.join(folder));
            }
            let directory = serve(&path, 2).unwrap();
            assert!(made == 0 || directory.origin() == origin);
            assert!(mark_of(&directory, PartitionId(1)).is_some());
            drop(directory);
            fs::remove_dir_all(&path).unwrap();
        }
        // On a full disk LMDB's first write may be done in part.
        drop(serve(&path, 2).unwrap());
        let image = path.join("partition-0001/image/data.mdb");
        for bytes in [1, 4_096, 8_192] {
            fs::rename(path.join("directory.toml"), path.join("directory.toml.new")).unwrap();
            fs::write(&image, vec![0; bytes]).unwrap();
            drop(serve(&path, 2).unwrap());
        }
        // Where all was there it is an image that is missing.
        fs::write(&image, [0; 4_096]).unwrap();
        let error = serve(&path, 2).err().unwrap().to_string();
        assert!(error.contains("partition-0001"), "{error}");
        // Without a draft the partitions are somebody's.
        fs::remove_file(whole.join("directory.toml")).unwrap();
        let error = serve(&whole, 2).err().unwrap().to_string();
        assert!(error.contains("directory.toml is missing"), "{error}");
    }
}
