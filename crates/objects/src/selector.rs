//! Label selectors and field selectors of lists, watches and controllers.

mod fields;
mod labels;

pub use fields::{FieldSelector, FieldTerm};
pub use labels::{LabelSelector, Requirement, Verb};

use thiserror::Error;

/// Errors of a selector, with the messages of kube-apiserver. The status is 400 BadRequest.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct SelectorError(String);
