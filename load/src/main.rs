//! `tideline-load`: drives a Tideline server and checks its promises.
fn main() {}
