//! The protocol around the verbs: negotiation, answers, discovery, documents, listeners.

mod answer;
mod discovery;
pub(crate) mod form;
mod listener;
mod openapi;

pub(crate) use answer::{Answer, AnswerBody, empty, json, refuse, stream, text, warn};
pub(crate) use discovery::discovery;
pub(crate) use form::{Form, Include};
pub(crate) use listener::{answer as answer_upgrade, serve};
pub(crate) use openapi::documents;
