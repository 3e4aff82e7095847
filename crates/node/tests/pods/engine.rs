//! Containers of a real Podman, from a real image: a few programs of this machine with their libraries.
//!
//! Podman keeps everything in a directory of the cases, with settings under which it runs wherever they do: storage that
//! needs nothing of the kernel, limits that root without every capability may set, and the runtime that knows both
//! versions of control groups.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};
use kube::api::PostParams;
use kubeopencode_node::{Engine, NodeOptions};
use serde_json::{Value, json};
use testenv::image::Image;
use testenv::{cases, runner::Case};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::OnceCell,
};

use crate::{
    restart::Host,
    world::{World, exit_code, message, reason},
};

pub const CASES: &[Case] = cases![
    a_container_is_one_of_the_engine_with_everything_that_its_pod_says,
    a_container_that_cannot_start_is_reported,
    an_engine_enforces_limits_too,
    a_container_of_an_engine_is_asked_to_end_and_commands_run_in_it,
    what_a_killed_node_left_is_removed_by_the_next,
];

const IMAGE: &str = "testenv.local/tools:1";
const PROGRAMS: [&str; 8] = ["sh", "cat", "id", "ls", "sleep", "stty", "tail", "touch"];

/// Podman with a store of its own, as a program.
struct Podman {
    program: PathBuf,
    dir: tempfile::TempDir,
}

/// One store for all cases: putting the image into it takes the longest.
async fn podman() -> anyhow::Result<&'static Podman> {
    static SHARED: OnceCell<Podman> = OnceCell::const_new();
    let make = || async { tokio::task::spawn_blocking(Podman::make).await? };
    SHARED.get_or_try_init(make).await
}

impl Podman {
    fn make() -> anyhow::Result<Self> {
        let there = Command::new("podman").arg("--version").stdout(Stdio::null()).status();
        there.context("these cases need Podman: `apt-get install podman runc` brings it")?;
        let dir = tempfile::tempdir()?;
        let at = |name: &str| dir.path().join(name);
        let storage = format!(
            "[storage]\ndriver = \"vfs\"\ngraphroot = \"{0}/store\"\nrunroot = \"{0}/run\"\n",
            dir.path().display()
        );
        fs::write(at("storage.conf"), storage)?;
        let settings = format!(
            "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1024:1024\"]\n[engine]\nruntime = \"runc\"\n\
             cgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\ntmp_dir = \"{}/tmp\"\n",
            dir.path().display(),
        );
        fs::write(at("containers.conf"), settings)?;
        fs::write(at("registries.conf"), "unqualified-search-registries = []\n")?;
        let program = at("podman");
        let script = format!(
            "#!/bin/sh\nexport CONTAINERS_STORAGE_CONF={0}/storage.conf CONTAINERS_CONF={0}/containers.conf \
             CONTAINERS_REGISTRIES_CONF={0}/registries.conf\nexec podman \"$@\"\n",
            dir.path().display(),
        );
        fs::write(&program, script)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        let podman = Self { program, dir };
        let (root, archive) = (podman.dir.path().join("root"), podman.dir.path().join("image.tar"));
        furnish(&root)?;
        let image = Image {
            name: IMAGE,
            entrypoint: &["/bin/sh", "-c", "echo from the image: $COLOR"],
            environment: &["PATH=/bin", "COLOR=blue"],
            user: "1000",
        };
        testenv::image::archive(&image, &root, &archive)?;
        podman.run(&["load", "--quiet", "--input", archive.to_str().context("a path")?])?;
        Ok(podman)
    }

    fn run(&self, args: &[&str]) -> anyhow::Result<String> {
        let output = Command::new(&self.program).args(args).output()?;
        ensure!(output.status.success(), "podman {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Names of all containers, in any state.
    fn containers(&self) -> anyhow::Result<String> {
        self.run(&["ps", "--all", "--format", "{{.Names}}"])
    }

    async fn world(&self) -> anyhow::Result<World> {
        let engine = Engine::find(&self.program).await?;
        World::start(|options| NodeOptions { engine: Some(engine), ..options }).await
    }
}

/// Puts programs of this machine and the libraries that they need into a directory.
fn furnish(root: &Path) -> anyhow::Result<()> {
    for dir in ["bin", "etc", "tmp", "lib", "usr"] {
        fs::create_dir_all(root.join(dir))?;
    }
    fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777))?;
    fs::write(root.join("etc/passwd"), "root:x:0:0::/:/bin/sh\nworker:x:1000:1000::/tmp:/bin/sh\n")?;
    fs::write(root.join("etc/group"), "root:x:0:\nworker:x:1000:\n")?;
    symlink("lib", root.join("lib64"))?;
    let mut libraries = BTreeSet::new();
    for name in PROGRAMS {
        let found = fs::canonicalize(Path::new("/bin").join(name))?;
        fs::copy(&found, root.join("bin").join(name))?;
        let listed = Command::new("ldd").arg(&found).output()?;
        let listed = String::from_utf8(listed.stdout)?;
        libraries.extend(listed.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from));
    }
    for library in libraries {
        fs::copy(&library, root.join("lib").join(library.file_name().context("a name")?))?;
    }
    Ok(())
}

fn sh(script: &str) -> Value {
    json!({"name": "main", "image": IMAGE, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", script]})
}

async fn a_container_is_one_of_the_engine_with_everything_that_its_pod_says() -> anyhow::Result<()> {
    let podman = podman().await?;
    let world = podman.world().await?;
    world.secret("login", json!({"password": "open\nsesame"})).await?;
    world.config_map("settings", json!({"size": "large"})).await?;
    let plain = json!({"name": "plain", "image": IMAGE});
    let script = "echo $COLOR $IP; echo \"$PASSWORD\"; pwd; id -u; id -g; cat /config/size; echo; cat /work/part/file
        echo x > /config/size || echo guarded; ls /work; echo report > /dev/termination-log; echo oh no >&2; exit 7";
    let mut main = sh(script);
    main["workingDir"] = json!("/work");
    main["env"] = json!([
        {"name": "COLOR", "value": "red"},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}},
    ]);
    main["securityContext"] = json!({"runAsUser": 1234, "runAsGroup": 4321, "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": true});
    main["volumeMounts"] = json!([
        {"name": "work", "mountPath": "/work"},
        {"name": "config", "mountPath": "/config"},
    ]);
    let mut first = sh("echo made before > /part/file");
    first["name"] = json!("first");
    first["volumeMounts"] = json!([{"name": "work", "mountPath": "/part", "subPath": "part"}]);
    let spec = json!({
        "restartPolicy": "Never",
        "volumes": [{"name": "work", "emptyDir": {}}, {"name": "config", "configMap": {"name": "settings"}}],
        "initContainers": [plain, first],
        "containers": [main],
    });
    world.create("whole", spec).await?;
    let pod = world.phase("whole", "Failed").await?;
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).unwrap_or_default();
    assert_eq!(world.log("whole", "plain").await?, "from the image: blue\n");
    let log = world.log("whole", "main").await?;
    // Errors travel by a pipe of their own, and may arrive first.
    let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with("sh: ") && *line != "oh no").collect();
    let expected = [&format!("red {address}"), "open", "sesame", "/work", "1234", "4321", "large", "made before"];
    assert_eq!(&lines[..8], expected, "{log}");
    assert!(log.contains("guarded\n") && log.contains("part\n") && log.contains("oh no\n"), "{log}");
    assert_eq!((exit_code(&pod, "main"), reason(&pod, "main").as_str()), (Some(7), "Error"));
    assert_eq!(message(&pod, "main"), "report\n");
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    assert!(!podman.containers()?.contains(&uid), "what has ended is not kept");
    assert_eq!(fs::read_dir(world.root.join("private"))?.count(), 0, "no file with variables is kept");
    world.end().await
}

async fn an_engine_enforces_limits_too() -> anyhow::Result<()> {
    let world = podman().await?.world().await?;
    let mut greedy = sh("exec tail /dev/zero");
    greedy["resources"] = json!({"limits": {"memory": "24Mi", "cpu": "500m"}});
    world.create("greedy", json!({"restartPolicy": "Never", "containers": [greedy]})).await?;
    let pod = world.phase("greedy", "Failed").await?;
    // Podman's older monitor does not notice the kill on control groups of version 1; then the reason is a plain error.
    let why = reason(&pod, "main");
    assert!(exit_code(&pod, "main") == Some(137) && ["OOMKilled", "Error"].contains(&why.as_str()), "{why}");
    world.end().await
}

async fn a_container_that_cannot_start_is_reported() -> anyhow::Result<()> {
    let world = podman().await?.world().await?;
    let spec = |image: &str, policy: &str| {
        let main = json!({"name": "main", "image": image, "imagePullPolicy": policy});
        json!({"restartPolicy": "Never", "containers": [main]})
    };
    world.create("never", spec("testenv.local/none:1", "Never")).await?;
    // This port of the machine is closed.
    world.create("nowhere", spec("127.0.0.1:1/none:1", "IfNotPresent")).await?;
    let mut wrong = sh("");
    wrong["command"] = json!(["/no/such/program"]);
    world.create("wrong", json!({"restartPolicy": "Never", "containers": [wrong]})).await?;
    let pod = world.until("never", "the reason", |pod| reason(pod, "main") == "ErrImageNeverPull").await?;
    assert!(message(&pod, "main").contains("testenv.local/none:1"));
    let pod = world.until("nowhere", "the reason", |pod| reason(pod, "main") == "ErrImagePull").await?;
    assert!(message(&pod, "main").contains("127.0.0.1:1"), "{}", message(&pod, "main"));
    let pod = world.phase("wrong", "Failed").await?;
    assert_eq!((exit_code(&pod, "main"), reason(&pod, "main").as_str()), (Some(128), "StartError"));
    assert!(message(&pod, "main").contains("/no/such/program"), "{}", message(&pod, "main"));
    world.end().await
}

async fn a_container_of_an_engine_is_asked_to_end_and_commands_run_in_it() -> anyhow::Result<()> {
    let podman = podman().await?;
    let world = podman.world().await?;
    let mut gentle = sh("trap 'echo bye > /kept/last; exit 0' TERM; touch /tmp/up; while :; do sleep 0.1; done");
    gentle["volumeMounts"] = json!([{"name": "kept", "mountPath": "/kept"}]);
    gentle["readinessProbe"] = json!({"exec": {"command": ["ls", "/tmp/up"]}, "periodSeconds": 1});
    let volumes = json!([{"name": "kept", "persistentVolumeClaim": {"claimName": "kept"}}]);
    world.create("gentle", json!({"volumes": volumes, "containers": [gentle]})).await?;
    let mut spec = json!({"containers": [sh("trap '' TERM; while :; do sleep 0.1; done")]});
    spec["terminationGracePeriodSeconds"] = json!(1);
    world.create("stubborn", spec).await?;
    world.ready("gentle").await?;
    world.ready("stubborn").await?;

    let owned = |text: &[&str]| text.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>();
    let run = owned(&["sh", "-c", "cat; id -u; echo problem >&2; exit 3"]);
    let mut exec = world.node.exec(&world.namespace, "gentle", "main", run, false, true).await?;
    let mut stdin = exec.stdin.take().context("no standard input")?;
    stdin.write_all(b"typed\n").await?;
    drop(stdin);
    let (mut out, mut err) = (String::new(), String::new());
    exec.stdout.read_to_string(&mut out).await?;
    exec.stderr.as_mut().context("no standard error")?.read_to_string(&mut err).await?;
    assert_eq!((out.as_str(), err.as_str(), exec.status.await?), ("typed\n1000\n", "problem\n", 3));

    // An engine sets the size of a terminal of its own, a moment later.
    let script = "read word; until [ \"$(stty size)\" = '43 132' ]; do sleep 0.1; done; echo got $word; exit 4";
    let run = owned(&["sh", "-c", script]);
    let mut exec = world.node.exec(&world.namespace, "gentle", "main", run, true, true).await?;
    exec.resize.as_ref().context("no terminal")?.to(132, 43)?;
    exec.stdin.as_mut().context("no standard input")?.write_all(b"hello\n").await?;
    let mut all = String::new();
    exec.stdout.read_to_string(&mut all).await?;
    assert!(all.contains("got hello"), "{all:?}");
    assert_eq!(exec.status.await?, 4);

    for name in ["gentle", "stubborn"] {
        world.delete(name).await?;
    }
    world.gone("gentle").await?;
    let kept = world.root.join("claims").join(&world.namespace).join("kept/last");
    assert_eq!(fs::read_to_string(kept)?, "bye\n");
    world.gone("stubborn").await?;
    world.end().await
}

async fn what_a_killed_node_left_is_removed_by_the_next() -> anyhow::Result<()> {
    let podman = podman().await?;
    let world = podman.world().await?;
    let dir = tempfile::tempdir()?;
    let name = format!("{}-host", world.namespace);
    let start = || {
        Host::start(&name, dir.path(), |command| {
            command.arg(&podman.program);
        })
    };
    let host = start().await?;
    let spec = json!({"restartPolicy": "Never", "nodeName": name, "containers": [sh("exec sleep 600")]});
    let pod = serde_json::from_value(json!({"metadata": {"name": "left"}, "spec": spec}))?;
    let pod = world.pods().create(&PostParams::default(), &pod).await?;
    world.ready("left").await?;
    let uid = pod.metadata.uid.context("a Pod has an UID")?;
    drop(host);
    assert!(podman.containers()?.contains(&uid), "an engine keeps containers of their own");
    let _host = start().await?;
    assert!(!podman.containers()?.contains(&uid));
    let pod = world.phase("left", "Failed").await?;
    assert_eq!(pod.status.and_then(|status| status.reason).as_deref(), Some("NodeLost"));
    world.end().await
}
