//! Search results on the wire.

use serde::Serialize;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

/// Objects of all kinds that match a text.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SearchResponse {
    /// The best match first.
    pub results: Vec<SearchResult>,
}

/// An object that matches a text.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct SearchResult {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// Title of a Task.
    pub title: Option<String>,
}
