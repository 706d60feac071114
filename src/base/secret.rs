//! Secrets: what one must be, and how one is read from a file.
//!
//! Owns: the one reader of secrets in files. Promises: a secret that is short enough to be guessed, or that every user
//! of the machine can read, is refused; no error holds a byte of it. Must not: know what a secret is for.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Shorter ones can be guessed from what they have signed.
const SECRET_BYTES_MIN: usize = 32;

/// The secret in a file: all of it but the newline with which editors and `echo` end a file.
///
/// # Errors
/// Why it is none, behind the file's name.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    let secret = content(path)?;
    check(&secret).map_err(|why| format!("{}: {why}", path.display()))?;
    Ok(secret)
}

/// The same of a secret that may be short, because others have chosen it.
///
/// # Errors
/// As [`read`].
pub fn content(path: &Path) -> Result<Vec<u8>, String> {
    let of_file = |why: String| format!("{}: {why}", path.display());
    check_closed(path).map_err(of_file)?;
    let secret = fs::read(path).map_err(|error| of_file(error.to_string()))?;
    let secret = secret.strip_suffix(b"\n").unwrap_or(&secret);
    Ok(secret.strip_suffix(b"\r").unwrap_or(secret).to_vec())
}

/// The secret in a file, if it is a text.
///
/// # Errors
/// As [`read`].
pub fn read_text(path: &Path) -> Result<String, String> {
    String::from_utf8(read(path)?).map_err(|_| format!("{}: not UTF-8", path.display()))
}

/// Refuses a secret that is too short.
///
/// # Errors
/// How long it is, and how long it must be.
pub fn check(secret: &[u8]) -> Result<(), String> {
    let bytes = secret.len();
    match bytes < SECRET_BYTES_MIN {
        true => Err(format!(
            "the secret has {bytes} bytes, but must have {SECRET_BYTES_MIN} or more"
        )),
        false => Ok(()),
    }
}

/// Refuses a file with a secret that every user of the machine can read or change. A group that the operator has
/// chosen may: that is common where containers run.
///
/// # Errors
/// Why the file is refused, and what to do.
pub fn check_closed(path: &Path) -> Result<(), String> {
    let found = fs::metadata(path).map_err(|error| error.to_string())?;
    let mode = found.permissions().mode() & 0o777;
    match mode & OTHERS {
        0 => Ok(()),
        _ => Err(format!(
            "others can read or change this file (mode {mode:o}), and it holds a secret: chmod o-rwx it, or make a new \
             secret"
        )),
    }
}

/// The permissions of users that are neither the owner nor in the file's group.
const OTHERS: u32 = 0o007;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_long_and_closed_to_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let written = |text: &[u8], mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            read(&path)
        };
        let secret = b"canary-canary-canary-canary-cana";
        assert_eq!(
            written(&[secret, &b"\r\n"[..]].concat(), 0o600).unwrap(),
            secret
        );
        assert_eq!(written(secret, 0o640).unwrap(), secret);
        for (text, mode, why) in [
            (&secret[..], 0o644, "others can read"),
            (&secret[..], 0o602, "others can read"),
            (&secret[1..], 0o600, "31 bytes"),
            (b"\n", 0o600, "0 bytes"),
        ] {
            let refused = written(text, mode).unwrap_err();
            assert!(
                refused.contains(why) && !refused.contains("canary"),
                "{refused}"
            );
        }
        assert!(
            read_text(&dir.path().join("none"))
                .unwrap_err()
                .contains("none: ")
        );
    }
}
