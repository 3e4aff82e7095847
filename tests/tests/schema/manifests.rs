//! Whole manifests: those written for upstream and in the seed documents apply, and no field is lost.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::Context as _;
use blackbox::{
    ApiServer, Kind, Request,
    cases::{self, as_sent, object_name},
    install,
    probe::Places,
    typed,
};
use serde_json::{Value, json};

use crate::suite::{Server, Suite, kubectl, on_every_server};

on_every_server!(
    objects_written_out_are_accepted_or_refused_with_a_sentence,
    manifests_of_the_seed_documents_apply,
    manifests_for_upstream_are_accepted_unchanged,
    a_round_trip_through_the_server_loses_nothing,
);

async fn objects_written_out_are_accepted_or_refused_with_a_sentence(server: Server) -> anyhow::Result<()> {
    let suite = Suite::start(server).await?;
    let _alone = suite.alone_with_the_config().await;
    let mut lines = Vec::new();
    for case in cases::whole()? {
        let kind = Kind::named(case.object["kind"].as_str().unwrap_or_default())?;
        let response = suite.server.send(Request::try_create(kind, &suite.namespace, &case.object)).await?;
        assert_eq!(response.is_success(), case.accepted, "{}: {} {}", case.name, response.code, response.message());
        if case.accepted {
            typed::reread(&response.body).context(case.name)?;
        } else {
            assert!((400..500).contains(&response.code), "{}: {}", case.name, response.code);
            lines.push(format!("{}\n    {} {}", case.name, response.code, response.message()));
        }
    }
    insta::assert_snapshot!("whole", lines.join("\n"));
    Ok(())
}

async fn manifests_of_the_seed_documents_apply(server: Server) -> anyhow::Result<()> {
    let suite = Suite::start(server).await?;
    let _alone = suite.alone_with_the_config().await;
    for namespace in ["kubeopencode-system", "engineering", "platform-agents"] {
        install::namespace(&suite.server, namespace).await?;
    }
    for file in cases::manifests_in(&cases::directory("seeds"))? {
        kubectl(&suite, ["apply", "--validate=strict", "--filename", &file.to_string_lossy()])?;
        for object in cases::read::<Value>(&file)? {
            let kind = Kind::named(object["kind"].as_str().unwrap_or_default())?;
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or(&suite.namespace);
            let path = format!("{}/{}", kind.path(namespace), object_name(&object));
            let stored = suite.server.send(Request::get(&path)).await?.granted()?;
            nothing_is_lost(kind, &object, &stored).with_context(|| file.display().to_string())?;
            if object["status"].is_object() {
                let status = json!({ "status": object["status"] });
                let stored = suite.server.send(Request::merge(&format!("{path}/status"), &status)).await?.granted()?;
                assert_eq!(stored["status"], object["status"], "{path}");
            }
            suite.server.send(Request::delete(path)).await?.granted()?;
        }
    }
    Ok(())
}

async fn manifests_for_upstream_are_accepted_unchanged(server: Server) -> anyhow::Result<()> {
    let suite = Suite::start(server).await?;
    for file in cases::manifests_in(&cases::directory("upstream"))? {
        goes_through(&suite, &file, "upstream-").await?;
    }
    Ok(())
}

#[test]
fn manifests_for_upstream_set_every_field_of_it() -> anyhow::Result<()> {
    let fields = fs::read_to_string(cases::directory("upstream/fields.txt"))?;
    let kinds = fields.lines().filter_map(|line| line.split_once(' ')).map(|(kind, _)| kind).collect::<BTreeSet<_>>();
    for name in kinds {
        let kind = Kind::named(name)?;
        let file = cases::directory("upstream").join(format!("{}.yaml", kind.plural));
        let places = Places::among(kind, cases::read(&file)?);
        let nodes = kind.nodes();
        for path in fields.lines().filter_map(|line| line.strip_prefix(&format!("{name} "))) {
            assert!(nodes.contains_key(path), "{name} has no {path}");
            assert!(!places.find(path).is_empty(), "no manifest of {} sets {path}", file.display());
        }
    }
    Ok(())
}

async fn a_round_trip_through_the_server_loses_nothing(server: Server) -> anyhow::Result<()> {
    let suite = Suite::start(server).await?;
    for kind in Kind::all() {
        for object in cases::full(kind)? {
            round_trip(&suite, kind, &object)
                .await
                .with_context(|| format!("{} {}", kind.name, object_name(&object)))?;
        }
    }
    Ok(())
}

/// The objects of a file are stored as they are written, under a name of their own.
async fn goes_through(suite: &Suite, file: &Path, prefix: &str) -> anyhow::Result<()> {
    for mut object in cases::read::<Value>(file)? {
        let kind = Kind::named(object["kind"].as_str().unwrap_or_default())?;
        if kind.namespaced {
            object["metadata"]["name"] = format!("{prefix}{}", object_name(&object)).into();
        }
        round_trip(suite, kind, &object).await.with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// Stores an object and its status, reads them back, compares, and does the same with the output of our types.
async fn round_trip(suite: &Suite, kind: &Kind, object: &Value) -> anyhow::Result<()> {
    let _alone = if kind.namespaced { None } else { Some(suite.alone_with_the_config().await) };
    let path = format!("{}/{}", kind.path(&suite.namespace), object_name(object));
    for object in [object.clone(), typed::reread(object)?] {
        let mut without_status = object.clone();
        without_status.as_object_mut().context("an object")?.remove("status");
        suite.server.send(Request::create(kind, &suite.namespace, &without_status)).await?.granted()?;
        if object["status"].is_object() {
            let status = json!({ "status": object["status"] });
            suite.server.send(Request::merge(&format!("{path}/status"), &status)).await?.granted()?;
        }
        let stored = suite.server.send(Request::get(&path)).await?.granted()?;
        suite.server.send(Request::delete(&path)).await?.granted()?;
        nothing_is_lost(kind, &object, &stored)?;
        assert_eq!(stored["status"], kind.with_defaults(&object)["status"]);
    }
    Ok(())
}

/// The stored object is the sent object and the defaults of the schema; our types read both as the same.
fn nothing_is_lost(kind: &Kind, sent: &Value, stored: &Value) -> anyhow::Result<()> {
    assert_eq!(as_sent(stored), as_sent(&kind.with_defaults(sent)));
    assert_eq!(typed::reread(stored)?["spec"], typed::reread(sent)?["spec"]);
    Ok(())
}
