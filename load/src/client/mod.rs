//! Clients of the wire, lean enough that they are not what is measured.
//!
//! Owns: connections, requests and answers in their bytes, and when they are sent. Promises: what the
//! generator sends and reads is not copied. Must not: know profiles.

pub mod frame;
pub mod generator;
pub mod http;
pub mod pace;
pub mod pipe;
pub(crate) mod request;
pub(crate) mod rpc;
pub(crate) mod secure;
pub mod template;
