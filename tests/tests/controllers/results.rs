//! What a run left in the store, in its final status.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use api::Task;
use blackbox::{
    cases,
    controller::{Controller, Options},
    runner::Case,
    stub_kubelet::{Act, End},
};
use kube::ResourceExt as _;
use rusqlite::Connection;
use serde_json::json;

use crate::{
    events::until_event,
    world::{Alone, explain},
};

pub const CASES: &[Case] =
    cases![a_store_that_fails_for_a_moment_loses_no_result, results_that_are_lost_after_a_failure_are_an_event,];

/// A controller with a store in a directory.
struct Keeping {
    alone: Alone,
    controller: Controller,
    records: PathBuf,
    _directory: tempfile::TempDir,
}

impl Keeping {
    async fn start() -> anyhow::Result<Self> {
        let alone = Alone::turn().await?;
        let directory = tempfile::tempdir()?;
        let path = |name: &str| directory.path().join(name).display().to_string();
        let variables = vec![
            ("KUBEOPENCODE_STORE_RECORDS", path("records.db")),
            ("KUBEOPENCODE_STORE_BLOBS", path("blobs")),
            ("KUBEOPENCODE_DEPOT_URL", "http://127.0.0.1:9".to_owned()),
        ];
        let options = Options { variables, ..Options::default() };
        let controller = Controller::start(alone.world.cluster, options).await?;
        alone.world.template("t", json!({})).await?;
        let records = directory.path().join("records.db");
        Ok(Self { alone, controller, records, _directory: directory })
    }

    /// Changes the database of the store.
    fn change(&self, sql: &str) -> anyhow::Result<()> {
        Ok(Connection::open(&self.records)?.execute_batch(sql)?)
    }

    /// A Task that keeps an artefact, and whose agent works.
    async fn task(&self, name: &str) -> anyhow::Result<Task> {
        self.alone.world.hold(name);
        let artifacts = json!([{"name": "dist", "paths": ["dist"]}]);
        let task = self.alone.world.task(name, json!({"templateRef": {"name": "t"}, "artifacts": artifacts})).await?;
        self.alone.world.works(name).await?;
        Ok(task)
    }
}

async fn a_store_that_fails_for_a_moment_loses_no_result() -> anyhow::Result<()> {
    let keeping = Keeping::start().await?;
    let Keeping { alone: Alone { world, .. }, controller, .. } = &keeping;
    let outcome = async {
        let task = keeping.task("kept").await?;
        let (namespace, uid) = (&world.namespace, task.uid().context("no UID")?);
        keeping.change(&format!(
            "INSERT INTO artifacts (namespace, uid, epoch, name, digest, bytes, files, stored)
             VALUES ('{namespace}', '{uid}', 1, 'dist', printf('%064d', 0), 10, 1, 1);
             ALTER TABLE artifacts RENAME TO hidden"
        ))?;
        world.kubelet.script("kept", Act::succeed());
        controller.wait_for_log("the results of a run cannot be listed").await?;
        keeping.change("ALTER TABLE hidden RENAME TO artifacts")?;
        let status = world.succeeds("kept").await?;
        let artifacts = status.artifacts.context("no artifacts")?;
        ensure!(artifacts.len() == 1 && artifacts[0].name == "dist", "{artifacts:?}");
        Ok(())
    };
    explain(outcome.await, world, &[controller])
}

async fn results_that_are_lost_after_a_failure_are_an_event() -> anyhow::Result<()> {
    let keeping = Keeping::start().await?;
    let Keeping { alone: Alone { world, .. }, controller, .. } = &keeping;
    let outcome = async {
        keeping.task("lost").await?;
        // The stub gives all containers the same message, and each reader takes what it knows.
        let message = json!({
            "outcome": "Failed", "reason": "ModelError", "message": "429",
            "failure": {"reason": "CollectFailed", "message": "artifact \"dist\" cannot be stored"},
        });
        let end = End { code: 1, reason: "Error", message: message.to_string() };
        world.kubelet.script("lost", Act::End(end));
        world.fails("lost", "ModelError").await?;
        let (kind, note) = until_event(world, "lost", "ResultNote").await?;
        ensure!(kind == "Warning" && note == "artifact \"dist\" cannot be stored", "{kind} {note}");
        Ok(())
    };
    explain(outcome.await, world, &[controller])
}
