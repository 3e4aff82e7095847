use std::{collections::BTreeMap, fmt::Write as _, fs, thread, time::Duration};

use crate::command::{Up, run};

#[test]
fn it_says_what_one_needs_and_down_stops_it() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("a b");
    let up = Up::start(&state, &["--kubeconfig", dir.path().join("kube").to_str().unwrap()]);
    let text = up.greeting.join("\n");
    for part in
        ["Page ", "http://127.0.0.1:", "https://127.0.0.1:", "export KUBECONFIG=", "a b", "OpenCode ", "Isolation"]
    {
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
