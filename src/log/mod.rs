//! The commit log: one append-only log per partition.
