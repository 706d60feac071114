//! Where the keys come from that tokens are verified with: files, and a server.
//!
//! Owns: the reading of the files at a start and at each reload. Promises: what can't be used refuses the whole, with
//! the file's name and never with what is in it; a secret that others can read is refused. Must not: fetch.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::Uri;

use super::super::verify_token::{TokenKeys, TokenRules};
use super::jwks;
use super::jwks::Origin;
use super::parse::VerifyingKey;
use tideline_base::secret;

/// What the configuration says of tokens.
#[derive(Clone, Debug, Default)]
pub struct TokenSources {
    /// What tokens must say.
    pub rules: TokenRules,
    /// Shared secrets, one a file; the file's name without its ending is the key's ID.
    pub secret_files: Vec<PathBuf>,
    /// Public keys in PEM; IDs as before.
    pub public_key_files: Vec<PathBuf>,
    /// A JWKS.
    pub jwks_file: Option<PathBuf>,
    /// Where one is fetched.
    pub jwks_url: Option<Uri>,
    /// How often.
    pub jwks_refresh: Duration,
}

/// Keys that were read, and the server that has more.
pub(in super::super) struct Loaded {
    pub(in super::super) rules: Arc<TokenRules>,
    pub(in super::super) fixed: TokenKeys,
    /// The JWKS among the files.
    pub(in super::super) set: Option<Bytes>,
}

impl TokenSources {
    /// Whether the files can be used.
    pub fn check(&self) -> Result<(), String> {
        self.load().map(drop)
    }

    /// Reads the files.
    pub(in super::super) fn load(&self) -> Result<Loaded, String> {
        let mut keys = Vec::new();
        for path in &self.secret_files {
            let of_file = |why: String| format!("{}: {why}", path.display());
            let secret = secret::read(path)?;
            keys.push(VerifyingKey::secret(Some(id_of(path)?), &secret).map_err(of_file)?);
        }
        for path in &self.public_key_files {
            let of_file = |why: String| format!("{}: {why}", path.display());
            let text = fs::read_to_string(path).map_err(|error| of_file(error.to_string()))?;
            keys.push(VerifyingKey::pem(Some(id_of(path)?), &text).map_err(of_file)?);
        }
        let mut ids = HashSet::new();
        for id in keys.iter().filter_map(|key| key.id.as_deref()) {
            if !ids.insert(id) {
                return Err(format!("two keys have the ID {id:?}"));
            }
        }
        let mut set = None;
        if let Some(path) = &self.jwks_file {
            let of_file = |why: String| format!("{}: {why}", path.display());
            let bytes = Bytes::from(fs::read(path).map_err(|error| of_file(error.to_string()))?);
            let (of_set, passed_over) = jwks::parse(&bytes, Origin::File, &ids).map_err(of_file)?;
            for why in passed_over {
                tracing::warn!(path = %path.display(), why, "a key does not count");
            }
            if of_set.iter().any(VerifyingKey::is_secret) {
                secret::check_closed(path).map_err(of_file)?;
            }
            keys.extend(of_set);
            set = Some(bytes);
        }
        let rules = Arc::new(self.rules.clone());
        Ok(Loaded {
            fixed: TokenKeys::new(&rules, keys),
            rules,
            set,
        })
    }
}

fn id_of(path: &Path) -> Result<String, String> {
    let id = path.file_stem().and_then(|stem| stem.to_str());
    let id = id.ok_or_else(|| format!("{}: its name is no key ID", path.display()))?;
    Ok(id.to_owned())
}
