//! Stored bytes as the body of an answer, whole or in part.

use std::ops::Range;

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures::stream::BoxStream;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use store::Digest;

use crate::refused::{Answer, Refused};

/// The bytes of a blob, or the range of them that the headers ask for, as `read` returns it.
pub(crate) async fn content(
    digest: &Digest,
    bytes: u64,
    headers: &HeaderMap,
    read: impl AsyncFnOnce(Range<u64>) -> Result<BoxStream<'static, Result<Bytes, store::Error>>, store::Error>,
) -> Answer<Response> {
    let tag = format!("\"{}\"", digest.as_str());
    let (status, range) = match wanted(headers, &tag, bytes) {
        Wanted::All => (StatusCode::OK, 0..bytes),
        Wanted::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
        Wanted::Nothing => {
            let refused = Refused::out_of_range(bytes).into_response();
            return Ok(with(refused, header::CONTENT_RANGE, &format!("bytes */{bytes}")));
        }
    };
    let body = match read(range.clone()).await {
        Ok(chunks) => Body::from_stream(chunks),
        Err(error @ store::Error::NoBlob(_)) => {
            tracing::error!(%error, "the store lost bytes");
            return Err(Refused::not_found("the store has lost these bytes"));
        }
        Err(error) => return Err(Refused::store(&error)),
    };
    let mut response = (status, body).into_response();
    let part = status == StatusCode::PARTIAL_CONTENT;
    // With a length, a client notices a body that ends early.
    response = with(response, header::CONTENT_LENGTH, &(range.end - range.start).to_string());
    response = with(response, header::CONTENT_TYPE, "application/octet-stream");
    response = with(response, header::ACCEPT_RANGES, "bytes");
    response = with(response, header::ETAG, &tag);
    if part {
        let last = range.end.saturating_sub(1);
        response = with(response, header::CONTENT_RANGE, &format!("bytes {}-{last}/{bytes}", range.start));
    }
    Ok(response)
}

fn with(mut response: Response, name: header::HeaderName, value: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
    response
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    All,
    Part(Range<u64>),
    /// A range behind the end.
    Nothing,
}

/// Several ranges, and what is no range, are answered with all bytes, as RFC 9110 allows.
fn wanted(headers: &HeaderMap, tag: &str, bytes: u64) -> Wanted {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if headers.contains_key(header::IF_RANGE) && text(header::IF_RANGE) != Some(tag) {
        return Wanted::All;
    }
    let Some(range) = text(header::RANGE).and_then(|range| range.trim().strip_prefix("bytes=")) else {
        return Wanted::All;
    };
    let Some((first, last)) = range.split_once('-').map(|(first, last)| (first.trim(), last.trim())) else {
        return Wanted::All;
    };
    let range = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => first..last.saturating_add(1).min(bytes),
        (Ok(first), Err(_)) if last.is_empty() => first..bytes,
        (Err(_), Ok(length)) if first.is_empty() => bytes.saturating_sub(length)..bytes,
        _ => return Wanted::All,
    };
    if range.start < range.end { Wanted::Part(range) } else { Wanted::Nothing }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_read_as_http_defines_it() {
        let check = |range: &str, expected: Wanted| {
            let headers = HeaderMap::from_iter([(header::RANGE, range.parse().unwrap())]);
            assert_eq!(wanted(&headers, "\"d\"", 100), expected, "{range}");
        };
        check("bytes=0-0", Wanted::Part(0..1));
        check("bytes=10-19", Wanted::Part(10..20));
        check("bytes=90-", Wanted::Part(90..100));
        check("bytes=90-1000", Wanted::Part(90..100));
        check("bytes=-10", Wanted::Part(90..100));
        check("bytes=-1000", Wanted::Part(0..100));
        check(&format!("bytes=5-{}", u64::MAX), Wanted::Part(5..100));
        check("bytes=100-", Wanted::Nothing);
        check("bytes=-0", Wanted::Nothing);
        for other in ["bytes=", "bytes=-", "bytes=5-2", "bytes=0-1,5-6", "lines=0-1", "bytes=a-b", "bytes=5"] {
            check(other, Wanted::All);
        }
        assert_eq!(wanted(&HeaderMap::new(), "\"d\"", 100), Wanted::All);
    }

    #[test]
    fn a_range_of_other_bytes_is_answered_with_all() {
        let check = |tag: &str, expected: Wanted| {
            let range = (header::RANGE, HeaderValue::from_static("bytes=1-2"));
            let headers = HeaderMap::from_iter([range, (header::IF_RANGE, tag.parse().unwrap())]);
            assert_eq!(wanted(&headers, "\"d\"", 100), expected, "{tag}");
        };
        check("\"d\"", Wanted::Part(1..3));
        check("\"e\"", Wanted::All);
        check("Wed, 21 Oct 2026 07:28:00 GMT", Wanted::All);
    }
}
