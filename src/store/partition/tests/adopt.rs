//! Which first frame follows which directory.
//!
//! Owns: copies of one directory that differ in their last batch. Promises: no stream, no clock. Must not: repeat what
//! tests/python/test_cluster_adopt.py sees of the real servers.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tideline_cluster::{Content, Frame};

use super::ToyRules;
use crate::partition::*;

fn rules() -> Arc<dyn Rules> {
    Arc::new(ToyRules)
}

async fn write(path: &Path, value: u8) {
    let opened = Partitions::open(path, Options::default(), rules(), Arc::new(Clock::system()));
    let partitions = opened.expect("opens");
    let put = move |txn: &mut Txn<'_>| -> Result<(), ()> {
        txn.put(b"row", [value]);
        Ok(())
    };
    let written = partitions.submit(Purpose::Adds, PartitionId(0), 0, put);
    written.await.expect("written");
    partitions.close().await;
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("made");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).expect("copied")),
        }
    }
}

fn open(path: &Path) -> Adoption {
    let adoption = Adoption::open(path, "chat", &rules()).expect("opens");
    adoption.expect("it was served alone")
}

/// The first frame of a log that goes on behind a directory.
fn first(adoption: &Adoption) -> Frame {
    let (before, time) = adoption.end();
    let draft = before.draft(Content::Genesis(adoption.genesis()));
    Frame::seal(&draft, time.next(0), &[])
}

#[tokio::test]
async fn a_directory_joins_the_log_that_goes_on_behind_its_last_batch() {
    let home = tempfile::tempdir().expect("a folder");
    let at = |name: &str| home.path().join(name);
    write(&at("it"), 1).await;
    copy(&at("it"), &at("older"));
    copy(&at("it"), &at("other"));
    write(&at("it"), 2).await;
    write(&at("other"), 3).await;
    copy(&at("it"), &at("same"));
    copy(&at("it"), &at("longer"));
    write(&at("longer"), 4).await;

    let adoption = open(&at("it"));
    let first = first(&adoption);
    assert_eq!(first.sealed.position, Position(3));
    adoption.join(&first).expect("it follows");
    let again = Adoption::open(&at("it"), "chat", &rules()).expect("opens");
    assert!(again.is_none(), "it has joined");
    let theirs = Adoption::open(&at("it"), "theirs", &rules()).err();
    assert!(theirs.is_some_and(|error| error.to_string().contains("is a part of cluster chat")));

    open(&at("same")).join(&first).expect("it follows, too");
    // Of the same length, but with another last batch.
    let cases = [
        ("other", "was served after"),
        ("longer", "was served after"),
        ("older", "is an older copy"),
    ];
    for (name, why) in cases {
        let refused = open(&at(name)).join(&first).expect_err(name).to_string();
        assert!(refused.contains(why), "{name}: {refused}");
        // It can still be served alone.
        write(&at(name), 5).await;
    }
    let alone = Partitions::open(
        &at("same"),
        Options::default(),
        rules(),
        Arc::new(Clock::system()),
    );
    assert!(
        alone
            .err()
            .is_some_and(|error| error.to_string().contains("belongs to a cluster"))
    );
    // Nobody has closed the log.
    assert!(leave(&at("same")).is_err());
    assert!(matches!(belongs(&at("same"), &rules()), Ok(Belongs::Cluster(name)) if name == "chat"));
    assert!(matches!(
        belongs(&at("older"), &rules()),
        Ok(Belongs::Nobody)
    ));
}
