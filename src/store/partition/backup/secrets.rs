//! `data/secrets.sealed`: what a backup has of a data directory's secrets, sealed with a passphrase.
//!
//! ```text
//!  0  4  magic "TdSe"     8  4  rounds of PBKDF2-HMAC-SHA256     28 12  nonce
//!  4  1  format (1)      12 16  salt                             40  8  check of the passphrase
//!  5  3  zero            48     ChaCha20-Poly1305 of the files, which authenticates bytes 0..48 as well
//! files: each name length (2), name, length (4), bytes; all numbers big-endian
//! ```
//!
//! Owns: this file, and which secrets are in it: those of keys that sign requests. Promises: nothing is written before
//! all of it was opened; a wrong passphrase is told from a file that was changed; no text or error holds a secret. Must
//! not: seal the key of positions: a restored directory has another history, and so a key of its own.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::num::NonZeroU32;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::{hmac, pbkdf2};
use subtle::ConstantTimeEq as _;

use super::super::directory::manifest::sync;
use super::{BACKUP_DATA, BackupError, BackupManifest};

/// In a data directory, the folder of the secrets of keys that sign requests: a file each, named by the key's ID.
pub const KEYS_FOLDER: &str = "keys";
/// The file's name in a backup's data directory.
pub(super) const SEALED: &str = "secrets.sealed";

const MAGIC: [u8; 4] = *b"TdSe";
const FORMAT: u8 = 1;
const HEADER_BYTES: usize = 48;
const ROUNDS: u32 = 600_000;
/// More are refused: a reader would work on them for half a minute.
const ROUNDS_MAX: u32 = 10_000_000;
const SALT_BYTES: usize = 16;
const CHECK_AT: usize = 40;
const NAME_BYTES_MAX: usize = 64;
/// A key's secret has less than 100 bytes, and there are thousands of keys at most.
const FILE_BYTES_MAX: u64 = 16 << 20;
const PASSPHRASE_BYTES_MIN: usize = 12;

/// What secrets are sealed with.
#[derive(Clone)]
pub struct Passphrase(Arc<[u8]>);

impl Passphrase {
    /// Takes one that is long enough.
    ///
    /// # Errors
    /// How long it is, and must be.
    pub fn new(text: &[u8]) -> Result<Passphrase, String> {
        match text.len() {
            PASSPHRASE_BYTES_MIN.. => Ok(Passphrase(text.into())),
            bytes => Err(format!(
                "the passphrase has {bytes} bytes, but must have {PASSPHRASE_BYTES_MIN} or more"
            )),
        }
    }

    /// The one in a file that others can't read.
    ///
    /// # Errors
    /// Why it is none, behind the file's name.
    pub fn of_file(path: &Path) -> Result<Passphrase, String> {
        let text = tideline_base::secret::content(path)?;
        Passphrase::new(&text).map_err(|why| format!("{}: {why}", path.display()))
    }

    /// The key of a file and what tells whether it is the right one.
    fn keys(&self, salt: &[u8], rounds: NonZeroU32) -> (LessSafeKey, [u8; 8]) {
        let mut derived = [0; 32];
        pbkdf2::derive(
            pbkdf2::PBKDF2_HMAC_SHA256,
            rounds,
            salt,
            &self.0,
            &mut derived,
        );
        let derived = hmac::Key::new(hmac::HMAC_SHA256, &derived);
        let part = |purpose: &[u8]| hmac::sign(&derived, purpose);
        let key = UnboundKey::new(&CHACHA20_POLY1305, part(b"seal").as_ref());
        let check = *part(b"check").as_ref().first_chunk().expect("32 bytes");
        (LessSafeKey::new(key.expect("a key of 32 bytes")), check)
    }
}

/// Without it.
impl fmt::Debug for Passphrase {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Passphrase")
    }
}

/// A file: its name and its content.
type Secret = (String, Vec<u8>);
/// All files.
pub(super) type Secrets = Vec<Secret>;

impl BackupManifest {
    /// Whether secrets are in it, sealed.
    #[must_use]
    pub fn has_secrets(&self) -> bool {
        self.file(&Path::new(BACKUP_DATA).join(SEALED)).is_some()
    }

    /// Refuses a backup without secrets if some are asked for.
    pub(super) fn check_secrets(&self, asked: Option<&Passphrase>) -> Result<(), BackupError> {
        match asked.is_some() && !self.has_secrets() {
            true => Err(BackupError::refused(
                "the backup holds no secrets, because it was made without --secrets; leave --secrets out, or name another one",
            )),
            false => Ok(()),
        }
    }
}

/// Seals the secrets of a data directory into that of a backup.
pub(super) fn seal(data: &Path, to: &Path, with: &Passphrase) -> Result<(), BackupError> {
    let from = data.join(KEYS_FOLDER);
    let secrets = found(&from).map_err(|error| BackupError::io("read", &from, error))?;
    let path = to.join(SEALED);
    write_new(&path, &sealed(&secrets, with, ROUNDS))
        .map_err(|error| BackupError::io("write", &path, error))
}

/// The secrets in the data directory of a backup.
pub(super) fn open(data: &Path, with: &Passphrase) -> Result<Secrets, BackupError> {
    let path = data.join(SEALED);
    let mut bytes = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
    read.map_err(|error| BackupError::io("read", &path, error))?;
    opened(&bytes, with).map_err(|why| BackupError::refused(format!("{}: {why}", path.display())))
}

/// Writes them to a data directory; how many.
pub(super) fn write(data: &Path, secrets: &[Secret]) -> Result<usize, BackupError> {
    let folder = data.join(KEYS_FOLDER);
    let written = || {
        if secrets.is_empty() {
            return Ok(());
        }
        fs::DirBuilder::new().mode(0o700).create(&folder)?;
        for (name, bytes) in secrets {
            write_new(&folder.join(name), bytes)?;
        }
        sync(&folder)?;
        sync(data)
    };
    written().map_err(|error| BackupError::io("write", &folder, error))?;
    Ok(secrets.len())
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut open = OpenOptions::new();
    let mut file = open.write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// The files of a folder, in the order of their names. One that is removed meanwhile is of a key that was revoked.
fn found(folder: &Path) -> io::Result<Secrets> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut secrets = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().into_string().unwrap_or_default();
        if !is_plain(&name) || !entry.file_type()?.is_file() {
            continue;
        }
        match fs::read(entry.path()) {
            Ok(bytes) => secrets.push((name, bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    secrets.sort();
    Ok(secrets)
}

/// Whether it names a file, and nothing else.
fn is_plain(name: &str) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_sign)
}

fn sealed(secrets: &[Secret], with: &Passphrase, rounds: u32) -> Vec<u8> {
    let (mut salt, mut nonce) = ([0; SALT_BYTES], [0; NONCE_LEN]);
    let random = SystemRandom::new();
    let filled = random
        .fill(&mut salt)
        .and_then(|()| random.fill(&mut nonce));
    filled.expect("the system gives random bytes");
    let (key, check) = with.keys(&salt, NonZeroU32::new(rounds).expect("some"));
    let head = [
        &MAGIC[..],
        &[FORMAT, 0, 0, 0],
        &rounds.to_be_bytes(),
        &salt,
        &nonce,
        &check,
    ]
    .concat();
    let mut files = Vec::new();
    for (name, bytes) in secrets {
        let length = u16::try_from(name.len()).expect("a short name");
        files.extend_from_slice(&length.to_be_bytes());
        files.extend_from_slice(name.as_bytes());
        let length = u32::try_from(bytes.len()).expect("a small file");
        files.extend_from_slice(&length.to_be_bytes());
        files.extend_from_slice(bytes);
    }
    let nonce = Nonce::assume_unique_for_key(nonce);
    key.seal_in_place_append_tag(nonce, Aad::from(&head), &mut files)
        .expect("far below what a key may seal");
    [head, files].concat()
}

fn opened(file: &[u8], with: &Passphrase) -> Result<Secrets, String> {
    let changed = || "it is cut or changed; take another backup".to_owned();
    let (head, files) = file
        .split_first_chunk::<HEADER_BYTES>()
        .ok_or_else(changed)?;
    if head[..4] != MAGIC {
        return Err(changed());
    }
    if head[4] != FORMAT {
        return Err(format!(
            "it has format {}, and this version reads format {FORMAT}; use the version that made it",
            head[4]
        ));
    }
    let rounds = u32::from_be_bytes(*head[8..].first_chunk().expect("four bytes"));
    let rounds = NonZeroU32::new(rounds).filter(|rounds| rounds.get() <= ROUNDS_MAX);
    let (key, check) = with.keys(&head[12..28], rounds.ok_or_else(changed)?);
    if !bool::from(check.ct_eq(&head[CHECK_AT..])) {
        return Err("the passphrase is not the one that it was sealed with".to_owned());
    }
    let nonce = Nonce::assume_unique_for_key(*head[28..].first_chunk().expect("twelve bytes"));
    let mut files = files.to_vec();
    let files = key.open_in_place(nonce, Aad::from(head), &mut files);
    listed(files.map_err(|_| changed())?).ok_or_else(changed)
}

fn listed(mut files: &[u8]) -> Option<Secrets> {
    let mut secrets = Vec::new();
    while !files.is_empty() {
        let (length, rest) = files.split_first_chunk()?;
        let (name, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (bytes, rest) = rest.split_at_checked(length)?;
        let name = std::str::from_utf8(name)
            .ok()
            .filter(|name| is_plain(name))?;
        secrets.push((name.to_owned(), bytes.to_vec()));
        files = rest;
    }
    Some(secrets)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many as a test has time for.
    const FEW: u32 = 10;

    #[test]
    fn secrets_come_back_with_their_passphrase_only() {
        let right = Passphrase::new(b"correct horse battery").unwrap();
        let wrong = Passphrase::new(b"correct horse batterx").unwrap();
        let secrets = vec![
            ("a1".to_owned(), b"s".to_vec()),
            ("b-2".to_owned(), Vec::new()),
        ];
        for secrets in [secrets, Vec::new()] {
            let file = sealed(&secrets, &right, FEW);
            assert_eq!(opened(&file, &right), Ok(secrets.clone()));
            assert!(
                opened(&file, &wrong)
                    .unwrap_err()
                    .contains("the passphrase is not")
            );
            assert_ne!(file, sealed(&secrets, &right, FEW));
        }
        assert!(Passphrase::new(b"short").unwrap_err().contains("5 bytes"));
        assert!(!format!("{right:?}").contains("horse"));
    }

    #[test]
    fn whatever_is_cut_or_changed_is_refused() {
        let with = Passphrase::new(b"correct horse battery").unwrap();
        let file = sealed(&[("a".to_owned(), b"secret".to_vec())], &with, FEW);
        for end in 0..file.len() {
            assert!(opened(&file[..end], &with).is_err(), "{end}");
        }
        for at in 0..file.len() {
            let mut changed = file.clone();
            changed[at] ^= 1;
            // Rounds beyond the bound, or so many that the passphrase gives another key.
            let why = opened(&changed, &with).unwrap_err();
            let expected = match at {
                4 => "it has format 0, and this version reads format 1",
                11..28 | 40..48 => "the passphrase is not",
                _ => "it is cut or changed",
            };
            assert!(
                why.contains(expected) || (8..11).contains(&at),
                "{at}: {why}"
            );
        }
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        for name in ["", ".", "..", "a/b", "a.part", &"a".repeat(65)] {
            assert!(!is_plain(name), "{name}");
        }
        assert_eq!(listed(b"\0\x02..\0\0\0\0"), None);
        assert_eq!(listed(b"\0\x01a\0\0\0\x05abc"), None);
        assert!(listed(b"\0\x01a\0\0\0\x03abc").is_some());
    }
}
