//! libFuzzer's `main` around the decoder that `TIDELINE_FUZZ` names.
//!
//! Owns: nothing. Promises: runs what the test command runs. Must not: be built by it.

#![no_main]

#[path = "../targets/mod.rs"]
mod targets;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use targets::{Target, all};

static TARGETS: LazyLock<Vec<Target>> = LazyLock::new(all);

fuzz_target!(|input: &[u8]| TARGETS.iter().for_each(|target| target.run(input)));
