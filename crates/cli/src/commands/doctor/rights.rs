//! The rights of the caller.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::{Api, api::PostParams};

use super::finding::Finding;
use crate::commands::{connect::Cluster, problem::Problem};

/// A right and the commands that need it.
struct Right {
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
    verb: &'static str,
    used_by: &'static str,
}

const fn ours(resource: &'static str, verb: &'static str, used_by: &'static str) -> Right {
    Right { group: api::names::GROUP, resource, subresource: "", verb, used_by }
}

const fn core(resource: &'static str, subresource: &'static str, verb: &'static str, used_by: &'static str) -> Right {
    Right { group: "", resource, subresource, verb, used_by }
}

/// The rights that commands need.
const RIGHTS: [Right; 13] = [
    ours("tasks", "create", "run"),
    ours("tasks", "list", "get, top, explain"),
    ours("tasks", "watch", "run, logs --follow"),
    ours("tasks", "patch", "stop, rerun"),
    ours("tasks", "delete", "delete"),
    ours("agents", "list", "get, top"),
    ours("agents", "patch", "agent suspend, resume and share"),
    ours("crontasks", "patch", "crontask trigger, suspend and resume"),
    core("pods", "", "get", "logs, explain"),
    core("pods", "log", "get", "logs, run"),
    core("pods", "portforward", "create", "agent attach, approve, deny"),
    core("secrets", "", "get", "agent attach, agent share, approve, deny"),
    core("events", "", "list", "describe, explain"),
];

impl Right {
    fn name(&self) -> String {
        let resource = match self.subresource {
            "" => self.resource.to_owned(),
            sub => format!("{}/{sub}", self.resource),
        };
        format!("{} {resource}", self.verb)
    }
}

/// Checks every right.
pub async fn examine(cluster: &Cluster) -> Vec<Finding> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(cluster.client.clone());
    let mut missing = Vec::new();
    for right in &RIGHTS {
        let attributes = ResourceAttributes {
            group: Some(right.group.to_owned()),
            resource: Some(right.resource.to_owned()),
            subresource: (!right.subresource.is_empty()).then(|| right.subresource.to_owned()),
            verb: Some(right.verb.to_owned()),
            namespace: Some(cluster.namespace.clone()),
            ..ResourceAttributes::default()
        };
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        match reviews.create(&PostParams::default(), &review).await {
            Ok(answer) if answer.status.as_ref().is_some_and(|status| status.allowed) => {}
            Ok(_) => missing.push(right),
            Err(error) => return vec![Finding::unknown("rights", &Problem::from(error))],
        }
    }
    vec![judge(&missing, &cluster.namespace)]
}

fn judge(missing: &[&Right], namespace: &str) -> Finding {
    if missing.is_empty() {
        return Finding::ok("rights", format!("every command may be used in namespace {namespace}"));
    }
    let one = |right: &&Right| format!("{} (needed by {})", right.name(), right.used_by);
    Finding::ok(
        "rights",
        format!("missing in namespace {namespace}: {}", missing.iter().map(one).collect::<Vec<_>>().join("; ")),
    )
    .warn("ask an administrator for a Role with them, or use another namespace with -n")
}

#[cfg(test)]
mod tests {
    use super::{super::finding::show, *};
    use crate::commands::screen::Screen;

    #[test]
    fn a_missing_right_is_reported_with_the_commands_that_need_it() {
        let findings = [judge(&[], "team"), judge(&[&RIGHTS[0], &RIGHTS[10]], "team")];
        insta::assert_snapshot!(show(&findings, &Screen::default()), @r"
        ok    rights: every command may be used in namespace team
        warn  rights: missing in namespace team: create tasks (needed by run); create pods/portforward (needed by agent attach, approve, deny)
              fix: ask an administrator for a Role with them, or use another namespace with -n
        ");
    }
}
