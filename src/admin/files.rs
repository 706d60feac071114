//! The files of the console and the demo, as `build.rs` has found them.
//!
//! Owns: the list. Promises: a file is found by the path that it is served by, a folder by its `index.html`. Must not:
//! know what is in a file.

use crate::gateway::File;

/// All of them, in the order of their paths.
static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The file of a path.
pub(super) fn find(path: &str) -> Option<&'static File> {
    let index = path.ends_with('/').then(|| format!("{path}index.html"));
    let path = index.as_deref().unwrap_or(path);
    let at = FILES.binary_search_by(|file| file.path.cmp(path)).ok()?;
    FILES.get(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_found_by_their_paths_and_nothing_else_is() {
        for file in FILES {
            assert!(
                find(file.path).is_some_and(|found| found.plain == file.plain),
                "{}",
                file.path
            );
            assert!(
                file.packed
                    .is_none_or(|packed| packed.starts_with(&[0x1f, 0x8b]))
            );
        }
        assert!(find("/console/client/index.js").is_some());
        for path in [
            "",
            "/",
            "/console",
            "/console/client/",
            "/console/client/bench.js",
            "/console/../Cargo.toml",
        ] {
            assert!(find(path).is_none(), "{path}");
        }
    }
}
