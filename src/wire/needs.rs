//! What a caller needs for a method.
//!
//! Owns: the kinds of need, and how schemas and documentation say them. Promises: the list of methods has one for each.
//! Must not: decide.

use tideline_model::access::{Right, Rights};

/// What a caller needs for a method, where there is `[auth]`. `admin` is always enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Not even a credential.
    Nothing(Rights),
    /// A credential. What it shows of timelines is left out where they may not be read.
    Session(Rights),
    /// Any of these rights on each timeline or table that it names.
    Any(Rights),
    /// Any of these rights on `*`: it is about the server.
    Server(Rights),
}

impl Needs {
    /// The rights of which any is enough; none = to read.
    #[must_use]
    pub fn rights(self) -> Rights {
        match self {
            Needs::Nothing(rights)
            | Needs::Session(rights)
            | Needs::Any(rights)
            | Needs::Server(rights) => rights,
        }
    }

    /// As the schemas and the documentation say it.
    #[must_use]
    pub fn text(self) -> String {
        let names: Vec<&str> = self.rights().iter().map(Right::name).collect();
        match self {
            Needs::Nothing(_) => "nothing".to_owned(),
            Needs::Session(_) => "a credential".to_owned(),
            Needs::Any(_) => names.join(" or "),
            Needs::Server(_) => format!("{} on *", names.join(" or ")),
        }
    }
}
