//! `metadata.managedFields`: managers, their fields and timestamps.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::fields::Fields;

/// Maximum number of update entries; above it the oldest are merged.
const MAX_UPDATERS: usize = 10;

/// The manager of the merged oldest updates.
const ANCIENT: &str = "ancient-changes";

/// How a manager wrote its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// The identity of a manager. For apply it is independent of the API version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manager {
    pub name: String,
    pub operation: Operation,
    /// Empty for [`Operation::Apply`].
    pub api_version: String,
    pub subresource: String,
}

impl Manager {
    pub fn new(name: &str, operation: Operation, api_version: &str, subresource: Option<&str>) -> Self {
        Self {
            name: if name.is_empty() { "unknown" } else { name }.to_owned(),
            operation,
            api_version: if operation == Operation::Apply { "" } else { api_version }.to_owned(),
            subresource: subresource.unwrap_or_default().to_owned(),
        }
    }

    /// The format of conflict messages.
    pub fn printed(&self) -> String {
        let subresource = match self.subresource.as_str() {
            "" => String::new(),
            name => format!(" with subresource {name:?}"),
        };
        let version = match self.operation {
            Operation::Apply => String::new(),
            Operation::Update => format!(" using {}", self.api_version),
        };
        format!("{:?}{subresource}{version}", self.name)
    }
}

/// The order of conflicts: a subresource comes before the object itself.
impl Ord for Manager {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.name.cmp(&other.name))
            .then_with(|| self.operation.cmp(&other.operation))
            .then_with(|| self.api_version.cmp(&other.api_version))
            .then_with(|| self.subresource.is_empty().cmp(&other.subresource.is_empty()))
            .then_with(|| self.subresource.cmp(&other.subresource))
    }
}

impl PartialOrd for Manager {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owned {
    pub api_version: String,
    pub fields: Fields,
    pub time: Option<String>,
}

/// All managers of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Owners(pub BTreeMap<Manager, Owned>);

impl Owners {
    /// Parses `metadata.managedFields`. The error is the message of kube-apiserver.
    pub fn of(object: &Value) -> Result<Self, String> {
        let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        let mut owners = Self::default();
        for (index, entry) in entries.into_iter().flatten().enumerate() {
            let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
            let operation = match text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err("operation must be `Apply` or `Update`".to_owned()),
            };
            let api_version = text("apiVersion").to_owned();
            if api_version.is_empty() {
                return Err("apiVersion must not be empty".to_owned());
            }
            match text("fieldsType") {
                "FieldsV1" => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
                other => return Err(format!("invalid fieldsType {other:?} in managed fields entry {index}")),
            }
            let fields = Fields::from_json(entry.get("fieldsV1").unwrap_or(&json!({})))?;
            let manager = Manager {
                name: text("manager").to_owned(),
                operation,
                api_version: if operation == Operation::Apply { String::new() } else { api_version.clone() },
                subresource: text("subresource").to_owned(),
            };
            let time = entry.get("time").and_then(Value::as_str).map(ToOwned::to_owned);
            owners.0.insert(manager, Owned { api_version, fields, time });
        }
        Ok(owners)
    }

    /// Writes `metadata.managedFields`, or removes it if there is no manager.
    pub fn write(&self, object: &mut Value) {
        let entries = self.to_json();
        let Some(object) = object.as_object_mut() else { return };
        let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        let Some(metadata) = metadata.as_object_mut() else { return };
        if entries.is_empty() {
            metadata.shift_remove("managedFields");
        } else {
            metadata.insert("managedFields".to_owned(), Value::Array(entries));
        }
    }

    fn to_json(&self) -> Vec<Value> {
        let mut entries: Vec<(&Manager, &Owned)> = self.0.iter().collect();
        entries.sort_by_key(|(manager, owned)| {
            (manager.operation, &owned.time, &manager.name, &owned.api_version, &manager.subresource)
        });
        entries.into_iter().map(|(manager, owned)| entry(manager, owned)).collect()
    }

    /// Merges the oldest update entries of each version until the limit is met.
    pub fn cap(&mut self) {
        let mut updaters: Vec<Manager> =
            self.0.keys().filter(|manager| manager.operation == Operation::Update).cloned().collect();
        let mut excess = updaters.len().saturating_sub(MAX_UPDATERS);
        updaters.sort_by_key(|manager| (self.0.get(manager).and_then(|owned| owned.time.clone()), manager.clone()));
        let mut first_of_version = BTreeMap::<String, Manager>::new();
        for manager in updaters {
            if excess == 0 {
                break;
            }
            let version = manager.api_version.clone();
            let Some(first) = first_of_version.get(&version) else {
                first_of_version.insert(version, manager);
                continue;
            };
            let bucket = Manager::new(ANCIENT, Operation::Update, &version, None);
            if !self.0.contains_key(&bucket)
                && let Some(owned) = self.0.remove(first)
            {
                self.0.insert(bucket.clone(), owned);
            }
            if manager == bucket {
                continue;
            }
            if let Some(newer) = self.0.remove(&manager)
                && let Some(old) = self.0.get_mut(&bucket)
            {
                old.fields = newer.fields.union(&old.fields);
                old.time = newer.time;
            }
            excess -= 1;
        }
    }
}

fn entry(manager: &Manager, owned: &Owned) -> Value {
    let mut entry = Map::new();
    let mut put = |name: &str, value: Value| entry.insert(name.to_owned(), value);
    put("apiVersion", json!(owned.api_version));
    put("fieldsType", json!("FieldsV1"));
    put("fieldsV1", owned.fields.to_json());
    put("manager", json!(manager.name));
    put("operation", json!(manager.operation.name()));
    if !manager.subresource.is_empty() {
        put("subresource", json!(manager.subresource));
    }
    if let Some(time) = &owned.time {
        put("time", json!(time));
    }
    Value::Object(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn updater(index: usize) -> (Manager, Owned) {
        let mut fields = Fields::default();
        fields.insert(&[super::super::Element::field(format!("f{index}"))]);
        let time = Some(format!("2026-01-01T00:00:{index:02}Z"));
        let manager = Manager::new(&format!("m{index:02}"), Operation::Update, "v1", None);
        (manager, Owned { api_version: "v1".to_owned(), fields, time })
    }

    #[test]
    fn ten_updaters_stay_as_they_are() {
        let mut owners = Owners((0..10).map(updater).collect());
        let before = owners.clone();
        owners.cap();
        assert_eq!(owners, before);
    }

    #[test]
    fn of_twelve_updaters_the_three_oldest_become_one_with_the_time_of_the_last_of_them() {
        let mut owners = Owners((0..12).map(updater).collect());
        owners.cap();
        assert_eq!(owners.0.len(), 10);
        let ancient = &owners.0[&Manager::new(ANCIENT, Operation::Update, "v1", None)];
        assert_eq!(ancient.fields.to_json(), json!({"f:f0": {}, "f:f1": {}, "f:f2": {}}));
        assert_eq!(ancient.time.as_deref(), Some("2026-01-01T00:00:02Z"));
    }

    #[test]
    fn a_second_round_fills_the_same_bucket() {
        let mut owners = Owners((0..11).map(updater).collect());
        owners.cap();
        owners.0.extend([updater(11)]);
        owners.cap();
        assert_eq!(owners.0.len(), 10);
        let ancient = &owners.0[&Manager::new(ANCIENT, Operation::Update, "v1", None)];
        assert_eq!(ancient.fields.to_json(), json!({"f:f0": {}, "f:f1": {}, "f:f2": {}}));
    }

    #[test]
    fn entries_without_type_version_or_operation_are_refused() {
        let read = |entry: Value| Owners::of(&json!({"metadata": {"managedFields": [entry]}}));
        assert_eq!(read(json!({})).unwrap_err(), "operation must be `Apply` or `Update`");
        assert_eq!(read(json!({"operation": "Apply"})).unwrap_err(), "apiVersion must not be empty");
        let entry = json!({"operation": "Apply", "apiVersion": "v1"});
        assert_eq!(read(entry).unwrap_err(), "missing fieldsType in managed fields entry 0");
    }
}
