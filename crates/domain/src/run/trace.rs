//! A run as an OpenTelemetry trace: spans for the queue, the preparation and the work.
//!
//! The final status contains everything, so a trace is created at the end and a controller that dies in between loses
//! no span. Ids are derived from the Task and the epoch, so that a run always has the same trace.

use api::{Task, TaskPhase, TaskStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::workload::contexts::hex;

/// The spans of a run that ended with `status`, in the JSON format of OTLP. Empty if it never ran.
pub fn spans(task: &Task, status: &TaskStatus) -> Vec<Value> {
    let (Some(timings), Some(epoch), Some(ended)) =
        (&status.timings, status.run_epoch, moment(status.completion_time.as_ref()))
    else {
        return Vec::new();
    };
    let metadata = &task.metadata;
    let (Some(uid), Some(namespace), Some(name)) = (&metadata.uid, &metadata.namespace, &metadata.name) else {
        return Vec::new();
    };
    let Some(admitted) = moment(timings.admitted_at.as_ref()) else { return Vec::new() };
    // A requeued run waited from its requeue on, any other run from the creation of its Task.
    let queued = moment(timings.queued_at.as_ref())
        .or(moment(metadata.creation_timestamp.as_ref()))
        .unwrap_or(admitted)
        .min(admitted);
    let trace = Trace { uid, epoch };
    let created = moment(timings.pod_created_at.as_ref());
    let scheduled = moment(timings.scheduled_at.as_ref());
    let prepared = moment(timings.prepared_at.as_ref());
    let started = moment(status.start_time.as_ref());

    let stages = [
        ("queued", Some(queued), Some(admitted)),
        ("pod created", Some(admitted), created),
        ("scheduled", created, scheduled),
        ("prepared", scheduled, prepared),
        ("started", prepared, started),
        ("worked", started, Some(ended)),
    ];
    let root = trace.id("task");
    let mut spans = vec![json!({
        "traceId": trace.trace_id(),
        "spanId": root,
        "name": format!("Task {namespace}/{name}"),
        "kind": 1,
        "startTimeUnixNano": nanoseconds(queued),
        "endTimeUnixNano": nanoseconds(ended.max(queued)),
        "attributes": attributes(task, status, epoch),
        "status": outcome(status),
    })];
    for (stage, from, until) in stages {
        let (Some(from), Some(until)) = (from, until) else { continue };
        spans.push(json!({
            "traceId": trace.trace_id(),
            "spanId": trace.id(stage),
            "parentSpanId": root,
            "name": stage,
            "kind": 1,
            "startTimeUnixNano": nanoseconds(from),
            // Clocks of two machines may differ; a span never ends before it starts.
            "endTimeUnixNano": nanoseconds(until.max(from)),
        }));
    }
    spans
}

/// The body of an export of `spans`.
pub fn export(spans: &[Value], resource: &[(String, String)]) -> Value {
    let resource: Vec<Value> = resource.iter().map(|(key, value)| text(key, value)).collect();
    let scope = json!({ "scope": { "name": "kubeopencode" }, "spans": spans });
    json!({ "resourceSpans": [{ "resource": { "attributes": resource }, "scopeSpans": [scope] }] })
}

struct Trace<'a> {
    uid: &'a str,
    epoch: i64,
}

impl Trace<'_> {
    /// 16 bytes in hexadecimal.
    fn trace_id(&self) -> String {
        hex(&Sha256::digest(format!("{}/{}", self.uid, self.epoch)), 32)
    }

    /// 8 bytes in hexadecimal.
    fn id(&self, span: &str) -> String {
        hex(&Sha256::digest(format!("{}/{}/{span}", self.uid, self.epoch)), 16)
    }
}

fn attributes(task: &Task, status: &TaskStatus, epoch: i64) -> Vec<Value> {
    let metadata = &task.metadata;
    let agent = status.agent_ref.as_ref().map(|agent| &agent.name);
    let template = status.template_ref.as_ref().map(|template| &template.name);
    let texts = [
        ("k8s.namespace.name", metadata.namespace.as_ref()),
        ("kubeopencode.task.name", metadata.name.as_ref()),
        ("kubeopencode.task.uid", metadata.uid.as_ref()),
        ("kubeopencode.agent.name", agent),
        ("kubeopencode.template.name", template),
        ("k8s.pod.name", status.pod_name.as_ref()),
        ("kubeopencode.task.reason", status.reason.as_ref()),
    ];
    let texts = texts.into_iter().filter_map(|(key, value)| Some(text(key, value?)));
    let run = json!({ "key": "kubeopencode.task.epoch", "value": { "intValue": epoch.to_string() } });
    texts.chain([run]).collect()
}

/// Status code 1 is OK, 2 an error.
fn outcome(status: &TaskStatus) -> Value {
    match status.phase {
        Some(TaskPhase::Failed) => json!({ "code": 2, "message": status.reason }),
        _ => json!({ "code": 1 }),
    }
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn moment(time: Option<&Time>) -> Option<Timestamp> {
    time.map(|time| time.0)
}

fn nanoseconds(at: Timestamp) -> String {
    at.as_nanosecond().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(status: &Value) -> Task {
        serde_json::from_value(json!({
            "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task",
            "metadata": {"name": "t", "namespace": "n", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"description": "x", "agentRef": {"name": "a"}},
            "status": status,
        }))
        .unwrap()
    }

    fn spans_of(status: &Value) -> Vec<Value> {
        let task = task(status);
        spans(&task, task.status.as_ref().unwrap())
    }

    fn ended() -> Value {
        json!({
            "phase": "Failed", "reason": "OOMKilled", "runEpoch": 2, "podName": "t-pod-2", "agentRef": {"name": "a"},
            "startTime": "2026-01-01T00:00:06Z", "completionTime": "2026-01-01T00:01:00Z",
            "timings": {"admittedAt": "2026-01-01T00:00:03Z", "podCreatedAt": "2026-01-01T00:00:03Z",
                        "scheduledAt": "2026-01-01T00:00:04Z", "preparedAt": "2026-01-01T00:00:05Z"},
        })
    }

    #[test]
    fn a_run_is_one_trace_from_its_queue_to_its_end() {
        let spans = spans_of(&ended());
        let names: Vec<&str> = spans.iter().filter_map(|span| span["name"].as_str()).collect();
        assert_eq!(names, ["Task n/t", "queued", "pod created", "scheduled", "prepared", "started", "worked"]);
        for span in &spans[1..] {
            assert_eq!(span["traceId"], spans[0]["traceId"]);
            assert_eq!(span["parentSpanId"], spans[0]["spanId"]);
        }
        assert_eq!(spans[0]["startTimeUnixNano"], "1767225600000000000");
        assert_eq!(spans[0]["status"], json!({"code": 2, "message": "OOMKilled"}));
        assert_eq!(spans[0]["traceId"].as_str().map(str::len), Some(32));
        assert_eq!(spans[0]["spanId"].as_str().map(str::len), Some(16));
    }

    #[test]
    fn another_run_of_the_same_task_is_another_trace() {
        let mut again = ended();
        again["runEpoch"] = json!(3);
        assert_ne!(spans_of(&ended())[0]["traceId"], spans_of(&again)[0]["traceId"]);
    }

    #[test]
    fn stages_that_were_never_reached_are_left_out() {
        let mut status = ended();
        status.as_object_mut().unwrap().remove("startTime");
        status["timings"] = json!({"admittedAt": "2026-01-01T00:00:03Z"});
        let names: Vec<Value> = spans_of(&status).into_iter().map(|span| span["name"].clone()).collect();
        assert_eq!(names, ["Task n/t", "queued"]);
        assert!(spans_of(&json!({"phase": "Failed", "completionTime": "2026-01-01T00:00:03Z"})).is_empty());
    }
}
