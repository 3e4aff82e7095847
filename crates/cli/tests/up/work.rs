use std::{fs, net::Ipv4Addr, os::unix::fs::PermissionsExt as _, path::Path};

use blackbox::git_server::GitServer;

use crate::command::{LIMIT, Up, program, run};

/// A Deployment whose Pods do nothing for long, and a mark by which their processes are found.
fn sleeper(mark: &str) -> String {
    format!(
        "
apiVersion: apps/v1
kind: Deployment
metadata: {{name: sleeper}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: sleeper}}}}
  template:
    metadata: {{labels: {{app: sleeper}}}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: busybox
        command: [sh, -c, 'echo awake; exec sleep 98{mark}']
"
    )
}

fn processes(mark: &str) -> usize {
    let wanted = format!("sleep\u{0}98{mark}\u{0}");
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == wanted.as_bytes())).count()
}

/// A setting of the environment, which the Agent's template or the configuration may replace.
#[test]
fn explain_names_the_layer_that_set_the_service_account_and_the_pull_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let variables =
        [("KUBEOPENCODE_SERVICE_ACCOUNT", "builder"), ("KUBEOPENCODE_IMAGE_PULL_SECRETS", "registry,mirror")];
    let up = Up::start_with(&dir.path().join("state"), &["--in-memory", "--host-images", "--port", "0"], &variables);
    up.kubectl(&["create", "namespace", "team"]);
    let manifest = dir.path().join("layers.yaml");
    let objects = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: builder, namespace: team}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: releaser, namespace: team}
---
apiVersion: kubeopencode.io/v1alpha1
kind: AgentTemplate
metadata: {name: plain, namespace: team}
spec: {command: ['true']}
---
apiVersion: kubeopencode.io/v1alpha1
kind: AgentTemplate
metadata: {name: release, namespace: team}
spec: {command: ['true'], serviceAccountName: releaser}
---
apiVersion: kubeopencode.io/v1alpha1
kind: Task
metadata: {name: plain, namespace: team}
spec: {description: x, templateRef: {name: plain}}
---
apiVersion: kubeopencode.io/v1alpha1
kind: Task
metadata: {name: release, namespace: team}
spec: {description: x, templateRef: {name: release}}
";
    fs::write(&manifest, objects).unwrap();
    up.kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
    let environment = "the controller's environment";
    for (task, account, origin) in
        [("plain", "builder", environment), ("release", "releaser", "AgentTemplate 'release'")]
    {
        up.kubectl(&["wait", "-n", "team", &format!("task/{task}"), "--for=jsonpath={.status.phase}=Completed"]);
        let pod = ["get", "pod", &format!("{task}-pod"), "-n", "team", "-o", "jsonpath={.spec.serviceAccountName}"];
        assert_eq!(up.kubectl(&pod), account);
        let mut explain = program(&["explain", task]);
        explain.env("KUBECONFIG", &up.kubeconfig).env("KUBEOPENCODE_NAMESPACE", "team");
        let output = explain.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let row = |name: &str| {
            let row = text.lines().find(|line| line.trim_start().starts_with(name));
            row.unwrap_or_else(|| panic!("no {name}: {text}")).to_owned()
        };
        let row_of_account = row("agent.serviceAccountName");
        assert!(row_of_account.contains(account) && row_of_account.ends_with(origin), "{row_of_account}");
        let secrets = row("agent.imagePullSecrets");
        assert!(secrets.contains("registry") && secrets.ends_with(environment), "{secrets}");
    }
}

#[test]
fn a_deployment_runs_as_processes_which_end_with_the_platform() {
    let dir = tempfile::tempdir().unwrap();
    let mark = std::process::id().to_string();
    let manifest = dir.path().join("sleeper.yaml");
    fs::write(&manifest, sleeper(&mark)).unwrap();
    let state = dir.path().join("state");
    let up = Up::start(&state, &["--host-images"]);
    up.kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
    up.kubectl(&["rollout", "status", "deployment/sleeper", "--timeout=60s"]);
    assert_eq!(processes(&mark), 2);
    let output = up.kubectl(&["logs", "deployment/sleeper"]);
    assert_eq!(output, "awake\n");
    let output = up.kubectl(&["exec", "deployment/sleeper", "--", "sh", "-c", "echo from inside"]);
    assert_eq!(output, "from inside\n");
    let output = up.kubectl(&["exec", "deployment/sleeper", "--", "sh", "-c", "trap 'echo heard' INT; kill -INT $$"]);
    assert_eq!(output, "heard\n");
    run(&["down", "--state-dir", state.to_str().unwrap()]);
    assert_eq!(up.ended(), Some(0));
    assert_eq!(processes(&mark), 0);
    // The next start continues with the stored state.
    let up = Up::start(&state, &["--host-images"]);
    up.until(&["get", "deployment", "sleeper", "-o", "jsonpath={.status.readyReplicas}"], |output| output == "2");
    assert_eq!(processes(&mark), 2);
    up.interrupt();
    assert_eq!(up.ended(), Some(0));
    assert_eq!(processes(&mark), 0);
}

#[test]
fn a_container_sees_neither_the_kubeconfig_nor_the_keys_of_the_user() {
    // Not in /tmp, which is private in a container.
    let all = fs::Permissions::from_mode(0o755);
    let dir = tempfile::Builder::new().permissions(all).tempdir_in("/var/tmp").unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir_all(path("home/.ssh")).unwrap();
    fs::write(path("home/.ssh/id"), "key").unwrap();
    fs::write(path("home/notes"), "for everyone").unwrap();
    let kubeconfig = path("kube");
    let up = Up::start_with(
        Path::new(&path("state")),
        &["--port", "0", "--host-images", "--kubeconfig", &kubeconfig],
        &[("HOME", &path("home"))],
    );
    assert!(Path::new(&kubeconfig).exists());
    let list = format!("cd {} && find . | sort", dir.path().display());
    up.kubectl(&["run", "curious", "--image=host", "--restart=Never", "--command", "--", "sh", "-c", &list]);
    up.until(&["get", "pod", "curious", "-o", "jsonpath={.status.phase}"], |phase| phase == "Succeeded");
    assert_eq!(up.kubectl(&["logs", "curious"]), ".\n./home\n./home/notes\n");
}

#[test]
fn the_demo_ends_as_it_should() {
    let dir = tempfile::tempdir().unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_kubeopencode"))
        .args(["up", "--demo", "--exit", "--api-port", "0", "--state-dir", dir.path().to_str().unwrap()])
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    for task in ["hello", "write-a-file", "on-the-agent", "waits-its-turn", "fails-on-purpose", "report-"] {
        assert!(stdout.contains(task), "{stdout}");
    }
    assert!(stdout.contains("AS EXPECTED") && stdout.contains("ModelError"), "{stdout}");
}

#[test]
fn a_helper_that_prepares_a_pod_ends_when_it_is_asked_to() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let (npm, started) = (dir.path().join("npm"), dir.path().join("started"));
    fs::write(&npm, format!("#!/bin/sh\ntouch {}\nexec sleep 600\n", started.display())).unwrap();
    fs::set_permissions(&npm, fs::Permissions::from_mode(0o755)).unwrap();
    let mut helper = std::process::Command::new(env!("CARGO_BIN_EXE_kubeopencode"))
        .arg("plugin-init")
        .env("PLUGIN_PACKAGES", r#"["p"]"#)
        .env("PLUGIN_DIR", dir.path().join("plugins"))
        .env("PLUGIN_NPM", &npm)
        .spawn()
        .unwrap();
    wait_for("the start", || started.exists().then_some(()));
    let pid = rustix::process::Pid::from_child(&helper);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    // By an exit of its own: the signal alone would not end the first process of a container.
    let status = wait_for("the end", || helper.try_wait().unwrap());
    assert_eq!(status.code(), Some(143));
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = std::time::Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < LIMIT, "{what} did not come");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_that_cannot_be_checked_out_says_why_in_the_task() {
    let git = GitServer::start(Ipv4Addr::LOCALHOST, &[("README.md", "hello")]).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let manifest = dir.path().join("task.yaml");
    let objects = format!(
        "
apiVersion: kubeopencode.io/v1alpha1
kind: AgentTemplate
metadata: {{name: one}}
spec: {{workspaceDir: /workspace, serviceAccountName: default, command: [\"true\"]}}
---
apiVersion: kubeopencode.io/v1alpha1
kind: Task
metadata: {{name: lost}}
spec:
  templateRef: {{name: one}}
  description: work
  contexts:
  - {{name: code, type: Git, mountPath: code, git: {{repository: {}, ref: no-such-branch}}}}
",
        git.url()
    );
    fs::write(&manifest, objects).unwrap();
    let up = Up::start(&dir.path().join("state"), &["--in-memory"]);
    up.kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
    up.until(&["get", "task", "lost", "-o", "jsonpath={.status.phase}"], |output| output == "Failed");
    let output = up.kubectl(&["get", "task", "lost", "-o", "jsonpath={.status.reason}: {.status.message}"]);
    let reason = format!("{} has no branch, tag or commit `no-such-branch`", git.url());
    assert!(output.starts_with("PreparationFailed: ") && output.contains(&reason), "{output}");
    // Its log is that of the container that failed: the agent never started.
    let mut logs = std::process::Command::new(env!("CARGO_BIN_EXE_kubeopencode"));
    let logs = logs.args(["logs", "lost", "--kubeconfig"]).arg(&up.kubeconfig).output().unwrap();
    assert!(String::from_utf8_lossy(&logs.stdout).contains("no-such-branch"), "{logs:?}");
}
