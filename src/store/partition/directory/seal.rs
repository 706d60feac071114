//! The seal on what clients are given to bring back: positions, iterators, cursors.
//!
//! Owns: the data directory's key for it, in `positions.key`. Promises: a text whose seal was not made with the key is
//! refused. A text without a seal is taken only by a directory that is older than seals, because its clients hold such
//! texts. Must not: give a right: a seal says where a text comes from, not which caller may use it.
//!
//! ```text
//! sealed text = text "~" base64url( first 8 bytes of HMAC-SHA256( key, purpose 0 text ) )
//! ```

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac::{self, HMAC_SHA256};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

use super::super::OpenError;
use super::manifest::sync;
use tideline_base::ids::HistoryId;

/// The key's file in a data directory.
pub(in super::super) const KEY: &str = "positions.key";
/// The same on its way.
pub(in super::super) const KEY_PART: &str = "positions.key.part";

/// Bytes of a seal.
const TAG_BYTES: usize = 8;
const KEY_BYTES: usize = 32;
/// Between a text and its seal; base64url has none.
const BETWEEN: char = '~';

/// The seal of one data directory.
pub struct Seal {
    key: hmac::Key,
    takes_unsealed: bool,
}

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    /// In base64url.
    key: String,
    /// Texts without a seal are taken: they may be older than the key. An operator without such readers removes this
    /// line.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    takes_unsealed: bool,
}

impl Seal {
    /// The seal of the directory at `path`. If there is no key yet, one is made; unless the directory `is_new`, texts
    /// without a seal are then taken, too.
    pub(in super::super) fn of(path: &Path, is_new: bool) -> Result<Seal, OpenError> {
        Seal::with(path, is_new, random)
    }

    /// The same of a directory whose log machines share. A key that is made is that of the log, so that what one of them
    /// has given is taken by all; who knows the log's ID has all of the log.
    pub(in super::super) fn of_log(
        path: &Path,
        is_new: bool,
        (log, history): (HistoryId, HistoryId),
    ) -> Result<Seal, OpenError> {
        Seal::with(path, is_new, || {
            let key = hmac::Key::new(HMAC_SHA256, &log.0);
            let tag = hmac::sign(&key, &history.0);
            *tag.as_ref().first_chunk().expect("a tag of 32 bytes")
        })
    }

    fn with(
        path: &Path,
        is_new: bool,
        key: impl FnOnce() -> [u8; KEY_BYTES],
    ) -> Result<Seal, OpenError> {
        let name = path.join(KEY);
        let text = match fs::read_to_string(&name) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = Written {
                    key: URL_SAFE_NO_PAD.encode(key()),
                    takes_unsealed: !is_new,
                };
                let text = toml::to_string(&made).expect("a key is plain TOML");
                if let Err(error) = write(path, &text) {
                    // A disk that is full for the moment is no reason not to start.
                    tracing::warn!(%error, "the key of positions could not be written: those that are given out now are refused after the next start");
                }
                text
            }
            Err(error) => return Err(OpenError::from_io("read", &name, error)),
        };
        let written: Option<Written> = toml::from_str(&text).ok();
        written
            .and_then(|written| {
                let key = URL_SAFE_NO_PAD.decode(written.key).ok()?;
                let key = key.first_chunk::<KEY_BYTES>()?;
                Some(Seal::new(key, written.takes_unsealed))
            })
            .ok_or_else(|| OpenError::Damaged {
                text: format!("{} does not hold a key", name.display()),
            })
    }

    /// Replaces the key at `path`: no text of before is taken.
    pub(super) fn renew(path: &Path) -> Result<(), OpenError> {
        let name = path.join(KEY);
        match fs::remove_file(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(OpenError::from_io("remove", &name, error));
            }
            _ => {}
        }
        Seal::of(path, true).map(drop)
    }

    fn new(key: &[u8; KEY_BYTES], takes_unsealed: bool) -> Seal {
        Seal {
            key: hmac::Key::new(HMAC_SHA256, key),
            takes_unsealed,
        }
    }

    /// A seal with a key of its own.
    #[cfg(any(test, feature = "faults"))]
    pub fn for_tests(takes_unsealed: bool) -> Seal {
        Seal::new(&random(), takes_unsealed)
    }

    /// Whether texts without a seal are taken.
    #[must_use]
    pub fn takes_unsealed(&self) -> bool {
        self.takes_unsealed
    }

    /// The seal on some bytes, for a purpose.
    #[must_use]
    pub fn tag(&self, purpose: &str, bytes: &[u8]) -> [u8; TAG_BYTES] {
        let mut context = hmac::Context::with_key(&self.key);
        for part in [purpose.as_bytes(), &[0], bytes] {
            context.update(part);
        }
        let tag = context.sign();
        *tag.as_ref().first_chunk().expect("a tag of 32 bytes")
    }

    /// A text with its seal.
    #[must_use]
    pub fn sealed(&self, purpose: &str, text: &str) -> String {
        let tag = URL_SAFE_NO_PAD.encode(self.tag(purpose, text.as_bytes()));
        format!("{text}{BETWEEN}{tag}")
    }

    /// The text without its seal; `None` = it was not sealed here for this purpose.
    #[must_use]
    pub fn opened<'t>(&self, purpose: &str, sealed: &'t str) -> Option<&'t str> {
        let Some((text, tag)) = sealed.rsplit_once(BETWEEN) else {
            return Some(sealed).filter(|_| self.takes_unsealed);
        };
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        let fits = self.tag(purpose, text.as_bytes())[..].ct_eq(&tag[..]);
        bool::from(fits).then_some(text)
    }

    /// A text without its seal, which is not checked.
    #[must_use]
    pub fn unread(sealed: &str) -> &str {
        sealed.rsplit_once(BETWEEN).map_or(sealed, |(text, _)| text)
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let part = path.join(KEY_PART);
    let mut file = File::options()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&part)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&part, path.join(KEY))?;
    sync(path)
}

fn random() -> [u8; KEY_BYTES] {
    let mut bytes = [0; KEY_BYTES];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.expect("the system gives random bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sealed_comes_back_and_nothing_else_does() {
        let home = tempfile::tempdir().unwrap();
        let seal = Seal::of(home.path(), true).unwrap();
        let sealed = seal.sealed("position", "1.t.0-7-0");
        assert_eq!(seal.opened("position", &sealed), Some("1.t.0-7-0"));
        let again = Seal::of(home.path(), false).unwrap();
        assert_eq!(again.opened("position", &sealed), Some("1.t.0-7-0"));
        assert_eq!(seal.opened("iterator", &sealed), None);
        for wrong in ["", "1.t.0-7-0", "1.t.0-7-0~", "1.t.0-7-0~AAAAAAAAAAA", "~"] {
            assert_eq!(seal.opened("position", wrong), None, "{wrong}");
        }
        assert_eq!(seal.opened("position", &sealed.replace("0-7", "0-8")), None);
        assert_eq!(Seal::for_tests(false).opened("position", &sealed), None);
    }

    #[test]
    fn directories_of_one_log_take_what_each_has_given() {
        let homes = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let of = |at: usize, log| {
            let ids = (HistoryId([log; 16]), HistoryId([9; 16]));
            Seal::of_log(homes[at].path(), true, ids).unwrap()
        };
        let sealed = of(0, 1).sealed("position", "1.t.0-7-0");
        assert_eq!(of(1, 1).opened("position", &sealed), Some("1.t.0-7-0"));
        assert_eq!(of(2, 2).opened("position", &sealed), None);
        // The key stays, whosever log it is later.
        let alone = Seal::of(homes[1].path(), false).unwrap();
        assert_eq!(alone.opened("position", &sealed), Some("1.t.0-7-0"));
    }

    #[test]
    fn a_directory_of_before_takes_what_was_given_then() {
        let home = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let seal = Seal::of(home.path(), false).unwrap();
            assert_eq!(seal.opened("position", "1.t.0-7-0"), Some("1.t.0-7-0"));
            assert_eq!(seal.opened("position", "1.t.0-7-0~AAAAAAAAAAA"), None);
        }
        fs::write(home.path().join(KEY), "key = \"AAAA\"\n").unwrap();
        let error = Seal::of(home.path(), false).err().unwrap().to_string();
        assert!(
            error.contains("positions.key does not hold a key"),
            "{error}"
        );
    }
}
