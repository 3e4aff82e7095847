//! Server-side apply and field ownership (`metadata.managedFields`), as in kube-apiserver 1.34.
//!
//! [`updated`] tracks ordinary writes; [`apply`] merges a configuration into an object. Both compare the object before
//! and after by its schema: a changed field belongs to the manager that changed it, and a field that its manager no
//! longer applies is removed if it has no other owner.
//!
//! Call [`updated`] with the decoded and defaulted object, before admission changes it and before the fields that the
//! (sub)resource does not write are restored: fields added by admission have no owner.

mod check;
mod element;
mod error;
mod fields;
mod last_applied;
mod merge;
mod owners;
mod shape;
mod target;
mod track;
mod walk;

pub use check::SchemaMismatch;
pub use element::{Element, Scalar};
pub use error::{ApplyError, Conflicts};
pub use fields::Fields;
pub use owners::Operation;
pub use target::{Origin, Target, reset_fields};
pub use track::{manager_name, restore_timestamps, updated};

use serde_json::Value;

use crate::schema::{conversion_error, decode_error};

use check::{Duplicates, check};
use error::Conflict;
use owners::{Manager, Owned, Owners};
use track::{never_owned, share, without_owners};
use walk::{fields_of, same, with_atomic_fields, with_named_fields, without};

/// The manager of fields that existed before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The object with its new managedFields, not yet defaulted.
    pub object: Value,
    /// Neither the object nor its owners changed: there is nothing to write.
    pub unchanged: bool,
}

/// Merges `configuration` into the live object (`None`: it is created) as `manager`.
///
/// `now` is the time in RFC 3339 with seconds.
pub fn apply(
    live: Option<&Value>,
    configuration: &Value,
    manager: &str,
    force: bool,
    target: &Target<'_>,
    now: &str,
) -> Result<Applied, ApplyError> {
    check_kind(configuration, target)?;
    if configuration.pointer("/metadata/managedFields").is_some_and(|fields| !fields.is_null()) {
        return Err(ApplyError::ManagedFieldsGiven);
    }
    let before = live.cloned().unwrap_or_else(|| target.nothing());
    let mut owners = Owners::of(&before).map_err(ApplyError::InvalidManagedFields)?;
    let bare = without_owners(&before);
    let misshapen = |object: &Value| format!("{}; {}", namespace_and_name(object), printed_kind(object));
    if owners.0.is_empty() {
        owners = track::changes(&target.nothing(), &bare, owners, BEFORE_FIRST_APPLY, target, now)
            .map_err(|source| ApplyError::InvalidLiveObject { object: misshapen(&bare), source })?;
    }
    check(configuration, target.shape(), Duplicates::ApplyError)
        .map_err(|source| ApplyError::InvalidConfiguration { object: misshapen(configuration), source })?;
    check(&bare, target.shape(), Duplicates::Allowed)
        .map_err(|source| ApplyError::InvalidLiveObject { object: misshapen(&bare), source })?;

    let (mut object, owners) = match merged(&bare, configuration, manager, force, owners.clone(), target, now) {
        Err(conflicts) if manager == last_applied::KUBECTL => {
            match last_applied::remaining_conflicts(&conflicts, &bare, target) {
                Some(remaining) => return Err(ApplyError::Conflict(remaining)),
                None => {
                    merged(&bare, configuration, manager, true, owners, target, now).map_err(ApplyError::Conflict)?
                }
            }
        }
        outcome => outcome.map_err(ApplyError::Conflict)?,
    };
    if target.origin == Origin::BuiltIn
        && let Some(problem) = decode_error(target.schema, &object)
    {
        let (object, kind) = (misshapen(configuration), printed_kind(configuration));
        return Err(ApplyError::Unconvertible { object, kind, problem: conversion_error(problem) });
    }
    if manager == last_applied::KUBECTL {
        last_applied::refresh(&mut object, configuration);
    }
    owners.write(&mut object);
    let unchanged = live.is_some_and(|live| same(live, &object));
    Ok(Applied { object, unchanged })
}

/// One attempt. The result has no managedFields.
fn merged(
    live: &Value,
    configuration: &Value,
    manager: &str,
    force: bool,
    mut owners: Owners,
    target: &Target<'_>,
    now: &str,
) -> Result<(Value, Owners), Conflicts> {
    let shape = target.shape();
    for owned in owners.0.values_mut() {
        owned.fields = with_atomic_fields(&owned.fields, shape);
    }
    let manager = Manager::new(manager, Operation::Apply, target.api_version, target.subresource);
    let object = merge::merge(Some(live), Some(configuration), shape).unwrap_or(Value::Null);
    let fields = fields_of(configuration, shape).outside(target.reset);
    let last = owners.0.get(&manager).cloned();
    let time = last.as_ref().and_then(|owned| owned.time.clone());
    let owned = Owned { api_version: target.api_version.to_owned(), fields, time };
    owners.0.insert(manager.clone(), owned);

    let mut object = match last {
        Some(last) if !last.fields.is_empty() => pruned(&object, &owners, &last.fields, target),
        _ => object,
    };
    share(live, &object, &mut owners, &manager, force, target)?;
    // Only if the values are identical, not just equivalent, the owner keeps its timestamp.
    if !same(live, &object)
        && let Some(owned) = owners.0.get_mut(&manager)
    {
        owned.time = Some(now.to_owned());
    }
    if let Some(owned) = owners.0.get_mut(&manager) {
        owned.fields = owned.fields.difference(&never_owned());
        if owned.fields.is_empty() {
            owners.0.remove(&manager);
        }
    }
    target.drop_nulls(&mut object);
    Ok((object, owners))
}

/// Removes the fields that the manager applied last time, does not apply now, and that have no other owner.
fn pruned(merged: &Value, owners: &Owners, last: &Fields, target: &Target<'_>) -> Value {
    let shape = target.shape();
    let named = |fields: &Fields| with_named_fields(fields, shape);
    let last = named(last);
    let pruned = without(merged, &last, shape);
    let managed = owners.0.values().fold(Fields::default(), |all, owned| all.union(&owned.fields));
    let everything = named(&fields_of(merged, shape));
    // Restore owned fields …
    let kept = named(&fields_of(&pruned, shape)).union(&named(&managed));
    let pruned = without(merged, &everything.difference(&kept), shape);
    // … and fields below a removed field that were never applied.
    let kept = named(&fields_of(&pruned, shape));
    without(merged, &everything.difference(&kept).intersection(&last), shape)
}

fn check_kind(configuration: &Value, target: &Target<'_>) -> Result<(), ApplyError> {
    let text = |name: &str| configuration.get(name).and_then(Value::as_str).unwrap_or_default();
    if text("apiVersion") == target.api_version && text("kind") == target.kind {
        Ok(())
    } else {
        Err(ApplyError::OtherKind(printed_kind(configuration)))
    }
}

/// `apps/v1, Kind=Deployment`; the core group is empty.
fn printed_kind(object: &Value) -> String {
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let version = text("apiVersion");
    let slash = if version.contains('/') { "" } else { "/" };
    format!("{slash}{version}, Kind={}", text("kind"))
}

fn namespace_and_name(object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    format!("{}/{}", text("/metadata/namespace"), text("/metadata/name"))
}

#[cfg(test)]
mod tests;
