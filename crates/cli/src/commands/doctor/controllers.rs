//! Whether controllers run: by the lease of their leader, or by the statuses that they wrote.

use api::{Agent, Task};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{Api, ResourceExt as _, api::ListParams, core::NamespaceResourceScope};

use super::{finding::Finding, listed};
use crate::commands::{connect::Cluster, screen::line, span};

/// Name of the leader's lease.
const LEASE: &str = "kubeopencode.io";
/// A controller writes the status of a new Task at once; a Task that is older, in seconds, and has none indicates a
/// problem.
const UNHANDLED_AFTER: i64 = 10;
const START: &str = "start the controllers with: kubeopencode controller";

/// Looks for recent activity, in every namespace if the caller may read them.
pub async fn examine(cluster: &Cluster, now: Timestamp) -> Finding {
    let leases: Api<Lease> = Api::all(cluster.client.clone());
    let named = ListParams::default().fields(&format!("metadata.name={LEASE}"));
    let leases = leases.list(&named).await.map(|list| list.items).unwrap_or_default();
    let newest = leases.into_iter().filter_map(|lease| lease.spec);
    let newest = newest.max_by_key(|spec| spec.renew_time.as_ref().map(|at| at.0));
    let tasks: Vec<Task> = everywhere(cluster).await;
    let agents: Vec<Agent> = everywhere(cluster).await;
    judge(newest.as_ref(), &tasks, &agents, now)
}

async fn everywhere<K>(cluster: &Cluster) -> Vec<K>
where
    K: kube::Resource<Scope = NamespaceResourceScope> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
    K::DynamicType: Default,
{
    match Api::<K>::all(cluster.client.clone()).list(&ListParams::default()).await {
        Ok(list) => list.items,
        Err(_) => listed(cluster.api()).await,
    }
}

fn judge(lease: Option<&LeaseSpec>, tasks: &[Task], agents: &[Agent], now: Timestamp) -> Finding {
    let subject = "controllers";
    let ignored = tasks.iter().find(|task| {
        let created = task.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
        task.status.is_none() && now.as_second() - created.as_second() > UNHANDLED_AFTER
    });
    let renewed = lease.and_then(|spec| spec.renew_time.as_ref()).map(|time| now.as_second() - time.0.as_second());
    let duration = lease.and_then(|spec| spec.lease_duration_seconds).map_or(15, i64::from);
    let holder = lease.and_then(|spec| spec.holder_identity.as_deref()).filter(|holder| !holder.is_empty());
    match (holder, renewed, ignored) {
        (Some(holder), Some(renewed), None) if renewed <= 2 * duration => {
            Finding::ok(subject, format!("{} leads and was seen {} ago", line(holder), span::age(renewed)))
        }
        (Some(holder), Some(renewed), Some(task)) if renewed <= 2 * duration => {
            Finding::ok(subject, format!("{} leads, but Task '{}' was not looked at", line(holder), task.name_any()))
                .fail("read the controllers' log; they may not be allowed to work in this namespace")
        }
        (_, _, Some(task)) => Finding::ok(subject, format!("Task '{}' was not looked at", task.name_any())).fail(START),
        (Some(holder), Some(renewed), None) => {
            Finding::ok(subject, format!("the leader {} was last seen {} ago", line(holder), span::age(renewed)))
                .fail(START)
        }
        _ => {
            // A single controller holds no lease; its writes show that it ran.
            let looked =
                tasks.iter().any(|task| task.status.is_some()) || agents.iter().any(|agent| agent.status.is_some());
            if looked {
                Finding::ok(subject, "no lease, but everything that is there was looked at")
            } else {
                Finding::ok(subject, "no sign of life, but nothing to do either").warn(START)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::finding::show, *};
    use crate::commands::screen::Screen;

    fn lease(renewed: &str) -> LeaseSpec {
        serde_json::from_value(json!({"holderIdentity": "pod-1", "leaseDurationSeconds": 15, "renewTime": renewed}))
            .unwrap()
    }

    #[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
    fn task(status: Value) -> Task {
        serde_json::from_value(json!({"apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task",
            "metadata": {"name": "fix", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"agentRef": {"name": "dev"}}, "status": status}))
        .unwrap()
    }

    #[test]
    fn signs_of_life_are_weighed() {
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        let (fresh, stale) = (lease("2026-01-01T00:00:55.000000Z"), lease("2025-12-31T00:00:00.000000Z"));
        let (seen, ignored) = ([task(json!({"phase": "Queued"}))], [task(Value::Null)]);
        let findings = [
            judge(Some(&fresh), &seen, &[], now),
            judge(Some(&fresh), &ignored, &[], now),
            judge(Some(&stale), &seen, &[], now),
            judge(None, &ignored, &[], now),
            judge(None, &seen, &[], now),
            judge(None, &[], &[], now),
        ];
        insta::assert_snapshot!(show(&findings, &Screen::default()), @r"
        ok    controllers: pod-1 leads and was seen 5s ago
        fail  controllers: pod-1 leads, but Task 'fix' was not looked at
              fix: read the controllers' log; they may not be allowed to work in this namespace
        fail  controllers: the leader pod-1 was last seen 24h ago
              fix: start the controllers with: kubeopencode controller
        fail  controllers: Task 'fix' was not looked at
              fix: start the controllers with: kubeopencode controller
        ok    controllers: no lease, but everything that is there was looked at
        warn  controllers: no sign of life, but nothing to do either
              fix: start the controllers with: kubeopencode controller
        ");
    }
}
