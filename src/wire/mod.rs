//! What is said on sockets, as types.
