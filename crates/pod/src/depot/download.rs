//! Bytes from the store into a file, verified.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use domain::contract::depot::Stored;
use fileset::Hasher;
use reqwest::header::{CONTENT_RANGE, HeaderMap, LOCATION, RANGE};
use reqwest::{Method, Response, StatusCode, Url};
use tokio::time::Instant;

use super::{Depot, DepotError, accepted, failed, retry};

/// A store redirects once; more is a mistake.
const MOST_REDIRECTS: usize = 3;

/// A file that is being written.
struct Partial<'a> {
    path: &'a Path,
    file: File,
    hasher: Hasher,
    bytes: u64,
}

impl Depot {
    /// Writes the bytes at `url` to a new file, which must be those of their digest. After a lost connection the
    /// download continues where it was, if the store can do that.
    pub async fn download(
        &self,
        url: &Url,
        expected: &Stored,
        path: &Path,
        deadline: Instant,
        what: &str,
    ) -> Result<(), DepotError> {
        let mut partial = Partial::create(path)?;
        retry::until(deadline, what, async || self.continue_download(url, expected, &mut partial).await).await
    }

    async fn continue_download(
        &self,
        url: &Url,
        expected: &Stored,
        partial: &mut Partial<'_>,
    ) -> Result<(), DepotError> {
        let mut response = self.bytes_from(url, partial.bytes).await?;
        if response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
            partial.restart()?;
            return Err(DepotError::Damaged);
        }
        if !response.status().is_success() {
            return Err(match accepted(response, 0).await {
                Err(error) => error,
                Ok(_) => DepotError::Damaged,
            });
        }
        if partial.bytes > 0 && !continues(&response, partial.bytes) {
            partial.restart()?;
        }
        loop {
            let chunk = tokio::time::timeout(self.settings.silence, response.chunk()).await;
            let chunk = chunk.map_err(|_| DepotError::Silent(self.settings.silence))?;
            let Some(chunk) = chunk.map_err(|error| failed(&error))? else { break };
            if partial.bytes + chunk.len() as u64 > expected.bytes {
                partial.restart()?;
                return Err(DepotError::Damaged);
            }
            partial.append(&chunk)?;
        }
        if partial.is(expected) {
            return Ok(());
        }
        partial.restart()?;
        Err(DepotError::Damaged)
    }

    /// Requests the bytes from `start` on. The token is for the depot alone.
    async fn bytes_from(&self, url: &Url, start: u64) -> Result<Response, DepotError> {
        let mut headers = HeaderMap::new();
        if start > 0
            && let Ok(range) = format!("bytes={start}-").parse()
        {
            headers.insert(RANGE, range);
        }
        let mut request = self.request(Method::GET, url.clone())?;
        let mut at = url.clone();
        for _ in 0..=MOST_REDIRECTS {
            let sending = tokio::time::timeout(self.settings.silence, request.headers(headers.clone()).send());
            let response = sending.await.map_err(|_| DepotError::Silent(self.settings.silence))?;
            let response = response.map_err(|error| failed(&error))?;
            let location = response.headers().get(LOCATION).filter(|_| response.status().is_redirection());
            let Some(location) = location else { return Ok(response) };
            let next = location.to_str().ok().and_then(|location| at.join(location).ok());
            at = next
                .filter(|url| matches!(url.scheme(), "http" | "https"))
                .ok_or_else(|| DepotError::Unreadable("it redirects to no URL".to_owned()))?;
            request = self.outside.get(at.clone());
        }
        Err(DepotError::Unreadable("it redirects too often".to_owned()))
    }
}

/// Whether the answer begins at this byte.
fn continues(response: &Response, start: u64) -> bool {
    let range = response.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
    response.status() == StatusCode::PARTIAL_CONTENT
        && range.is_some_and(|range| range.starts_with(&format!("bytes {start}-")))
}

impl<'a> Partial<'a> {
    fn create(path: &'a Path) -> Result<Self, DepotError> {
        let file = File::options().write(true).create_new(true).mode(0o600).open(path);
        let file = file.map_err(|source| DepotError::File { path: path.to_owned(), source })?;
        Ok(Self { path, file, hasher: Hasher::default(), bytes: 0 })
    }

    fn append(&mut self, chunk: &[u8]) -> Result<(), DepotError> {
        self.file.write_all(chunk).map_err(|source| DepotError::File { path: self.path.to_owned(), source })?;
        self.hasher.update(chunk);
        self.bytes += chunk.len() as u64;
        Ok(())
    }

    fn restart(&mut self) -> Result<(), DepotError> {
        self.file
            .set_len(0)
            .and_then(|()| self.file.rewind())
            .map_err(|source| DepotError::File { path: self.path.to_owned(), source })?;
        (self.hasher, self.bytes) = (Hasher::default(), 0);
        Ok(())
    }

    fn is(&self, expected: &Stored) -> bool {
        let (digest, bytes) = self.hasher.clone().finish();
        bytes == expected.bytes && digest.to_string() == expected.digest
    }
}
