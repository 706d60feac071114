//! Order-preserving key encoding.
