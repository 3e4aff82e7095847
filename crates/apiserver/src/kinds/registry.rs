//! All served kinds, by group, version and name.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::custom::{self, Definition};
use super::{Resource, builtin};
use crate::store::{Entry, Store};

/// Storage key of CustomResourceDefinitions.
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// A group and its versions, the preferred one first.
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) versions: Vec<String>,
}

pub(crate) struct Registry {
    /// The revision of the definitions that this was built from.
    changed: u64,
    resources: Vec<Arc<Resource>>,
    index: HashMap<(String, String, String), usize>,
    groups: Vec<Group>,
    /// Parsed definitions, so that a new one does not cause all others to be parsed again.
    definitions: HashMap<Arc<str>, Known>,
}

/// A parsed definition.
#[derive(Clone)]
struct Known {
    /// Revision of the stored object.
    revision: u64,
    uid: String,
    /// Only the spec matters, which the generation counts.
    generation: i64,
    definition: Arc<Definition>,
}

impl Known {
    /// Parses a stored definition, if it is served; reuses `before` if it is unchanged.
    fn read(entry: &Entry, before: Option<&Self>) -> Option<Self> {
        let revision = entry.revision;
        if let Some(before) = before.filter(|before| before.revision == revision) {
            return Some(before.clone());
        }
        let object = serde_json::from_slice::<Value>(&entry.bytes).ok()?;
        if !custom::is_established(&object) {
            return None;
        }
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
        if let Some(before) = before.filter(|before| before.uid == uid && before.generation == generation) {
            return Some(Self { revision, ..before.clone() });
        }
        // A stored definition was validated before; an unreadable one is not served.
        match Definition::stored(&object) {
            Ok(definition) => Some(Self { revision, uid, generation, definition: Arc::new(definition) }),
            Err(causes) => {
                tracing::warn!(?causes, "cannot parse a stored definition");
                None
            }
        }
    }
}

impl Registry {
    pub(crate) fn is_current(&self, store: &Store) -> bool {
        self.changed == store.changed(DEFINITIONS)
    }

    /// Reads the definitions of `store`, reusing those of `before`.
    pub(crate) fn read(store: &Store, before: Option<&Self>) -> Self {
        let snapshot = store.list(DEFINITIONS, "");
        let mut resources = builtin::resources();
        let mut definitions = HashMap::new();
        for (key, entry) in &snapshot.items {
            let before = before.and_then(|before| before.definitions.get(key));
            let Some(known) = Known::read(entry, before) else { continue };
            resources.extend(known.definition.resources());
            definitions.insert(Arc::clone(key), known);
        }
        let index = resources
            .iter()
            .enumerate()
            .map(|(position, resource)| {
                ((resource.group.clone(), resource.version.clone(), resource.plural.clone()), position)
            })
            .collect();
        // The list was read at or after this revision; if it changed in between, the next request reads again.
        let changed = snapshot.revision.min(store.changed(DEFINITIONS));
        let groups = groups(&resources);
        Self { changed, resources, index, groups, definitions }
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        let position = self.index.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))?;
        self.resources.get(*position)
    }

    /// The kind of an object by its apiVersion and kind.
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.resources.iter().find(|resource| resource.kind == kind && resource.api_version() == api_version)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.iter()
    }

    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The kinds of a version, sorted by name.
    pub(crate) fn of_version<'a>(
        &'a self,
        group: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.resources.iter().filter(move |resource| resource.group == group && resource.version == version)
    }
}

fn groups(resources: &[Arc<Resource>]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for resource in resources {
        let position = groups.iter().position(|group| group.name == resource.group).unwrap_or_else(|| {
            groups.push(Group { name: resource.group.clone(), versions: Vec::new() });
            groups.len() - 1
        });
        if let Some(group) = groups.get_mut(position)
            && !group.versions.contains(&resource.version)
        {
            group.versions.push(resource.version.clone());
        }
    }
    for group in &mut groups {
        group.versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
    }
    groups
}

/// `v2` before `v1` before `v1beta2` before `v1beta1` before `v1alpha1` before anything else.
fn priority(version: &str) -> (u8, u64, u64) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
        let (major, stage) = rest.split_at(digits);
        let major: u64 = major.parse().ok()?;
        let (maturity, minor) = if stage.is_empty() {
            (3, 0)
        } else if let Some(minor) = stage.strip_prefix("beta") {
            (2, minor.parse().ok()?)
        } else {
            (1, stage.strip_prefix("alpha")?.parse().ok()?)
        };
        Some((maturity, major, minor))
    };
    parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_first_and_newer_before_older() {
        let mut versions = vec!["v1alpha1", "foo", "v1", "v1beta1", "v2", "v1beta2", "v10"];
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "foo"]);
    }

    #[test]
    fn both_groups_of_events_share_their_storage() {
        let registry = Registry::read(&Store::in_memory().unwrap(), None);
        let storage_key = |group: &str| registry.find(group, "v1", "events").unwrap().storage_key.clone();
        assert_eq!(storage_key(""), storage_key("events.k8s.io"));
        assert_eq!(registry.groups()[0].name, "");
    }
}
