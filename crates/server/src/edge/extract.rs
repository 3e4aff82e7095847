//! Extractors of paths, queries and bodies, with our own error responses.

use std::time::Duration;

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request},
};
use http::{header, request::Parts};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{
    edge::names,
    error::{Answer, ApiError},
};

/// Maximum size of a body, in bytes.
pub const LARGEST_BODY: usize = 1024 * 1024;

/// Timeout for reading a body; enough for the maximum size over a slow connection.
const PATIENCE: Duration = Duration::from_secs(30);

/// The namespace in a path.
#[derive(Clone, Debug)]
pub struct In(pub String);

/// Namespace and name in a path.
#[derive(Clone, Debug)]
pub struct At {
    pub namespace: String,
    pub name: String,
}

/// One segment of a path that is not the name of an object, such as a token.
#[derive(Clone, Debug)]
pub struct Part(pub String);

async fn path_parts<S: Send + Sync>(parts: &mut Parts, state: &S) -> Answer<Vec<(String, String)>> {
    let found = RawPathParams::from_request_parts(parts, state).await;
    let found = found.map_err(|_| ApiError::bad_request("the path is not valid UTF-8"))?;
    Ok(found.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
}

fn part(parts: &[(String, String)], wanted: &str) -> String {
    parts.iter().find(|(key, _)| key == wanted).map(|(_, value)| value.clone()).unwrap_or_default()
}

impl<S: Send + Sync> FromRequestParts<S> for In {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Self> {
        let namespace = part(&path_parts(parts, state).await?, "namespace");
        names::namespace(&namespace)?;
        Ok(Self(namespace))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for At {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Self> {
        let found = path_parts(parts, state).await?;
        let (namespace, name) = (part(&found, "namespace"), part(&found, "name"));
        names::namespace(&namespace)?;
        names::object(&name)?;
        Ok(Self { namespace, name })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Part {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Self> {
        let found = path_parts(parts, state).await?;
        let last = found.into_iter().rfind(|(key, _)| key != "namespace" && key != "name");
        Ok(Self(last.map(|(_, value)| value).unwrap_or_default()))
    }
}

/// The query of a request.
#[derive(Clone, Debug)]
pub struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Answer<Self> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(query)) => Ok(Self(query)),
            Err(rejection) => Err(ApiError::bad_request(rejection.body_text())),
        }
    }
}

/// A body, as JSON or YAML.
#[derive(Clone, Debug)]
pub struct Sent(pub Value);

impl<S: Send + Sync> FromRequest<S> for Sent {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Answer<Self> {
        let language = Language::of(request.headers())?;
        let bytes = whole(request).await?;
        language.read(&bytes).map(Self)
    }
}

impl Sent {
    /// The body as an object.
    pub fn object(self) -> Answer<Map<String, Value>> {
        match self.0 {
            Value::Object(object) => Ok(object),
            _ => Err(ApiError::bad_request("the body must be an object")),
        }
    }
}

/// A body of a known type.
#[derive(Clone, Debug)]
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Answer<Self> {
        let Sent(value) = Sent::from_request(request, state).await?;
        serde_json::from_value(value).map(Self).map_err(|error| ApiError::unreadable(&error.to_string()))
    }
}

/// As [`Body`], for a body that is optional.
#[derive(Clone, Debug)]
pub struct OptionalBody<T>(pub T);

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for OptionalBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Answer<Self> {
        let language = Language::of(request.headers());
        let bytes = whole(request).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        let value = language?.read(&bytes)?;
        serde_json::from_value(value).map(Self).map_err(|error| ApiError::unreadable(&error.to_string()))
    }
}

async fn whole(request: Request) -> Answer<Bytes> {
    let declared = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if declared.is_some_and(|length: usize| length > LARGEST_BODY) {
        return Err(ApiError::too_large());
    }
    let body = tokio::time::timeout(PATIENCE, axum::body::to_bytes(request.into_body(), LARGEST_BODY)).await;
    let body = body.map_err(|_| ApiError::bad_request("the body took too long"))?;
    body.map_err(|error| {
        let mut source: Option<&dyn std::error::Error> = Some(&error);
        while let Some(error) = source {
            if error.is::<http_body_util::LengthLimitError>() {
                return ApiError::too_large();
            }
            source = error.source();
        }
        ApiError::bad_request("the body did not arrive")
    })
}

#[derive(Clone, Copy)]
enum Language {
    Json,
    Yaml,
}

impl Language {
    fn of(headers: &http::HeaderMap) -> Answer<Self> {
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match kind.as_str() {
            "application/json" => Ok(Self::Json),
            "application/yaml" | "application/x-yaml" | "text/yaml" | "text/x-yaml" => Ok(Self::Yaml),
            _ => Err(ApiError::unsupported("send application/json or application/yaml")),
        }
    }

    fn read(self, bytes: &[u8]) -> Answer<Value> {
        match self {
            Self::Json => serde_json::from_slice(bytes)
                .map_err(|error| ApiError::bad_request(format!("the body is not valid JSON: {error}"))),
            Self::Yaml => {
                let text =
                    std::str::from_utf8(bytes).map_err(|_| ApiError::bad_request("the body is not valid UTF-8"))?;
                serde_saphyr::from_str(text)
                    .map_err(|error| ApiError::bad_request(format!("the body is not valid YAML: {error}")))
            }
        }
    }
}
