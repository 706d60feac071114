//! TLS below the tool's connections, where the server's address asks for it.
//!
//! Owns: whom the tool trusts. Promises: a connection that comes out is with a server whose certificate was checked.
//! Must not: know what is said on it.

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

thread_local! {
    static CLIENT: RefCell<Option<Arc<ClientConfig>>> = const { RefCell::new(None) };
}

/// Trusts the authorities of a file for all that this thread connects to from now on; without one, the system's.
pub(crate) fn trust(authorities: Option<&Path>) -> io::Result<()> {
    let client = Arc::new(tideline::tls::client(authorities)?);
    CLIENT.with_borrow_mut(|trusted| *trusted = Some(client));
    Ok(())
}

/// Speaks TLS with the server at `host:port`.
pub(crate) async fn secure(stream: TcpStream, host: &str) -> io::Result<TlsStream<TcpStream>> {
    let known = CLIENT.with_borrow(Clone::clone);
    let client = match known {
        Some(client) => client,
        None => Arc::new(tideline::tls::client(None)?),
    };
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let name = name.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    TlsConnector::from(client).connect(name, stream).await
}
