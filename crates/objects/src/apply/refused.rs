//! Why an apply was refused, in the words of the API server.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Value, json};
use thiserror::Error;

use super::check::Misshapen;
use super::element::{Element, printed};
use super::owners::Manager;

/// A field that somebody else owns with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub manager: Manager,
    pub path: Vec<Element>,
}

/// All fields of an applied configuration that somebody else owns with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(pub(super) Vec<Conflict>);

impl Conflicts {
    /// `details.causes` of the Status.
    pub fn causes(&self) -> Vec<Value> {
        let cause = |conflict: &Conflict| {
            json!({
                "reason": "FieldManagerConflict",
                "message": format!("conflict with {}", conflict.manager.printed()),
                "field": printed(&conflict.path),
            })
        };
        self.0.iter().map(cause).collect()
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [Conflict { manager, path }] = &self.0[..] {
            let (manager, path) = (manager.printed(), printed(path));
            return write!(out, "Apply failed with 1 conflict: conflict with {manager}: {path}");
        }
        let mut by_manager = BTreeMap::<&Manager, Vec<String>>::new();
        for conflict in &self.0 {
            by_manager.entry(&conflict.manager).or_default().push(format!("- {}", printed(&conflict.path)));
        }
        let lines: Vec<String> = by_manager
            .into_iter()
            .flat_map(|(manager, paths)| std::iter::once(format!("conflicts with {}:", manager.printed())).chain(paths))
            .collect();
        write!(out, "Apply failed with {} conflicts: {}", self.0.len(), lines.join("\n"))
    }
}

/// Why an apply was refused.
#[derive(Debug, Error)]
pub enum Refused {
    /// Somebody else owns fields with other values, and force was not asked for.
    #[error("{0}")]
    Conflict(Conflicts),
    /// The configuration is of another kind than the object.
    #[error("invalid object type: {0}")]
    OtherKind(String),
    /// Ownership is the result of an apply, never part of it.
    #[error("metadata.managedFields must be nil")]
    ManagedFieldsGiven,
    /// The ownership of the live object is unreadable.
    #[error("failed to decode managed fields: {0}")]
    UnreadableOwners(String),
    /// The configuration does not have the shape of the schema.
    #[error("failed to create typed patch object ({object}): {source}")]
    MisshapenConfiguration {
        /// Namespace, name and kind.
        object: String,
        /// Where.
        source: Misshapen,
    },
    /// The live object does not have the shape of the schema (which has changed since).
    #[error("failed to create typed live object ({object}): {source}")]
    MisshapenLive {
        /// Namespace, name and kind.
        object: String,
        /// Where.
        source: Misshapen,
    },
    /// The result has a text that is not what its type wants.
    #[error(
        "failed to convert new object ({object}) to proper version: unable to convert unstructured object to {kind}: {problem}"
    )]
    Unconvertible {
        /// Namespace, name and kind.
        object: String,
        /// Version and kind.
        kind: String,
        /// What is wrong.
        problem: String,
    },
}

impl Refused {
    /// The HTTP status.
    pub fn code(&self) -> u16 {
        match self {
            Self::Conflict(_) => 409,
            Self::OtherKind(_) | Self::ManagedFieldsGiven => 400,
            // The API server answers an apply that does not fit the schema with an internal error.
            Self::UnreadableOwners(_)
            | Self::MisshapenConfiguration { .. }
            | Self::MisshapenLive { .. }
            | Self::Unconvertible { .. } => 500,
        }
    }

    /// The reason of the Status; the internal errors have none.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Conflict(_) => "Conflict",
            Self::OtherKind(_) | Self::ManagedFieldsGiven => "BadRequest",
            Self::UnreadableOwners(_)
            | Self::MisshapenConfiguration { .. }
            | Self::MisshapenLive { .. }
            | Self::Unconvertible { .. } => "",
        }
    }
}
