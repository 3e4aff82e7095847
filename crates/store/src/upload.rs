//! An object that comes in parts.

use std::sync::Arc;

use bytes::Bytes;
use object_store::{
    MultipartId, MultipartUpload,
    aws::AmazonS3,
    multipart::{MultipartStore as _, PartId},
    path::Path as Key,
};
use tokio::task::JoinSet;

/// Bytes of a part. Buckets take parts from 5 MiB on, and 10,000 of them. Larger ones would only take more memory: of
/// each upload, one is received while the others are sent.
pub(crate) const PART: usize = 5 << 20;
/// Bytes that are written to a file at a time, after the first part.
const FILE_PART: usize = 1 << 20;
/// Parts that are being sent at a time.
const IN_FLIGHT: usize = 2;

#[derive(Debug)]
pub(crate) struct Upload {
    target: Target,
    sending: JoinSet<object_store::Result<Sent>>,
    /// Parts that were given out to be sent.
    parts: usize,
}

#[derive(Debug)]
enum Target {
    /// object_store's own: it writes a file and renames it.
    File(Box<dyn MultipartUpload>),
    /// By its identifier, so that another process can remove what was sent.
    Bucket { bucket: Arc<AmazonS3>, patient: Arc<AmazonS3>, key: Key, id: MultipartId, sent: Vec<(usize, PartId)> },
}

/// The number and the identifier of a part; `None` for files.
type Sent = Option<(usize, PartId)>;

impl Upload {
    pub(crate) fn to_file(file: Box<dyn MultipartUpload>) -> Self {
        Self::to(Target::File(file))
    }

    pub(crate) async fn to_bucket(
        bucket: Arc<AmazonS3>,
        patient: Arc<AmazonS3>,
        key: Key,
    ) -> object_store::Result<Self> {
        let id = bucket.create_multipart(&key).await?;
        Ok(Self::to(Target::Bucket { bucket, patient, key, id, sent: Vec::new() }))
    }

    fn to(target: Target) -> Self {
        Self { target, sending: JoinSet::new(), parts: 0 }
    }

    /// Bytes of the next part, if it is not the last one.
    pub(crate) fn part(&self) -> usize {
        match &self.target {
            Target::File(_) => FILE_PART,
            Target::Bucket { .. } => PART,
        }
    }

    /// The identifier of an upload to a bucket.
    pub(crate) fn id(&self) -> Option<&str> {
        match &self.target {
            Target::File(_) => None,
            Target::Bucket { id, .. } => Some(id),
        }
    }

    /// Begins to send the next part. Waits for earlier ones, so that few are in memory. In a bucket, all parts but the
    /// last have [`PART`] bytes.
    pub(crate) async fn send(&mut self, part: Bytes) -> object_store::Result<()> {
        while self.sending.len() >= IN_FLIGHT {
            self.wait_for_one().await?;
        }
        let number = self.parts;
        self.parts += 1;
        match &mut self.target {
            Target::File(file) => {
                let written = file.put_part(part.into());
                self.sending.spawn(async move { written.await.map(|()| None) });
            }
            Target::Bucket { bucket, key, id, .. } => {
                let (bucket, key, id) = (Arc::clone(bucket), key.clone(), id.clone());
                self.sending.spawn(async move {
                    let sent = bucket.put_part(&key, &id, number, part.into()).await?;
                    Ok(Some((number, sent)))
                });
            }
        }
        Ok(())
    }

    async fn wait_for_one(&mut self) -> object_store::Result<()> {
        let done = self.sending.join_next().await.transpose()?.transpose()?.flatten();
        if let (Some(part), Target::Bucket { sent, .. }) = (done, &mut self.target) {
            sent.push(part);
        }
        Ok(())
    }

    /// Makes the object appear, durably.
    pub(crate) async fn complete(&mut self) -> object_store::Result<()> {
        while !self.sending.is_empty() {
            self.wait_for_one().await?;
        }
        match &mut self.target {
            Target::File(file) => file.complete().await.map(drop),
            Target::Bucket { patient, key, id, sent, .. } => {
                sent.sort_by_key(|(number, _)| *number);
                let parts = std::mem::take(sent).into_iter().map(|(_, part)| part).collect();
                patient.complete_multipart(key, id, parts).await.map(drop)
            }
        }
    }

    /// Sends no more. What was sent remains until it is discarded.
    pub(crate) async fn stop(mut self) {
        self.sending.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, future::BoxFuture};
    use object_store::{PutPayload, PutResult, Result, UploadPart};
    use tokio::sync::mpsc;

    use super::*;

    /// Hands out what finishes each part.
    #[derive(Debug)]
    struct Slow(mpsc::UnboundedSender<tokio::sync::oneshot::Sender<Result<()>>>);

    impl MultipartUpload for Slow {
        fn put_part(&mut self, _: PutPayload) -> UploadPart {
            let (finish, finished) = tokio::sync::oneshot::channel();
            self.0.send(finish).unwrap();
            finished.map(Result::unwrap).boxed()
        }

        fn complete<'a, 'b>(&'a mut self) -> BoxFuture<'b, Result<PutResult>>
        where
            'a: 'b,
            Self: 'b,
        {
            let done = PutResult { e_tag: None, version: None, extensions: object_store::Extensions::default() };
            async { Ok(done) }.boxed()
        }

        fn abort<'a, 'b>(&'a mut self) -> BoxFuture<'b, Result<()>>
        where
            'a: 'b,
            Self: 'b,
        {
            async { Ok(()) }.boxed()
        }
    }

    #[tokio::test]
    async fn a_slow_back_end_holds_up_the_source() {
        let (slow, mut parts) = mpsc::unbounded_channel();
        let mut upload = Upload::to_file(Box::new(Slow(slow)));
        let part = || Bytes::from_static(b"part");
        upload.send(part()).await.unwrap();
        upload.send(part()).await.unwrap();
        assert_eq!(upload.send(part()).now_or_never().map(|sent| sent.is_ok()), None);
        let first = parts.recv().await.unwrap();
        first.send(Ok(())).unwrap();
        upload.send(part()).await.unwrap();
        // All are sent before the object is complete; one that failed fails the object.
        let second = parts.recv().await.unwrap();
        assert!(upload.complete().now_or_never().is_none());
        second
            .send(Err(object_store::Error::NotImplemented { operation: String::new(), implementer: String::new() }))
            .unwrap();
        assert!(upload.complete().await.is_err());
    }
}
