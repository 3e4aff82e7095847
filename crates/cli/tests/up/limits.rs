//! `up` without a runtime, with a kernel that does not allow isolation, and after a crash.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use crate::command::Up;

/// Runs the program with only these directories to find others in, and returns its error output.
fn refusal_with(path: &Path, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubeopencode"));
    let output = command.args(args).env("PATH", path).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr}");
    stderr
}

#[test]
fn a_runtime_that_is_missing_or_does_not_answer_is_named_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    let (state, programs) = (dir.path().join("state"), dir.path().join("bin"));
    fs::create_dir(&programs).unwrap();
    let args = ["up", "--state-dir", state.to_str().unwrap(), "--runtime"];
    let stderr = refusal_with(&programs, &[&args[..], &["podman"]].concat());
    assert!(stderr.contains("podman is not installed") && stderr.contains("--runtime"), "{stderr}");
    // As Docker's own command does it when its daemon is down.
    let docker = programs.join("docker");
    fs::write(&docker, "#!/bin/sh\necho 'Cannot connect to the Docker daemon. Is it running?' >&2; exit 1\n").unwrap();
    fs::set_permissions(&docker, fs::Permissions::from_mode(0o755)).unwrap();
    let stderr = refusal_with(&programs, &[&args[..], &["docker"]].concat());
    assert!(stderr.contains("docker does not respond (Cannot connect to the Docker daemon"), "{stderr}");
    assert!(!state.exists());
}

#[test]
fn a_kernel_that_keeps_nothing_apart_is_named_with_what_to_change() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    // As in most containers: no right to mount, and none to make a namespace in which there is one.
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-sys_admin", "--inh-caps=-sys_admin", env!("CARGO_BIN_EXE_kubeopencode")]);
    let output = command.args(["up", "--api-port", "0", "--state-dir", state.to_str().unwrap()]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr}");
    assert!(stderr.contains("containers cannot be isolated") && stderr.contains("CAP_SYS_ADMIN"), "{stderr}");
}

/// One Task at a time, each with a command that needs no agent. The first one sleeps, the second one does not.
fn queue(dir: &Path) -> String {
    let file = dir.join("objects.yaml");
    let script = "grep -q sleep /workspace/task.md && exec sleep 600; echo done";
    let task = |name: &str, text: &str| {
        format!(
            "---\napiVersion: kubeopencode.io/v1alpha1\nkind: Task\nmetadata: {{name: {name}}}\nspec: {{templateRef: {{name: one}}, description: {text}}}\n"
        )
    };
    let template = format!(
        "apiVersion: kubeopencode.io/v1alpha1\nkind: AgentTemplate\nmetadata: {{name: one}}\nspec:\n  workspaceDir: /workspace\n  serviceAccountName: default\n  maxConcurrentTasks: 1\n  command: [sh, -c, '{script}']\n"
    );
    fs::write(&file, template + &task("first", "sleep") + &task("second", "work")).unwrap();
    file.display().to_string()
}

#[test]
fn a_task_that_lost_its_process_ends_as_node_lost_and_the_queue_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let up = Up::start(&state, &[]);
    up.kubectl(&["apply", "-f", &queue(dir.path())]);
    let phase = |up: &Up, task: &str, wanted: &str| {
        up.until(&["get", "task", task, "-o", "jsonpath={.status.phase}"], |output| output == wanted);
    };
    phase(&up, "first", "Running");
    phase(&up, "second", "Queued");
    up.kill();
    let up = Up::start(&state, &[]);
    phase(&up, "first", "Failed");
    let status = up.kubectl(&["get", "task", "first", "-o", "jsonpath={.status}"]);
    assert!(status.contains("NodeLost"), "{status}");
    phase(&up, "second", "Completed");
}
