//! Field ownership of ordinary writes.

use serde_json::{Map, Value};

use super::check::{Duplicates, SchemaMismatch, check};
use super::fields::Fields;
use super::owners::{Manager, Operation, Owned, Owners};
use super::target::{Origin, Target};
use super::walk::{Comparison, compare, same, with_atomic_fields};
use super::{Conflict, Conflicts};

/// Maximum length of a manager's name.
const MAX_NAME: usize = 128;

/// The manager of a write: the `fieldManager` of the request, or the first word of its user agent.
pub fn manager_name(field_manager: Option<&str>, user_agent: &str) -> String {
    if let Some(name) = field_manager.filter(|name| !name.is_empty()) {
        return name.to_owned();
    }
    let mut name = String::new();
    for character in user_agent.split('/').next().unwrap_or_default().chars().filter(|c| !c.is_control()) {
        if name.len() + character.len_utf8() > MAX_NAME {
            break;
        }
        name.push(character);
    }
    name
}

/// Fields that identify an object and are never owned.
pub(super) fn never_owned() -> Fields {
    Fields::of([
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
}

/// The object after a create (`before` is `None`), update or patch by `manager`, with its new managedFields.
///
/// `after` may contain managedFields: a client can edit them, and reset them with one empty entry. `now` is the time in
/// RFC 3339 with seconds. An object that does not match its schema loses its managedFields.
pub fn updated(before: Option<&Value>, mut after: Value, manager: &str, target: &Target<'_>, now: &str) -> Value {
    let nothing;
    let live = if let Some(before) = before {
        before
    } else {
        nothing = target.nothing();
        &nothing
    };
    let owners = owners_of_write(live, &after, target);
    drop_owners(&mut after);
    let exists = live.pointer("/metadata/uid").and_then(Value::as_str).is_some_and(|uid| !uid.is_empty());
    // An object without owners stays untracked until the next apply.
    let tracked = if owners.0.is_empty() && exists {
        Ok(owners)
    } else {
        changes(&without_owners(live), &after, owners, manager, target, now)
    };
    tracked.unwrap_or_default().write(&mut after);
    after
}

/// The owners before a write: those of the request, or else those of the live object.
fn owners_of_write(live: &Value, after: &Value, target: &Target<'_>) -> Owners {
    let of_live = || Owners::of(live).unwrap_or_default();
    if target.subresource.is_some() {
        return of_live();
    }
    let given = after.pointer("/metadata/managedFields").and_then(Value::as_array).map(Vec::as_slice);
    match given {
        // In a custom resource an empty list counts as missing.
        Some([]) if target.origin == Origin::BuiltIn => Owners::default(),
        Some([entry]) if entry.as_object().is_some_and(Map::is_empty) => Owners::default(),
        _ => match Owners::of(after) {
            Ok(owners) if !owners.0.is_empty() => owners,
            _ => of_live(),
        },
    }
}

/// The owners after `manager` changed `live` into `after`, both without managedFields.
pub(super) fn changes(
    live: &Value,
    after: &Value,
    mut owners: Owners,
    manager: &str,
    target: &Target<'_>,
    now: &str,
) -> Result<Owners, SchemaMismatch> {
    let shape = target.shape();
    check(after, shape, Duplicates::Allowed)?;
    check(live, shape, Duplicates::Allowed)?;
    for owned in owners.0.values_mut() {
        owned.fields = with_atomic_fields(&owned.fields, shape);
    }
    let comparison = compare(live, after, shape).outside(target.reset);
    release_changed(&mut owners, None, &comparison);
    let taken = comparison.modified.union(&comparison.added).outside(target.reset).difference(&never_owned());
    if !taken.is_empty() {
        let manager = Manager::new(manager, Operation::Update, target.api_version, target.subresource);
        let fields = owners.0.get(&manager).map_or_else(|| taken.clone(), |owned| taken.union(&owned.fields));
        let owned = Owned { api_version: target.api_version.to_owned(), fields, time: Some(now.to_owned()) };
        owners.0.insert(manager, owned);
    }
    owners.cap();
    Ok(owners)
}

/// Takes the fields that an apply changed from their owners, or returns the conflicts if force is not set.
pub(super) fn share(
    live: &Value,
    after: &Value,
    owners: &mut Owners,
    applier: &Manager,
    force: bool,
    target: &Target<'_>,
) -> Result<(), Conflicts> {
    let comparison = compare(live, after, target.shape()).outside(target.reset);
    let changed = comparison.modified.union(&comparison.added);
    let others = owners.0.iter().filter(|(manager, _)| *manager != applier);
    let conflicts: Vec<Conflict> = others
        .flat_map(|(manager, owned)| {
            let paths = owned.fields.intersection(&changed).paths();
            paths.into_iter().map(|path| Conflict { manager: manager.clone(), path })
        })
        .collect();
    if !force && !conflicts.is_empty() {
        return Err(Conflicts(conflicts));
    }
    release_changed(owners, Some(applier), &comparison);
    Ok(())
}

/// Removes changed and removed fields from all managers but one, and managers without fields.
fn release_changed(owners: &mut Owners, but: Option<&Manager>, comparison: &Comparison) {
    let lost = comparison.modified.union(&comparison.added).union(&comparison.removed);
    for (manager, owned) in &mut owners.0 {
        if Some(manager) != but {
            owned.fields = owned.fields.difference(&lost);
        }
    }
    owners.0.retain(|_, owned| !owned.fields.is_empty());
}

/// The object without managedFields.
pub(super) fn without_owners(object: &Value) -> Value {
    let mut object = object.clone();
    drop_owners(&mut object);
    object
}

fn drop_owners(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("managedFields");
    }
}

/// Restores the timestamps in managedFields if a write changed nothing else. Returns whether the write is a no-op then.
pub fn restore_timestamps(before: &Value, after: &mut Value) -> bool {
    if same(before, after) {
        return true;
    }
    let times_aside = |object: &Value| {
        let mut object = object.clone();
        let entries = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten().filter_map(Value::as_object_mut) {
            entry.shift_remove("time");
        }
        object
    };
    let unchanged = same(&times_aside(before), &times_aside(after));
    if unchanged {
        after.clone_from(before);
    }
    unchanged
}
