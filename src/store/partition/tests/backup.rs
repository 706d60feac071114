//! A backup's second reading.
//!
//! Owns: that it ends when it is told to, in the middle of a log. Promises: no clock. Must not: repeat the tests of the
//! command and the method, which drive the real server.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use super::ToyRules;
use crate::partition::*;

#[tokio::test]
async fn the_second_reading_of_a_log_ends_when_it_is_told_to() {
    let home = tempfile::tempdir().expect("a folder");
    let (rules, clock) = (Arc::new(ToyRules), Arc::new(Clock::system()));
    let opened = Partitions::open(home.path(), Options::default(), rules, clock);
    let (partitions, at) = (opened.expect("opens"), PartitionId(0));
    for number in 0..50u8 {
        let put = move |txn: &mut Txn<'_>| -> Result<(), ()> {
            txn.put([number], [1; 100]);
            Ok(())
        };
        partitions
            .submit(Purpose::Adds, at, 0, put)
            .await
            .expect("written");
    }
    partitions.close().await;
    drop(partitions);
    let inspection = Inspection::open(home.path(), Arc::new(ToyRules)).expect("opens");
    let asked = Cell::new(0);
    let upto = |last: u32| {
        asked.set(0);
        let goes_on = || {
            asked.set(asked.get() + 1);
            match asked.get() < last {
                true => Ok(()),
                false => Err(io::Error::other("cancelled")),
            }
        };
        inspection
            .check(at, &goes_on)
            .map_err(|error| error.to_string())
    };
    assert!(upto(7).expect_err("cancelled").contains("cancelled"));
    assert_eq!(asked.get(), 7);
    // A control: nobody ends it.
    assert_eq!((upto(u32::MAX), asked.get()), (Ok(()), 50));
}
