//! `schemas/tablestore/*.proto` and the Rust made from them say the same.
//!
//! Owns: the making of `src/wire/tablestore/proto.rs`, with a compiler in Rust, so that no build needs protoc and none
//! but this test compiles one. `TIDELINE_BLESS=1 cargo test --test contract` writes the file anew. Must not:
//! know what the messages mean.

#![allow(clippy::unwrap_used)] // a test: the helpers too

use std::fs;
use std::path::PathBuf;

const OPENING: &str = "\
//! The messages of `schemas/tablestore/`, as prost makes them. Not written by hand: change the .proto files, then run
//! `TIDELINE_BLESS=1 cargo test --test contract`.
//!
//! Owns: field numbers and types of the wire. Must not: check anything; `plainbuffer`, `filter` and `operation` do.

";

#[test]
fn the_rust_is_as_the_messages_make_it() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let schemas = root.join("schemas/tablestore");
    let messages = protox::compile(
        [
            "table.proto",
            "row.proto",
            "filter.proto",
            "stream.proto",
            "search.proto",
            "sql.proto",
            "series.proto",
        ],
        [&schemas],
    );
    let folder = tempfile::tempdir().unwrap();
    prost_build::Config::new()
        .bytes(["."])
        .out_dir(folder.path())
        .compile_fds(messages.unwrap())
        .unwrap();
    let made = fs::read_to_string(folder.path().join("tideline.tablestore.rs")).unwrap();
    let (_, made) = made.split_once('\n').unwrap(); // its first line names the generator
    let text = format!("{OPENING}{made}");
    let path = root.join("src/wire/tablestore/proto.rs");
    if std::env::var_os("TIDELINE_BLESS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let stands = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stands == text,
        "{} is not what the messages make",
        path.display()
    );
}
