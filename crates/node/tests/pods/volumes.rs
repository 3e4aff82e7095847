//! Volumes at their places.

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use testenv::{cases, runner::Case};

use crate::world::{World, is_root, sh, soon};

pub const CASES: &[Case] = cases![
    every_kind_of_volume_is_where_it_should_be,
    objects_are_shown_as_they_are_now,
    a_token_of_the_service_account_is_there,
    a_claim_outlives_its_pod,
    a_volume_in_memory_is_shared_by_its_pod_and_goes_with_it,
];

async fn every_kind_of_volume_is_where_it_should_be() -> anyhow::Result<()> {
    let world = World::new().await?;
    world.config_map("settings", json!({"color": "blue", "deep": "down"})).await?;
    world.secret("login", json!({"password": "sesame"})).await?;
    let script = "
        cat /config/color; echo; cat /etc/ssl/certs/mine/inner/deep; echo
        stat -L -c %a /login/password; cat /login/password; echo
        cat /all/color /all/name /all/note; echo
        cat /one-file; echo
        echo written > /work/file; cat /work/file; cat /same/sub/dir/../dir/inside 2>/dev/null || ls /same/sub
        touch /config/x 2>&1 | grep -o 'Read-only' ; touch /fixed/x 2>&1 | grep -o 'Read-only'
        cat /nested/inner/color; echo; cat /var/run/mine/color; echo
        getent hosts friend | tr -s ' '";
    let mut main = sh("main", script);
    main["volumeMounts"] = json!([
        {"name": "config", "mountPath": "/config"},
        {"name": "config-items", "mountPath": "/etc/ssl/certs/mine"},
        {"name": "login", "mountPath": "/login"},
        {"name": "all", "mountPath": "/all"},
        {"name": "config", "mountPath": "/one-file", "subPath": "color"},
        {"name": "work", "mountPath": "/work", "subPath": "sub/dir"},
        {"name": "work", "mountPath": "/same"},
        {"name": "work", "mountPath": "/fixed", "readOnly": true},
        {"name": "nested", "mountPath": "/nested"},
        {"name": "config", "mountPath": "/nested/inner"},
        {"name": "config", "mountPath": "/var/run/mine"},
    ]);
    let note = json!({"path": "note", "fieldRef": {"fieldPath": "metadata.annotations['files.kubeopencode.io/0']"}});
    let spec = json!({
        "restartPolicy": "Never",
        "securityContext": {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000, "runAsNonRoot": true},
        "hostAliases": [{"ip": "127.1.2.3", "hostnames": ["friend"]}],
        "volumes": [
            {"name": "config", "configMap": {"name": "settings"}},
            {"name": "config-items", "configMap": {"name": "settings", "items": [{"key": "deep", "path": "inner/deep"}]}},
            {"name": "login", "secret": {"secretName": "login", "defaultMode": 256}},
            {"name": "all", "projected": {"sources": [
                {"configMap": {"name": "settings", "items": [{"key": "color", "path": "color"}]}},
                {"secret": {"name": "absent", "optional": true}},
                {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}, note]}}]}},
            {"name": "work", "ephemeral": {"volumeClaimTemplate": {"spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}},
            {"name": "nested", "emptyDir": {}},
        ],
        "containers": [main],
    });
    let metadata = json!({"annotations": {"files.kubeopencode.io/0": "a note"}});
    world.create_with("mounted", metadata, spec).await?;
    world.phase("mounted", "Succeeded").await?;
    // The group may read the file of a Secret where the node can give it to the group.
    let mode = if is_root() { "440" } else { "400" };
    let expected = format!(
        "blue\ndown\n{mode}\nsesame\nbluemounteda note\nblue\nwritten\ndir\nRead-only\nRead-only\nblue\nblue\n127.1.2.3 friend\n"
    );
    assert_eq!(world.log("mounted", "main").await?, expected);
    world.end().await
}

async fn objects_are_shown_as_they_are_now() -> anyhow::Result<()> {
    let world = World::new().await?;
    world.config_map("settings", json!({"color": "blue"})).await?;
    let script = "until grep -q red /config/color && grep -q new /pod/note; do sleep 0.05; done; echo $(cat /config/color) $(cat /pod/note)";
    let mut main = sh("main", script);
    main["volumeMounts"] = json!([{"name": "config", "mountPath": "/config"}, {"name": "pod", "mountPath": "/pod"}]);
    let note = json!({"path": "note", "fieldRef": {"fieldPath": "metadata.annotations['note']"}});
    let volumes = json!([
        {"name": "config", "configMap": {"name": "settings"}},
        {"name": "pod", "downwardAPI": {"items": [note]}},
    ]);
    let spec = json!({"restartPolicy": "Never", "volumes": volumes, "containers": [main]});
    world.create_with("watcher", json!({"annotations": {"note": "old"}}), spec).await?;
    world.ready("watcher").await?;
    world.config_map("settings", json!({"color": "red"})).await?;
    let patch = json!({"metadata": {"annotations": {"note": "new"}}});
    world.pods().patch("watcher", &PatchParams::default(), &Patch::Merge(patch)).await?;
    world.phase("watcher", "Succeeded").await?;
    assert_eq!(world.log("watcher", "main").await?, "red new\n");
    world.end().await
}

async fn a_token_of_the_service_account_is_there() -> anyhow::Result<()> {
    let world = World::new().await?;
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": "robot"}}))?;
    world.api::<ServiceAccount>().create(&PostParams::default(), &account).await?;
    let mut main = sh("main", "cut -d. -f2 /var/run/secrets/kubernetes.io/serviceaccount/token | wc -c");
    main["volumeMounts"] = json!([{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]);
    let source = json!({"serviceAccountToken": {"path": "token", "audience": "case", "expirationSeconds": 600}});
    let volumes = json!([{"name": "token", "projected": {"sources": [source]}}]);
    let spec =
        json!({"restartPolicy": "Never", "serviceAccountName": "robot", "volumes": volumes, "containers": [main]});
    world.create("robot", spec).await?;
    world.phase("robot", "Succeeded").await?;
    let length: usize = world.log("robot", "main").await?.trim().parse()?;
    assert!(length > 100, "{length}");
    world.end().await
}

async fn a_claim_outlives_its_pod() -> anyhow::Result<()> {
    let world = World::new().await?;
    let spec = |script: &str| {
        let mut main = sh("main", script);
        main["volumeMounts"] = json!([{"name": "kept", "mountPath": "/kept"}]);
        let volumes = json!([{"name": "kept", "persistentVolumeClaim": {"claimName": "kept"}}]);
        json!({"restartPolicy": "Never", "volumes": volumes, "containers": [main]})
    };
    world.create("writer", spec("echo still here > /kept/file")).await?;
    world.phase("writer", "Succeeded").await?;
    world.delete("writer").await?;
    world.gone("writer").await?;
    world.create("reader", spec("cat /kept/file")).await?;
    world.phase("reader", "Succeeded").await?;
    assert_eq!(world.log("reader", "main").await?, "still here\n");
    world.end().await
}

async fn a_volume_in_memory_is_shared_by_its_pod_and_goes_with_it() -> anyhow::Result<()> {
    let world = World::new().await?;
    let mount = json!([{"name": "fast", "mountPath": "/fast"}, {"name": "slow", "mountPath": "/slow"}]);
    let mut first = sh("first", "echo quick > /fast/file; echo on disk > /slow/file");
    let mut main = sh("main", "cat /fast/file; stat -f -c %T /fast; stat -f -c '%b * %S' /fast; touch /fast/mine");
    (first["volumeMounts"], main["volumeMounts"]) = (mount.clone(), mount);
    let volumes = json!([
        {"name": "fast", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}},
        {"name": "slow", "emptyDir": {}},
    ]);
    let spec = json!({"restartPolicy": "Never", "volumes": volumes, "initContainers": [first], "containers": [main]});
    world.create("fast", spec).await?;
    world.phase("fast", "Succeeded").await?;
    let log = world.log("fast", "main").await?;
    let mounts = || std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let root = world.root.display().to_string();
    if is_root() {
        assert_eq!(log, "quick\ntmpfs\n2048 * 4096\n");
        assert_eq!(mounts().matches(&root).count(), 1);
    } else {
        // Only root mounts on the machine itself; without that it is a directory like any other.
        assert!(log.starts_with("quick\n"), "{log}");
    }
    world.delete("fast").await?;
    world.gone("fast").await?;
    soon("its files are gone", || std::fs::read_dir(world.root.join("pods")).is_ok_and(|mut all| all.next().is_none()))
        .await?;
    assert_eq!(mounts().matches(&root).count(), 0);
    world.end().await
}
