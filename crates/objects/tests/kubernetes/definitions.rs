//! Our own definitions: types, bounds, defaults, unknown fields, rules.

use std::{collections::HashSet, sync::Arc};

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use kubeopencode_objects::schema::{Scale, Schema, Validator, strict_error};
use serde_json::{Value, json};
use testenv::json::{merge, with_plain_numbers};

use crate::cases::{Chance, Definition, bounds, definitions, oddities, places, rules};
use crate::oracle::{Oracle, Verdict, without_bookkeeping};

/// Requests under way at once.
pub const CONCURRENCY: usize = 16;

const TRY: &str = "dryRun=All&fieldValidation=Strict";

fn validator(definition: &Definition) -> anyhow::Result<Validator> {
    let scale = Scale::from_json(&definition.crd["spec"]["versions"][0]["subresources"]["scale"]);
    let validator = Validator::new(Arc::new(Schema::from_json(&definition.schema)?)).with_scale(scale);
    anyhow::ensure!(validator.rule_errors().is_empty(), "{}: {:?}", definition.kind, validator.rule_errors());
    Ok(validator)
}

/// The answer of a server made of this crate to the creation of `object`.
fn create(kind: &str, validator: &Validator, object: &Value) -> Verdict {
    let mut object = object.clone();
    if let Some(refusal) = unknown_fields(kind, validator, &mut object) {
        return refusal;
    }
    drop(object.as_object_mut().map(|fields| fields.remove("status")));
    validator.schema().fill_defaults(&mut object);
    let found = validator.create(&object, Vec::new());
    if found.is_empty() { Verdict::Accepted(without_bookkeeping(&object)) } else { Verdict::refused(&found) }
}

fn unknown_fields(kind: &str, validator: &Validator, object: &mut Value) -> Option<Verdict> {
    let unknown = validator.schema().prune(object);
    let error = strict_error(&[], &unknown);
    let refusal = || format!("400 {kind} in version \"v1alpha1\" cannot be handled as a {kind}: {error}");
    (!unknown.is_empty()).then(|| Verdict::Unreadable(refusal()))
}

/// Its answer to a change of `stored` to `object`.
fn update(kind: &str, validator: &Validator, object: &Value, stored: &Value, status: bool) -> Verdict {
    let mut object = object.clone();
    if let Some(refusal) = unknown_fields(kind, validator, &mut object) {
        return refusal;
    }
    validator.schema().fill_defaults(&mut object);
    let (mut whole, part) = if status { (stored.clone(), &object) } else { (object.clone(), stored) };
    match part.get("status") {
        Some(status) => whole["status"] = status.clone(),
        None => drop(whole.as_object_mut().map(|fields| fields.remove("status"))),
    }
    let found = if status {
        validator.update_status(&whole, stored, Vec::new())
    } else {
        validator.update(&whole, stored, Vec::new())
    };
    if found.is_empty() { Verdict::Accepted(without_bookkeeping(&whole)) } else { Verdict::refused(&found) }
}

/// Whether the answers are the same. A number may be written `1` or `1.0`.
fn same(ours: &Verdict, theirs: &Verdict) -> bool {
    match (ours, theirs) {
        (Verdict::Accepted(ours), Verdict::Accepted(theirs)) => with_plain_numbers(ours) == with_plain_numbers(theirs),
        _ => ours == theirs,
    }
}

/// Asks both about the same objects and lists where they differ.
async fn compare(
    oracle: &Oracle,
    definition: &Definition,
    objects: Vec<(String, Value)>,
) -> anyhow::Result<Vec<Option<String>>> {
    let validator = validator(definition)?;
    let kind = &definition.kind;
    let path = format!("{}?{TRY}", definition.path(&oracle.namespace));
    stream::iter(objects)
        .map(|(what, object)| {
            let (validator, path) = (&validator, &path);
            async move {
                let theirs = Verdict::of(&oracle.ask(Method::POST, path, &object).await?);
                let ours = create(kind, validator, &object);
                let line = || format!("{kind} {what}\n  ours:   {ours:?}\n  theirs: {theirs:?}");
                Ok((!same(&ours, &theirs)).then(line))
            }
        })
        .buffered(CONCURRENCY)
        .try_collect()
        .await
}

fn report(what: &str, answers: &[Option<String>]) {
    assert!(answers.len() > 100, "only {} {what}: are the cases still there?", answers.len());
    let differences = answers.iter().flatten().collect::<Vec<_>>();
    let shown = differences.iter().take(30).map(|line| line.chars().take(1500).collect::<String>());
    let shown = shown.collect::<Vec<_>>().join("\n");
    assert!(
        differences.is_empty(),
        "{} of {} {what} are judged differently:\n{shown}",
        differences.len(),
        answers.len()
    );
}

/// `object` with `value` at a JSON pointer, if that still leads somewhere.
fn put(object: &mut Value, pointer: &str, value: Value) {
    if let Some(place) = object.pointer_mut(pointer) {
        *place = value;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_bound_enum_default_and_type_is_judged_as_kubernetes_judges_it() -> anyhow::Result<()> {
    let oracle = Oracle::start().await?;
    let mut answers = Vec::new();
    // Types that several kinds share are tried once.
    let mut seen = HashSet::new();
    for definition in definitions()? {
        let mut objects = Vec::new();
        for manifest in definition.manifests()? {
            for place in places(&definition.schema, &manifest, "spec") {
                let current = manifest.pointer(&place.pointer).cloned().unwrap_or_default();
                for value in bounds(place.schema, &current) {
                    if !seen.insert(format!("{}{value}", place.schema)) {
                        continue;
                    }
                    let what = format!("{} = {:.80}", place.pointer, value.to_string());
                    let mut object = manifest.clone();
                    put(&mut object, &place.pointer, value);
                    objects.push((what, object));
                }
            }
        }
        answers.extend(compare(&oracle, &definition, objects).await?);
    }
    report("derived objects", &answers);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_changed_by_chance_are_judged_as_kubernetes_judges_them() -> anyhow::Result<()> {
    let oracle = Oracle::start().await?;
    let mut answers = Vec::new();
    let mut chance = Chance(20_261_116);
    for definition in definitions()? {
        let manifests = definition.manifests()?;
        let mut objects = Vec::new();
        for round in 0..60 {
            let mut object = manifests[chance.below(manifests.len())].clone();
            let mut changes = Vec::new();
            for _ in 0..=chance.below(3) {
                let places = places(&definition.schema, &object, "spec");
                let Some(place) = places.get(chance.below(places.len())) else { continue };
                let value = oddities().swap_remove(chance.below(oddities().len()));
                changes.push(format!("{} = {:.80}", place.pointer, value.to_string()));
                put(&mut object, &place.pointer, value);
            }
            objects.push((format!("round {round}: {}", changes.join(", ")), object));
        }
        answers.extend(compare(&oracle, &definition, objects).await?);
    }
    report("objects changed by chance", &answers);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_are_judged_as_kubernetes_judges_them() -> anyhow::Result<()> {
    let oracle = Oracle::start().await?;
    let mut answers = Vec::new();
    let rules = rules()?;
    let has = |schema: &Value, message: &str| {
        let rules = schema["x-kubernetes-validations"].as_array();
        rules.into_iter().flatten().any(|rule| rule["message"] == message)
    };
    for definition in definitions()? {
        let mut objects = Vec::new();
        for manifest in definition.manifests()? {
            let places = places(&definition.schema, &manifest, "spec");
            for case in rules.iter().filter(|case| case.before.is_none()) {
                for (name, value) in case.values() {
                    for place in places.iter().filter(|place| has(place.schema, &case.rule)) {
                        let mut object = manifest.clone();
                        put(&mut object, &place.pointer, value.clone());
                        objects.push((format!("{}: {name}", place.pointer), object));
                    }
                    if has(&definition.schema, &case.rule) {
                        let mut object = manifest.clone();
                        merge(&mut object, value);
                        objects.push((name.clone(), object));
                    }
                }
            }
        }
        answers.extend(compare(&oracle, &definition, objects).await?);
    }
    report("cases of rules", &answers);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_stored_objects_are_judged_as_kubernetes_judges_them() -> anyhow::Result<()> {
    let oracle = Oracle::start().await?;
    let mut answers = Vec::new();
    let mut dice = Chance(7);
    for definition in definitions()?.iter().filter(|definition| definition.is_namespaced()) {
        let kind = &definition.kind;
        let validator = validator(definition)?;
        let manifest = definition.manifests()?.into_iter().next().with_context(|| kind.clone())?;
        let objects = definition.path(&oracle.namespace);
        let mut stored =
            oracle.ask(Method::POST, &objects, &manifest).await?.granted().with_context(|| kind.clone())?;
        let path = format!("{objects}/{}", manifest["metadata"]["name"].as_str().unwrap_or_default());
        if let Some(status) = manifest.get("status") {
            let change = json!({ "status": status });
            let changed = oracle.ask(Method::PATCH, &format!("{path}/status"), &change).await?;
            stored = changed.granted().with_context(|| kind.clone())?;
        }
        for (section, suffix) in [("spec", ""), ("status", "/status")] {
            let places = places(&definition.schema, &stored, section);
            let rounds = if places.is_empty() { 0 } else { 25 };
            let changes: Vec<(String, Value)> = (0..rounds)
                .map(|_| {
                    let place = &places[dice.below(places.len())];
                    let value = oddities().swap_remove(dice.below(oddities().len()));
                    let what = format!("{} = {:.80}", place.pointer, value.to_string());
                    let mut object = stored.clone();
                    put(&mut object, &place.pointer, value);
                    (what, object)
                })
                .collect();
            let url = format!("{path}{suffix}?{TRY}");
            let judged = stream::iter(changes)
                .map(|(what, object)| {
                    let (oracle, validator, stored, url) = (&oracle, &validator, &stored, &url);
                    async move {
                        let theirs = Verdict::of(&oracle.ask(Method::PUT, url, &object).await?);
                        let ours = update(kind, validator, &object, stored, section == "status");
                        let line = || format!("{kind} {what}\n  ours:   {ours:?}\n  theirs: {theirs:?}");
                        anyhow::Ok((!same(&ours, &theirs)).then(line))
                    }
                })
                .buffered(CONCURRENCY);
            answers.extend(judged.try_collect::<Vec<_>>().await?);
        }
    }
    report("changes", &answers);
    Ok(())
}
