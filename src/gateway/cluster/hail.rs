//! What a standby says of a client to the owner, at the begin of a connection that it passes on.
//!
//! Owns: its form. Promises: what no node has said on just this connection is not believed; it is read in bounded time
//! and memory. Must not: know what comes behind it: HTTP, as the client itself would speak it.
//!
//! ```text
//! standby: GET /v1/cluster/pass, upgrade: tideline-pass      owner: 101, tideline-challenge: C
//! standby: u32 length, JSON, HMAC of C and the JSON, then HTTP
//! ```

use std::io;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use tideline_base::decode;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::secret::{NodeSecret, TAG_BYTES};

/// What is known of a client's connection below HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Hail {
    /// The node that passes it on.
    pub(in super::super) node: String,
    /// Where the client, or the proxy in front of it, is.
    pub(in super::super) client: IpAddr,
    /// The node's own address, to which it came.
    pub(in super::super) local: IpAddr,
    /// It came by TLS.
    pub(in super::super) is_secure: bool,
    /// DNS names of the client's certificate.
    pub(in super::super) certificates: Vec<String>,
}

impl Hail {
    /// The bytes in answer to a challenge; `None` = there is too much to say.
    pub(super) fn bytes(&self, challenge: &str, secret: &NodeSecret) -> Option<Vec<u8>> {
        let said = serde_json::to_vec(self).ok()?;
        let length = u32::try_from(said.len()).ok();
        let length = length.filter(|length| *length <= SAID_BYTES_MAX)?;
        let tag = secret.seal(challenge, &said);
        Some([&length.to_be_bytes()[..], &said, &tag].concat())
    }

    /// Reads it. `None` = it is not a node's.
    pub(in super::super) async fn read(
        from: &mut (impl AsyncRead + Unpin),
        challenge: &str,
        secret: &NodeSecret,
    ) -> io::Result<Option<Hail>> {
        let length = from.read_u32().await?;
        if length > SAID_BYTES_MAX {
            return Ok(None);
        }
        let mut said = vec![0; length as usize];
        from.read_exact(&mut said).await?;
        let mut tag = [0; TAG_BYTES];
        from.read_exact(&mut tag).await?;
        Ok(match secret.is_seal(challenge, &said, &tag) {
            true => decode::from_slice(&said).ok(),
            false => None,
        })
    }
}

/// As much as the head of a request.
const SAID_BYTES_MAX: u32 = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_node_is_believed_and_only_on_its_connection() {
        let hail = Hail {
            node: "n2".to_owned(),
            client: "192.0.2.1".parse().unwrap(),
            local: "::1".parse().unwrap(),
            is_secure: true,
            certificates: vec!["a.example".to_owned()],
        };
        let secret = NodeSecret::new("chat", "hush");
        let bytes = hail.bytes("c1", &secret).unwrap();
        let read = async |bytes: &[u8], challenge: &str, secret: &NodeSecret| {
            Hail::read(&mut &*bytes, challenge, secret).await
        };
        assert_eq!(
            read(&bytes, "c1", &secret).await.unwrap(),
            Some(hail.clone())
        );
        assert_eq!(read(&bytes, "c2", &secret).await.unwrap(), None);
        for other in [
            NodeSecret::new("chat", "hash"),
            NodeSecret::new("x", "hush"),
        ] {
            assert_eq!(read(&bytes, "c1", &other).await.unwrap(), None);
        }
        for at in 4..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            assert_eq!(read(&wrong, "c1", &secret).await.unwrap(), None);
            assert!(read(&bytes[..at], "c1", &secret).await.is_err());
        }
        assert_eq!(read(&[255; 64], "c1", &secret).await.unwrap(), None);
        let certificates = vec!["x".repeat(20_000)];
        let long = Hail {
            certificates,
            ..hail
        };
        assert_eq!(long.bytes("c1", &secret), None);
    }
}
