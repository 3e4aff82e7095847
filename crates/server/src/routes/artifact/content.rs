//! The bytes of one file of an artefact, decoded from the frames of its archive that contain it.

use axum::body::Bytes;
use fileset::{Part, PartError};
use futures::{Stream, StreamExt as _, stream::BoxStream};
use store::{Digest, Store};

/// Bytes that are decoded at a time.
const CHUNK: usize = 64 << 10;

/// Why the bytes of a file cannot be read to their end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Part(#[from] PartError),
}

/// A part of a file. A few MiB are in memory at a time.
pub(super) fn read(store: &Store, archive: &Digest, part: Part) -> BoxStream<'static, Result<Bytes, Error>> {
    let (store, archive) = (store.clone(), archive.clone());
    let decoded = async_stream::try_stream! {
        let mut decoder = part.decoder()?;
        if !decoder.is_complete() {
            let mut fetched = store.read_blob(&archive, part.archive.clone()).await?;
            let mut room = vec![0; CHUNK];
            while let Some(bytes) = fetched.next().await {
                let bytes = bytes?;
                let mut input = &bytes[..];
                loop {
                    let length = decoder.decode(&mut input, &mut room)?;
                    if length == 0 {
                        break;
                    }
                    yield Bytes::copy_from_slice(&room[..length]);
                }
                if decoder.is_complete() {
                    break;
                }
            }
        }
        decoder.finish()?;
    };
    logged(decoded).boxed()
}

/// A body that breaks off tells its reader nothing.
pub(super) fn logged<T, E: std::fmt::Display>(
    bytes: impl Stream<Item = Result<T, E>>,
) -> impl Stream<Item = Result<T, E>> {
    bytes.inspect(|read| {
        if let Err(error) = read {
            tracing::error!(%error, "a download broke off");
        }
    })
}
