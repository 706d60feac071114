//! What clients post for a session that has no socket of theirs.
//!
//! Owns: the shape of a post. Promises: what is not whole is none. Must not: look at the commands in it.

use bytes::Bytes;
use prost::Message;
use serde::Deserialize;

use super::framing::Encoding;
use tideline_base::decode;

/// A post: commands for a session.
#[derive(Clone, PartialEq, Message)]
pub struct EmulationRequest {
    #[prost(string, tag = "1")]
    pub node: String,
    #[prost(string, tag = "2")]
    pub session: String,
    #[prost(bytes = "bytes", tag = "3")]
    pub data: Bytes,
}

impl EmulationRequest {
    /// From a body; in JSON the commands are a text.
    pub fn read(encoding: Encoding, body: Bytes) -> Option<EmulationRequest> {
        #[derive(Deserialize)]
        struct Text {
            node: String,
            session: String,
            data: String,
        }
        match encoding {
            Encoding::Protobuf => EmulationRequest::decode(body).ok(),
            Encoding::Json => {
                let text: Text = decode::from_slice(&body).ok()?;
                Some(EmulationRequest {
                    node: text.node,
                    session: text.session,
                    data: text.data.into(),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_post_is_read_in_both_encodings() {
        let whole = EmulationRequest {
            node: "n".to_owned(),
            session: "s".to_owned(),
            data: Bytes::from_static(b"{\"id\":1}\n"),
        };
        let text = Bytes::from_static(br#"{"node":"n","session":"s","data":"{\"id\":1}\n"}"#);
        assert_eq!(
            EmulationRequest::read(Encoding::Json, text),
            Some(whole.clone())
        );
        let bytes = Bytes::from(whole.encode_to_vec());
        assert_eq!(
            EmulationRequest::read(Encoding::Protobuf, bytes),
            Some(whole)
        );
        for broken in [&b"{}"[..], b"", b"[1]"] {
            let body = Bytes::from_static(broken);
            assert_eq!(EmulationRequest::read(Encoding::Json, body), None);
        }
    }
}
