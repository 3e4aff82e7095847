//! Events about Pods.

use serde_json::json;
use testenv::{cases, runner::Case};

use crate::world::{World, once, sh};

pub const CASES: &[Case] = cases![the_life_of_a_pod_is_recorded_in_events, failures_are_recorded_in_events];

async fn the_life_of_a_pod_is_recorded_in_events() -> anyhow::Result<()> {
    let world = World::new().await?;
    let script = "trap exit TERM; test -e /data/again || { touch /data/again; exit 3; }; while :; do sleep 0.1; done";
    let mut main = sh("main", script);
    main["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    let spec = json!({
        "initContainers": [sh("prepare", "true")], "containers": [main], "volumes": [{"name": "data", "emptyDir": {}}],
        "terminationGracePeriodSeconds": 5,
    });
    let pod = world.create("told", spec).await?;
    let pulled = "Container image \"host/tools:1\" is mapped to programs on this machine";
    let begun = [
        format!("Normal Pulled spec.initContainers{{prepare}} {pulled}"),
        "Normal Started spec.initContainers{prepare} Started container prepare".to_owned(),
        format!("Normal Pulled spec.containers{{main}} {pulled} x2"),
        "Normal Started spec.containers{main} Started container main x2".to_owned(),
    ];
    world.wait_for_events(&pod, &begun).await?;
    world.delete("told").await?;
    world.gone("told").await?;
    let ended = ["Normal Killing spec.containers{main} Stopping container main".to_owned()];
    world.wait_for_events(&pod, &[&begun[..], &ended].concat()).await?;
    world.end().await
}

async fn failures_are_recorded_in_events() -> anyhow::Result<()> {
    let world = World::new().await?;
    let mut sick = sh("main", "trap exit TERM; while :; do sleep 0.1; done");
    sick["startupProbe"] = json!({"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1});
    let sick = world.create("sick", json!({"restartPolicy": "Never", "containers": [sick]})).await?;
    let mut broken = once("");
    broken["containers"][0]["command"] = json!(["/no/such/program"]);
    let broken = world.create("broken", broken).await?;
    let crashes = world.create("crashes", json!({"containers": [sh("main", "exit 1")]})).await?;
    let late = json!({"activeDeadlineSeconds": 1, "restartPolicy": "Never", "containers": [sh("main", "sleep 60")]});
    let late = world.create("late", late).await?;

    world.wait_for_event(&sick, "Warning Unhealthy spec.containers{main} Startup probe failed: ").await?;
    world.wait_for_event(&sick, "Normal Killing spec.containers{main} Container main failed its startup probe").await?;
    world.wait_for_event(&broken, "Warning Failed spec.containers{main} exec: \"/no/such/program\": not found").await?;
    world
        .wait_for_event(&crashes, "Warning BackOff spec.containers{main} back-off 10s restarting failed container")
        .await?;
    world.wait_for_event(&late, "Warning DeadlineExceeded - Pod was active on the node longer").await?;
    world.end().await
}
