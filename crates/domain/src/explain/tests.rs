use serde_json::{Value, json};

use super::*;

fn of_kind<K: serde::de::DeserializeOwned>(kind: &str, name: &str, spec: &Value, status: &Value) -> K {
    serde_json::from_value(json!({
        "apiVersion": "kubeopencode.io/v1alpha1", "kind": kind,
        "metadata": {"name": name, "namespace": "team", "uid": name, "creationTimestamp": "2026-01-01T00:59:00Z"},
        "spec": spec, "status": status,
    }))
    .unwrap()
}

fn waits(name: &str, depends_on: &Value) -> Task {
    let spec = json!({"agentRef": {"name": "dev"}, "dependsOn": depends_on});
    of_kind("Task", name, &spec, &json!({"phase": "Queued"}))
}

fn around(agent: &Value, tasks: Vec<Task>) -> Surroundings {
    Surroundings {
        agent: Some(Arc::new(of_kind("Agent", "dev", &json!({"maxConcurrentTasks": 1}), agent))),
        template: None,
        model: None,
        server_pods: Vec::new(),
        tasks: tasks.into_iter().map(Arc::new).collect(),
        platform: Platform::default(),
        sight: Sight { tasks: true, target: true },
        reader: Reader::Page,
        now: "2026-01-01T01:00:00Z".parse().unwrap(),
    }
}

fn broken_agent() -> Value {
    let wrong = |kind: &str| {
        json!({"type": kind, "status": "False", "reason": "DeploymentNotReady", "message": "no Pod is ready",
            "lastTransitionTime": "2026-01-01T00:30:00Z"})
    };
    json!({"ready": false, "conditions": [wrong("ServerReady"), wrong("ServerHealthy")]})
}

fn crashed() -> Pod {
    let container = json!({"name": "opencode-server", "image": "i", "imageID": "", "ready": false, "restartCount": 3,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "message": "the configuration is invalid"}}});
    let pod = json!({"metadata": {"name": "dev-1", "namespace": "team"}, "status": {"containerStatuses": [container]}});
    serde_json::from_value(pod).unwrap()
}

fn messages(chain: &[Cause]) -> Vec<&str> {
    chain.iter().map(|cause| cause.message.as_str()).collect()
}

#[test]
fn a_server_that_crashes_is_the_end_of_the_chain_and_nothing_is_said_twice() {
    let mine = waits("mine", &json!([]));
    let mut around = around(&broken_agent(), vec![mine.clone()]);
    around.server_pods = vec![crashed()];
    let explained = task(&mine, &Run::default(), &around);
    let crash = "container 'opencode-server' crashed and was started again 3 times; it last ended with exit code 1: \
                 the configuration is invalid";
    assert_eq!(messages(&explained.chain), ["the server of Agent 'dev' is not ready", "no Pod is ready", crash]);
    let of_agent = agent(around.agent.as_ref().unwrap(), &around);
    assert_eq!(messages(&of_agent.chain), ["no Pod is ready", crash]);
    assert_eq!(of_agent.next, ["look at Agent 'dev' and its log"]);
    // A condition that repeats the problem of the Pod is replaced by that of the Pod.
    let mut status = broken_agent();
    for condition in status["conditions"].as_array_mut().unwrap() {
        condition["message"] = json!(crash);
    }
    around.agent = Some(Arc::new(of_kind("Agent", "dev", &json!({}), &status)));
    let of_agent = agent(around.agent.as_ref().unwrap(), &around);
    assert_eq!(messages(&of_agent.chain), [crash]);
    assert_eq!(of_agent.chain[0].object.as_ref().unwrap().name, "dev-1");
}

#[test]
fn whoever_may_not_list_tasks_reads_no_name_of_another() {
    let runs = of_kind("Task", "secret", &json!({"agentRef": {"name": "dev"}}), &json!({"phase": "Running"}));
    let mine = waits("mine", &json!([]));
    let mut around = around(&json!({"ready": true}), vec![runs, waits("a", &json!([])), mine.clone()]);
    let names = |around: &Surroundings| {
        let queue = task(&mine, &Run::default(), around).queue.unwrap();
        (queue.position, queue.ahead.into_iter().map(|ahead| ahead.name).collect::<Vec<_>>())
    };
    assert_eq!(names(&around), (Some(2), vec!["secret".to_owned(), "a".to_owned()]));
    around.sight.tasks = false;
    assert_eq!(names(&around), (Some(2), vec![]));
    let explained = serde_json::to_string(&task(&mine, &Run::default(), &around)).unwrap();
    assert!(!explained.contains("secret"), "{explained}");
}

#[test]
fn whoever_may_not_see_the_agent_reads_neither_its_settings_nor_its_troubles() {
    let mine = waits("mine", &json!([]));
    let mut around = around(&broken_agent(), vec![mine.clone()]);
    around.sight.target = false;
    let explained = task(&mine, &Run::default(), &around);
    assert_eq!(messages(&explained.chain), ["the server of Agent 'dev' is not ready"]);
    assert_eq!(
        explained.settings_error.as_deref(),
        Some("you are not allowed to read the Agent or template of the Task")
    );
}

#[test]
fn dependencies_of_dependencies_are_followed_once_each() {
    let tasks = vec![
        waits("a", &json!([])),
        waits("b", &json!([{"task": "a"}])),
        waits("c", &json!([{"task": "b"}, {"task": "a"}, {"task": "gone"}])),
    ];
    let around = around(&json!({"ready": true}), tasks);
    let explained = task(&around.tasks[2], &Run::default(), &around);
    let about: Vec<_> = explained.chain.iter().map(|cause| cause.object.as_ref().unwrap().name.as_str()).collect();
    assert_eq!(about, ["c", "b", "a", "gone"]);
    assert_eq!(explained.dependencies.iter().map(|one| one.exists).collect::<Vec<_>>(), [true, true, false]);
}

#[test]
fn each_setting_tells_its_value_and_its_origin() {
    let spec = json!({"agentRef": {"name": "dev"}, "timeout": "90m"});
    let mine: Task = of_kind("Task", "mine", &spec, &Value::Null);
    let around = around(&json!({"ready": true}), vec![]);
    let explained = task(&mine, &Run::default(), &around);
    let find = |path: &str| explained.settings.iter().find(|setting| setting.path == path).unwrap();
    assert_eq!((&find("timeout").value, find("timeout").origin_text.as_str()), (&json!("1h30m"), "the Task"));
    assert_eq!(find("agent.maxConcurrentTasks").origin_text, "Agent 'dev'");
    assert_eq!(find("agent.stallTimeout").value, "15m");
    assert_eq!(find("target").value, "Agent 'dev'");
    let of_agent = agent(around.agent.as_ref().unwrap(), &around);
    assert!(of_agent.settings.iter().any(|setting| setting.path == "maxConcurrentTasks"));
}

#[test]
fn a_task_runs_from_the_moment_at_which_its_agent_started() {
    let status = json!({"phase": "Running", "podName": "mine-pod"});
    let mine: Task = of_kind("Task", "mine", &json!({"agentRef": {"name": "dev"}}), &status);
    let around = around(&json!({"ready": true}), vec![mine.clone()]);
    let state = |name: &str, state: &str| {
        let state = json!({state: {"startedAt": "2026-01-01T00:59:30Z", "exitCode": 0}});
        json!({"name": name, "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": state})
    };
    let explained = |init: Value, agent: Value| {
        let status =
            json!({"initContainerStatuses": [state("session", "running"), init], "containerStatuses": [agent]});
        let pod = json!({"metadata": {"name": "mine-pod", "namespace": "team"}, "status": status});
        let run = Run { pod: serde_json::from_value(pod).unwrap(), ..Run::default() };
        messages(&task(&mine, &run, &around).chain).join("; ")
    };
    let prepared = explained(state("git-init-0", "running"), state("agent", "waiting"));
    assert_eq!(prepared, "it is being prepared in Pod 'mine-pod'; container 'git-init-0' is running");
    let runs = explained(state("git-init-0", "terminated"), state("agent", "running"));
    assert_eq!(runs, "it runs in Pod 'mine-pod'");
}

#[test]
fn a_run_is_explained_by_the_settings_that_it_was_made_with() {
    let mut mine = waits("mine", &json!([]));
    let around = around(&broken_agent(), vec![mine.clone()]);
    let kept = vec![Setting {
        path: "timeout".into(),
        value: "5m".into(),
        origin: crate::run::origin::Origin::Task,
        origin_text: "the Task".into(),
    }];
    let run = Run { settings: Some(kept.clone()), ..Run::default() };
    assert_ne!(task(&mine, &run, &around).settings, kept, "it waits for another run");
    let mut status = mine.status.take().unwrap_or_default();
    status.phase = Some(api::TaskPhase::Running);
    mine.status = Some(status);
    assert_eq!(task(&mine, &run, &around).settings, kept);
    let mut blind = around;
    blind.sight.target = false;
    let explained = task(&mine, &run, &blind);
    assert!(explained.settings.is_empty() && explained.settings_error.is_some());
}

fn cron(status: &Value) -> CronTask {
    let spec = json!({"schedule": "@daily", "taskTemplate": {"spec": {}}});
    of_kind("CronTask", "nightly", &spec, status)
}

fn reported(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:30:00Z"})
}

#[test]
fn a_blocked_crontask_ends_with_the_one_thing_to_do_in_its_namespace() {
    let (reason, message) = ("MaxRetainedTasksReached", "no run starts");
    let conditions = [reported("Ready", "False", reason, message), reported("Blocked", "True", reason, message)];
    let blocked = cron(&json!({ "conditions": conditions }));
    let explained = cron_task(&blocked, &[], Reader::Shell { other_namespace: true });
    assert_eq!(messages(&explained.chain), [message], "nothing is said twice");
    assert!(explained.blocked && explained.next_schedule_time.is_none());
    let step = "delete finished Tasks of the CronTask, or raise spec.maxRetainedTasks: kubeopencode get tasks -l \
                kubeopencode.io/crontask=nightly -n team";
    assert_eq!(explained.next, [step]);
    let here = cron_task(&blocked, &[], Reader::Shell { other_namespace: false });
    assert!(here.next[0].ends_with("crontask=nightly"));
}

#[test]
fn a_crontask_that_waits_for_its_time_says_when_and_how_the_last_run_ended() {
    let mut failed: Task = of_kind("Task", "nightly-1", &json!({}), &json!({"phase": "Failed", "message": "no luck"}));
    failed.metadata.labels = Some([("kubeopencode.io/crontask".to_owned(), "nightly".to_owned())].into());
    let status = json!({"nextScheduleTime": "2026-01-02T00:00:00Z",
        "conditions": [reported("Ready", "True", "Scheduled", "waits for its next time")]});
    let explained = cron_task(&cron(&status), &[Arc::new(failed)], Reader::Page);
    let expected = ["its next run is due at 2026-01-02T00:00:00Z", "its last Task 'nightly-1' failed: no luck"];
    assert_eq!(messages(&explained.chain), expected);
    let unseen = cron_task(&cron(&Value::Null), &[], Reader::Page);
    assert_eq!(unseen.next, ["check whether the controllers run"]);
}

#[test]
fn an_agent_without_a_model_ends_with_how_to_add_one() {
    let conditions = [
        reported("ConfigValid", "False", "NoModel", "no model is configured"),
        reported("ServerReady", "False", "DeploymentNotReady", "the Deployment does not exist yet"),
    ];
    let mine = waits("mine", &json!([]));
    let status = json!({"ready": false, "conditions": conditions});
    let around =
        Surroundings { reader: Reader::Shell { other_namespace: true }, ..around(&status, vec![mine.clone()]) };
    let step =
        "add a model: set modelRef, or config.model and credentials for its provider: kubeopencode setup -n team";
    let of_agent = agent(around.agent.as_ref().unwrap(), &around);
    assert_eq!((messages(&of_agent.chain), of_agent.next), (vec!["no model is configured"], vec![step.to_owned()]));
    let of_task = task(&mine, &Run::default(), &around);
    assert_eq!((of_task.reason.as_deref(), of_task.next), (Some("NoModel"), vec![step.to_owned()]));
}
