//! TLS: from PEM files to what rustls serves and connects with.
//!
//! Owns: the choice of crypto, protocol versions and ALPN; when a certificate ends.
//! Promises: what is served has a key that fits its certificate; no byte of a key is in an error. Must not:
//! know sockets.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use hyper_rustls::ConfigBuilderExt as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use xxhash_rust::xxh3::xxh3_128;

use crate::secret;

/// Chooses the crypto of all TLS in this process, once; what is installed already stays.
pub fn install_crypto() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The PEM files that TLS is served with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The server's certificate, and those between it and its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Authorities that sign clients' certificates; `None` = clients are not asked for one.
    pub client_ca: Option<PathBuf>,
}

/// A certificate that is served, and read again when its files change.
#[derive(Debug)]
pub struct Certificate {
    files: Files,
    loaded: ArcSwap<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    config: Arc<ServerConfig>,
    ends_at: u64,
    /// Changes with the files.
    digest: u128,
}

/// Why files can't be served; one line for the operator.
#[derive(Debug)]
pub struct Unfit(pub String);

fn unfit(path: &Path, why: impl Display) -> Unfit {
    Unfit(format!("{}: {why}", path.display()))
}

impl Certificate {
    /// Reads the files, and checks that they belong together.
    pub fn load(files: Files) -> Result<Certificate, Unfit> {
        install_crypto();
        let loaded = files.load(None)?.expect("there was none before");
        Ok(Certificate {
            loaded: ArcSwap::from_pointee(loaded),
            files,
        })
    }

    /// Reads the files again; whether they have changed. After an error it is as before.
    pub fn reload(&self) -> Result<bool, Unfit> {
        let loaded = self.files.load(Some(self.loaded.load().digest))?;
        let changed = loaded.is_some();
        if let Some(loaded) = loaded {
            self.loaded.store(Arc::new(loaded));
        }
        Ok(changed)
    }

    /// What connections that come in now are served with.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.loaded.load().config)
    }

    /// When the first certificate of its chain ends, in seconds since 1970.
    #[must_use]
    pub fn ends_at(&self) -> u64 {
        self.loaded.load().ends_at
    }
}

impl Files {
    /// Reads the files; `None` = they still have the digest `before`.
    fn load(&self, before: Option<u128>) -> Result<Option<Loaded>, Unfit> {
        secret::check_closed(&self.key).map_err(|why| unfit(&self.key, why))?;
        let read = |path: &Path| std::fs::read(path).map_err(|error| unfit(path, error));
        let (certificate, key) = (read(&self.certificate)?, read(&self.key)?);
        let client_ca = self.client_ca.as_deref().map(read).transpose()?;
        let parts = [
            &certificate[..],
            &key,
            client_ca.as_deref().unwrap_or_default(),
        ];
        // The length of each comes before it: no two sets of files have the same bytes.
        let digested = parts.map(|part| [part.len().to_string().as_bytes(), b":", part].concat());
        let digest = xxh3_128(&digested.concat());
        if before == Some(digest) {
            return Ok(None);
        }
        let chain = certificates(&self.certificate, &certificate)?;
        let ends_at = chain.iter().map(|one| ends_at(one)).min().flatten();
        let ends_at = ends_at.ok_or_else(|| unfit(&self.certificate, "no end of its validity"))?;
        // The parser's own words could quote the key.
        let key = PrivateKeyDer::from_pem_slice(&key)
            .map_err(|_| unfit(&self.key, "no private key in PEM"))?;
        let config = ServerConfig::builder();
        let config = match (&self.client_ca, client_ca) {
            (Some(path), Some(pem)) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates(path, &pem)? {
                    roots.add(authority).map_err(|error| unfit(path, error))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder(Arc::new(roots)).allow_unauthenticated();
                config.with_client_cert_verifier(
                    verifier.build().map_err(|error| unfit(path, error))?,
                )
            }
            _ => config.with_no_client_auth(),
        };
        let config = config.with_single_cert(chain, key);
        let mut config = config.map_err(|error| unfit(&self.certificate, error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        if self.client_ca.is_some() {
            // The certificate of a resumed connection would not be checked again.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Some(Loaded {
            config: Arc::new(config),
            ends_at,
            digest,
        }))
    }
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Unfit> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        _ => Err(unfit(path, "no certificates in PEM")),
    }
}

/// For connections to servers whose certificates the authorities of a file have signed; without a file, those of the
/// system.
pub fn client(authorities: Option<&Path>) -> io::Result<ClientConfig> {
    install_crypto();
    let config = ClientConfig::builder();
    let Some(path) = authorities else {
        return Ok(config.with_native_roots()?.with_no_client_auth());
    };
    let named = |error: &dyn Display| io::Error::other(format!("{}: {error}", path.display()));
    let pem = std::fs::read(path).map_err(|error| named(&error))?;
    let mut roots = RootCertStore::empty();
    for authority in certificates(path, &pem).map_err(|Unfit(why)| io::Error::other(why))? {
        roots.add(authority).map_err(|error| named(&error))?;
    }
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// For a client that is never asked to use TLS: it trusts nobody.
#[must_use]
pub fn client_of_nobody() -> ClientConfig {
    install_crypto();
    let config = ClientConfig::builder().with_root_certificates(RootCertStore::empty());
    config.with_no_client_auth()
}

/// The DNS names that a certificate is of; its chain was verified before.
#[must_use]
pub fn dns_names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let parsed = webpki::EndEntityCert::try_from(certificate);
    parsed.map_or_else(
        |_| Vec::new(),
        |parsed| parsed.valid_dns_names().map(str::to_owned).collect(),
    )
}

// The tags of DER that lie on the way to a certificate's validity.
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// When a certificate ends, in seconds since 1970 (RFC 5280, 4.1).
fn ends_at(certificate: &[u8]) -> Option<u64> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (mut rest, _) = element(certificate, SEQUENCE)?;
    if let Some((_, behind)) = element(rest, VERSION) {
        rest = behind;
    }
    // Serial number, algorithm, issuer.
    for tag in [INTEGER, SEQUENCE, SEQUENCE] {
        (_, rest) = element(rest, tag)?;
    }
    let (validity, _) = element(rest, SEQUENCE)?;
    let time = |from| element(from, UTC_TIME).or_else(|| element(from, GENERALIZED_TIME));
    let (_, rest) = time(validity)?;
    let (end, _) = time(rest)?;
    let end = std::str::from_utf8(end).ok()?;
    let end = match end.len() {
        // Two digits of the year: 1950 to 2049.
        13 if end < "50" => format!("20{end}"),
        13 => format!("19{end}"),
        _ => end.to_owned(),
    };
    let part = |from: usize, to: usize| end.get(from..to);
    let (day, time) = (
        (part(0, 4)?, part(4, 6)?, part(6, 8)?),
        (part(8, 10)?, part(10, 12)?, part(12, 14)?),
    );
    let text = format!(
        "{}-{}-{}T{}:{}:{}Z",
        day.0, day.1, day.2, time.0, time.1, time.2
    );
    let end = humantime::parse_rfc3339(&text).ok()?;
    let since = end.duration_since(std::time::UNIX_EPOCH);
    since.map_or(Some(0), |since| Some(since.as_secs()))
}

/// The contents of the element that `der` begins with, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, length], rest) = der.split_first_chunk()?;
    if found != tag {
        return None;
    }
    let (length, rest) = match usize::from(length) {
        short @ ..0x80 => (short, rest),
        long => {
            let (digits, rest) = rest.split_at_checked(long - 0x80)?;
            let add =
                |sum: usize, digit: &u8| sum.checked_mul(256)?.checked_add(usize::from(*digit));
            (digits.iter().try_fold(0, add)?, rest)
        }
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -not_after …`, twice.
    const ONE: &str = include_str!("tls/one.pem");
    const OTHER: &str = include_str!("tls/other.pem");

    fn files(dir: &Path) -> Files {
        Files {
            certificate: dir.join("certificate.pem"),
            key: dir.join("key.pem"),
            client_ca: None,
        }
    }

    #[test]
    fn the_crypto_of_the_process_is_rings() {
        install_crypto();
        let installed = rustls::crypto::CryptoProvider::get_default().unwrap();
        let ring = rustls::crypto::ring::default_provider();
        assert_eq!(format!("{installed:?}"), format!("{ring:?}"));
    }

    /// A file of each with certificate and key.
    fn write(files: &Files, certificate: &str, key: &str) {
        std::fs::write(&files.certificate, certificate).unwrap();
        std::fs::write(&files.key, key).unwrap();
        allow(&files.key, 0o640);
    }

    fn allow(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_pair_that_fits_is_served_with_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        write(&files, ONE, ONE);
        let served = Certificate::load(files.clone()).unwrap();
        assert_eq!(served.ends_at(), 2_524_608_000 - 1);
        assert!(!served.reload().unwrap(), "nothing has changed");
        write(&files, OTHER, OTHER);
        assert!(served.reload().unwrap());
        assert_eq!(served.ends_at(), 4_102_444_800 - 1);
    }

    #[test]
    fn half_a_change_leaves_what_was_served() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        write(&files, ONE, ONE);
        let served = Certificate::load(files.clone()).unwrap();
        write(&files, OTHER, ONE);
        served.reload().unwrap_err();
        assert_eq!(served.ends_at(), 2_524_608_000 - 1);
        std::fs::write(&files.certificate, "").unwrap();
        assert!(served.reload().unwrap_err().0.contains("no certificates"));
        write(&files, OTHER, OTHER);
        assert!(served.reload().unwrap());
    }

    #[test]
    fn a_key_that_others_can_read_is_refused_and_never_told() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        write(&files, ONE, ONE);
        allow(&files.key, 0o644);
        let Unfit(why) = Certificate::load(files.clone()).unwrap_err();
        assert!(why.contains("key.pem: others can read"), "{why}");
        let body: String = ONE
            .lines()
            .filter(|line| !line.starts_with("MII"))
            .collect();
        write(&files, ONE, &body);
        let Unfit(why) = Certificate::load(files).unwrap_err();
        assert!(!ONE.lines().skip(1).any(|line| why.contains(line)), "{why}");
    }

    #[test]
    fn what_is_no_certificate_has_no_end() {
        let der = CertificateDer::from_pem_slice(ONE.as_bytes()).unwrap();
        for end in 0..der.len() {
            assert_eq!(ends_at(&der[..end]), None, "{end} bytes");
        }
        for at in 0..der.len() {
            let mut changed = der.to_vec();
            changed[at] ^= 0xff;
            // Whatever comes of it, it comes.
            let _ = ends_at(&changed);
        }
    }
}
