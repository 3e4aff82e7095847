//! Which objects a list, a watch or a controller means: label selectors and field selectors.

mod fields;
mod labels;

pub use fields::{FieldSelector, FieldTerm};
pub use labels::{LabelSelector, Requirement, Verb};

use thiserror::Error;

/// Why a selector was refused, in the words of the API server. The status is 400 BadRequest.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct SelectorError(String);
