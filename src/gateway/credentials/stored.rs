//! What of credentials is stored: API keys, and what was revoked.
//!
//! Owns: their rows, and the files of signing keys' secrets. Promises: a key is answered after it is on disk, and a
//! revocation too; a secret is in its own file that only the owner can read, and in no row that is not sealed. Must
//! not: decide.
//!
//! ```text
//! 51 API keys     (ID)    $act_as, $certificate, $hash, $name, $rights, $sealed, $signing   version = when it was made
//! 52 revocations  (user)  $before: the user's tokens from before, ms                   version = when it was written
//! ```
//! `$act_as` and `$rights` are JSON. The secret of a signing key is in `keys/ID` of the data directory; in a cluster
//! also, sealed, in `$sealed`, from which each node makes its own file.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::api_key::{ApiKey, KeySecret, user_pattern};
use super::shared_secrets::SecretSeal;
use tideline_base::decode;
use tideline_base::ids::PartitionId;
use tideline_base::ordered::Reader;
use tideline_model::ValueRef;
use tideline_model::access::{GrantText, Grants, GrantsFrom};
use tideline_store::partition::KEYS_FOLDER;
use tideline_table::{
    API_KEYS, Key, Malformed, Partitions, Purpose, REVOCATIONS, ReadError, Row, RowWriter,
    StoreError, SubmitError, Txn, View, delete, load, number_in, put, read_row, scan_all,
};

const ACT_AS: &str = "$act_as";
const CERTIFICATE: &str = "$certificate";
const HASH: &str = "$hash";
const NAME: &str = "$name";
const RIGHTS: &str = "$rights";
const SEALED: &str = "$sealed";
const SIGNING: &str = "$signing";
const BEFORE: &str = "$before";

/// About what a call holds in the queue.
const ROW_BYTES: usize = 2_048;

/// Why keys or revocations can't be read or written.
#[derive(Debug)]
pub enum StoredError {
    /// The partition can't.
    Store(StoreError),
    /// A row is damaged.
    Read(ReadError),
    /// The file of a secret.
    File(PathBuf, io::Error),
}

impl std::fmt::Display for StoredError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StoredError::Store(error) => write!(out, "cannot write: {error:?}"),
            StoredError::Read(error) => write!(out, "{}", error.0),
            StoredError::File(path, error) => write!(out, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for StoredError {}

impl From<ReadError> for StoredError {
    fn from(error: ReadError) -> StoredError {
        StoredError::Read(error)
    }
}

impl From<SubmitError<ReadError>> for StoredError {
    fn from(error: SubmitError<ReadError>) -> StoredError {
        match error {
            SubmitError::Rejected(error) => StoredError::Read(error),
            SubmitError::TooLarge { .. } => StoredError::Store(StoreError::Internal),
            SubmitError::Failed(error) => StoredError::Store(error),
        }
    }
}

/// Keys and revocations on a data directory.
#[derive(Clone)]
pub struct StoredCredentials {
    partitions: Partitions,
    folder: Arc<Path>,
    /// Of a node of a cluster.
    seal: Option<Arc<SecretSeal>>,
}

impl StoredCredentials {
    /// Those of an opened data directory. With a seal it is one of several with the same keys.
    #[must_use]
    pub fn new(partitions: Partitions, data: &Path, seal: Option<SecretSeal>) -> StoredCredentials {
        StoredCredentials {
            partitions,
            folder: data.join(KEYS_FOLDER).into(),
            seal: seal.map(Arc::new),
        }
    }

    /// All keys. A signing key whose secret is neither in its file nor, for this node, in its row is there without it.
    pub async fn keys(&self) -> Result<Vec<ApiKey>, StoredError> {
        let mut keys: Vec<ApiKey> = self.all(API_KEYS, "not an API key", read_key).await?;
        for key in keys.iter_mut().filter(|key| key.signing) {
            let path = self.folder.join(&*key.id);
            let secret = fs::read_to_string(&path).ok();
            let secret = secret.and_then(|text| KeySecret::read(text.trim_end()));
            // One that is not the key's would sign what nobody can check.
            let is_own = |secret: &KeySecret| secret.hash() == key.hash;
            key.secret = secret.filter(is_own);
            if key.secret.is_none()
                && let Some(secret) = self.opened(key).filter(is_own)
            {
                // Should this directory be served without the others, it needs a file.
                if let Err(error) = self.keep(&key.id, &secret).await {
                    tracing::warn!(%error, "a signing key's secret is in its row alone");
                }
                key.secret = Some(secret);
            }
            if key.secret.is_none() {
                tracing::error!(
                    key = &*key.id,
                    path = %path.display(),
                    "the secret of a signing key is missing or not its own; it does not count for Tablestore"
                );
            }
        }
        Ok(keys)
    }

    /// Up to when the tokens of users were revoked, ms.
    pub async fn revocations(&self) -> Result<Vec<(String, u64)>, StoredError> {
        self.all(REVOCATIONS, "not a revocation", read_revocation)
            .await
    }

    /// Seals the secrets that this node has into the rows of their keys, where they are not yet: those of before there
    /// was a cluster, and of before its login changed. For the owner of the log.
    pub async fn share(&self, keys: &[Arc<ApiKey>]) -> Result<(), StoredError> {
        for key in keys {
            if self.seal.is_some() && key.secret.is_some() && self.opened(key).is_none() {
                self.write(key, true).await?;
            }
        }
        Ok(())
    }

    /// Removes the files of keys that were revoked while another node owned the log. For a node that has applied all of
    /// it, and makes no key meanwhile.
    pub async fn sweep(&self) -> Result<(), StoredError> {
        if self.seal.is_none() {
            return Ok(());
        }
        let failed = |error| StoredError::File(self.folder.to_path_buf(), error);
        let files = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.and_then(Iterator::collect::<io::Result<Vec<_>>>),
        };
        let files = files.map_err(failed)?;
        if files.is_empty() {
            return Ok(());
        }
        let keys: Vec<ApiKey> = self.all(API_KEYS, "not an API key", read_key).await?;
        let known: HashSet<&str> = keys.iter().map(|key| &*key.id).collect();
        for file in files {
            let name = file.file_name();
            if name.to_str().is_some_and(|name| !known.contains(name)) {
                fs::remove_file(file.path()).map_err(failed)?;
                tracing::info!(key = ?name, "the secret of a revoked key was removed");
            }
        }
        Ok(())
    }

    /// The secret in a key's row.
    fn opened(&self, key: &ApiKey) -> Option<KeySecret> {
        let (seal, sealed) = (self.seal.as_ref()?, key.sealed.as_ref()?);
        seal.open(&key.id, sealed)
    }

    /// Writes a secret's file.
    async fn keep(&self, id: &Arc<str>, secret: &KeySecret) -> Result<(), StoredError> {
        let (folder, name, secret) = (self.folder.clone(), id.clone(), secret.clone());
        let written = tokio::task::spawn_blocking(move || write_secret(&folder, &name, &secret));
        let written = written.await;
        let written = written.unwrap_or_else(|_| Err(io::Error::other("a panic")));
        written.map_err(|error| StoredError::File(self.folder.join(&**id), error))
    }

    /// Adds a key.
    pub async fn add(&self, key: &ApiKey) -> Result<(), StoredError> {
        if let Some(secret) = &key.secret {
            self.keep(&key.id, secret).await?;
        }
        self.write(key, false).await
    }

    /// `is_there`: unless it was revoked meanwhile.
    async fn write(&self, key: &ApiKey, is_there: bool) -> Result<(), StoredError> {
        let place = self.partitions.place(key.id.as_bytes());
        let sealed = self.seal.as_ref().zip(key.secret.as_ref());
        let sealed = sealed.map(|(seal, secret)| seal.seal(&key.id, secret));
        let row = key_row(key, sealed.as_deref())?;
        let (at, version) = (key_of(&key.id), key.created_at.cast_signed());
        self.submit(place, move |txn| {
            if !is_there || load(txn, &at, "not an API key", |_| Ok(()))?.is_some() {
                put(txn, at, row, version);
            }
            Ok(())
        })
        .await
    }

    /// Removes a key; whether there was one.
    pub async fn remove(&self, id: &str) -> Result<bool, StoredError> {
        let (place, at) = (self.partitions.place(id.as_bytes()), key_of(id));
        let removed = self.submit(place, move |txn| {
            let is_there = load(txn, &at, "not an API key", |_| Ok(()))?.is_some();
            if is_there {
                delete(txn, at);
            }
            Ok(is_there)
        });
        let removed = removed.await?;
        if removed
            && let Err(error) = fs::remove_file(self.folder.join(id))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(key = id, %error, "the secret of a revoked key is still there");
        }
        Ok(removed)
    }

    /// Revokes a user's tokens from before a time, ms. An earlier one takes nothing of it back.
    pub async fn revoke(&self, user: &str, before: u64) -> Result<u64, StoredError> {
        let place = self.partitions.place(user.as_bytes());
        let at = Key::new(REVOCATIONS, &[], user.len() + 4).string(user);
        self.submit(place, move |txn| {
            let known = load(txn, &at, "not a revocation", revoked_before)?;
            let before = known.map_or(before, |known| known.max(before));
            let now = txn.now_ms().cast_signed();
            put(txn, at, RowWriter::of(BEFORE, before.into()), now);
            Ok(before)
        })
        .await
    }

    async fn all<T: Send + 'static>(
        &self,
        table: tideline_base::ids::TableId,
        what: &'static str,
        read: impl Fn(&[u8], &[u8]) -> Result<T, Malformed> + Copy + Send + 'static,
    ) -> Result<Vec<T>, StoredError> {
        let mut all = Vec::new();
        for partition in self.partitions.ids() {
            let rows = move |view: &View| {
                let rows = scan_all(view, &Key::new(table, &[], 1));
                let rows = rows.map(|row| read_row(&row?, what, read));
                rows.collect::<Result<Vec<T>, ReadError>>()
            };
            // Not `Partitions::read`: a standby of a cluster judges, too, by what it has applied.
            let partitions = self.partitions.clone();
            let read = tokio::task::spawn_blocking(move || rows(&partitions.view(partition)?));
            let read = read.await;
            let read = read.unwrap_or_else(|_| Err(ReadError("a panic".to_owned())));
            all.extend(read?);
        }
        Ok(all)
    }

    async fn submit<R: Send + 'static>(
        &self,
        place: PartitionId,
        write: impl FnOnce(&mut Txn<'_>) -> Result<R, ReadError> + Send + 'static,
    ) -> Result<R, StoredError> {
        // A full disk must not keep a credential in force.
        let purpose = Purpose::MakesRoom;
        let done = self.partitions.submit(purpose, place, ROW_BYTES, write);
        Ok(done.await?)
    }
}

/// The secret, on disk before its key is.
fn write_secret(folder: &Path, id: &str, secret: &KeySecret) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder)?;
    match fs::remove_file(folder.join(id)) {
        // A file that is there is damaged: a good one is not written again.
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut open = OpenOptions::new();
    let mut file = open
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(folder.join(id))?;
    file.write_all(secret.reveal().as_bytes())?;
    file.sync_all()?;
    fs::File::open(folder)?.sync_all()?;
    let above = folder.parent().unwrap_or(folder);
    fs::File::open(above)?.sync_all()
}

fn key_of(id: &str) -> Key {
    Key::new(API_KEYS, &[], id.len() + 4).string(id)
}

fn key_row(key: &ApiKey, sealed: Option<&[u8]>) -> Result<RowWriter, StoredError> {
    let json = |value: Result<String, serde_json::Error>| {
        value.map_err(|_| StoredError::Store(StoreError::Internal))
    };
    let act_as: Vec<&str> = key.act_as.iter().map(|pattern| pattern.text()).collect();
    let act_as = json(serde_json::to_string(&act_as))?;
    let rights = json(serde_json::to_string(&key.rights.to_texts()))?;
    let mut row = RowWriter::new(ROW_BYTES);
    row.put(ACT_AS, ValueRef::String(&act_as));
    if let Some(name) = &key.certificate {
        row.put(CERTIFICATE, ValueRef::String(name));
    }
    row.put(HASH, ValueRef::Binary(&key.hash));
    row.put(NAME, ValueRef::String(&key.name));
    row.put(RIGHTS, ValueRef::String(&rights));
    if let Some(sealed) = sealed {
        row.put(SEALED, ValueRef::Binary(sealed));
    }
    row.put(SIGNING, ValueRef::Boolean(key.signing));
    Ok(row)
}

pub(super) fn read_key(columns: &[u8], value: &[u8]) -> Result<ApiKey, Malformed> {
    let id = Reader::new(columns).string()?.into_owned();
    let row = Row::parse(value)?;
    let (mut name, mut hash, mut rights) = (None, None, None);
    let (mut act_as, mut certificate, mut sealed, mut signing) = (Vec::new(), None, None, false);
    for cell in row.columns() {
        let cell = cell?;
        match (cell.name, cell.value) {
            (ACT_AS, ValueRef::String(text)) => {
                let texts: Vec<String> = decode::from_str(text).map_err(|_| Malformed)?;
                let patterns = texts.iter().map(|text| user_pattern(text));
                act_as = patterns.collect::<Option<_>>().ok_or(Malformed)?;
            }
            (CERTIFICATE, ValueRef::String(text)) => certificate = Some(text.to_owned()),
            (HASH, ValueRef::Binary(bytes)) => {
                hash = Some(bytes.try_into().map_err(|_| Malformed)?);
            }
            (NAME, ValueRef::String(text)) => name = Some(text.into()),
            (RIGHTS, ValueRef::String(text)) => {
                let texts: Vec<GrantText> = decode::from_str(text).map_err(|_| Malformed)?;
                let grants = Grants::parse(&texts, GrantsFrom::Key).map_err(|_| Malformed)?;
                rights = Some(Arc::new(grants));
            }
            (SEALED, ValueRef::Binary(bytes)) => sealed = Some(bytes.into()),
            (SIGNING, ValueRef::Boolean(is_signing)) => signing = is_signing,
            _ => return Err(Malformed),
        }
    }
    Ok(ApiKey {
        id: id.into(),
        name: name.ok_or(Malformed)?,
        rights: rights.ok_or(Malformed)?,
        act_as,
        signing,
        certificate,
        created_at: row.base().cast_unsigned(),
        hash: hash.ok_or(Malformed)?,
        secret: None,
        sealed,
    })
}

fn read_revocation(columns: &[u8], value: &[u8]) -> Result<(String, u64), Malformed> {
    let user = Reader::new(columns).string()?.into_owned();
    Ok((user, revoked_before(value)?))
}

fn revoked_before(value: &[u8]) -> Result<u64, Malformed> {
    number_in(value, BEFORE)
}

/// Looks at all rows of a partition, for `tideline verify`.
pub fn verify_stored(view: &View, problem: &mut dyn FnMut(String)) -> Result<(), ReadError> {
    for row in scan_all(view, &Key::new(API_KEYS, &[], 1)) {
        if let Err(error) = read_row(&row?, "not an API key", read_key) {
            problem(error.0);
        }
    }
    for row in scan_all(view, &Key::new(REVOCATIONS, &[], 1)) {
        if let Err(error) = read_row(&row?, "not a revocation", read_revocation) {
            problem(error.0);
        }
    }
    Ok(())
}
