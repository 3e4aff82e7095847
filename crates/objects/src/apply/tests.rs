//! Scenarios on a small schema; the suite `differential` compares generated ones with a real API server.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::schema::{ListType, MapType, Schema, Type};

const NOW: &str = "2026-01-02T03:04:05Z";
const LATER: &str = "2026-01-02T03:04:06Z";

fn object(fields: impl IntoIterator<Item = (&'static str, Schema)>) -> Schema {
    let properties: BTreeMap<_, _> =
        fields.into_iter().map(|(name, schema)| (name.to_owned(), Arc::new(schema))).collect();
    Schema { kind: Some(Type::Object), properties, ..Schema::default() }
}

fn scalar(kind: Type) -> Schema {
    Schema { kind: Some(kind), ..Schema::default() }
}

fn list(items: Schema, list_type: ListType) -> Schema {
    Schema { kind: Some(Type::Array), items: Some(Arc::new(items)), list_type, ..Schema::default() }
}

fn map_of(value: Schema) -> Schema {
    Schema { kind: Some(Type::Object), additional: Some(Arc::new(value)), ..Schema::default() }
}

/// A kind with a map, a set, a list of named items, an atomic list and an atomic map.
fn schema() -> Schema {
    let text = || scalar(Type::String);
    let item = object([("name", text()), ("value", text()), ("more", text())]);
    let atomic = Schema { map_type: MapType::Atomic, ..map_of(text()) };
    object([
        (
            "spec",
            object([
                ("map", map_of(text())),
                ("set", list(text(), ListType::Set)),
                ("items", list(item, ListType::Map(vec!["name".to_owned()]))),
                ("atomicList", list(text(), ListType::Atomic)),
                ("atomicMap", atomic),
                ("number", scalar(Type::Integer)),
            ]),
        ),
        ("status", object([("phase", text())])),
    ])
}

/// A server with one object.
struct Server {
    schema: Schema,
    object: Option<Value>,
}

impl Server {
    fn new() -> Self {
        Self { schema: schema(), object: None }
    }

    fn write<R>(&mut self, work: impl FnOnce(Option<&Value>, &Target<'_>) -> R) -> R {
        let reset = reset_fields("x.io/v1", "Thing", Origin::Custom, None);
        let target = Target {
            schema: &self.schema,
            origin: Origin::Custom,
            api_version: "x.io/v1",
            kind: "Thing",
            subresource: None,
            reset: &reset,
        };
        work(self.object.as_ref(), &target)
    }

    fn apply(&mut self, manager: &str, force: bool, spec: Value) -> Result<bool, ApplyError> {
        let mut applied = self.write(|live, target| apply(live, &thing(spec), manager, force, target, NOW))?;
        applied.object["metadata"]["uid"] = json!("u");
        self.object = Some(applied.object);
        Ok(applied.unchanged)
    }

    fn update(&mut self, manager: &str, spec: Value) {
        let mut after = self.write(|live, target| {
            let mut after = thing(spec);
            after["metadata"]["uid"] = json!("u");
            updated(live, after, manager, target, NOW)
        });
        after["metadata"]["uid"] = json!("u");
        self.object = Some(after);
    }

    #[track_caller]
    fn check_spec(&self, expected: Value) {
        assert_eq!(self.object.as_ref().unwrap()["spec"], expected);
    }

    fn owned(&self, manager: &str) -> Value {
        let entries = self.object.as_ref().unwrap()["metadata"]["managedFields"].as_array().cloned();
        let found = entries.into_iter().flatten().find(|entry| entry["manager"] == manager);
        found.map_or(Value::Null, |entry| entry["fieldsV1"].clone())
    }
}

fn thing(spec: Value) -> Value {
    json!({"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec})
}

#[test]
fn a_field_that_is_no_longer_applied_is_removed_unless_it_has_another_owner() {
    let mut server = Server::new();
    server.apply("one", false, json!({"map": {"a": "1", "b": "2"}})).unwrap();
    server.apply("two", false, json!({"map": {"b": "2"}})).unwrap();
    server.apply("one", false, json!({"map": {}})).unwrap();
    server.check_spec(json!({"map": {"b": "2"}}));
    server.apply("two", false, json!({"number": 1})).unwrap();
    assert!(server.object.as_ref().unwrap()["spec"]["map"].get("b").is_none());
}

#[test]
fn a_conflict_names_the_owner_and_the_field_and_force_takes_the_field() {
    let mut server = Server::new();
    server.apply("one", false, json!({"number": 1})).unwrap();
    let refused = server.apply("two", false, json!({"number": 2})).unwrap_err();
    assert_eq!(refused.code(), 409);
    assert_eq!(refused.to_string(), "Apply failed with 1 conflict: conflict with \"one\": .spec.number");
    server.apply("two", true, json!({"number": 2})).unwrap();
    assert_eq!(server.owned("one"), Value::Null);
    assert_eq!(server.owned("two"), json!({"f:spec": {"f:number": {}}}));
}

#[test]
fn conflicts_with_updates_name_the_version_and_several_are_listed_by_owner() {
    let mut server = Server::new();
    server.update("edit", json!({"number": 1, "map": {"a": "1"}}));
    let refused = server.apply("two", false, json!({"number": 2, "map": {"a": "2"}})).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Apply failed with 2 conflicts: conflicts with \"edit\" using x.io/v1:\n- .spec.number\n- .spec.map.a"
    );
    let ApplyError::Conflict(conflicts) = refused else { panic!("{refused}") };
    assert_eq!(
        conflicts.causes()[1],
        json!({"reason": "FieldManagerConflict", "message": "conflict with \"edit\" using x.io/v1", "field": ".spec.map.a"})
    );
}

#[test]
fn equal_values_are_shared_without_conflict() {
    let mut server = Server::new();
    server.apply("one", false, json!({"number": 1})).unwrap();
    server.apply("two", false, json!({"number": 1})).unwrap();
    assert_eq!(server.owned("one"), server.owned("two"));
}

#[test]
fn applying_the_same_again_changes_nothing_at_all() {
    let mut server = Server::new();
    let spec = json!({"map": {"a": "1"}, "set": ["x"], "items": [{"name": "n", "value": "v"}], "atomicList": ["y"]});
    server.apply("one", false, spec.clone()).unwrap();
    let before = server.object.clone();
    assert!(server.apply("one", false, spec).unwrap());
    assert_eq!(server.object, before);
}

#[test]
fn items_of_a_list_are_owned_by_key_and_of_a_set_by_value() {
    let mut server = Server::new();
    server.apply("one", false, json!({"items": [{"name": "a", "value": "1"}], "set": ["x"]})).unwrap();
    server.apply("two", false, json!({"items": [{"name": "b"}, {"name": "a", "more": "m"}], "set": ["y"]})).unwrap();
    server.check_spec(json!({
        "items": [{"name": "b"}, {"name": "a", "value": "1", "more": "m"}],
        "set": ["x", "y"],
    }));
    assert_eq!(
        server.owned("one"),
        json!({"f:spec": {"f:items": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:value": {}}}, "f:set": {"v:\"x\"": {}}}})
    );
    server.apply("two", false, json!({})).unwrap();
    server.check_spec(json!({"items": [{"name": "a", "value": "1"}], "set": ["x"]}));
}

#[test]
fn atomic_lists_and_maps_are_owned_as_one_value() {
    let mut server = Server::new();
    server.apply("one", false, json!({"atomicList": ["a"], "atomicMap": {"k": "v"}})).unwrap();
    assert_eq!(server.owned("one"), json!({"f:spec": {"f:atomicList": {}, "f:atomicMap": {}}}));
    let refused = server.apply("two", false, json!({"atomicMap": {"l": "w"}})).unwrap_err();
    assert!(refused.to_string().ends_with(": .spec.atomicMap"));
    server.apply("two", true, json!({"atomicMap": {"l": "w"}})).unwrap();
    server.check_spec(json!({"atomicList": ["a"], "atomicMap": {"l": "w"}}));
}

#[test]
fn an_update_takes_what_it_changes_and_the_rest_stays_where_it_was() {
    let mut server = Server::new();
    server.apply("one", false, json!({"number": 1, "map": {"a": "1"}})).unwrap();
    server.update("edit", json!({"number": 2, "map": {"a": "1", "b": "2"}}));
    assert_eq!(server.owned("edit"), json!({"f:spec": {"f:map": {"f:b": {}}, "f:number": {}}}));
    assert_eq!(server.owned("one"), json!({"f:spec": {"f:map": {"f:a": {}}}}));
}

#[test]
fn the_status_is_not_owned_by_writers_of_the_object() {
    let mut server = Server::new();
    let mut configuration = thing(json!({"number": 1}));
    configuration["status"] = json!({"phase": "x"});
    let applied = server.write(|live, target| apply(live, &configuration, "one", false, target, NOW)).unwrap();
    server.object = Some(applied.object);
    assert_eq!(server.owned("one"), json!({"f:spec": {"f:number": {}}}));
}

#[test]
fn one_empty_entry_resets_all_owners_until_the_next_apply() {
    let mut server = Server::new();
    server.apply("one", false, json!({"number": 1})).unwrap();
    let mut after = server.object.clone().unwrap();
    after["metadata"]["managedFields"] = json!([{}]);
    server.object = Some(server.write(|live, target| updated(live, after, "edit", target, NOW)));
    assert_eq!(server.object.as_ref().unwrap()["metadata"].get("managedFields"), None);
    server.update("edit", json!({"number": 2}));
    assert_eq!(server.owned("edit"), Value::Null);
    server.apply("two", false, json!({"map": {"a": "1"}})).unwrap();
    assert_eq!(server.owned("before-first-apply"), json!({"f:spec": {".": {}, "f:number": {}}}));
}

#[test]
fn kubectl_may_apply_over_what_it_applied_from_the_client() {
    let mut server = Server::new();
    let last = thing(json!({"number": 1}));
    server.update("kubectl-client-side-apply", json!({"number": 1, "map": {"a": "1"}}));
    let mut live = server.object.clone().unwrap();
    live["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": last.to_string()});
    server.object = Some(live);
    let refused = server.apply("kubectl", false, json!({"number": 2, "map": {"a": "2"}})).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using x.io/v1: .spec.map.a"
    );
    server.apply("kubectl", false, json!({"number": 2})).unwrap();
    let annotation =
        &server.object.as_ref().unwrap()["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
    assert_eq!(
        *annotation,
        "{\"apiVersion\":\"x.io/v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"t\"},\"spec\":{\"number\":2}}\n"
    );
}

#[test]
fn a_schema_mismatch_has_the_message_of_the_api_server() {
    let message = |spec: Value| Server::new().apply("one", false, spec).unwrap_err().to_string();
    let prefix = "failed to create typed patch object (/t; x.io/v1, Kind=Thing)";
    assert_eq!(message(json!({"unknown": 1})), format!("{prefix}: .spec.unknown: field not declared in schema"));
    assert_eq!(
        message(json!({"map": {"a": 1}})),
        format!("{prefix}: .spec.map.a: expected string, got &value.valueUnstructured{{Value:1}}")
    );
    assert_eq!(
        message(json!({"items": [{"name": "a"}, {"name": "a"}]})),
        format!("{prefix}: .spec.items: duplicate entries for key [name=\"a\"]")
    );
    assert_eq!(
        message(json!({"number": "x"})),
        format!("{prefix}: .spec.number: expected numeric (int or float), got string")
    );
}

#[test]
fn another_kind_and_given_owners_are_bad_requests() {
    let mut server = Server::new();
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let refused = server.write(|live, target| apply(live, &other, "one", false, target, NOW)).unwrap_err();
    assert_eq!((refused.code(), refused.to_string().as_str()), (400, "invalid object type: /v1, Kind=ConfigMap"));
    let mut given = thing(json!({}));
    given["metadata"]["managedFields"] = json!([]);
    let refused = server.write(|live, target| apply(live, &given, "one", false, target, NOW)).unwrap_err();
    assert_eq!(refused.to_string(), "metadata.managedFields must be nil");
}

#[test]
fn a_write_that_only_changes_times_keeps_the_old_ones() {
    let entry = |time: &str| json!([{"manager": "m", "time": time}]);
    let before = json!({"metadata": {"managedFields": entry(NOW)}, "spec": {"a": 1}});
    let mut after = json!({"metadata": {"managedFields": entry(LATER)}, "spec": {"a": 1}});
    assert!(restore_timestamps(&before, &mut after));
    assert_eq!(after, before);
    let mut changed = json!({"metadata": {"managedFields": entry(LATER)}, "spec": {"a": 2}});
    assert!(!restore_timestamps(&before, &mut changed));
    assert_eq!(changed["metadata"]["managedFields"], entry(LATER));
}

#[test]
fn the_manager_of_a_write_is_the_first_word_of_its_user_agent() {
    assert_eq!(manager_name(None, "kubectl/v1.34.0 (linux/amd64)"), "kubectl");
    assert_eq!(manager_name(Some("mine"), "kubectl/v1.34.0"), "mine");
    assert_eq!(manager_name(Some(""), "a\u{7}b"), "ab");
    assert_eq!(manager_name(None, &"x".repeat(200)).len(), 128);
}
