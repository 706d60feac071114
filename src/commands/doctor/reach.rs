//! From where the server can be reached, and which users can read its secrets.
//!
//! Owns: the checks of addresses, files of secrets and keys, and the certificate. Promises: no secret is shown. Must
//! not: know the machine.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use rustix::process::geteuid;

use super::{Finding, now};
use crate::config::{Config, ConfigError};
use crate::partition::Passphrase;
use crate::secret::check_closed;
use crate::tls::Unfit;

pub(super) fn examine(config: &Config) -> Vec<Finding> {
    let mut findings = vec![exposure(config)];
    let keys = config.tls.key_file.iter();
    let shared = config.auth.iter().flat_map(|auth| &auth.hs256_secret_files);
    let webhooks = config.webhook.iter().map(|webhook| &webhook.secret_file);
    let of_centrifuge = config.centrifuge.iter().flat_map(|section| {
        let of_tokens = &section.client.token.hmac_secret_key_file;
        of_tokens.iter().chain(&section.http_api.key_file)
    });
    let secrets = keys.chain(shared).chain(webhooks).chain(of_centrifuge);
    findings.extend(secrets.map(|path| secret(path)));
    findings.extend(token_keys(config));
    findings.extend(passphrase(config));
    findings.extend(certificate(config));
    findings.extend(policies(config));
    findings
}

/// What a failure of these checks means.
const UNSTARTED: &str = "the server would not start";

fn policies(config: &Config) -> Option<Finding> {
    let vain = config.policies_in_vain();
    if vain.is_empty() {
        return None;
    }
    Some(Finding::warn(
        "policies",
        format!("without [auth] the rights in the policies of {vain:?} decide nothing"),
        "set [auth], or take others, members, roles and creator out of these policies",
    ))
}

fn exposure(config: &Config) -> Finding {
    const NAME: &str = "exposure";
    let listen = config.listen;
    if let Err(ConfigError(why)) = config.check_exposure() {
        return Finding::fail(NAME, why, UNSTARTED);
    }
    if config.auth.is_some() {
        return of_asked(config);
    }
    if config.insecure {
        return Finding::warn(
            NAME,
            format!("insecure: whoever reaches {listen} may do everything, as anybody"),
            "leave insecure out, unless a proxy or a firewall decides who may come in",
        );
    }
    Finding::ok(NAME, format!("{listen} is reached from this machine alone"))
}

/// The same of a server that asks every caller for a credential.
fn of_asked(config: &Config) -> Finding {
    const NAME: &str = "exposure";
    let listen = config.listen;
    if config.insecure && config.tls.certificate_file.is_none() {
        return Finding::warn(
            NAME,
            format!("insecure: credentials that are sent to {listen} can be read on their way"),
            "set [tls]; or trusted_proxies, if a proxy before the server speaks TLS; and leave insecure out",
        );
    }
    let who = match (config.is_exposed(), config.serves_proxies_only()) {
        (false, _) => "from this machine, or through a proxy on it,",
        (true, true) => "through trusted proxies",
        (true, false) => "by everybody",
    };
    Finding::ok(NAME, format!("{listen} is reached {who} with a credential"))
}

fn secret(path: &Path) -> Finding {
    const NAME: &str = "secret";
    let shown = path.display();
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) => {
            return Finding::fail(NAME, format!("{shown}: {error}"), UNSTARTED);
        }
    };
    if let Err(why) = check_closed(path) {
        return Finding::fail(NAME, format!("{shown}: {why}"), UNSTARTED);
    }
    let owner = found.uid();
    if owner != 0 && owner != geteuid().as_raw() {
        let told = format!("{shown} belongs to the user {owner}, neither root nor who runs this");
        return Finding::warn(NAME, told, "its owner can change it: chown it");
    }
    Finding::ok(NAME, format!("{shown} is closed to other users"))
}

/// Whether the files of `[auth]` hold keys that tokens can be verified with.
fn token_keys(config: &Config) -> Option<Finding> {
    const NAME: &str = "token keys";
    Some(match config.token_sources()?.check() {
        Ok(()) => Finding::ok(NAME, "every file of keys can be used"),
        Err(why) => Finding::fail(NAME, why, UNSTARTED),
    })
}

/// Whether the passphrase that secrets in backups are sealed with can be used.
fn passphrase(config: &Config) -> Option<Finding> {
    const NAME: &str = "backup passphrase";
    let path = &config.backup_passphrase_file;
    if path.as_os_str().is_empty() {
        return None;
    }
    Some(match Passphrase::of_file(path) {
        Ok(_) => Finding::ok(NAME, format!("{} holds one", path.display())),
        Err(why) => Finding::fail(NAME, why, UNSTARTED),
    })
}

fn certificate(config: &Config) -> Option<Finding> {
    const NAME: &str = "certificate";
    let served = match config.certificate() {
        Ok(served) => served?,
        Err(Unfit(why)) => {
            return Some(Finding::fail(NAME, why, UNSTARTED));
        }
    };
    let end = UNIX_EPOCH + Duration::from_secs(served.ends_at());
    let shown = humantime::format_rfc3339_seconds(end);
    let left = end.duration_since(now());
    Some(match left {
        Err(_) => Finding::fail(
            NAME,
            format!("it ended at {shown}"),
            "clients refuse it: renew it",
        ),
        Ok(left) if left < SOON => Finding::warn(
            NAME,
            format!("it ends at {shown}"),
            "renew it; a running server reads the files again",
        ),
        Ok(_) => Finding::ok(NAME, format!("it ends at {shown}")),
    })
}

/// As the alert.
const SOON: Duration = Duration::from_secs(14 * 86_400);
