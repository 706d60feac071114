//! A folder in a bucket of an S3-compatible store: named files, and files that are known by their SHA-256.
//!
//! Owns: what is asked of the store, and what its answers mean. Promises: a call ends, because requests have deadlines
//! and repeats are bounded; each can be repeated; a file that comes out has the SHA-256 that it was asked for by; an
//! error is one sentence, and no secret is in it. Must not: know what the files are.

mod error;
mod http;
mod place;
mod transfer;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path as Key;
use object_store::{
    BackoffConfig, ObjectStore as _, ObjectStoreExt as _, PutMode, PutOptions, RetryConfig,
};
use tokio::time::sleep;

pub use error::BucketError;
pub use place::BucketPlace;
pub use transfer::{FetchError, Pass};

use http::Connector;

/// The folder of files that are known by their SHA-256.
const FILES: &str = "files";
/// A request that the store could not answer is repeated so often …
const REPEATS: usize = 5;
/// … and for so long.
const REPEATS_FOR: Duration = Duration::from_secs(120);
/// Between tries of what the store's client does not repeat.
const PAUSE: Duration = Duration::from_millis(200);
/// A named file that is longer is not read.
const NAMED_BYTES_MAX: u64 = 64 << 20;

/// A folder in a bucket.
#[derive(Debug)]
pub struct Bucket {
    store: AmazonS3,
    place: BucketPlace,
}

/// A file, as a list has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its length.
    pub bytes: u64,
    /// When it was written last, by the store's clock, ms since 1970.
    pub since_ms: u64,
}

impl Bucket {
    /// The folder, with the credentials and the address that the environment has. Asks the store nothing.
    pub fn open(
        place: &BucketPlace,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Bucket, BucketError> {
        let said = |name: &str| environment(name).filter(|text| !text.is_empty());
        let needed = |name: &str| {
            said(name).ok_or_else(|| {
                BucketError(format!(
                    "there are no credentials for {place}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                ))
            })
        };
        let region = said("AWS_REGION").or_else(|| said("AWS_DEFAULT_REGION"));
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(place.bucket())
            .with_access_key_id(needed("AWS_ACCESS_KEY_ID")?)
            .with_secret_access_key(needed("AWS_SECRET_ACCESS_KEY")?)
            .with_region(region.unwrap_or_else(|| "us-east-1".to_owned()));
        if let Some(token) = said("AWS_SESSION_TOKEN") {
            builder = builder.with_token(token);
        }
        let mut allows_http = false;
        if let Some(url) = said("AWS_ENDPOINT_URL_S3").or_else(|| said("AWS_ENDPOINT_URL")) {
            allows_http = place::check_endpoint(&url, said("AWS_ALLOW_HTTP").as_deref())?;
            builder = builder.with_endpoint(url.trim_end_matches('/'));
        }
        let connector = Connector::new(said("AWS_CA_BUNDLE").map(Into::into))?;
        let store = builder
            .with_allow_http(allows_http)
            .with_http_connector(connector)
            .with_retry(RetryConfig {
                backoff: BackoffConfig {
                    init_backoff: Duration::from_millis(100),
                    max_backoff: Duration::from_secs(5),
                    base: 3.0,
                },
                max_retries: REPEATS,
                retry_timeout: REPEATS_FOR,
            })
            .build();
        Ok(Bucket {
            store: store.map_err(|error| BucketError::of(place, &error))?,
            place: place.clone(),
        })
    }

    /// Where it is.
    #[must_use]
    pub fn place(&self) -> &BucketPlace {
        &self.place
    }

    /// The folder of this name in it.
    #[must_use]
    pub fn below(&self, name: &str) -> Bucket {
        Bucket {
            store: self.store.clone(),
            place: self.place.below(name),
        }
    }

    /// The names of the folders in it, in order, without that of the files known by their SHA-256.
    pub async fn folders(&self) -> Result<Vec<String>, BucketError> {
        let prefix = self.key("");
        let listed = self.store.list_with_delimiter(Some(&prefix)).await;
        let listed = listed.map_err(|error| self.failed(&error))?;
        let last = |key: Key| key.filename().map(str::to_owned);
        let mut names: Vec<String> = listed
            .common_prefixes
            .into_iter()
            .filter_map(last)
            .collect();
        names.retain(|name| name != FILES);
        names.sort();
        Ok(names)
    }

    /// The files known by their SHA-256, by it.
    pub async fn files(&self) -> Result<BTreeMap<String, Stored>, BucketError> {
        let listed = self.store.list(Some(&self.key(FILES)));
        let found = listed.try_filter_map(async |one| {
            let stored = Stored {
                bytes: one.size,
                since_ms: u64::try_from(one.last_modified.timestamp_millis()).unwrap_or(0),
            };
            let name = one.location.filename().map(str::to_owned);
            Ok(name.map(|name| (name, stored)))
        });
        found
            .try_collect()
            .await
            .map_err(|error| self.failed(&error))
    }

    /// A named file; `None` = it is not there.
    pub async fn read(&self, name: &str) -> Result<Option<Bytes>, BucketError> {
        let got = match self.store.get(&self.key(name)).await {
            // A bucket that is not there is not found either.
            Err(object_store::Error::NotFound { source, .. })
                if !source.to_string().contains("NoSuchBucket") =>
            {
                return Ok(None);
            }
            got => got.map_err(|error| self.failed(&error))?,
        };
        if got.meta.size > NAMED_BYTES_MAX {
            let (url, bytes) = (self.place.below(name), got.meta.size);
            return Err(BucketError(format!(
                "{url} has {bytes} bytes, more than {NAMED_BYTES_MAX}"
            )));
        }
        let bytes = got.bytes().await;
        Ok(Some(bytes.map_err(|error| self.failed(&error))?))
    }

    /// Writes a named file that is not there, all at once; `false` = there is another one of this name. A store that
    /// does not know the condition writes over it.
    pub async fn create(&self, name: &str, bytes: &Bytes) -> Result<bool, BucketError> {
        let key = self.key(name);
        for is_last in [false, false, true] {
            let new = PutOptions::from(PutMode::Create);
            let put = self.store.put_opts(&key, bytes.clone().into(), new).await;
            match put {
                Ok(_) => return Ok(true),
                // Perhaps it was written by the try before, of which the answer was lost.
                Err(object_store::Error::AlreadyExists { .. }) => {
                    return Ok(self.read(name).await?.as_ref() == Some(bytes));
                }
                Err(error) if error::is_unknown(&error) => {
                    let put = self.store.put(&key, bytes.clone().into()).await;
                    return put.map(|_| true).map_err(|error| self.failed(&error));
                }
                // The client does not repeat what has a condition, where it does not know how far it came.
                Err(error) if is_last || !error::is_cut(&error) => return Err(self.failed(&error)),
                Err(_) => sleep(PAUSE).await,
            }
        }
        Ok(false)
    }

    /// Removes a named file; one that is not there is removed already.
    pub async fn remove(&self, name: &str) -> Result<(), BucketError> {
        match self.store.delete(&self.key(name)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Removes a file known by its SHA-256.
    pub async fn remove_file(&self, sha256: &str) -> Result<(), BucketError> {
        self.remove(&format!("{FILES}/{sha256}")).await
    }

    fn key(&self, name: &str) -> Key {
        let prefix = self.place.prefix().split('/');
        Key::from_iter(
            prefix
                .chain(name.split('/'))
                .filter(|part| !part.is_empty()),
        )
    }

    fn file_key(&self, sha256: &str) -> Key {
        self.key(&format!("{FILES}/{sha256}"))
    }

    fn failed(&self, error: &object_store::Error) -> BucketError {
        BucketError::of(&self.place, error)
    }
}
