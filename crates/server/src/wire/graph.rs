//! What refers to what.

use serde::Serialize;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

/// Objects and who uses them.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Graph {
    pub nodes: Vec<Node>,
    /// From what is used to who uses it.
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
    /// False: something refers to it, and it is not there. Absent: not known.
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
