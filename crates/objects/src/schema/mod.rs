//! Structural schemas: the fields of objects, their types, and how managers share them.
//!
//! A body becomes an object in these steps: [`parse_strict`] parses it, [`Schema::prune`] removes and reports unknown
//! fields, [`Schema::fill_defaults`] sets defaults, and a [`Validator`] validates the result, CEL rules included. Every
//! message is that of kube-apiserver 1.34.
//!
//! The schemas of built-in kinds are in [`builtin`].

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
pub use prune::{field_warnings, strict_error};
pub use read::SchemaError;
pub use scale::Scale;
pub use text::{go_name, go_value, quoted};
pub use validator::Validator;
pub use violation::{NO_FIELD, Path, Reason, Violation};
