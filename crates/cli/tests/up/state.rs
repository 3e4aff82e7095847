use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use crate::command::{Up, run, run_with};

#[test]
fn it_says_what_one_needs_and_down_stops_it() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("a b");
    let up = Up::start(&state, &["--kubeconfig", dir.path().join("kube").to_str().unwrap()]);
    let text = up.greeting.join("\n");
    for part in [
        "Page ",
        ".localhost:",
        "/login?code=",
        "https://127.0.0.1:",
        "export KUBECONFIG=",
        "a b",
        "OpenCode ",
        "Isolation",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let output = up.kubectl(&["get", "nodes"]);
    assert!(output.contains("local") && output.contains(" Ready "), "{output}");
    let output = up.kubectl(&["get", "crds", "-o", "name"]);
    assert!(output.contains("tasks.kubeopencode.io"), "{output}");
    let output = String::from_utf8(run(&["down", "--state-dir", state.to_str().unwrap()]).stdout).unwrap();
    assert!(output.contains("Stopped process"), "{output}");
    assert_eq!(up.ended(), Some(0));
    let output = String::from_utf8(run(&["down", "--purge", "--state-dir", state.to_str().unwrap()]).stdout).unwrap();
    assert!(output.contains("Nothing runs") && output.contains("Removed"), "{output}");
    assert!(!state.exists());
}

#[test]
fn login_prints_a_new_link_and_opens_it_without_an_argument_that_others_can_read() {
    let dir = tempfile::tempdir().unwrap();
    // Longer than the path of a socket may be.
    let state = dir.path().join("s".repeat(120));
    let name = state.to_str().unwrap();
    let error = String::from_utf8(run(&["login", "--state-dir", name]).stderr).unwrap();
    assert!(error.contains("does not run on") && error.contains("kubeopencode up"), "{error}");
    let up = Up::start(&state, &["--in-memory", "--port", "0"]);
    let host = |link: &str| link.split_once("/login?code=").unwrap().0.to_owned();
    let printed = String::from_utf8(run(&["login", "--state-dir", name]).stdout).unwrap();
    assert_eq!(host(printed.trim()), host(up.login_link()));
    assert_ne!(printed.trim(), up.login_link());

    let opener = dir.path().join("xdg-open");
    fs::write(&opener, "#!/bin/sh\nprintf '%s\\n' \"$@\" > \"$0.given\"\ncat \"$1\" > \"$0.page\"\n").unwrap();
    fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let output = run_with(&["login", "--open", "--state-dir", name], &[("PATH", &path)]);
    assert!(output.status.success(), "{output:?}");
    let link = String::from_utf8(output.stdout).unwrap();
    let given = fs::read_to_string(dir.path().join("xdg-open.given")).unwrap();
    assert!(!given.contains("code="), "{given}");
    assert!(fs::read_to_string(dir.path().join("xdg-open.page")).unwrap().contains(link.trim()));
    let mode = fs::metadata(given.trim()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn the_page_keeps_its_host_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let start = || {
        let up = Up::start(dir.path(), &["--port", "0"]);
        let link = up.login_link().to_owned();
        up.kill();
        link.split_once(".localhost:").unwrap().0.to_owned()
    };
    let first = start();
    assert_eq!(start(), first);
    let other = tempfile::tempdir().unwrap();
    let up = Up::start(other.path(), &["--port", "0"]);
    assert!(!up.login_link().starts_with(&first));
}

/// As root only: another user cannot mount a small disk.
#[test]
fn a_full_disk_does_not_keep_it_from_starting_and_deleting() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::mount(dir.path());
    let state = dir.path().join("state");
    let start = || Up::start(&state, &["--port", "0"]);
    let up = start();
    up.kubectl(&["create", "configmap", "large", &format!("--from-literal=a={}", "x".repeat(100_000))]);
    up.kill();
    let free = disk.fill();
    assert!(free < 1 << 20, "{free}");
    // Twice: the first start must not use up what the second needs.
    for _ in 0..2 {
        let up = start();
        assert!(up.greeting.iter().any(|line| line.contains("almost full")), "{:?}", up.greeting);
        assert!(up.kubectl(&["get", "configmaps"]).contains("large"));
        up.kill();
    }
    let up = start();
    up.kubectl(&["delete", "configmap", "large"]);
    assert!(!up.kubectl(&["get", "configmaps"]).contains("large"));
    up.kill();
    disk.free();
    let up = start();
    assert!(!up.greeting.iter().any(|line| line.contains("Disk ")), "{:?}", up.greeting);
    drop(up);
}

/// A small disk, unmounted with this value.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path) -> Self {
        let options = rustix::mount::MountFlags::empty();
        rustix::mount::mount("tmpfs", at, "tmpfs", options, Some(c"size=64m")).unwrap();
        Self(at.to_owned())
    }

    /// Writes until nothing more fits. Returns the number of free bytes.
    fn fill(&self) -> u64 {
        let mut file = fs::File::create(self.0.join("filler")).unwrap();
        for piece in [1 << 20, 4096, 1] {
            while file.write_all(&vec![1; piece]).is_ok() {}
        }
        let found = rustix::fs::statvfs(&self.0).unwrap();
        found.f_bavail * found.f_frsize
    }

    fn free(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Containers of a killed platform may use it for a moment.
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn what_was_acknowledged_survives_kill_minus_nine() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let up = Up::start(dir.path(), &[]);
        for earlier in 0..round {
            let output = up.kubectl(&["get", "configmap", &format!("round-{earlier}"), "-o", "jsonpath={.data.n}"]);
            assert_eq!(output, earlier.to_string());
        }
        up.kubectl(&["create", "configmap", &format!("round-{round}"), &format!("--from-literal=n={round}")]);
        up.kill();
    }
}

#[test]
fn nothing_is_left_of_a_platform_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(dir.path(), &["--in-memory"]);
    up.kubectl(&["create", "configmap", "fleeting"]);
    up.kill();
    let up = Up::start(dir.path(), &["--in-memory"]);
    assert!(!up.try_kubectl(&["get", "configmap", "fleeting"]).status.success());
}

/// Tasks that leave a line on a claim, one each time they start.
fn diary(tasks: usize) -> String {
    let mut manifest = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: diary}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
apiVersion: kubeopencode.io/v1alpha1
kind: AgentTemplate
metadata: {name: writer}
spec:
  maxConcurrentTasks: 4
  command: [sh, -c, 'echo $TASK_NAME $TASK_EPOCH >> /diary/starts; sleep 0.3']
  podSpec:
    extraVolumes: [{name: diary, persistentVolumeClaim: {claimName: diary}}]
    extraVolumeMounts: [{name: diary, mountPath: /diary}]
"
    .to_owned();
    for number in 0..tasks {
        write!(
            manifest,
            "---
apiVersion: kubeopencode.io/v1alpha1
kind: Task
metadata: {{name: entry-{number:02}}}
spec: {{description: write, templateRef: {{name: writer}}}}
"
        )
        .unwrap();
    }
    manifest
}

#[test]
fn no_task_runs_twice_whenever_the_platform_is_killed() {
    const TASKS: usize = 24;
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let manifest = dir.path().join("diary.yaml");
    fs::write(&manifest, diary(TASKS - 1)).unwrap();
    let up = Up::start(&state, &["--host-images"]);
    up.kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
    up.kill();
    // Milliseconds after the start: while it lists objects, while Pods start, run and end. These choose the moment of the
    // kill; the case waits for nothing here.
    for moment in [0, 90, 250, 400, 550, 700, 850, 1000, 1300] {
        let up = Up::start(&state, &["--host-images"]);
        thread::sleep(Duration::from_millis(moment));
        up.kill();
    }
    let up = Up::start(&state, &["--host-images"]);
    // Work goes on, however the other Tasks ended.
    fs::write(&manifest, diary(TASKS)).unwrap();
    up.kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
    let ends = "jsonpath={range .items[*]}{.metadata.name} {.status.phase} {.status.reason}{\"\\n\"}{end}";
    let finished = |output: &str| {
        output.lines().filter(|line| line.contains(" Completed ") || line.contains(" Failed ")).count() == TASKS
    };
    let output = up.until(&["get", "tasks", "-o", ends], finished);
    let diary = fs::read_to_string(state.join("node/claims/default/diary/starts")).unwrap();
    let mut starts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in diary.lines() {
        *starts.entry(line).or_default() += 1;
    }
    assert!(starts.values().all(|count| *count == 1), "{diary}");
    for line in output.lines() {
        let [task, phase, reason] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let started = starts.contains_key(format!("{task} 1").as_str());
        match phase {
            "Completed" => assert!(started, "{task} did not run"),
            _ => assert!(["NodeLost", "PodLost"].contains(&reason), "{line}"),
        }
    }
    assert!(output.contains(&format!("entry-{:02} Completed ", TASKS - 1)), "{output}");
    assert!(starts.len() <= TASKS, "{diary}");
}
