use std::sync::Arc;

use api::{Agent, AgentTemplate, Task};
use domain::{
    explain::{Reader, Run, Sight, Surroundings},
    platform::Platform,
};
use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-01T01:00:00Z";

#[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
fn task(name: &str, created: &str, spec: Value, status: Value) -> Task {
    let mut all = json!({"agentRef": {"name": "dev"}});
    merge(&mut all, spec);
    serde_json::from_value(json!({
        "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task",
        "metadata": {"name": name, "namespace": "team", "uid": name, "creationTimestamp": created},
        "spec": all, "status": status,
    }))
    .unwrap()
}

fn merge(into: &mut Value, other: Value) {
    if let (Value::Object(into), Value::Object(other)) = (into, other) {
        into.extend(other);
    }
}

#[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
fn agent(spec: Value, status: Value) -> Agent {
    serde_json::from_value(json!({
        "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Agent",
        "metadata": {"name": "dev", "namespace": "team"}, "spec": spec, "status": status,
    }))
    .unwrap()
}

fn facts(task: Task, others: Vec<Task>, agent: Option<Agent>) -> Facts {
    let around = Surroundings {
        agent: agent.map(Arc::new),
        template: None,
        model: None,
        server_pods: Vec::new(),
        tasks: [task.clone()].into_iter().chain(others).map(Arc::new).collect(),
        platform: Platform::default(),
        sight: Sight { tasks: true, target: true },
        reader: Reader::Shell { other_namespace: false },
        now: NOW.parse().unwrap(),
    };
    Facts { task, run: Run::default(), around }
}

fn shown(facts: &Facts) -> String {
    let screen = Screen { width: Some(100), ..Screen::default() };
    let mut explanation = explain::task(&facts.task, &facts.run, &facts.around);
    explanation.settings.retain(is_explicit);
    show::show(&explanation, &facts.task, facts.around.now, &screen)
}

fn busy() -> Value {
    json!({"phase": "Running", "runEpoch": 1, "podName": "a-pod", "startTime": "2026-01-01T00:50:00Z",
        "timings": {"admittedAt": "2026-01-01T00:50:00Z"}})
}

#[test]
fn a_task_that_waits_for_a_slot_sees_who_is_ahead() {
    let waits =
        json!({"phase": "Queued", "reason": "AgentAtCapacity", "timings": {"queuedAt": "2026-01-01T00:55:00Z"}});
    let facts = facts(
        task("mine", "2026-01-01T00:55:00Z", json!({"timeout": "30m", "description": "fix the\nbug"}), waits),
        vec![
            task("runs", "2026-01-01T00:40:00Z", json!({}), busy()),
            task("older", "2026-01-01T00:54:00Z", json!({}), json!({"phase": "Queued"})),
            task("urgent", "2026-01-01T00:59:00Z", json!({"priority": 9}), json!({"phase": "Queued"})),
            task("younger", "2026-01-01T00:58:00Z", json!({}), json!({"phase": "Queued"})),
        ],
        Some(agent(json!({"maxConcurrentTasks": 1, "executorImage": "devbox:1"}), json!({"ready": true}))),
    );
    insta::assert_snapshot!(shown(&facts), @r"
    Task team/mine: Queued (AgentAtCapacity)

    Why
      … AgentAtCapacity: Agent 'dev' runs one Task at a time and is busy (5m ago)
        · Task 'runs' runs (10m ago)

    Queue of Agent 'dev'
      position 3 of 4 waiting; 1 of 1 slots in use
      AHEAD    PHASE     PRIORITY   SINCE
      runs     Running   0          10m
      urgent   Queued    9          60s
      older    Queued    0          6m

    Settings
      SETTING                    VALUE         FROM
      agent.executorImage        devbox:1      Agent 'dev'
      agent.maxConcurrentTasks   1             Agent 'dev'
      description                fix the bug   the Task
      target                     Agent 'dev'   the Task
      timeout                    30m           the Task

    Next
      - wait, raise spec.maxConcurrentTasks, or stop a Task that runs
    ");
}

#[test]
fn a_used_up_quota_tells_when_the_next_may_start() {
    let start = json!({"taskName": "x", "taskNamespace": "team", "startTime": "2026-01-01T00:30:00Z"});
    let facts = facts(
        task("mine", "2026-01-01T00:55:00Z", json!({}), json!({"phase": "Queued"})),
        vec![],
        Some(agent(
            json!({"quota": {"maxTaskStarts": 1, "windowSeconds": 3600}}),
            json!({"ready": true, "taskStartHistory": [start]}),
        )),
    );
    insta::assert_snapshot!(shown(&facts), @r#"
    Task team/mine: Queued (QuotaExceeded)

    Why
      … QuotaExceeded: Agent 'dev' may start one Task in 1h and has done so
        · Agent 'dev': the next Task may start at 2026-01-01T01:30:00Z

    Queue of Agent 'dev'
      position 1 of 1 waiting; 0 running, no limit

    Quota
      1 of 1 starts in 60m are used; the next at 2026-01-01T01:30:00Z

    Settings
      SETTING       VALUE                                      FROM
      agent.quota   {"maxTaskStarts":1,"windowSeconds":3600}   Agent 'dev'
      target        Agent 'dev'                                the Task

    Next
      - wait until a start leaves the window, or raise spec.quota
    "#);
}

#[test]
fn an_agent_that_is_not_ready_is_explained_to_the_root() {
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": "False", "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T00:30:00Z"})
    };
    let status = json!({"ready": false, "conditions": [
        condition("SecretsReady", "SecretMissing", "Secret 'key' does not exist"),
        condition("ServerReady", "DeploymentNotReady", "no Pod is ready"),
        {"type": "Accepted", "status": "True", "reason": "Valid", "message": "", "lastTransitionTime": "2026-01-01T00:30:00Z"},
    ]});
    let facts = facts(
        task("mine", "2026-01-01T00:55:00Z", json!({}), json!({"phase": "Queued"})),
        vec![],
        Some(agent(json!({}), status)),
    );
    insta::assert_snapshot!(shown(&facts), @r"
    Task team/mine: Queued (SecretMissing)

    Why
      … SecretMissing: Agent 'dev' cannot be used: Secret 'key' does not exist; the Task fails at
        2026-01-01T00:56:00Z if that is still so

    Queue of Agent 'dev'
      position 1 of 1 waiting; 0 running, no limit

    Settings
      SETTING   VALUE         FROM
      target    Agent 'dev'   the Task

    Next
      - create the named Secret and key; the Task then starts by itself
    ");
}

#[test]
fn dependencies_are_listed_with_their_stage() {
    let depends = json!({"dependsOn": [{"task": "a", "condition": "Succeeded"}, {"task": "b", "condition": "Finished"},
        {"task": "gone", "condition": "Succeeded"}]});
    let facts = facts(
        task("mine", "2026-01-01T00:59:30Z", depends, json!({"phase": "Queued"})),
        vec![
            task("a", "2026-01-01T00:40:00Z", json!({}), busy()),
            task("b", "2026-01-01T00:40:00Z", json!({}), json!({"phase": "Failed"})),
        ],
        Some(agent(json!({}), json!({"ready": true}))),
    );
    insta::assert_snapshot!(shown(&facts), @r"
    Task team/mine: Queued (WaitingForDependency)

    Why
      … WaitingForDependency: Task 'gone' must end first and does not exist; this Task fails at
        2026-01-01T01:01:00Z if it is not created
        … Task 'a' is Running
          ✗ ReferenceNotFound: Task 'gone' does not exist

    Queue of Agent 'dev'
      1 waiting; this Task has no position yet; 1 running, no limit
      AHEAD   PHASE     PRIORITY   SINCE
      a       Running   0          10m

    Depends on
      TASK   MUST BE     IS        MET
      a      Succeeded   Running   no
      b      Finished    Failed    yes
      gone   Succeeded   missing   no

    Settings
      SETTING   VALUE         FROM
      target    Agent 'dev'   the Task

    Next
      - wait for the other Task, or explain why it waits: kubeopencode explain TASK
      - create the named object, or correct the reference
    ");
}

#[test]
fn a_failure_is_followed_into_the_pod() {
    let failed = json!({"phase": "Failed", "reason": "OOMKilled", "message": "the agent used too much memory",
        "runEpoch": 1, "podName": "mine-pod", "completionTime": "2026-01-01T00:59:00Z"});
    let mut facts = facts(
        task("mine", "2026-01-01T00:55:00Z", json!({}), failed),
        vec![],
        Some(agent(json!({}), json!({"ready": true}))),
    );
    facts.run.pod = serde_json::from_value(json!({
        "metadata": {"name": "mine-pod"}, "spec": {"containers": [{"name": "agent"}]},
        "status": {"containerStatuses": [{"name": "agent", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T00:59:00Z"}}}]},
    }))
    .ok();
    let event = json!({"type": "Warning", "reason": "Evicted", "message": "memory\u{1b}[2J low", "metadata": {},
        "lastTimestamp": "2026-01-01T00:58:00Z", "involvedObject": {"kind": "Pod", "name": "mine-pod"}});
    facts.run.events = vec![serde_json::from_value(event).unwrap()];
    insta::assert_snapshot!(shown(&facts), @r"
    Task team/mine: Failed (OOMKilled)

    Why
      ✗ OOMKilled: it failed: the agent used too much memory (60s ago)
        ✗ OOMKilled: Pod 'mine-pod': container 'agent' exceeded its memory limit (60s ago)
          ✗ Evicted: Pod 'mine-pod': memory�[2J low (2m ago)

    Settings
      SETTING   VALUE         FROM
      target    Agent 'dev'   the Task

    Next
      - raise the memory limit in podSpec.resources of the Agent or template
      - the cluster ended it; spec.retry with cause Disruption tries again automatically
      - read what it did: kubeopencode logs mine
      - run it again: kubeopencode rerun mine --follow
    ");
}

#[test]
fn an_unhandled_task_points_to_the_controllers() {
    let facts = facts(task("mine", "2026-01-01T00:55:00Z", json!({}), Value::Null), vec![], None);
    insta::assert_snapshot!(shown(&facts), @r"
    Task team/mine: Pending (AgentNotFound)

    Why
      … AgentNotFound: Agent 'dev' does not exist; the Task fails at 2026-01-01T00:56:00Z if it is not
        created
        ✗ NoController: no controller has looked at it (5m ago)

    Queue of Agent 'dev'
      position 1 of 1 waiting; 0 running, no limit

    Settings
      not available: Agent 'dev' does not exist

    Next
      - create Agent 'dev', or correct spec.agentRef
      - check whether the controllers run: kubeopencode doctor
    ");
}

#[test]
fn a_task_on_a_template_tells_where_each_setting_comes_from() {
    let mut facts = facts(
        task(
            "mine",
            "2026-01-01T00:59:59Z",
            json!({"agentRef": null, "templateRef": {"name": "base"}}),
            json!({"phase": "Queued"}),
        ),
        vec![],
        None,
    );
    facts.around.template = serde_json::from_value::<AgentTemplate>(json!({
        "apiVersion": "kubeopencode.io/v1alpha1", "kind": "AgentTemplate", "metadata": {"name": "base"},
        "spec": {"executorImage": "box:2", "startupTimeout": "10m", "serviceAccountName": "robot"},
    }))
    .ok()
    .map(Arc::new);
    insta::assert_snapshot!(shown(&facts), @r"
    Task team/mine: Queued

    Why
      … nothing holds it back; it is about to start

    Queue of AgentTemplate 'base'
      position 1 of 1 waiting; 0 running, no limit

    Settings
      SETTING                    VALUE                  FROM
      agent.executorImage        box:2                  AgentTemplate 'base'
      agent.serviceAccountName   robot                  AgentTemplate 'base'
      startupTimeout             10m                    AgentTemplate 'base'
      target                     AgentTemplate 'base'   the Task
    ");
}

#[test]
fn a_permission_that_is_asked_for_comes_first() {
    let mut status = busy();
    status["conditions"] = json!([{"type": "AwaitingApproval", "status": "True", "reason": "Asked",
        "message": "bash (git push)", "lastTransitionTime": "2026-01-01T00:59:00Z"}]);
    let facts = facts(
        task("mine", "2026-01-01T00:55:00Z", json!({}), status),
        vec![],
        Some(agent(json!({}), json!({"ready": true}))),
    );
    insta::assert_snapshot!(shown(&facts), @r"
    Task team/mine: Running (AwaitingApproval)

    Why
      … AwaitingApproval: the agent asks a person: bash (git push) (60s ago)
        · it runs in Pod 'a-pod' (10m ago)

    Settings
      SETTING   VALUE         FROM
      target    Agent 'dev'   the Task

    Next
      - approve or deny it: kubeopencode approve mine, or: kubeopencode deny mine
    ");
}

#[test]
fn what_a_run_left_is_listed() {
    let status = json!({"phase": "Completed", "reason": "Succeeded", "runEpoch": 1, "podName": "mine-pod",
        "startTime": "2026-01-01T00:50:00Z", "completionTime": "2026-01-01T00:59:00Z",
        "artifacts": [{"name": "dist", "bytes": 2048, "files": 3, "expiresAt": "2026-01-08T01:00:00Z"}],
        "caches": [{"name": "npm", "hit": "Exact", "bytes": 1_048_576, "seconds": 2}],
        "result": {"outputs": {"URL": "https://app.example"}},
        "published": {"branch": "agents/mine", "url": "https://git.example/pulls/1"}});
    let facts = facts(
        task("mine", "2026-01-01T00:49:00Z", json!({}), status),
        vec![],
        Some(agent(json!({}), json!({"ready": true}))),
    );
    insta::assert_snapshot!(shown(&facts), @r"
    Task team/mine: Completed (Succeeded)

    Why
      ✓ Succeeded: it succeeded (60s ago)

    Results
      published branch agents/mine: https://git.example/pulls/1
      ARTIFACT   SIZE      FILES   EXPIRES
      dist       2.0 KiB   3       in 7d
      OUTPUT   VALUE
      URL      https://app.example
      CACHE   FOUND   RESTORED   TOOK   SAVED
      npm     hit     1.0 MiB    2s     -

    Settings
      SETTING   VALUE         FROM
      target    Agent 'dev'   the Task
    ");
}
