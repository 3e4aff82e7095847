//! A third-party definition, with every feature that ours do not use.

use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use kubeopencode_objects::schema::{Schema, Validator, strict_error};
use serde_json::{Value, json};
use testenv::json::{merge, with_plain_numbers};

use crate::definitions::CONCURRENCY;
use crate::oracle::{Oracle, Verdict, without_bookkeeping};

const TRY: &str = "dryRun=All&fieldValidation=Strict";

fn schema() -> Value {
    let formats =
        ["date-time", "date", "duration", "byte", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid"];
    let formats = formats.iter().map(|format| (format.replace('-', ""), json!({ "type": "string", "format": format })));
    json!({ "type": "object", "properties": { "spec": {
        "type": "object",
        "x-kubernetes-validations": [
            { "rule": "!has(self.low) || !has(self.high) || self.low < self.high", "messageExpression": "'low is %d, high is %d'.format([self.low, self.high])" },
            { "rule": "!has(self.name) || self.name != 'forbidden'", "message": "not this one", "reason": "FieldValueForbidden", "fieldPath": ".name" },
            { "rule": "!has(self.name) || self.name != 'twice'", "message": "again", "reason": "FieldValueDuplicate", "fieldPath": ".name" },
            { "rule": "has(self.name) || !has(self.high)", "message": "a name, please", "reason": "FieldValueRequired", "fieldPath": ".name" },
            { "rule": "oldSelf.hasValue() || !has(self.late)", "message": "late cannot be there from the start", "optionalOldSelf": true },
            { "rule": "!has(self.fixed) || !has(oldSelf.fixed) || self.fixed == oldSelf.fixed", "message": "fixed is fixed" },
            { "rule": "!has(self.memory) || quantity(self.memory).isLessThan(quantity('2Gi'))", "message": "too much memory" },
            { "rule": "!has(self.namespace) || self.__namespace__.startsWith('n')" },
            { "rule": "!has(self.numbers) || self.numbers.sum() < 10", "message": "too large a sum" },
            { "rule": "!has(self.datetime) || self.datetime > timestamp('2020-01-01T00:00:00Z')", "message": "too early" },
            { "rule": "!has(self.duration) || self.duration < duration('1h')", "message": "too long a time" },
            { "rule": "self.?deep.?a.orValue('none') != 'bad'", "message": "bad at depth" },
            { "rule": "!has(self.port) || type(self.port) != int || self.port > 0", "message": "a port above zero" },
            { "rule": "!has(self.labels) || self.labels.all(k, k != self.labels[k])", "message": "a key is its value" },
        ],
        "properties": formats.chain([
            ("name".to_owned(), json!({ "type": "string" })),
            ("namespace".to_owned(), json!({ "type": "string" })),
            ("low".to_owned(), json!({ "type": "integer" })),
            ("high".to_owned(), json!({ "type": "integer", "exclusiveMaximum": true, "maximum": 100, "multipleOf": 5 })),
            ("late".to_owned(), json!({ "type": "boolean" })),
            ("fixed".to_owned(), json!({ "type": "array", "maxItems": 10, "x-kubernetes-list-type": "set", "items": { "type": "string", "maxLength": 20 } })),
            ("memory".to_owned(), json!({ "type": "string", "maxLength": 20 })),
            ("numbers".to_owned(), json!({ "type": "array", "maxItems": 10, "items": { "type": "integer" } })),
            ("ratio".to_owned(), json!({ "type": "number", "minimum": 0.5, "exclusiveMinimum": true })),
            ("deep".to_owned(), json!({ "type": "object", "properties": { "a": { "type": "string" } } })),
            ("port".to_owned(), json!({ "x-kubernetes-int-or-string": true })),
            ("pattern".to_owned(), json!({ "type": "string", "pattern": r"^\w+\s[\d]$" })),
            ("unique".to_owned(), json!({ "type": "string", "nullable": true, "enum": ["a", "b"] })),
            ("labels".to_owned(), json!({ "type": "object", "maxProperties": 5, "minProperties": 1, "additionalProperties": { "type": "string", "maxLength": 10 } })),
            ("items".to_owned(), json!({ "type": "array", "maxItems": 5, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "j"],
                "items": { "type": "object", "required": ["k"], "properties": { "k": { "type": "string" }, "j": { "type": "integer", "default": 1 }, "v": { "type": "integer",
                    "x-kubernetes-validations": [{ "rule": "self >= oldSelf", "message": "v only grows" }] } } } })),
            ("choice".to_owned(), json!({ "type": "object", "properties": { "x": { "type": "integer" }, "y": { "type": "integer" } },
                "oneOf": [{ "required": ["x"] }, { "required": ["y"] }] })),
            ("some".to_owned(), json!({ "type": "string", "anyOf": [{ "minLength": 5 }, { "pattern": "^a" }], "not": { "enum": ["abc"] } })),
            ("all".to_owned(), json!({ "type": "string", "allOf": [{ "minLength": 2 }, { "maxLength": 3 }] })),
            ("object".to_owned(), json!({ "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true })),
            ("free".to_owned(), json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })),
        ]).collect::<serde_json::Map<_, _>>(),
    } } })
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "things.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema() } }],
        },
    })
}

fn specs() -> Vec<Value> {
    let texts = [
        "",
        "x",
        "2026-02-30",
        "2026-02-28",
        "2026-01-01T10:00:00Z",
        "2019-01-01T10:00:00+02:00",
        "1h30m",
        "90 s",
        "-5m",
        "YWI=",
        "YWI",
        "https://a.example/b?c=d",
        "a b",
        "/p",
        "a@b.example",
        "A <a@b>",
        "a_b",
        "a.example",
        "1.2.3.4",
        "01.2.3.4",
        "1.2.3.256",
        "::1",
        "fe80::g",
        "10.0.0.0/8",
        "::/129",
        "01:23:45:67:89:ab",
        "0123.4567.89ab",
        "123e4567-e89b-12d3-a456-426614174000",
        "0.1",
    ];
    let fields =
        ["datetime", "date", "duration", "byte", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid"];
    let formats = fields.iter().flat_map(|field| texts.iter().map(move |text| json!({ *field: text })));
    let others = [
        json!({}),
        json!({ "low": 5, "high": 5, "name": "a" }),
        json!({ "high": 5 }),
        json!({ "name": "forbidden" }),
        json!({ "name": "twice" }),
        json!({ "late": true }),
        json!({ "memory": "1.5Gi" }),
        json!({ "memory": "3Gi" }),
        json!({ "namespace": "x" }),
        json!({ "namespace": "nx" }),
        json!({ "numbers": [4, 5] }),
        json!({ "numbers": [4, 6] }),
        json!({ "deep": { "a": "bad" } }),
        json!({ "deep": {} }),
        json!({ "port": 0 }),
        json!({ "port": "x" }),
        json!({ "port": true }),
        json!({ "port": 0.5 }),
        json!({ "pattern": "ab 1" }),
        json!({ "pattern": "é 1" }),
        json!({ "unique": null }),
        json!({ "unique": "c" }),
        json!({ "labels": {} }),
        json!({ "labels": { "a": "a" } }),
        json!({ "labels": { "a": "b", "c": "much too long" } }),
        json!({ "labels": { "a": 1 } }),
        json!({ "items": [{ "k": "a" }, { "k": "a", "j": 2 }] }),
        json!({ "items": [{ "k": "a" }, { "k": "a", "j": 1 }] }),
        json!({ "items": [{ "j": 1 }] }),
        json!({ "items": [null] }),
        json!({ "choice": {} }),
        json!({ "choice": { "x": 1 } }),
        json!({ "choice": { "x": 1, "y": 2 } }),
        json!({ "choice": { "x": "a" } }),
        json!({ "some": "b" }),
        json!({ "some": "abc" }),
        json!({ "some": "bcdef" }),
        json!({ "all": "a" }),
        json!({ "all": "abcd" }),
        json!({ "all": 1 }),
        json!({ "ratio": 0.5 }),
        json!({ "ratio": 1 }),
        json!({ "ratio": 1e7 }),
        json!({ "high": 7, "name": "a" }),
        json!({ "high": 100, "name": "a" }),
        json!({ "object": {} }),
        json!({ "object": { "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "x", "what": 1 }, "spec": { "a": 1 } } }),
        json!({ "object": { "apiVersion": "a/b/c", "kind": "P_d" } }),
        json!({ "free": { "a": { "b": [1, { "c": null }] } } }),
        json!({ "what": { "a": 1 } }),
    ];
    formats.chain(others).collect()
}

fn judge(validator: &Validator, object: &Value, old: Option<&Value>) -> Verdict {
    let mut object = object.clone();
    let unknown = validator.schema().prune(&mut object);
    if !unknown.is_empty() {
        let error = strict_error(&[], &unknown);
        return Verdict::Unreadable(format!("400 Thing in version \"v1\" cannot be handled as a Thing: {error}"));
    }
    validator.schema().fill_defaults(&mut object);
    let found = match old {
        Some(old) => validator.update(&object, old, Vec::new()),
        None => validator.create(&object, Vec::new()),
    };
    if found.is_empty() { Verdict::Accepted(without_bookkeeping(&object)) } else { Verdict::refused(&found) }
}

fn difference(what: &Value, ours: &Verdict, theirs: &Verdict) -> Option<String> {
    let same = match (ours, theirs) {
        (Verdict::Accepted(ours), Verdict::Accepted(theirs)) => with_plain_numbers(ours) == with_plain_numbers(theirs),
        _ => ours == theirs,
    };
    (!same).then(|| format!("{what}\n  ours:   {ours:?}\n  theirs: {theirs:?}"))
}

fn thing(name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Thing", "metadata": { "name": name }, "spec": spec })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_definition_of_somebody_else_is_followed_as_kubernetes_follows_it() -> anyhow::Result<()> {
    let oracle = Oracle::start().await?;
    oracle.define(&definition(), &format!("/apis/example.com/v1/namespaces/{}/things", oracle.namespace)).await?;
    let validator = Validator::new(Arc::new(Schema::from_json(&schema())?));
    assert_eq!(validator.rule_errors(), []);
    let path = format!("/apis/example.com/v1/namespaces/{}/things", oracle.namespace);
    let mut differences = Vec::new();
    let url = format!("{path}?{TRY}");
    let asked = stream::iter(specs())
        .map(async |spec| {
            let object = thing("a", &spec);
            let theirs = Verdict::of(&oracle.ask(Method::POST, &url, &object).await?);
            anyhow::Ok((spec, object, theirs))
        })
        .buffered(CONCURRENCY);
    for (spec, object, theirs) in asked.try_collect::<Vec<_>>().await? {
        differences.extend(difference(&spec, &judge(&validator, &object, None), &theirs));
    }
    let before =
        json!({ "fixed": ["a", "b"], "items": [{ "k": "a", "v": 5 }, { "k": "b", "v": 1 }], "high": 10, "name": "n" });
    let stored = oracle.ask(Method::POST, &path, &thing("stored", &before)).await?.granted()?;
    for change in [
        json!({ "fixed": ["b", "a"] }),
        json!({ "fixed": ["a"] }),
        json!({ "late": true }),
        json!({ "items": [{ "k": "b", "v": 0 }, { "k": "a", "v": 6 }] }),
        json!({ "items": [{ "k": "c", "v": 0 }] }),
        json!({ "low": 20 }),
        json!({ "name": null }),
    ] {
        let mut object = stored.clone();
        merge(&mut object["spec"], &change);
        let theirs = oracle.ask(Method::PUT, &format!("{path}/stored?{TRY}"), &object).await?;
        differences.extend(difference(&change, &judge(&validator, &object, Some(&stored)), &Verdict::of(&theirs)));
    }
    assert!(differences.is_empty(), "{}:\n{}", differences.len(), differences.join("\n"));
    Ok(())
}
