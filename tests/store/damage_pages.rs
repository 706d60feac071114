//! Damage anywhere in LMDB's file never shows as other rows, and ends no process by a signal.
//!
//! Owns: a few copies of `tests/damage_pages.py`, through the real binary. The whole campaign, in some minutes:
//! `DAMAGE_COPIES=1000 cargo test --locked --test store damage_pages -- --nocapture` (`DAMAGE_SEED` repeats one). Must
//! not: assert on time.

use std::process::Command;

#[test]
fn a_damaged_page_is_never_answered_as_something_else() {
    let setting = |name, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let ran = Command::new("python3")
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/damage_pages.py"
        ))
        .arg(setting("DAMAGE_COPIES", "8"))
        .arg(setting("DAMAGE_SEED", "7"))
        .env("TIDELINE_BIN", env!("CARGO_BIN_EXE_tideline"))
        .status()
        .expect("Python 3 is there");
    assert!(ran.success());
}
