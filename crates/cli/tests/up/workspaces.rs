//! The files of runs, on a platform that was started with `up`.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use crate::command::{LIMIT, Up};

const MANIFEST: &str = "
apiVersion: kubeopencode.io/v1alpha1
kind: AgentTemplate
metadata: {name: fails}
spec:
  command: [sh, -c, 'echo of $TASK_NAME > left.txt; exit 3']
  workspace: {accessMode: ReadWriteOnce, retainOnFailure: true}
---
apiVersion: kubeopencode.io/v1alpha1
kind: AgentTemplate
metadata: {name: shares}
spec:
  # Package caches contain read-only directories.
  command: [sh, -c, 'pwd; ls -d $PWD/../../*.*/1 2>/dev/null; mkdir locked && echo of $TASK_NAME > locked/left.txt && chmod 500 locked']
  workspace: {accessMode: ReadWriteMany}
---
apiVersion: kubeopencode.io/v1alpha1
kind: Task
metadata: {name: failed}
spec: {description: write, templateRef: {name: fails}}
---
apiVersion: kubeopencode.io/v1alpha1
kind: Task
metadata: {name: one}
spec: {description: write, templateRef: {name: shares}}
---
apiVersion: kubeopencode.io/v1alpha1
kind: Task
metadata: {name: two}
spec: {description: write, templateRef: {name: shares}, workspace: {accessMode: ReadWriteMany, sharing: All}}
---
apiVersion: kubeopencode.io/v1alpha1
kind: Task
metadata: {name: three}
spec:
  description: write
  templateRef: {name: shares}
  workspace: {accessMode: ReadWriteMany, sharing: All}
  dependsOn: [{task: two}]
";

fn phase(up: &Up, task: &str, wanted: &str) {
    up.until(&["get", "task", task, "-o", "jsonpath={.status.phase}"], |phase| phase == wanted);
}

fn uid(up: &Up, task: &str) -> String {
    up.kubectl(&["get", "task", task, "-o", "jsonpath={.metadata.uid}"])
}

fn until_gone(path: &Path) {
    let started = Instant::now();
    while path.exists() {
        assert!(started.elapsed() < LIMIT, "{} stays", path.display());
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_files_of_a_run_stay_as_long_as_its_task() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let up = Up::start(&state, &["--port", "0", "--host-images"]);
    let manifest = dir.path().join("workspaces.yaml");
    fs::write(&manifest, MANIFEST).unwrap();
    up.kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
    phase(&up, "failed", "Failed");
    for task in ["one", "two", "three"] {
        phase(&up, task, "Completed");
    }

    // An event says where the files of a failed run are.
    let notes = "jsonpath={range .items[?(@.reason==\"WorkspaceRetained\")]}{.message}{\"\\n\"}{end}";
    let note = up.until(&["get", "events", "-o", notes], |notes| notes.contains("the files of the failed run"));
    let place = note.split_once("in the directory ").and_then(|(_, rest)| rest.split_once(" until ")).unwrap().0;
    let place = PathBuf::from(place);
    assert_eq!(fs::read_to_string(place.join("left.txt")).unwrap(), "of failed\n");

    let claim = state.join("node/claims/default/kubeopencode-workspace-template-shares");
    let one = claim.join(uid(&up, "one"));
    let [two, three] = ["two", "three"].map(|task| claim.join(format!("{task}.{}", uid(&up, task))));
    for (directory, task) in [(&one, "one"), (&two, "two"), (&three, "three")] {
        let text = fs::read_to_string(directory.join("1/locked/left.txt")).unwrap();
        assert_eq!(text, format!("of {task}\n"));
    }
    // A run that sees the whole volume works in its own directory, beside those of others.
    let log = up.kubectl(&["logs", "three-pod", "-c", "agent"]);
    assert!(log.contains(&format!("/workspace/three.{}/1", uid(&up, "three"))), "{log}");
    assert!(log.contains(&format!("two.{}/1", uid(&up, "two"))), "{log}");
    let log = up.kubectl(&["logs", "one-pod", "-c", "agent"]);
    assert_eq!(log.lines().next(), Some("/workspace"), "{log}");

    up.kubectl(&["delete", "task", "failed", "one", "two"]);
    for gone in [&place, &one, &two] {
        until_gone(gone);
    }
    assert!(three.join("1/locked/left.txt").exists());
    let cleaner = "kubeopencode-workspace-template-shares-cleaner";
    up.until(&["get", "pods", "-o", "name"], |pods| !pods.contains(cleaner));
    let claims = up.kubectl(&["get", "pvc", "-l", "kubeopencode.io/managed-by", "-o", "name"]);
    assert!(claims.contains("kubeopencode-workspace-template-shares"), "{claims}");
}
