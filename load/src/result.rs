//! A result file of any kind.
//!
//! Owns: how kinds are told apart. Promises: a file of no kind is an error with its name. Must not: know what is done
//! with a result.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::curve::Curves;
use crate::exit::Stop;
use crate::outcome::Outcome;
use crate::{pairs, pictures};

/// What a file holds.
pub enum AnyResult {
    /// A profile's result.
    Profile(Box<Outcome>),
    /// The curves of `growth`.
    Growth(Curves),
    /// The rows of `tideline-peers`.
    Peers(pairs::Outcome),
}

impl AnyResult {
    /// Reads a result file.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is no result.
    pub fn load(file: &Path) -> Result<AnyResult, Stop> {
        let wrong =
            |error: &dyn std::fmt::Display| Stop::Usage(format!("{}: {error}", file.display()));
        let text = fs::read_to_string(file).map_err(|error| wrong(&error))?;
        let value: Value = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
        let read = if value.get("curves").is_some() {
            serde_json::from_value(value).map(AnyResult::Growth)
        } else if value.get("rows").is_some() {
            serde_json::from_value(value).map(AnyResult::Peers)
        } else {
            return Ok(AnyResult::Profile(Box::new(Outcome::load(file)?)));
        };
        read.map_err(|error| wrong(&error))
    }

    /// Draws its pictures into a folder.
    ///
    /// # Errors
    ///
    /// A picture cannot be written, or there are none of this kind.
    pub fn draw(&self, folder: &Path) -> Result<(), Stop> {
        match self {
            AnyResult::Profile(outcome) => pictures::draw(outcome, folder),
            AnyResult::Growth(curves) => pictures::draw_curves(curves, folder),
            AnyResult::Peers(_) => Err(Stop::Usage("rows have a table, no picture".into())),
        }
    }
}
