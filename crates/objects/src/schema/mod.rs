//! Structural schemas: the tree that says which fields an object has and how two writers share them.
//!
//! A body becomes an object in these steps: [`parse_strict`] reads it, [`Schema::prune`] drops and names what the schema
//! does not know, [`Schema::fill_defaults`] fills in what was left out, and a [`Validator`] says what is wrong with the
//! result, rules in CEL included. Every sentence is the one that kube-apiserver 1.34 would say.
//!
//! The kinds that Kubernetes itself defines have their schemas in [`builtin`].

mod builtin_defaults;
mod builtin_rules;
mod cel_value;
mod correlate;
mod decode;
mod defaults;
mod embedded;
mod expression;
mod formats;
mod json;
mod lists;
mod node;
mod openapi;
mod pattern;
mod prune;
mod quantity;
mod read;
mod rules;
mod scale;
mod text;
mod typed;
mod validator;
mod values;
mod violation;

pub mod builtin;
pub mod names;

pub use builtin_defaults::fill_defaults as fill_builtin_defaults;
pub use builtin_rules::{name_rule, validate as validate_builtin};
pub use decode::{conversion_error, decode_error};
pub use json::{JsonError, MAX_DEPTH, Parsed, parse_strict};
pub use node::{ListType, MapType, PatchStrategy, Rule, Schema, Type};
pub use prune::{complaints, strict_error};
pub use read::SchemaError;
pub use scale::Scale;
pub use text::{go_name, go_value, quoted};
pub use validator::Validator;
pub use violation::{NO_FIELD, Path, Reason, Violation};
