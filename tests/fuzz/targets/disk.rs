//! Files that are read by the public face of the store, and settings.
//!
//! Owns: a folder in which an input is such a file. Promises: what a decoder took is whole. Must not: open a partition.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use sha2::{Digest as _, Sha256};
use tideline::config::{Config, Flags, load};
use tideline_base::faults::Decoder;
use tideline_base::ordered::{self, Column, Reader};
use tideline_store::partition::{BackupManifest, directory_map, is_copy};

pub(crate) const TARGETS: &[Decoder] = &[
    ("directory_toml", directory),
    ("directory_served", served),
    ("backup_manifest", manifest),
    ("config", config),
    ("key_columns", key_columns),
];

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("tideline-fuzz-files-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a place for small files");
    folder
});

/// A new file each time: some file systems wait for the disk when one is written over.
fn write(name: &str, input: &[u8]) -> PathBuf {
    let path = FOLDER.join(name);
    let _ = fs::remove_file(&path);
    fs::write(&path, input).expect("room");
    path
}

fn directory(input: &[u8]) {
    write("directory.toml", input);
    if let Ok(Some(map)) = directory_map(&FOLDER) {
        assert!(map.shares().count() > 0);
        assert!(map.shares().filter(|share| share.ends.is_none()).count() > 0);
    }
}

fn served(input: &[u8]) {
    write("served", input);
    let _ = is_copy(&FOLDER).is_ok();
}

/// A manifest as it is, and one whose checksum is right.
fn manifest(input: &[u8]) {
    let _ = BackupManifest::parse(input, &"it");
    let digest: String = Sha256::digest(input)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let sealed = [
        br#"{"backup":"#,
        input,
        br#","sha256":""#,
        digest.as_bytes(),
        br#""}"#,
    ]
    .concat();
    if let Ok(manifest) = BackupManifest::parse(&sealed, &"it") {
        let _ = manifest.bytes();
        let leads_out =
            |path: &str| path.starts_with('/') || path.split('/').any(|part| part == "..");
        assert!(manifest.files().iter().all(|file| !leads_out(&file.path)));
    }
}

fn config(input: &[u8]) {
    let path = write("tideline.toml", input);
    let flags = Flags {
        config: Some(path),
        ..Flags::default()
    };
    if let Ok((config, _)) = load(&flags, std::iter::empty()) {
        let _: &Config = &config;
        assert!(!config.to_toml().is_empty());
    }
}

/// Columns come back, skipping finds their ends, and two keys are in the order of their values.
fn key_columns(input: &[u8]) {
    let (mut reader, mut skipper) = (Reader::new(input), Reader::new(input));
    let mut last: Option<(Column<'_>, Vec<u8>)> = None;
    while let Ok(column) = reader.column() {
        let mut again = Vec::new();
        match &column {
            Column::InfMin => ordered::push_inf_min(&mut again),
            Column::Integer(value) => ordered::push_i64(&mut again, *value),
            Column::String(value) => ordered::push_string(&mut again, value),
            Column::Binary(value) => ordered::push_binary(&mut again, value),
            Column::InfMax => ordered::push_inf_max(&mut again),
        }
        assert_eq!(skipper.skip(), Ok(&again[..]));
        assert_eq!(reader.rest(), skipper.rest());
        if let Some((before, encoded)) = &last {
            let order = match (before, &column) {
                (Column::Integer(one), Column::Integer(two)) => Some(one.cmp(two)),
                (Column::String(one), Column::String(two)) => Some(one.cmp(two)),
                (Column::Binary(one), Column::Binary(two)) => Some(one.cmp(two)),
                _ => None,
            };
            assert!(order.is_none_or(|order| encoded.cmp(&again) == order));
        }
        last = Some((column, again));
    }
}
