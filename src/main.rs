//! The `tideline` binary.
fn main() {}
