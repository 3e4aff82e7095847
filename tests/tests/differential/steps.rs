//! Requests before they are sent. Values that only the server knows are placeholders in brackets:
//!
//! | placeholder | stands for |
//! |---|---|
//! | `<uid>`, `<version>` | of the object that the request is about, as observed last |
//! | `<first-version>` | of the same object, as observed first |
//! | `<latest>` | the newest version observed in the sequence |
//! | `<start>` | the version before the first request of the sequence |
//! | `<continue>` | the token of the page before |

use serde_json::Value;

/// A few requests that belong together, in a namespace of their own.
pub struct Sequence {
    pub number: u64,
    pub namespace: String,
    pub steps: Vec<Step>,
}

pub struct Step {
    pub method: &'static str,
    pub path: String,
    /// Parameters as they are written in an address.
    pub query: Vec<String>,
    pub content_type: &'static str,
    pub accept: &'static str,
    pub body: Body,
    /// Where the object is that the request is about.
    pub object: Option<String>,
    /// If this is a watch, the object whose creation ends it; it is created before the watch begins.
    pub until: Option<Until>,
}

pub struct Until {
    pub collection: String,
    pub object: Value,
}

pub enum Body {
    Nothing,
    /// Whatever it is.
    Text(String),
    /// The last observed state of the object, with a change.
    Stored {
        change: Value,
        version: Version,
    },
}

/// Which version an update names.
#[derive(Clone, Copy)]
pub enum Version {
    Observed,
    None,
    First,
}

impl Step {
    pub fn new(method: &'static str, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            query: Vec::new(),
            content_type: "application/json",
            accept: "application/json",
            body: Body::Nothing,
            object: None,
            until: None,
        }
    }

    pub fn about(self, object: &str) -> Self {
        Self { object: Some(object.to_owned()), ..self }
    }

    pub fn query(mut self, parameter: impl Into<String>) -> Self {
        self.query.push(parameter.into());
        self
    }

    pub fn json(self, value: &Value) -> Self {
        self.text(value.to_string())
    }

    pub fn text(self, text: String) -> Self {
        Self { body: Body::Text(text), ..self }
    }

    pub fn content_type(self, content_type: &'static str) -> Self {
        Self { content_type, ..self }
    }
}
