//! Timelines against a plain model in memory, with random commands.
//!
//! Owns: the model and its tests. Promises: every answer of every method is predicted, not only checked for form.
//! Must not: be in a build that is not a test.
