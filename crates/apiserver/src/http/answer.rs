//! Answers.

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::{Response, StatusCode, header::CONTENT_TYPE};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use serde_json::Value;

use crate::refusal::Refusal;

/// The body of an answer: all of it, or what comes over time.
pub(crate) type AnswerBody = UnsyncBoxBody<Bytes, std::io::Error>;
/// An answer.
pub(crate) type Answer = Response<AnswerBody>;

fn full(body: Bytes) -> AnswerBody {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

fn answer(code: StatusCode, content_type: &'static str, body: AnswerBody) -> Answer {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}

/// JSON that is already written.
pub(crate) fn json(code: StatusCode, body: impl Into<Bytes>) -> Answer {
    answer(code, "application/json", full(body.into()))
}

/// Plain text.
pub(crate) fn text(code: StatusCode, body: impl Into<Bytes>) -> Answer {
    answer(code, "text/plain; charset=utf-8", full(body.into()))
}

/// An OpenAPI document in its binary form.
pub(crate) fn protobuf(code: StatusCode, body: &'static [u8]) -> Answer {
    answer(code, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf", full(Bytes::from_static(body)))
}

/// Nothing but a code.
pub(crate) fn empty(code: StatusCode) -> Answer {
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = code;
    response
}

/// What comes over time.
pub(crate) fn stream(content_type: &'static str, chunks: impl Stream<Item = Bytes> + Send + 'static) -> Answer {
    let frames = chunks.map(|chunk| Ok::<_, std::io::Error>(Frame::data(chunk)));
    answer(StatusCode::OK, content_type, StreamBody::new(frames).boxed_unsync())
}

/// Adds warnings to an answer, each in its own header.
pub(crate) fn warn(answer: &mut Answer, warnings: &[String]) {
    for warning in warnings {
        let text = format!("299 - {}", Value::String(warning.clone()));
        if let Ok(value) = http::HeaderValue::from_bytes(text.as_bytes()) {
            answer.headers_mut().append(http::header::WARNING, value);
        }
    }
}

/// A refusal as the client reads it.
pub(crate) fn refuse(refusal: &Refusal) -> Answer {
    let status: Value = refusal.to_status();
    let mut response = json(refusal.code(), status.to_string());
    if let Some(seconds) = status["details"]["retryAfterSeconds"].as_u64() {
        response.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
    }
    warn(&mut response, refusal.warnings());
    response
}
