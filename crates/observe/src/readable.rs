//! A client that limits the nesting depth of responses, so that one object cannot make a whole list unreadable (I9).

use std::{
    borrow::Cow,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use crate::depth::DepthLimiter;
use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use kube::{Client, client::Body};
use tower::{BoxError, Service};

/// A client whose responses always parse as JSON.
#[derive(Clone)]
pub struct Readable(pub Client);

impl Service<Request<Body>> for Readable {
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        // `send` waits for the client's own readiness.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.0.clone();
        Box::pin(async move {
            let answer = client.send(request).await?;
            let kind = answer.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
            let is_json = kind.is_some_and(|kind| kind.starts_with("application/json"));
            let mut cut = DepthLimiter::default();
            let mut pass = move |piece: Bytes| match cut.pass(&piece) {
                Cow::Owned(kept) if is_json => Bytes::from(kept),
                _ => piece,
            };
            Ok(answer.map(|body| {
                let body = body.map_frame(move |frame| frame.map_data(&mut pass));
                body.map_err(BoxError::from).boxed_unsync()
            }))
        })
    }
}
