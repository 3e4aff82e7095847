//! The graph of references.

use serde::Serialize;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

/// Objects and their references.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Graph {
    pub nodes: Vec<Node>,
    /// From the used object to its user.
    pub edges: Vec<Edge>,
    /// Whether there is more than is shown.
    pub truncated: bool,
}

/// An object.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Node {
    /// Kind/namespace/name.
    pub id: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub ready: Option<bool>,
    /// False if the object is referenced and missing. Absent if unknown.
    pub exists: Option<bool>,
    pub detail: Option<String>,
}

/// One object is used by another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
pub struct Edge {
    pub from: String,
    pub to: String,
    /// Field that refers.
    pub label: String,
}
