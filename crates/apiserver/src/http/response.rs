//! HTTP responses.

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::{Response, StatusCode, header::CONTENT_TYPE};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use serde_json::Value;

use crate::status_error::StatusError;

/// A complete body, or a stream.
pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, std::io::Error>;
pub(crate) type ApiResponse = Response<ResponseBody>;

fn full(body: Bytes) -> ResponseBody {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

fn answer(code: StatusCode, content_type: &'static str, body: ResponseBody) -> ApiResponse {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}

/// A response with serialized JSON.
pub(crate) fn json(code: StatusCode, body: impl Into<Bytes>) -> ApiResponse {
    answer(code, "application/json", full(body.into()))
}

pub(crate) fn text(code: StatusCode, body: impl Into<Bytes>) -> ApiResponse {
    answer(code, "text/plain; charset=utf-8", full(body.into()))
}

/// An OpenAPI document in its binary form.
pub(crate) fn protobuf(code: StatusCode, body: &'static [u8]) -> ApiResponse {
    answer(code, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf", full(Bytes::from_static(body)))
}

pub(crate) fn empty(code: StatusCode) -> ApiResponse {
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = code;
    response
}

/// A streamed response.
pub(crate) fn stream(content_type: &'static str, chunks: impl Stream<Item = Bytes> + Send + 'static) -> ApiResponse {
    let frames = chunks.map(|chunk| Ok::<_, std::io::Error>(Frame::data(chunk)));
    answer(StatusCode::OK, content_type, StreamBody::new(frames).boxed_unsync())
}

/// Adds a `Warning` header per warning.
pub(crate) fn warn(answer: &mut ApiResponse, warnings: &[String]) {
    for warning in warnings {
        let text = format!("299 - {}", Value::String(warning.clone()));
        if let Ok(value) = http::HeaderValue::from_bytes(text.as_bytes()) {
            answer.headers_mut().append(http::header::WARNING, value);
        }
    }
}

/// An error response with a `Status` object.
pub(crate) fn failure(error: &StatusError) -> ApiResponse {
    let status: Value = error.to_status();
    let mut response = json(error.code(), status.to_string());
    if let Some(seconds) = status["details"]["retryAfterSeconds"].as_u64() {
        response.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
    }
    warn(&mut response, error.warnings());
    response
}
