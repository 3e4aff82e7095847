//! In-process clients.

use std::sync::Arc;

use http::{Request, Response, header};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use tower::BoxError;

use crate::api::{Api, Call};
use crate::auth::User;
use crate::http::{ResponseBody, answer_upgrade};

/// A client that calls the server directly, with all rights.
pub(crate) fn in_process(api: Arc<Api>) -> kube::Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let api = Arc::clone(&api);
        async move {
            if request.headers().contains_key(header::UPGRADE) {
                return upgraded(api, request).await;
            }
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let call = Call { parts, body, certificate: Some(User::master()), upgrade: None };
            Ok::<_, BoxError>(api.answer(call).await)
        }
    });
    kube::Client::new(service, "default")
}

/// A request that becomes a stream needs a connection; an in-memory pipe is used.
async fn upgraded(api: Arc<Api>, request: Request<Body>) -> Result<Response<ResponseBody>, BoxError> {
    let (near, far) = tokio::io::duplex(64 * 1024);
    tokio::spawn(async move {
        let service =
            hyper::service::service_fn(move |request| answer_upgrade(Arc::clone(&api), request, Some(User::master())));
        let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(far), service);
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "stream closed early");
        }
    });
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(near)).await?;
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "stream closed early");
        }
    });
    let response = sender.send_request(request).await?;
    Ok(response.map(|body| body.map_err(std::io::Error::other).boxed_unsync()))
}
