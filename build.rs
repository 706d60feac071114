//! Puts the console, the demo and the JavaScript client's modules into the binary.
//!
//! Owns: which files these are, by which paths they are served, and their compressed forms. Promises: a file that is
//! added to one of the folders is served without a change of any Rust; what is no page's part (scripts, tests, notes)
//! is not. Must not: change a file, or need anything but Rust.

#![allow(clippy::disallowed_macros)] // Cargo reads what a build script prints

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use flate2::Compression;
use flate2::write::GzEncoder;

/// Folders of pages and by what their files are served; the first one that fits counts.
const FOLDERS: &[(&str, &str)] = &[
    ("console/demo", "/demo/"),
    ("console", "/console/"),
    ("clients/javascript", "/console/client/"),
];
/// What lies there for other purposes.
const LEFT_OUT: &[&str] = &[
    "console/scripts",
    "console/test",
    "clients/javascript/ai",
    "clients/javascript/bench.js",
    "clients/javascript/node_modules",
    "clients/javascript/scripts",
    "clients/javascript/store/file.js",
    "clients/javascript/test",
];
/// What a page may consist of.
const KINDS: &[(&str, &str)] = &[
    ("css", "text/css; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("png", "image/png"),
    ("svg", "image/svg+xml; charset=utf-8"),
];

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let mut files = Vec::new();
    println!("cargo::rerun-if-changed=build.rs");
    for (folder, served) in FOLDERS {
        walk(
            &root,
            Path::new(folder),
            Path::new(folder),
            served,
            &mut files,
        )?;
    }
    files.sort();
    let mut list = "&[\n".to_owned();
    for (number, (served, kind, path)) in files.iter().enumerate() {
        println!("cargo::rerun-if-changed={}", path.display());
        let plain = fs::read(path)?;
        let packed = pack(&plain)?;
        // PNG files are compressed already.
        let packed = match packed.len() < plain.len() {
            true => {
                let file = out.join(format!("{number}.gz"));
                fs::write(&file, packed)?;
                format!("Some(include_bytes!({file:?}))")
            }
            false => "None".to_owned(),
        };
        let tag = tag(&plain);
        let _ = writeln!(
            list,
            "    File {{ path: {served:?}, kind: {kind:?}, tag: \"W/\\\"{tag:032x}\\\"\", plain: include_bytes!({path:?}), packed: {packed} }},"
        );
    }
    list.push_str("]\n");
    fs::write(out.join("files.rs"), list)
}

/// A file: by what it is served, what it is, where it lies.
type Found = (String, &'static str, PathBuf);

fn walk(
    root: &Path,
    top: &Path,
    folder: &Path,
    served: &str,
    files: &mut Vec<Found>,
) -> io::Result<()> {
    // A new module of the client changes one that imports it.
    if folder.starts_with("console") {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
    }
    for one in fs::read_dir(root.join(folder))? {
        let one = one?;
        let path = folder.join(one.file_name());
        let is_other = |(other, _): &(&str, &str)| Path::new(other) == path;
        if LEFT_OUT.iter().any(|left| Path::new(left) == path) || FOLDERS.iter().any(is_other) {
            continue;
        }
        if one.file_type()?.is_dir() {
            walk(root, top, &path, served, files)?;
            continue;
        }
        let name = path.extension().and_then(|name| name.to_str());
        let kind = KINDS.iter().find(|(ending, _)| Some(*ending) == name);
        if let (Some((_, kind)), Ok(below)) = (kind, path.strip_prefix(top)) {
            files.push((
                format!("{served}{}", below.display()),
                kind,
                root.join(&path),
            ));
        }
    }
    Ok(())
}

fn pack(plain: &[u8]) -> io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(plain)?;
    packer.finish()
}

/// Changes with the content: FNV-1a.
fn tag(content: &[u8]) -> u128 {
    let step = |hash: u128, byte: &u8| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    };
    content
        .iter()
        .fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, step)
}
