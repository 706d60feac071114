//! What lies between the tool and a server that is careful: TLS where its address asks for it, and a credential.
//!
//! Owns: which servers the tool trusts, and what it shows them. Promises: a connection over TLS is with a server whose
//! certificate was checked; each connection of this thread shows the credential in its headers, and so does each
//! request for `/metrics`. Must not: know what is said, or let the credential be in a result or an error.

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

thread_local! {
    static CLIENT: RefCell<Option<Arc<ClientConfig>>> = const { RefCell::new(None) };
    static HEADER: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Trusts the authorities of a file for all that this thread connects to from now on; without one, the system's.
pub(crate) fn trust(authorities: Option<&Path>) -> io::Result<()> {
    let client = tideline_base::tls::client(authorities)?;
    CLIENT.set(Some(Arc::new(client)));
    Ok(())
}

/// Shows a key or a user's token wherever this thread connects to from now on; without one, nothing.
pub(crate) fn show(credential: Option<&str>) {
    let credential = credential.map(str::trim).filter(|text| !text.is_empty());
    let header = credential.map(|text| format!("Authorization: Bearer {text}\r\n"));
    HEADER.set(header.unwrap_or_default());
}

/// The header of a request, with the end of its line; nothing where nothing is shown.
pub(crate) fn header() -> String {
    HEADER.with_borrow(Clone::clone)
}

/// Speaks TLS with the server at `host:port`.
pub(crate) async fn secure<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    host: &str,
) -> io::Result<TlsStream<S>> {
    let client = CLIENT.with_borrow(Clone::clone);
    let client = client.ok_or_else(|| io::Error::other("TLS, and nobody is trusted"))?;
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    TlsConnector::from(client).connect(name, stream).await
}
