//! Why a command is refused.
//!
//! Owns: which refusals of tokens are answers, and which end the connection. Must not: answer.

use crate::credentials::TokenRefused;
use tideline_wire::centrifuge::{Code, Disconnect};

/// Why a command is refused.
pub(super) enum Refused {
    /// With an answer.
    Answer(Code),
    /// With the end of the connection.
    End(Disconnect),
}

impl Refused {
    /// A token to connect with: a wrong one ends the connection.
    pub(super) fn to_connect(why: TokenRefused) -> Refused {
        match why {
            TokenRefused::Invalid(_) => Refused::End(Disconnect::INVALID_TOKEN),
            why => why.into(),
        }
    }

    /// The same of a token to go on with: one that has expired meanwhile ends the connection, and the client connects
    /// again.
    pub(super) fn when_refreshing(self) -> Refused {
        match self {
            Refused::Answer(Code::TokenExpired) => Refused::End(Disconnect::EXPIRED),
            other => other,
        }
    }
}

impl From<Code> for Refused {
    fn from(code: Code) -> Refused {
        Refused::Answer(code)
    }
}

/// A token for a channel.
impl From<TokenRefused> for Refused {
    fn from(why: TokenRefused) -> Refused {
        match why {
            TokenRefused::Invalid(_) => Refused::Answer(Code::PermissionDenied),
            TokenRefused::Expired => Refused::Answer(Code::TokenExpired),
            TokenRefused::Unavailable => Refused::Answer(Code::Internal),
            TokenRefused::OtherSubject => Refused::End(Disconnect::INVALID_TOKEN),
        }
    }
}
