//! The image's limits and their defaults.
//!
//! Owns: sizes and counts, each with its unit in its name. Promises: the defaults fit a machine with a few GiB of
//! memory and a 64-bit address space. Must not: know settings; `src/config/layers.rs` fills these in from them.

/// Limits of one partition's image.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address space reserved for the file; it can't grow past it. Costs nothing until used.
    pub map_bytes: usize,
    /// Only looks: makes and writes nothing, and needs no permission to.
    pub read_only: bool,
    /// A part is ended at about this size.
    pub part_bytes_max: u64,
    /// A slice (one transaction) ends after writing about this much...
    pub slice_bytes: u64,
    /// ... or after dealing with this many rows.
    pub slice_rows: u64,
    /// From so many runs of level 0 on, writers should be slowed down.
    pub level0_slow_runs: usize,
    /// From so many runs of level 0 on, writers should be refused.
    pub level0_busy_runs: usize,
    /// So many runs of a level are merged into one of the next.
    pub fan_in: usize,
    /// Memory for filters.
    pub filter_memory_bytes: u64,
    /// Puts above this size are cut into pieces by the row rules.
    pub wide_row_bytes: usize,
    /// With no merge to do, each call of `compact` looks at so many rows (16 MiB at most) for what could be dropped.
    pub survey_rows: u64,
    /// Between two whole looks at all rows, ms.
    pub survey_rest_ms: u64,
    /// A run or the image is rewritten when at least so many percent of its rows are dead.
    pub dead_percent: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            map_bytes: 1 << 40,
            read_only: false,
            part_bytes_max: 512 << 20,
            slice_bytes: 16 << 20,
            slice_rows: 200_000,
            level0_slow_runs: 16,
            level0_busy_runs: 32,
            fan_in: 8,
            filter_memory_bytes: 256 << 20,
            wide_row_bytes: 16 << 10,
            survey_rows: 10_000,
            survey_rest_ms: 60_000,
            dead_percent: 25,
        }
    }
}
