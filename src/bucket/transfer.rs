//! Files known by their SHA-256: from a disk here into the bucket, and back.
//!
//! Owns: the parts that a long file goes in. Promises: what lies in the bucket under a SHA-256 had it when it was sent;
//! what does not have it when it comes back is an error; an upload that fails leaves no file, and its parts are removed
//! if the store can be reached; a few parts are in memory at once. Must not: choose what is sent.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use futures_util::TryStreamExt as _;
use object_store::{MultipartUpload, ObjectStoreExt as _, PutPayload};
use ring::digest::{Context, SHA256};
use tokio::task::JoinSet;

use super::{Bucket, BucketError};

/// Bytes of a part; a longer file has longer ones …
const PART_BYTES: u64 = 8 << 20;
/// … because a store takes this many at most.
const PARTS_MAX: u64 = 10_000;
/// Parts that are sent at once.
const AT_ONCE: usize = 4;

/// What is done with bytes that pass by; its error ends the transfer.
pub type Pass<'p> = &'p mut (dyn FnMut(&[u8]) -> io::Result<()> + Send);

/// Why a file was not fetched.
#[derive(Debug)]
pub enum FetchError {
    /// It is not in the bucket as it was sent; how so, behind its name.
    Spoilt(String),
    /// Its bytes could not be taken here.
    Local(io::Error),
    /// The store did not give it.
    Store(BucketError),
}

/// A file here, on its way.
struct Outgoing<'f> {
    path: &'f Path,
    file: File,
    sum: Context,
}

impl Outgoing<'_> {
    /// The next so many bytes; fewer at the end.
    fn part(&mut self, bytes: u64, pass: Pass<'_>) -> Result<Vec<u8>, BucketError> {
        let mut part = Vec::new();
        let read = self.file.by_ref().take(bytes).read_to_end(&mut part);
        read.and_then(|_| pass(&part))
            .map_err(|error| BucketError::local(&self.path.display().to_string(), &error))?;
        self.sum.update(&part);
        Ok(part)
    }

    fn check(self, sha256: &str) -> Result<(), BucketError> {
        match hex(self.sum.finish().as_ref()) == sha256 {
            true => Ok(()),
            false => Err(BucketError(format!(
                "{} has other bytes than it had; take another backup",
                self.path.display()
            ))),
        }
    }
}

impl Bucket {
    /// Sends a file of so many bytes.
    pub async fn send_file(
        &self,
        path: &Path,
        (sha256, bytes): (&str, u64),
        pass: Pass<'_>,
    ) -> Result<(), BucketError> {
        let file = File::open(path)
            .map_err(|error| BucketError::local(&path.display().to_string(), &error))?;
        let sum = Context::new(&SHA256);
        let mut from = Outgoing { path, file, sum };
        let key = self.file_key(sha256);
        if bytes <= PART_BYTES {
            let all = from.part(PART_BYTES, pass)?;
            from.check(sha256)?;
            let put = self.store.put(&key, all.into()).await;
            return put.map(drop).map_err(|error| self.failed(&error));
        }
        let upload = self.store.put_multipart(&key).await;
        let mut upload = upload.map_err(|error| self.failed(&error))?;
        let part_bytes = PART_BYTES.max(bytes.div_ceil(PARTS_MAX));
        let mut sent = self
            .send_parts(&mut *upload, &mut from, part_bytes, pass)
            .await;
        if sent.is_ok() {
            sent = from.check(sha256);
        }
        if sent.is_ok() {
            let done = upload.complete().await;
            sent = done.map(drop).map_err(|error| self.failed(&error));
        }
        if sent.is_err() {
            // Best effort: what stays is no file, and only costs room until the bucket's own rule removes it.
            let _ = upload.abort().await;
        }
        sent
    }

    async fn send_parts(
        &self,
        upload: &mut dyn MultipartUpload,
        from: &mut Outgoing<'_>,
        part_bytes: u64,
        pass: Pass<'_>,
    ) -> Result<(), BucketError> {
        // Those under way end with the set.
        let mut under_way = JoinSet::new();
        loop {
            let part = from.part(part_bytes, pass)?;
            let is_last = (part.len() as u64) < part_bytes;
            if !part.is_empty() {
                under_way.spawn(upload.put_part(PutPayload::from(part)));
            }
            let room = if is_last { 0 } else { AT_ONCE - 1 };
            while under_way.len() > room {
                if let Some(Ok(sent)) = under_way.join_next().await {
                    sent.map_err(|error| self.failed(&error))?;
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Fetches a file of so many bytes piece by piece, and checks it.
    pub async fn fetch_file(
        &self,
        (sha256, bytes): (&str, u64),
        pass: Pass<'_>,
    ) -> Result<(), FetchError> {
        let failed = |error| FetchError::Store(self.failed(&error));
        let got = self.store.get(&self.file_key(sha256)).await;
        let got = got.map_err(|error| match error {
            object_store::Error::NotFound { .. } => spoilt("is missing in the bucket"),
            error => failed(error),
        })?;
        if got.meta.size != bytes {
            return Err(spoilt(&format!(
                "has {} bytes in the bucket instead of {bytes}",
                got.meta.size
            )));
        }
        let (mut pieces, mut sum) = (got.into_stream(), Context::new(&SHA256));
        while let Some(piece) = pieces.try_next().await.map_err(failed)? {
            sum.update(&piece);
            pass(&piece).map_err(FetchError::Local)?;
        }
        match hex(sum.finish().as_ref()) == sha256 {
            true => Ok(()),
            false => Err(spoilt("has other bytes in the bucket than it had")),
        }
    }
}

fn spoilt(what: &str) -> FetchError {
    FetchError::Spoilt(what.to_owned())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
