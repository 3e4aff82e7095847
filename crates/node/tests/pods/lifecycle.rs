//! The lifecycle of Pods: order, restarts, obstacles to starting.

use futures::StreamExt as _;
use kube::api::{WatchEvent, WatchParams};
use serde_json::json;
use testenv::{cases, runner::Case};

use crate::world::{
    IMAGE, LIMIT, World, condition, container, exit_code, is_root, last_exit_code, message, once, reason, sh,
};

pub const CASES: &[Case] = cases![
    a_pod_runs_and_completes_in_few_writes,
    init_containers_run_in_order_before_the_others,
    a_sidecar_starts_before_and_ends_after_the_main_container,
    a_container_restarts_by_the_policy_of_its_pod,
    an_unknown_image_says_what_to_do,
    a_missing_secret_is_named_and_waited_for,
    the_environment_is_put_together,
    the_identity_of_a_restricted_pod_is_in_force,
];

async fn a_pod_runs_and_completes_in_few_writes() -> anyhow::Result<()> {
    let world = World::new().await?;
    world.create("quick", once("echo done")).await?;
    let pod = world.phase("quick", "Succeeded").await?;
    let status = pod.status.clone().unwrap_or_default();
    assert_eq!((reason(&pod, "main").as_str(), exit_code(&pod, "main")), ("Completed", Some(0)));
    assert!(status.start_time.is_some() && status.pod_ip.is_some_and(|ip| ip.starts_with("127.81.")));
    assert!(condition(&pod, "PodScheduled") && condition(&pod, "Initialized") && !condition(&pod, "Ready"));
    assert_eq!(world.log("quick", "main").await?, "done\n");

    let created = world.create("counted", once("true")).await?;
    let version = created.metadata.resource_version.unwrap_or_default();
    let ours = WatchParams::default().fields("metadata.name=counted");
    let mut changes = Box::pin(world.pods().watch(&ours, &version).await?);
    let mut writes = 0;
    while let Some(change) = tokio::time::timeout(LIMIT, changes.next()).await? {
        let WatchEvent::Modified(pod) = change? else { continue };
        writes += 1;
        if pod.status.and_then(|status| status.phase).as_deref() == Some("Succeeded") {
            break;
        }
    }
    assert!((1..=3).contains(&writes), "taken, running, ended: that is not {writes} writes");
    world.end().await
}

async fn init_containers_run_in_order_before_the_others() -> anyhow::Result<()> {
    let world = World::new().await?;
    let mount = json!([{"name": "shared", "mountPath": "/shared"}]);
    let with = |mut container: serde_json::Value| {
        container["volumeMounts"] = mount.clone();
        container
    };
    let spec = json!({
        "restartPolicy": "Never",
        "volumes": [{"name": "shared", "emptyDir": {}}],
        "initContainers": [
            with(sh("first", "sleep 0.2; echo first >> /shared/order")),
            with(sh("second", "echo second >> /shared/order")),
        ],
        "containers": [with(sh("main", "cat /shared/order; echo main"))],
    });
    world.create("ordered", spec).await?;
    let pod = world.phase("ordered", "Succeeded").await?;
    assert_eq!(world.log("ordered", "main").await?, "first\nsecond\nmain\n");
    assert!(container(&pod, "first").ready && exit_code(&pod, "second") == Some(0));

    let spec = json!({"restartPolicy": "Never", "initContainers": [sh("broken", "exit 3")], "containers": [sh("main", "true")]});
    world.create("broken", spec).await?;
    let pod = world.phase("broken", "Failed").await?;
    assert_eq!(exit_code(&pod, "broken"), Some(3));
    assert_eq!(reason(&pod, "main"), "PodInitializing");
    world.end().await
}

async fn a_sidecar_starts_before_and_ends_after_the_main_container() -> anyhow::Result<()> {
    let world = World::new().await?;
    let mount = json!([{"name": "shared", "mountPath": "/shared"}]);
    let mut sidecar = sh(
        "sidecar",
        "trap 'echo stopped >> /shared/order; exit 0' TERM; echo up >> /shared/order; touch /shared/up; while :; do sleep 0.05; done",
    );
    sidecar["restartPolicy"] = json!("Always");
    sidecar["startupProbe"] = json!({"exec": {"command": ["test", "-e", "/shared/up"]}, "periodSeconds": 1});
    sidecar["volumeMounts"] = mount.clone();
    let mut main = sh("main", "echo main >> /shared/order");
    main["volumeMounts"] = mount;
    let claim = json!([{"name": "shared", "persistentVolumeClaim": {"claimName": "kept"}}]);
    let spec = json!({"restartPolicy": "Never", "volumes": claim, "initContainers": [sidecar], "containers": [main]});
    world.create("together", spec).await?;
    let pod = world.phase("together", "Succeeded").await?;
    assert_eq!(exit_code(&pod, "sidecar"), Some(0), "it was stopped gently");
    let order = std::fs::read_to_string(world.root.join("claims").join(&world.namespace).join("kept/order"))?;
    assert_eq!(order, "up\nmain\nstopped\n");
    world.end().await
}

async fn a_container_restarts_by_the_policy_of_its_pod() -> anyhow::Result<()> {
    let world = World::new().await?;
    let script = "if [ -e /keep/ran ]; then echo again; exit 0; fi; touch /keep/ran; echo first; exit 5";
    let mut main = sh("main", script);
    main["volumeMounts"] = json!([{"name": "keep", "mountPath": "/keep"}]);
    let volumes = json!([{"name": "keep", "emptyDir": {}}]);
    world.create("retry", json!({"restartPolicy": "OnFailure", "volumes": volumes, "containers": [main]})).await?;
    let pod = world.phase("retry", "Succeeded").await?;
    assert_eq!((container(&pod, "main").restart_count, last_exit_code(&pod, "main")), (1, Some(5)));
    let previous = kubeopencode_node::LogOptions { previous: true, ..Default::default() };
    assert_eq!(world.log_with("retry", "main", previous).await?, "first\n");
    assert_eq!(world.log("retry", "main").await?, "again\n");

    world.create("loop", json!({"restartPolicy": "Always", "containers": [sh("main", "exit 4")]})).await?;
    let pod = world.until("loop", "in back-off", |pod| reason(pod, "main") == "CrashLoopBackOff").await?;
    assert!(
        message(&pod, "main").starts_with("back-off 10s restarting failed container=main"),
        "{}",
        message(&pod, "main")
    );
    assert_eq!((container(&pod, "main").restart_count, last_exit_code(&pod, "main")), (1, Some(4)));
    assert_eq!(pod.status.unwrap_or_default().phase.as_deref(), Some("Running"));
    world.end().await
}

async fn an_unknown_image_says_what_to_do() -> anyhow::Result<()> {
    let world = World::new().await?;
    world.create("foreign", json!({"containers": [{"name": "main", "image": "postgres:17"}]})).await?;
    let pod = world.until("foreign", "stuck", |pod| reason(pod, "main") == "ErrImagePull").await?;
    assert!(message(&pod, "main").contains("--host-images"), "{}", message(&pod, "main"));
    world.delete("foreign").await?;
    world.gone("foreign").await?;
    world.end().await
}

async fn a_missing_secret_is_named_and_waited_for() -> anyhow::Result<()> {
    let world = World::new().await?;
    let env = json!([{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}}]);
    let mut main = sh("main", "echo \"$PASSWORD\"");
    main["env"] = env;
    world.create("waits", json!({"restartPolicy": "Never", "containers": [main]})).await?;
    let pod = world.until("waits", "stuck", |pod| reason(pod, "main") == "CreateContainerConfigError").await?;
    assert_eq!(message(&pod, "main"), "secret \"login\" not found");
    let mut mounts = sh("main", "cat /login/password");
    mounts["volumeMounts"] = json!([{"name": "login", "mountPath": "/login"}]);
    let volumes = json!([{"name": "login", "secret": {"secretName": "login"}}]);
    let spec = json!({"restartPolicy": "Never", "volumes": volumes, "containers": [mounts]});
    let created = world.create("mounts", spec).await?;
    let problem = "MountVolume.SetUp failed for volume \"login\" : secret \"login\" not found";
    world.wait_for_event(&created, &format!("Warning FailedMount - {problem}")).await?;
    world.secret("login", json!({"password": "open sesame"})).await?;
    for name in ["waits", "mounts"] {
        world.phase(name, "Succeeded").await?;
        assert_eq!(world.log(name, "main").await?.trim(), "open sesame");
    }
    world.end().await
}

async fn the_environment_is_put_together() -> anyhow::Result<()> {
    let world = World::new().await?;
    world.config_map("settings", json!({"COLOR": "blue"})).await?;
    let main = json!({
        "name": "main", "image": IMAGE, "workingDir": "/usr",
        "command": ["/bin/sh", "-c", "echo \"$0 $(pwd) $COLOR $GREETING $POD $IP $MEMORY ${NOTHING-unset}\"; hostname"],
        "args": ["$(GREETING)|$(MISSING)|$$(POD)"],
        "envFrom": [{"configMapRef": {"name": "settings"}}],
        "env": [
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "GREETING", "value": "hello-$(POD)"},
            {"name": "NOTHING", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k", "optional": true}}},
            {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
        ],
        "resources": {"limits": {"memory": "512Mi"}},
    });
    world.create("speaker", json!({"restartPolicy": "Never", "containers": [main]})).await?;
    let pod = world.phase("speaker", "Succeeded").await?;
    let ip = pod.status.and_then(|status| status.pod_ip).unwrap_or_default();
    let expected = format!("hello-speaker|$(MISSING)|$(POD) /usr blue hello-speaker speaker {ip} 512 unset\nspeaker\n");
    assert_eq!(world.log("speaker", "main").await?, expected);
    world.end().await
}

async fn the_identity_of_a_restricted_pod_is_in_force() -> anyhow::Result<()> {
    let world = World::new().await?;
    let mut main = sh(
        "main",
        "id -u; id -g; id -G; grep CapEff /proc/self/status; touch /data/mine && stat -c %g /data/mine; grep NoNewPrivs /proc/self/status",
    );
    main["securityContext"] = json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                                     "capabilities": {"drop": ["ALL"]}});
    main["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    let context = json!({"runAsUser": 1234, "runAsGroup": 1235, "fsGroup": 1236, "runAsNonRoot": true,
                         "seccompProfile": {"type": "RuntimeDefault"}});
    let spec = json!({"restartPolicy": "Never", "securityContext": context,
                      "volumes": [{"name": "data", "emptyDir": {}}], "containers": [main]});
    world.create("restricted", spec).await?;
    world.phase("restricted", "Succeeded").await?;
    let log = world.log("restricted", "main").await?;
    // Without root there is one group, even if the Pod asks for others.
    let (groups, owner) = if is_root() { ("1235 1236", "1236") } else { ("1235", "1235") };
    let expected = format!("1234\n1235\n{groups}\nCapEff:\t0000000000000000\n{owner}\nNoNewPrivs:\t1\n");
    assert_eq!(log, expected);

    let mut root = sh("main", "true");
    root["securityContext"] = json!({"runAsUser": 0, "runAsNonRoot": true});
    world.create("root", json!({"containers": [root]})).await?;
    let pod = world.until("root", "refused", |pod| reason(pod, "main") == "CreateContainerConfigError").await?;
    assert!(message(&pod, "main").contains("runAsNonRoot"), "{}", message(&pod, "main"));
    world.end().await
}
