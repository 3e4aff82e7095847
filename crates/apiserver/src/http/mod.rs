//! The HTTP layer around the verbs: negotiation, responses, discovery, OpenAPI documents, listeners.

mod connections;
mod discovery;
mod listener;
mod openapi;
pub(crate) mod representation;
mod response;

pub(crate) use connections::Limits;
pub(crate) use discovery::discovery;
pub(crate) use listener::{answer as answer_upgrade, serve};
pub(crate) use openapi::documents;
pub(crate) use representation::{Include, Representation};
pub(crate) use response::{ApiResponse, ResponseBody, empty, failure, json, stream, text, warn};
