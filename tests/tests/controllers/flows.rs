//! From a Task to its final status.

use anyhow::ensure;
use api::{Agent, Task, TaskPhase, TaskStatus};
use blackbox::{cases, runner::Case, stub_kubelet::Act};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::PostParams;
use serde_json::json;

use crate::world::{condition, message, reason, shared};

pub const CASES: &[Case] = cases![
    a_task_on_a_template_runs_in_its_own_pod_and_reports_all_in_its_final_status,
    a_task_on_an_agent_waits_for_its_server_and_runs,
    a_task_created_before_its_agent_runs_once_the_agent_is_there,
    a_task_created_before_its_template_runs_once_the_template_is_there,
    a_rerun_has_its_own_number_and_pod_and_leaves_the_first_alone,
    a_rerun_sees_contexts_as_they_are_now,
    a_rerun_asked_for_before_the_first_run_is_the_first_run,
    a_task_says_what_is_wrong_with_its_agent,
    a_task_recreated_under_its_name_never_adopts_the_old_pod,
    a_pod_of_that_name_that_belongs_to_somebody_else_is_left_alone,
    a_pod_of_an_earlier_task_that_never_goes_does_not_hold_up_its_successor_for_ever,
    a_failed_run_is_tried_again_as_often_as_its_policy_says,
    a_run_that_the_cluster_ended_is_tried_again_if_its_policy_says_so,
    a_task_stopped_before_its_next_try_is_not_tried_again,
    a_task_waits_for_those_it_depends_on,
    a_task_fails_if_one_it_depends_on_ends_in_another_way,
    tasks_that_wait_for_each_other_fail_and_name_the_circle,
];

async fn a_task_on_a_template_runs_in_its_own_pod_and_reports_all_in_its_final_status() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        let task = world.task("hello", json!({"templateRef": {"name": "t"}})).await?;
        let status = world.succeeds("hello").await?;

        ensure!(status.phase == Some(TaskPhase::Completed), "{status:?}");
        ensure!((status.run_epoch, status.attempt, status.exit_code) == (Some(1), Some(1), Some(0)), "{status:?}");
        ensure!(status.pod_name.as_deref() == Some("hello-pod"), "{status:?}");
        ensure!(condition(status.conditions.as_ref(), "Ready") == "True Succeeded", "{status:?}");
        ensure!(status.start_time.is_some() && status.completion_time.is_some(), "{status:?}");
        let timings = status.timings.clone().unwrap_or_default();
        ensure!(timings.admitted_at.is_some() && timings.pod_created_at.is_some(), "{timings:?}");
        ensure!(timings.scheduled_at.is_some() && timings.prepared_at.is_some(), "{timings:?}");
        let session = status.session.clone().unwrap_or_default();
        let title = format!("kubeopencode/{}/hello/", world.namespace);
        ensure!(session.id.as_deref() == Some("ses_1"), "{session:?}");
        ensure!(session.title.is_some_and(|found| found.starts_with(&title)), "the session has another title");
        let usage = status.usage.clone().unwrap_or_default();
        ensure!(usage.cost.as_deref() == Some("0.250000"), "{usage:?}");
        ensure!(usage.tokens.is_some_and(|tokens| (tokens.input, tokens.cache) == (10, 3)), "{usage:?}");
        let summary = status.result.clone().and_then(|result| result.summary);
        ensure!(summary.as_deref() == Some("all is well"), "{summary:?}");
        ensure!(status.observed_generation == task.metadata.generation, "{status:?}");

        let pod: Pod = world.api().get("hello-pod").await?;
        ensure!(status.pod_uid == pod.metadata.uid, "{status:?}");
        let owner = pod.metadata.owner_references.unwrap_or_default();
        ensure!(owner.first().map(|owner| owner.uid.clone()) == task.metadata.uid, "{owner:?}");
        let texts = pod.metadata.annotations.unwrap_or_default();
        ensure!(texts.values().any(|text| text.contains("say hello")), "{texts:?}");
        let labels = world.api::<Task>().get("hello").await?.metadata.labels.unwrap_or_default();
        ensure!(labels.get("kubeopencode.io/agent-template").is_some_and(|name| name == "t"), "{labels:?}");

        let finals = world.tasks.versions().into_iter().filter_map(|task| task.status.clone());
        let finals = finals.filter(|status| status.phase.is_some_and(TaskPhase::is_finished)).count();
        ensure!(finals == 1, "the final status was written {finals} times");
        world.each_run_has_one_pod()
    })
    .await
}

async fn a_task_on_an_agent_waits_for_its_server_and_runs() -> anyhow::Result<()> {
    shared(async |world| {
        let agent = world.ready_agent("a", json!({})).await?;
        let url = agent.status.as_ref().and_then(|status| status.url.clone()).unwrap_or_default();
        ensure!(url == format!("http://a.{}.svc.cluster.local:4096", world.namespace), "{url}");
        world.task("hello", json!({"agentRef": {"name": "a"}})).await?;
        world.succeeds("hello").await?;
        let pod: Pod = world.api().get("hello-pod").await?;
        let containers = pod.spec.map(|spec| spec.containers).unwrap_or_default();
        let command = containers.first().and_then(|container| container.command.clone()).unwrap_or_default();
        ensure!(command.starts_with(&["opencode".into(), "run".into(), "--attach".into(), url]), "{command:?}");
        let labels = world.api::<Task>().get("hello").await?.metadata.labels.unwrap_or_default();
        ensure!(labels.get("kubeopencode.io/agent").is_some_and(|name| name == "a"), "{labels:?}");
        Ok(())
    })
    .await
}

async fn a_task_created_before_its_agent_runs_once_the_agent_is_there() -> anyhow::Result<()> {
    shared(async |world| {
        world.task("early", json!({"agentRef": {"name": "late"}})).await?;
        let status = world.waits("early", "AgentNotFound").await?;
        ensure!(message(&status).starts_with("Agent 'late' does not exist"), "{status:?}");
        ensure!(condition(status.conditions.as_ref(), "Queued") == "True AgentNotFound", "{status:?}");
        world.agent("late", json!({})).await?;
        let status = world.succeeds("early").await?;
        ensure!(condition(status.conditions.as_ref(), "Queued") == "False CapacityAvailable", "{status:?}");
        Ok(())
    })
    .await
}

async fn a_task_created_before_its_template_runs_once_the_template_is_there() -> anyhow::Result<()> {
    shared(async |world| {
        world.task("early", json!({"templateRef": {"name": "late"}})).await?;
        world.waits("early", "TemplateNotFound").await?;
        world.template("late", json!({})).await?;
        world.succeeds("early").await?;
        Ok(())
    })
    .await
}

async fn a_rerun_has_its_own_number_and_pod_and_leaves_the_first_alone() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        world.hold("again");
        world.task("again", json!({"templateRef": {"name": "t"}})).await?;
        world.works("again").await?;
        world.stop("again").await?;
        world.until("again", "its stop", |status| reason(status) == "UserStopped").await?;
        let first: Pod = world.api().get("again-pod").await?;

        world.finish("again");
        world.annotate::<Task>("again", "kubeopencode.io/rerun", "1").await?;
        let status = world.until("again", "its second end", |status| reason(status) == "Succeeded").await?;
        ensure!((status.run_epoch, status.attempt) == (Some(2), Some(1)), "{status:?}");
        ensure!(status.pod_name.as_deref() == Some("again-pod-2"), "{status:?}");
        ensure!(status.observed_rerun.as_deref() == Some("1"), "{status:?}");
        ensure!(condition(status.conditions.as_ref(), "Stopped").is_empty(), "{status:?}");
        let versions = world.tasks.versions();
        let mut between = versions.iter().filter_map(|task| task.status.as_ref());
        let between = between.find(|s| s.run_epoch == Some(1) && s.observed_rerun.is_some());
        ensure!(between.is_some_and(|status| status.message.is_none()), "it speaks of the run before: {between:?}");
        let now: Pod = world.api().get("again-pod").await?;
        ensure!(now.metadata.uid == first.metadata.uid && now.spec == first.spec, "the first Pod was replaced");
        ensure!(now.metadata.deletion_timestamp.is_none(), "the first Pod was deleted");
        let task = world.api::<Task>().get("again").await?;
        let annotations = task.metadata.annotations.unwrap_or_default();
        ensure!(!annotations.contains_key("kubeopencode.io/stop"), "the stop was meant for the first run");
        ensure!(world.kubelet.runs().len() == 2, "{:?}", world.kubelet.runs());
        world.each_run_has_one_pod()
    })
    .await
}

async fn a_rerun_sees_contexts_as_they_are_now() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        world.config_map("notes", json!({"a": "old text"})).await?;
        let contexts = json!([{"type": "ConfigMap", "configMap": {"name": "notes", "key": "a"}, "mountPath": "a.txt"}]);
        world.task("again", json!({"templateRef": {"name": "t"}, "contexts": contexts})).await?;
        world.succeeds("again").await?;
        world.merge::<ConfigMap>("notes", json!({"data": {"a": "new text"}})).await?;
        world.annotate::<Task>("again", "kubeopencode.io/rerun", "1").await?;
        world.until("again", "its second end", |s| s.run_epoch == Some(2) && reason(s) == "Succeeded").await?;
        let contexts: ConfigMap = world.api().get("again-context").await?;
        let texts = contexts.data.unwrap_or_default();
        ensure!(texts.values().any(|text| text == "new text"), "{texts:?}");
        Ok(())
    })
    .await
}

async fn a_rerun_asked_for_before_the_first_run_is_the_first_run() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        let metadata = json!({"annotations": {"kubeopencode.io/rerun": "1"}});
        let spec = json!({"description": "say hello", "templateRef": {"name": "t"}});
        world.create_with::<Task>("once", metadata.clone(), spec.clone()).await?;
        let status = world.succeeds("once").await?;
        ensure!((status.run_epoch, status.observed_rerun.as_deref()) == (Some(1), Some("1")), "{status:?}");
        // One that can never run is refused once.
        let twice = json!({"type": "Text", "text": "x", "mountPath": "a.txt"});
        let mut clash = spec;
        clash["contexts"] = json!([twice, twice]);
        world.create_with::<Task>("refused", metadata, clash).await?;
        let status = world.fails("refused", "ContextError").await?;
        ensure!(status.observed_rerun.as_deref() == Some("1"), "{status:?}");
        world.annotate::<Task>("once", "kubeopencode.io/rerun", "2").await?;
        world.until("once", "its second run", |status| status.run_epoch == Some(2)).await?;
        world.succeeds("once").await?;
        Ok(())
    })
    .await
}

async fn a_task_says_what_is_wrong_with_its_agent() -> anyhow::Result<()> {
    shared(async |world| {
        // Its last good server stays, but the settings of a Task on it are unknown.
        world.ready_agent("a", json!({})).await?;
        world.merge::<Agent>("a", json!({"spec": {"config": "no JSON"}})).await?;
        world.task("on-a", json!({"agentRef": {"name": "a"}})).await?;
        let status = world.waits("on-a", "ConfigInvalid").await?;
        ensure!(message(&status).starts_with("config of Agent 'a' is not valid: it is not valid JSON"), "{status:?}");
        world.agent("b", json!({"templateRef": {"name": "later"}})).await?;
        world.task("on-b", json!({"agentRef": {"name": "b"}})).await?;
        let status = world.waits("on-b", "TemplateNotFound").await?;
        ensure!(message(&status).starts_with("Agent 'b' uses AgentTemplate 'later'"), "{status:?}");

        world.merge::<Agent>("a", json!({"spec": {"config": null}})).await?;
        world.succeeds("on-a").await?;
        world.template("later", json!({})).await?;
        world.succeeds("on-b").await?;
        Ok(())
    })
    .await
}

async fn a_task_recreated_under_its_name_never_adopts_the_old_pod() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        world.hold("twin");
        let contexts = json!([{"type": "Text", "text": "one", "mountPath": "a.txt"}]);
        world.task("twin", json!({"templateRef": {"name": "t"}, "contexts": contexts})).await?;
        let old = world.works("twin").await?;
        world.delete::<Task>("twin").await?;
        let contexts = json!([{"type": "Text", "text": "two", "mountPath": "a.txt"}]);
        let new = world.task("twin", json!({"templateRef": {"name": "t"}, "contexts": contexts})).await?;
        world.finish("twin");
        let status = world.until("twin", "its end", |status| reason(status) == "Succeeded").await?;
        ensure!(status.pod_uid.is_some() && status.pod_uid != old.metadata.uid, "{status:?}");
        let pod: Pod = world.api().get("twin-pod").await?;
        let owner = pod.metadata.owner_references.unwrap_or_default();
        ensure!(owner.first().map(|owner| owner.uid.clone()) == new.metadata.uid, "{owner:?}");
        let contexts: ConfigMap = world.api().get("twin-context").await?;
        ensure!(contexts.data.unwrap_or_default().values().any(|text| text == "two"), "the contexts are the old ones");
        world.each_run_has_one_pod()
    })
    .await
}

async fn a_pod_of_that_name_that_belongs_to_somebody_else_is_left_alone() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        let foreign: Pod = serde_json::from_value(json!({
            "metadata": {"name": "mine-pod"}, "spec": {"containers": [{"name": "x", "image": "x"}]},
        }))?;
        let foreign = world.api::<Pod>().create(&PostParams::default(), &foreign).await?;
        world.task("mine", json!({"templateRef": {"name": "t"}})).await?;
        let status = world.fails("mine", "NameConflict").await?;
        ensure!(message(&status).contains("Pod 'mine-pod' exists and does not belong to this Task"), "{status:?}");
        let now: Pod = world.api().get("mine-pod").await?;
        ensure!(
            now.metadata.uid == foreign.metadata.uid && now.metadata.deletion_timestamp.is_none(),
            "it was touched"
        );
        Ok(())
    })
    .await
}

async fn a_pod_of_an_earlier_task_that_never_goes_does_not_hold_up_its_successor_for_ever() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        for task in ["late", "stopped", "retried"] {
            let owner = json!({"apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "name": task,
                               "uid": "00000000-0000-0000-0000-000000000000", "controller": true});
            let stuck: Pod = serde_json::from_value(json!({
                "metadata": {"name": format!("{task}-pod"), "finalizers": ["example.com/stays"], "ownerReferences": [owner]},
                "spec": {"containers": [{"name": "x", "image": "x"}]},
            }))?;
            world.api::<Pod>().create(&PostParams::default(), &stuck).await?;
            world.delete::<Pod>(&format!("{task}-pod")).await?;
        }
        // The next run has a Pod of another name. A busy machine starts it within the timeout too.
        let retry = json!({"maxRetries": 1, "causes": ["Startup"], "backoff": "1s"});
        let spec = json!({"templateRef": {"name": "t"}, "startupTimeout": "15s", "retry": retry});
        world.task("retried", spec).await?;

        let holds = |status: &TaskStatus| message(status).contains("of an earlier Task is still being deleted");
        world.task("late", json!({"templateRef": {"name": "t"}, "startupTimeout": "3s"})).await?;
        world.until("late", "what holds it up", holds).await?;
        let status = world.fails("late", "NameConflict").await?;
        ensure!(message(&status).starts_with("the task did not start within 3s") && holds(&status), "{status:?}");

        let status = world.succeeds("retried").await?;
        ensure!((status.run_epoch, status.attempt) == (Some(2), Some(2)), "{status:?}");

        world.task("stopped", json!({"templateRef": {"name": "t"}})).await?;
        world.until("stopped", "what holds it up", holds).await?;
        world.stop("stopped").await?;
        let status = world.ended("stopped").await?;
        ensure!(reason(&status) == "UserStopped" && status.pod_uid.is_none(), "{status:?}");
        for task in ["late", "stopped", "retried"] {
            world.merge::<Pod>(&format!("{task}-pod"), json!({"metadata": {"finalizers": null}})).await?;
        }
        Ok(())
    })
    .await
}

async fn a_failed_run_is_tried_again_as_often_as_its_policy_says() -> anyhow::Result<()> {
    shared(async |world| {
        // One slot: a run that is tried again must give back the slot of the first try.
        world.template("t", json!({"maxConcurrentTasks": 1})).await?;
        let retry = json!({"maxRetries": 1, "causes": ["NonZeroExit"], "backoff": "1s"});
        world.kubelet.script("second-try", Act::fail("ModelError", "500"));
        world.kubelet.script("second-try-pod-2", Act::succeed());
        world.task("second-try", json!({"templateRef": {"name": "t"}, "retry": retry})).await?;
        let status = world.succeeds("second-try").await?;
        ensure!((status.run_epoch, status.attempt) == (Some(2), Some(2)), "{status:?}");

        world.kubelet.script("hopeless", Act::fail("ModelError", "500"));
        world.task("hopeless", json!({"templateRef": {"name": "t"}, "retry": retry})).await?;
        let status = world.fails("hopeless", "ModelError").await?;
        ensure!((status.run_epoch, status.attempt) == (Some(2), Some(2)), "{status:?}");

        let retry = json!({"maxRetries": 3, "causes": ["Disruption"], "backoff": "1s"});
        world.kubelet.script("not-covered", Act::fail("ModelError", "500"));
        world.task("not-covered", json!({"templateRef": {"name": "t"}, "retry": retry})).await?;
        let status = world.fails("not-covered", "ModelError").await?;
        ensure!(status.attempt == Some(1), "{status:?}");
        world.each_run_has_one_pod()
    })
    .await
}

async fn a_task_waits_for_those_it_depends_on() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        world.hold("a");
        world.kubelet.script("b", Act::exit(1, "Error"));
        let depends = json!([{"task": "a"}, {"task": "b", "condition": "Failed"}]);
        world.task("c", json!({"templateRef": {"name": "t"}, "dependsOn": depends})).await?;
        world.waits("c", "WaitingForDependency").await?;
        world.task("a", json!({"templateRef": {"name": "t"}})).await?;
        world.task("b", json!({"templateRef": {"name": "t"}})).await?;
        world.fails("b", "NonZeroExit").await?;
        world.works("a").await?;
        let status = world.until("c", "waiting for a", |status| message(status) == "Task 'a' must end first").await?;
        ensure!(status.run_epoch.is_none() && status.queue_position.is_none(), "{status:?}");
        world.finish("a");
        world.succeeds("c").await?;
        Ok(())
    })
    .await
}

async fn a_task_fails_if_one_it_depends_on_ends_in_another_way() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        world.kubelet.script("a", Act::exit(1, "Error"));
        world.task("a", json!({"templateRef": {"name": "t"}})).await?;
        world.task("b", json!({"templateRef": {"name": "t"}, "dependsOn": [{"task": "a"}]})).await?;
        world.task("c", json!({"templateRef": {"name": "t"}, "dependsOn": [{"task": "b"}]})).await?;
        let finished = json!([{"task": "a", "condition": "Finished"}]);
        world.task("d", json!({"templateRef": {"name": "t"}, "dependsOn": finished})).await?;
        let status = world.fails("b", "DependencyFailed").await?;
        ensure!(message(&status).starts_with("Task 'a' failed or was stopped"), "{status:?}");
        world.fails("c", "DependencyFailed").await?;
        world.succeeds("d").await?;
        ensure!(world.api::<Pod>().get_opt("b-pod").await?.is_none(), "b ran");
        Ok(())
    })
    .await
}

async fn tasks_that_wait_for_each_other_fail_and_name_the_circle() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({})).await?;
        for (task, other) in [("a", "b"), ("b", "c"), ("c", "a")] {
            world.task(task, json!({"templateRef": {"name": "t"}, "dependsOn": [{"task": other}]})).await?;
        }
        let mut named = 0;
        for task in ["a", "b", "c"] {
            let status = world.ended(task).await?;
            ensure!(status.phase == Some(TaskPhase::Failed), "{status:?}");
            named += i32::from(reason(&status) == "Invalid" && message(&status).contains("wait for each other"));
        }
        ensure!(named > 0, "no Task names the cycle");
        Ok(())
    })
    .await
}

async fn a_run_that_the_cluster_ended_is_tried_again_if_its_policy_says_so() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({"retry": {"maxRetries": 2, "backoff": "1s"}})).await?;
        world.kubelet.script("lost-once", Act::Vanish);
        world.kubelet.script("lost-once-pod-2", Act::succeed());
        world.task("lost-once", json!({"templateRef": {"name": "t"}})).await?;
        let status = world.succeeds("lost-once").await?;
        ensure!((status.run_epoch, status.attempt) == (Some(2), Some(2)), "{status:?}");
        let image = json!({"name": "agent", "image": "?", "imageID": "", "ready": false, "restartCount": 0,
                           "state": {"waiting": {"reason": "InvalidImageName", "message": "bad"}}});
        world.kubelet.script("bad-start", Act::Status(json!({"phase": "Pending", "containerStatuses": [image]})));
        world.kubelet.script("bad-start-pod-2", Act::succeed());
        world.task("bad-start", json!({"templateRef": {"name": "t"}})).await?;
        let status = world.succeeds("bad-start").await?;
        ensure!((status.run_epoch, status.attempt) == (Some(2), Some(2)), "{status:?}");
        // Changes by the agent itself are not covered unless named.
        world.kubelet.script("own-fault", Act::exit(1, "Error"));
        world.task("own-fault", json!({"templateRef": {"name": "t"}})).await?;
        let status = world.fails("own-fault", "NonZeroExit").await?;
        ensure!(status.attempt == Some(1), "{status:?}");
        world.each_run_has_one_pod()
    })
    .await
}

async fn a_task_stopped_before_its_next_try_is_not_tried_again() -> anyhow::Result<()> {
    shared(async |world| {
        world.template("t", json!({"maxConcurrentTasks": 1})).await?;
        world.kubelet.script("again", Act::fail("ModelError", "500"));
        let retry = json!({"maxRetries": 3, "causes": ["NonZeroExit"], "backoff": "1h"});
        world.task("again", json!({"templateRef": {"name": "t"}, "retry": retry})).await?;
        let failed = |pod: &Pod| pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Failed"));
        world.pods.until_object("again-pod", "its end", failed).await?;
        world.stop("again").await?;
        let status = world.ended("again").await?;
        ensure!(reason(&status) == "UserStopped" && status.run_epoch == Some(1), "{status:?}");
        world.task("next", json!({"templateRef": {"name": "t"}})).await?;
        world.succeeds("next").await?;
        Ok(())
    })
    .await
}
