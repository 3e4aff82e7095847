//! How Pods end: exit codes, messages, grace, deadlines, hooks.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use testenv::{cases, runner::Case};

use crate::world::{World, exit_code, message, once, reason, runs, sh, soon};

pub const CASES: &[Case] = cases![
    exit_codes_and_last_messages_are_reported,
    a_deleted_pod_is_asked_to_end_and_then_killed_with_everything_in_it,
    a_pod_that_is_removed_by_force_ends_too,
    a_deadline_ends_a_pod_and_keeps_its_log,
    hooks_run_after_the_start_and_before_the_end,
    a_pod_that_is_over_keeps_its_log_until_it_is_removed,
];

/// A Pod of one container that is ready when its script has created `/state/up`. A signal that comes before the script
/// has set its traps would end it.
fn ready_when_up(script: &str) -> Value {
    let mut spec = once(script);
    spec["volumes"] = json!([{"name": "state", "emptyDir": {}}]);
    spec["containers"][0]["volumeMounts"] = json!([{"name": "state", "mountPath": "/state"}]);
    spec["containers"][0]["readinessProbe"] =
        json!({"exec": {"command": ["test", "-e", "/state/up"]}, "periodSeconds": 1});
    spec
}

async fn exit_codes_and_last_messages_are_reported() -> anyhow::Result<()> {
    let world = World::new().await?;
    let check = async |name: &str, spec, code: i32, why: &str, expected: &str| {
        world.create(name, spec).await?;
        let pod = world.phase(name, if code == 0 { "Succeeded" } else { "Failed" }).await?;
        assert_eq!(exit_code(&pod, "main"), Some(code), "{name}");
        assert_eq!(reason(&pod, "main"), why, "{name}");
        assert!(message(&pod, "main").contains(expected), "{name}: {:?}", message(&pod, "main"));
        anyhow::Ok(pod)
    };
    check("report", once("echo '{\"outcome\":1}' > /dev/termination-log"), 0, "Completed", "{\"outcome\":1}").await?;
    check("seven", once("exit 7"), 7, "Error", "").await?;
    let mut chatty = sh("main", "echo on the way; echo oh no >&2; exit 1");
    chatty["terminationMessagePolicy"] = json!("FallbackToLogsOnError");
    check("chatty", json!({"restartPolicy": "Never", "containers": [chatty]}), 1, "Error", "oh no").await?;
    check("killed", once("kill -9 $$; sh -c 'kill -9 $PPID'; sleep 60 & kill -9 -1; exit 9"), 9, "Error", "").await?;
    let mut missing = sh("main", "");
    missing["command"] = json!(["/no/such/program"]);
    let spec = json!({"restartPolicy": "Never", "containers": [missing]});
    check("missing", spec, 128, "StartError", "\"/no/such/program\": not found").await?;
    let mut elsewhere = sh("main", "echo x > /elsewhere/message; exit 2");
    elsewhere["terminationMessagePath"] = json!("/elsewhere/message");
    check("elsewhere", json!({"restartPolicy": "Never", "containers": [elsewhere]}), 2, "Error", "x").await?;
    let long =
        check("long", once("head -c 9000 /dev/zero | tr '\\0' y > /dev/termination-log"), 0, "Completed", "y").await?;
    assert_eq!(message(&long, "main").len(), 4096);
    world.end().await
}

async fn a_deleted_pod_is_asked_to_end_and_then_killed_with_everything_in_it() -> anyhow::Result<()> {
    let world = World::new().await?;
    let mark = format!("86{}", std::process::id());
    let mut spec = ready_when_up(
        "exec 2>/dev/null; trap 'echo bye; sleep 0.3; echo over; exit 0' TERM; echo up; touch /state/up
         while :; do sleep 0.1; done",
    );
    // Far above the limit: a Pod that only SIGKILL ends is not gone in time.
    spec["terminationGracePeriodSeconds"] = json!(3600);
    world.create("gentle", spec).await?;
    let stubborn =
        format!("trap '' TERM; (trap '' TERM; setsid sleep {mark}) & touch /state/up; while :; do sleep 0.1; done");
    let mut spec = ready_when_up(&stubborn);
    spec["terminationGracePeriodSeconds"] = json!(1);
    world.create("stubborn", spec).await?;
    for name in ["gentle", "stubborn"] {
        world.ready(name).await?;
    }
    // The script of the shell has the mark, too.
    soon("the child runs", || runs(&format!("sleep\0{mark}"))).await?;
    // Output at the end can still be followed.
    let follow = kubeopencode_node::LogOptions { follow: true, ..Default::default() };
    let (log, removed) = tokio::join!(world.log_with("gentle", "main", follow), async {
        world.delete("gentle").await?;
        world.gone("gentle").await
    });
    assert_eq!(log?, "up\nbye\nover\n");
    removed?;

    let begun = Instant::now();
    world.delete("stubborn").await?;
    world.gone("stubborn").await?;
    assert!(begun.elapsed() >= Duration::from_millis(900), "it was killed after {:?}", begun.elapsed());
    assert!(!runs(&mark), "a child that left the process group is still there");
    let uid_dirs = || std::fs::read_dir(world.root.join("pods")).map_or(0, Iterator::count);
    soon("the files of the Pods are removed", || uid_dirs() == 0).await?;
    world.end().await
}

async fn a_pod_that_is_removed_by_force_ends_too() -> anyhow::Result<()> {
    let world = World::new().await?;
    let mark = format!("87{}", std::process::id());
    world.create("forced", once(&format!("trap '' TERM; while :; do sleep {mark}; done"))).await?;
    world.ready("forced").await?;
    soon("it runs", || runs(&mark)).await?;
    world.pods().delete("forced", &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }).await?;
    world.gone("forced").await?;
    soon("its processes end", || !runs(&mark)).await?;
    world.end().await
}

async fn a_deadline_ends_a_pod_and_keeps_its_log() -> anyhow::Result<()> {
    let world = World::new().await?;
    let script =
        "exec 2>/dev/null; trap 'echo told; exit 3' TERM; echo up; touch /state/up; while :; do sleep 0.1; done";
    world.create("stopped", ready_when_up(script)).await?;
    world.ready("stopped").await?;
    let patch = json!({"spec": {"activeDeadlineSeconds": 1}});
    world.pods().patch("stopped", &PatchParams::default(), &Patch::Merge(patch)).await?;
    let pod: Pod = world.phase("stopped", "Failed").await?;
    let status = pod.status.clone().unwrap_or_default();
    assert_eq!(status.reason.as_deref(), Some("DeadlineExceeded"));
    assert_eq!(exit_code(&pod, "main"), Some(3));
    assert_eq!(world.log("stopped", "main").await?, "up\ntold\n");
    world.end().await
}

async fn hooks_run_after_the_start_and_before_the_end() -> anyhow::Result<()> {
    let world = World::new().await?;
    let mut main =
        sh("main", "trap 'echo term >> /data/order; exit 0' TERM; touch /data/up; while :; do sleep 0.1; done");
    main["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    main["readinessProbe"] = json!({"exec": {"command": ["test", "-e", "/data/up"]}, "periodSeconds": 1});
    let append = |text: &str| json!({"exec": {"command": ["sh", "-c", format!("echo {text} >> /data/order")]}});
    main["lifecycle"] = json!({"postStart": append("start"), "preStop": append("stop")});
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "hooks"}}]);
    world.create("hooked", json!({"volumes": volumes, "containers": [main]})).await?;
    world.ready("hooked").await?;
    world.delete("hooked").await?;
    world.gone("hooked").await?;
    let order = std::fs::read_to_string(world.root.join("claims").join(&world.namespace).join("hooks/order"))?;
    assert_eq!(order, "start\nstop\nterm\n");

    let mut broken = sh("main", "exec sleep 600");
    broken["lifecycle"] = json!({"postStart": {"exec": {"command": ["false"]}}});
    let spec = json!({"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [broken]});
    world.create("broken", spec).await?;
    let pod = world.phase("broken", "Failed").await?;
    assert_eq!(exit_code(&pod, "main"), Some(137));
    world.end().await
}

async fn a_pod_that_is_over_keeps_its_log_until_it_is_removed() -> anyhow::Result<()> {
    let world = World::new().await?;
    world.create("over", once("echo last words")).await?;
    let pod = world.phase("over", "Succeeded").await?;
    let dir = world.root.join("pods").join(pod.metadata.uid.clone().unwrap_or_default());
    // Later changes of the Pod keep its log.
    for number in 0..3 {
        let patch = json!({"metadata": {"annotations": {"seen": number.to_string()}}});
        world.pods().patch("over", &PatchParams::default(), &Patch::Merge(patch)).await?;
        assert_eq!(world.log("over", "main").await?, "last words\n");
    }
    world.delete("over").await?;
    world.gone("over").await?;
    soon("its files are removed", || !dir.exists()).await?;
    assert!(world.log("over", "main").await.is_err());
    world.end().await
}
