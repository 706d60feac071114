//! `tideline call METHOD JSON`: any method of the protocol.
//!
//! Owns: the parameters as they are given. Promises: they are sent as they are, to the last digit, and the result is
//! printed as it comes. Must not: know any method.

use std::io::Read as _;

use clap::Args;
use serde_json::value::RawValue;

use super::address::At;
use super::failure::Failure;
use super::plain::{indented, json};
use super::screen::{Form, Screen};
use super::session::Session;

/// The call.
#[derive(Debug, Args)]
pub struct Call {
    /// Like `timeline.get`; `rpc.discover` lists all.
    method: String,
    /// A JSON object, or - for standard input.
    #[arg(value_name = "JSON", default_value = "{}", value_parser = Params::parse)]
    params: Params,
    #[command(flatten)]
    at: At,
    #[command(flatten)]
    form: Form,
}

#[derive(Clone, Debug)]
enum Params {
    Given(Box<RawValue>),
    Piped,
}

impl Params {
    fn parse(text: &str) -> Result<Params, String> {
        match text {
            "-" => Ok(Params::Piped),
            text => object(text).map(Params::Given),
        }
    }

    fn read(self) -> Result<Box<RawValue>, Failure> {
        match self {
            Params::Given(params) => Ok(params),
            Params::Piped => {
                let mut text = String::new();
                let read = std::io::stdin().read_to_string(&mut text);
                let wrong = |why: String| Failure::Wrong(format!("standard input: {why}"));
                read.map_err(|error| wrong(error.to_string()))?;
                object(&text).map_err(wrong)
            }
        }
    }
}

/// A JSON object, as it is written.
pub(super) fn object(text: &str) -> Result<Box<RawValue>, String> {
    let raw: Box<RawValue> =
        serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))?;
    match raw.get().starts_with('{') {
        true => Ok(raw),
        false => Err("a JSON object is needed, like {\"timeline\":\"room/1\"}".into()),
    }
}

impl Call {
    pub(super) async fn run(self) -> Result<(), Failure> {
        let params = self.params.read()?;
        let mut screen = Screen::new(&self.form);
        let mut session = Session::open(&self.at).await?;
        let result = session.call(&self.method, &params).await?;
        screen.line(&match screen.json {
            true => json(&result),
            false => indented(&result),
        })?;
        screen.flush()?;
        session.close().await;
        Ok(())
    }
}
