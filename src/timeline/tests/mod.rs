//! Timelines against a model made from the protocol, beside flushes, merges and restarts, and with a wrong clock.

mod clock;
mod commands;
mod image;
mod model;
mod verify;
mod virtual_tables;
