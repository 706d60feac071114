//! The list goes on: search indexes and searches.
//!
//! Owns: the texts. Promises: a name is written here once; `docs/METRICS.md` is made from it. Must not: know how a
//! handle is bound or shown.

use ::metrics::Label;

use super::Metric;
use super::groups::line;
use super::handles::{Counter, Gauge, Histogram};
use super::registry::Registry;

groups! {
    "Search indexes" by []
    /// Handles of search indexes and searches in them.
    Search {
        indexes: Gauge, "tideline_search_indexes"
            "Search indexes of all tables.",
            "Follows CreateSearchIndex and DeleteSearchIndex.";
        building: Gauge, "tideline_search_indexes_building"
            "Search indexes into which rows from before them are still brought; searches in them find what is there and say so.",
            "Back to 0 after CreateSearchIndex. If it stays, look at tideline_search_failures_total.";
        stuck: Gauge, "tideline_search_indexes_stuck"
            "Search indexes that can't be filled for now.",
            "Should be 0. The log says why; it is tried again.";
        rows: Counter, "tideline_search_rows_total"
            "Rows that were put into search indexes, those from before them too.",
            "Follows the writes of tables that have search indexes.";
        commits: Counter, "tideline_search_commits_total"
            "Commits of search indexes, some syncs each.",
            "One a second of an index that is written to, and one for the searches of 50 ms.";
        rebuilds: Counter, "tideline_search_rebuilds_total"
            "Search indexes that are made anew, because they were damaged or the log did not go back far enough.",
            "Should be 0. The log says why. Too far behind: raise search_log_bytes_max.";
        failures: Counter, "tideline_search_failures_total"
            "Times that a search index could not be filled; it is tried again.",
            "Should be 0. The log has the error: a full disk, a stopped partition.";
        searches: Counter, "tideline_searches_total"
            "Searches and steps of scans.",
            "Load.";
        refused: Counter, "tideline_searches_refused_total"
            "Searches that were refused, because too many wait, or because rows that a search holds until its end take more than one may hold, or all together.",
            "Should be 0. Many OTSServerBusy = too few processors, or raise search_memory_bytes_max. OTSQuotaExhausted = a search with a large offset over long keys.";
        memory: Gauge, "tideline_search_memory_bytes"
            "Bytes that the rows of running searches take.",
            "Far below search_memory_bytes_max.";
        incomplete: Counter, "tideline_searches_incomplete_total"
            "Searches that were answered with is_all_succeed false: they ran out of time, or the index is not as far as the writes before them.",
            "Should be near 0, but while an index is built. Many = searches look at too much, or the index does not keep up.";
        seconds: Histogram, "tideline_search_seconds"
            "Seconds that a search has taken, with its wait for the index and for its turn.",
            "Milliseconds. Long = patterns over many texts, or too few processors.";
    }
}
