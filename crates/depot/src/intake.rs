//! Bodies of requests, as they arrive.

use std::{
    io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures::{Stream, TryStreamExt as _, stream};
use http::{HeaderMap, header};
use http_body_util::BodyExt as _;
use tokio::time::Instant;

use crate::refused::{Answer, Refused};

/// A client has to send this much within its patience, so that one that sends a byte now and then does not hold an
/// upload open for ever.
const PROGRESS: u64 = 64 << 10;

/// The body of a request, with a limit of its size and of the time that it may take.
pub(crate) struct Intake {
    body: Body,
    what: &'static str,
    most: u64,
    patience: Duration,
}

/// Why a body ended early. Known here even where its reader reports an error of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fault(Arc<OnceLock<Refused>>);

impl Fault {
    pub(crate) fn get(&self) -> Option<Refused> {
        self.0.get().cloned()
    }

    fn set(&self, refused: Refused) -> io::Error {
        let _ = self.0.set(refused);
        io::Error::other("the body of the request ended early")
    }
}

impl Intake {
    /// Refuses a body whose declared length is too large, before any of it is read.
    pub(crate) fn new(
        body: Body,
        headers: &HeaderMap,
        what: &'static str,
        most: u64,
        patience: Duration,
    ) -> Answer<Self> {
        if declared(headers).is_some_and(|length| length > most) {
            return Err(Refused::too_large(what, most));
        }
        Ok(Self { body, what, most, patience })
    }

    /// The bytes of the body. Time that the reader takes does not count.
    pub(crate) fn stream(self, fault: &Fault) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
        let fault = fault.clone();
        let Self { body, what, most, patience } = self;
        let state = Reading { body, fault, left: most, patience, waited: Duration::ZERO, progress: 0 };
        stream::try_unfold(state, move |mut reading| async move {
            let chunk = reading.next(what, most).await?;
            Ok(chunk.map(|chunk| (chunk, reading)))
        })
    }

    /// The whole body, which is small.
    pub(crate) async fn whole(self) -> Answer<Bytes> {
        let fault = Fault::default();
        let read = self.stream(&fault).try_fold(BytesMut::new(), |mut all, chunk| async move {
            all.extend_from_slice(&chunk);
            Ok(all)
        });
        match read.await {
            Ok(all) => Ok(all.freeze()),
            Err(_) => Err(fault.get().unwrap_or_else(cut)),
        }
    }
}

/// The length that the headers declare.
pub(crate) fn declared(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn cut() -> Refused {
    Refused::malformed("the body ended before its end")
}

struct Reading {
    body: Body,
    fault: Fault,
    left: u64,
    patience: Duration,
    /// Time that was spent waiting for the client since it last made progress.
    waited: Duration,
    /// Bytes since then.
    progress: u64,
}

impl Reading {
    async fn next(&mut self, what: &str, most: u64) -> io::Result<Option<Bytes>> {
        loop {
            let began = Instant::now();
            let patience = self.patience.saturating_sub(self.waited);
            let frame = match tokio::time::timeout(patience, self.body.frame()).await {
                Err(_) => return Err(self.fault.set(Refused::too_slow())),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => {
                    tracing::debug!(%error, "the body of a request broke off");
                    return Err(self.fault.set(cut()));
                }
                Ok(Some(Ok(frame))) => frame,
            };
            // Trailers mean nothing here.
            let Ok(chunk) = frame.into_data() else { continue };
            let length = chunk.len() as u64;
            let Some(left) = self.left.checked_sub(length) else {
                return Err(self.fault.set(Refused::too_large(what, most)));
            };
            self.left = left;
            self.progress += length;
            if self.progress >= PROGRESS {
                (self.progress, self.waited) = (0, Duration::ZERO);
            } else {
                self.waited += began.elapsed();
            }
            return Ok(Some(chunk));
        }
    }
}

#[cfg(test)]
mod tests {
    use domain::contract::depot::RefusalReason;
    use futures::StreamExt as _;

    use super::*;

    const PATIENCE: Duration = Duration::from_mins(1);

    fn intake(chunks: impl Stream<Item = io::Result<Bytes>> + Send + 'static, most: u64) -> Intake {
        Intake::new(Body::from_stream(chunks), &HeaderMap::new(), "the body", most, PATIENCE).unwrap()
    }

    /// Chunks of this size, `pause` apart.
    fn chunks(size: usize, number: usize, pause: Duration) -> impl Stream<Item = io::Result<Bytes>> {
        stream::iter(0..number).then(move |_| async move {
            tokio::time::sleep(pause).await;
            Ok(Bytes::from(vec![0; size]))
        })
    }

    async fn refusal(intake: Intake) -> Option<RefusalReason> {
        intake.whole().await.err().map(|refused| refused.reason())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_read_to_its_limit_and_no_further() {
        let none = Duration::ZERO;
        assert_eq!(intake(chunks(10, 10, none), 100).whole().await.unwrap().len(), 100);
        assert_eq!(refusal(intake(chunks(10, 10, none), 99)).await, Some(RefusalReason::TooLarge));

        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_LENGTH, "101".parse().unwrap());
        let declared = Intake::new(Body::empty(), &headers, "the body", 100, PATIENCE);
        assert_eq!(declared.err().map(|refused| refused.reason()), Some(RefusalReason::TooLarge));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_makes_no_progress_is_given_up() {
        let almost = Duration::from_secs(59);
        let large = usize::try_from(PROGRESS).unwrap();
        assert_eq!(refusal(intake(chunks(large, 5, almost), 1 << 30)).await, None);
        let refused = intake(chunks(1, 5, almost), 1 << 30).whole().await.unwrap_err();
        assert_eq!(refused, Refused::too_slow());
        assert_eq!(intake(stream::pending(), 1 << 30).whole().await.unwrap_err(), Refused::too_slow());
    }

    #[tokio::test(start_paused = true)]
    async fn time_of_the_reader_does_not_count() {
        let fault = Fault::default();
        let mut bytes = Box::pin(intake(chunks(1, 3, Duration::from_secs(1)), 100).stream(&fault));
        while let Some(chunk) = bytes.next().await {
            assert_eq!(chunk.unwrap().len(), 1);
            tokio::time::sleep(PATIENCE * 2).await;
        }
        assert_eq!(fault.get(), None);
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_not_a_whole_one() {
        let broken = stream::iter([Ok(Bytes::from_static(b"a")), Err(io::Error::other("reset"))]);
        assert_eq!(refusal(intake(broken, 100)).await, Some(RefusalReason::Malformed));
    }
}
