//! Secrets that a Task names, and whether it may use them.
//!
//! Agents and templates are written by people whom the platform engineer trusts. Tasks are written by anyone with the
//! right to create Tasks, so a Secret that a Task or CronTask names may be used only if its author can read it, or if its
//! owner set the label `kubeopencode.io/allow-tasks=true`. The same rule is enforced by `deploy/admission/task-secrets.yaml`
//! on clusters, by the embedded API server, and by the REST API. No object records its author, so the controller checks
//! again what it can when a run starts: [`Checked`].

use std::collections::BTreeMap;

use api::names::{TASK_SECRETS_POLICY, labels};
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use serde_json::Value;

/// The fields of a Task's spec that refer to a Secret by `name`. A test compares them with the definition of Task.
pub const FIELDS: [&str; 6] = [
    "contexts[].git.secretRef",
    "contexts[].url.secretRef",
    "executorImageBuild.secretRef",
    "publish.secretRef",
    "services[].env[].valueFrom.secretKeyRef",
    "tools[].headersFrom[].secretKeyRef",
];

/// The kinds whose authors are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Task,
    CronTask,
}

impl Kind {
    /// The kind of this name.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "Task" => Some(Self::Task),
            "CronTask" => Some(Self::CronTask),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Task => "Task",
            Self::CronTask => "CronTask",
        }
    }

    /// Path of the Task's spec.
    fn prefix(self) -> &'static str {
        match self {
            Self::Task => "spec",
            Self::CronTask => "spec.taskTemplate.spec",
        }
    }

    /// The Task's spec in an object of this kind.
    fn task_spec(self, object: &Value) -> &Value {
        match self {
            Self::Task => &object["spec"],
            Self::CronTask => &object["spec"]["taskTemplate"]["spec"],
        }
    }

    /// The Secrets that a write makes its author answerable for: those of a new object, or of one whose Task changes.
    /// Every one counts then, also one that was there before: a changed address or prompt sends it elsewhere.
    pub fn named(self, object: &Value, before: Option<&Value>) -> Vec<NamedSecret> {
        let spec = self.task_spec(object);
        if before.is_some_and(|before| self.task_spec(before) == spec) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for field in FIELDS {
            collect(spec, field, self.prefix(), &mut found);
        }
        found
    }

    /// The refusal of a write whose author cannot read `secret`, which its owner did not label.
    pub fn refusal(self, secret: &NamedSecret) -> String {
        let NamedSecret { name, field } = secret;
        format!(
            "Secret '{name}' ({field}) may not be used by this {}: you cannot read it. Ask its owner to label it {}=true, \
             or to grant you get on it.",
            self.name(),
            labels::ALLOW_TASKS
        )
    }
}

/// A Secret in a field of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSecret {
    pub name: String,
    /// Such as `spec.contexts[0].git.secretRef`.
    pub field: String,
}

impl NamedSecret {
    /// Whether a Secret can have this name. Any other name must not become part of a path.
    pub fn can_exist(&self) -> bool {
        let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        self.name.starts_with(is_letter) && self.name.chars().all(|c| is_letter(c) || c == '-' || c == '.')
    }
}

/// Collects the Secrets at `field`, which is relative to `value` at `path`.
fn collect(value: &Value, field: &str, path: &str, found: &mut Vec<NamedSecret>) {
    let (step, rest) = field.split_once('.').unwrap_or((field, ""));
    let Some(list) = step.strip_suffix("[]") else {
        let (value, path) = (&value[step], format!("{path}.{step}"));
        if !rest.is_empty() {
            return collect(value, rest, &path, found);
        }
        let name = value["name"].as_str().filter(|name| !name.is_empty());
        found.extend(name.map(|name| NamedSecret { name: name.to_owned(), field: path }));
        return;
    };
    for (index, item) in value[list].as_array().into_iter().flatten().enumerate() {
        collect(item, rest, &format!("{path}.{list}[{index}]"), found);
    }
}

/// Whether the labels of a Secret let every Task of the namespace use it.
pub fn allows_tasks(labels: Option<&BTreeMap<String, String>>) -> bool {
    labels.and_then(|all| all.get(labels::ALLOW_TASKS)).is_some_and(|value| value == "true")
}

/// What the controller relies on when a run starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checked {
    /// A Secret without the label is used only where the admission policy is in force.
    #[default]
    Policy,
    /// Any Secret is used: the embedded API server checked the author, or every author of Tasks may read every Secret.
    Elsewhere,
}

/// The refusal of a run whose author is unknown.
pub fn refusal_at_start(secret: &NamedSecret) -> String {
    let NamedSecret { name, field } = secret;
    format!(
        "Secret '{name}' ({field}) may not be used by this Task: it has no label {}=true, and no admission policy checks \
         who may name it; label it, or apply deploy/admission/task-secrets.yaml",
        labels::ALLOW_TASKS
    )
}

/// Whether the cluster refuses Tasks whose authors cannot read the Secrets that they name, in every namespace.
pub fn is_in_force(
    policy: Option<&ValidatingAdmissionPolicy>,
    binding: Option<&ValidatingAdmissionPolicyBinding>,
) -> bool {
    let fails_closed = policy
        .and_then(|policy| policy.spec.as_ref())
        .is_some_and(|spec| spec.failure_policy.as_deref().is_none_or(|action| action == "Fail"));
    let is_bound = binding.and_then(|binding| binding.spec.as_ref()).is_some_and(|spec| {
        spec.policy_name.as_deref() == Some(TASK_SECRETS_POLICY)
            && spec.match_resources.is_none()
            && spec.validation_actions.iter().flatten().any(|action| action == "Deny")
    });
    fails_closed && is_bound
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A Task's spec with a Secret at every place, and one place without.
    fn spec() -> Value {
        let secret = |name: &str| json!({"name": name, "key": "k"});
        let from = |name: &str| json!({"name": "A", "valueFrom": {"secretKeyRef": secret(name)}});
        json!({
            "contexts": [
                {"type": "Text", "text": "x"},
                {"type": "Git", "git": {"repository": "r", "secretRef": {"name": "git"}}},
                {"type": "URL", "url": {"source": "s", "secretRef": {"name": "url"}}},
            ],
            "executorImageBuild": {"repository": "r", "secretRef": {"name": "build"}},
            "services": [{"env": [{"name": "B", "value": "b"}, from("env")]}, {}],
            "tools": [{"headersFrom": [{"name": "H", "secretKeyRef": secret("one")}, {"secretKeyRef": secret("two")}]}],
        })
    }

    fn shown(found: &[NamedSecret]) -> Vec<String> {
        found.iter().map(|secret| format!("{} {}", secret.name, secret.field)).collect()
    }

    #[test]
    fn every_secret_that_a_task_names_is_found_with_its_field() {
        let expected = [
            "git spec.contexts[1].git.secretRef",
            "url spec.contexts[2].url.secretRef",
            "build spec.executorImageBuild.secretRef",
            "env spec.services[0].env[1].valueFrom.secretKeyRef",
            "one spec.tools[0].headersFrom[0].secretKeyRef",
            "two spec.tools[0].headersFrom[1].secretKeyRef",
        ];
        assert_eq!(shown(&Kind::Task.named(&json!({ "spec": spec() }), None)), expected);
        let cron = json!({"spec": {"schedule": "@daily", "taskTemplate": {"spec": spec()}}});
        let expected = expected.map(|line| line.replace("spec.", "spec.taskTemplate.spec."));
        assert_eq!(shown(&Kind::CronTask.named(&cron, None)), expected);
        for odd in [json!({}), json!({"spec": {"contexts": 1, "tools": [null]}}), json!(null)] {
            assert_eq!(Kind::Task.named(&odd, None), []);
        }
    }

    #[test]
    fn a_write_answers_for_the_secrets_of_a_task_that_it_changes() {
        let before = json!({"metadata": {}, "spec": {"schedule": "@daily", "taskTemplate": {"spec": spec()}}});
        let named = |after: &Value| Kind::CronTask.named(after, Some(&before)).len();
        let mut after = before.clone();
        after["spec"]["suspend"] = json!(true);
        after["metadata"]["labels"] = json!({"a": "b"});
        assert_eq!(named(&after), 0);
        // The Secrets stay and their use changes.
        after["spec"]["taskTemplate"]["spec"]["contexts"][2]["url"]["source"] = json!("http://elsewhere");
        assert_eq!(named(&after), 6);
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let secret = NamedSecret { name: "deploy-key".into(), field: "spec.contexts[0].git.secretRef".into() };
        assert_eq!(
            Kind::Task.refusal(&secret),
            "Secret 'deploy-key' (spec.contexts[0].git.secretRef) may not be used by this Task: you cannot read it. Ask \
             its owner to label it kubeopencode.io/allow-tasks=true, or to grant you get on it."
        );
        assert_eq!(
            refusal_at_start(&secret),
            "Secret 'deploy-key' (spec.contexts[0].git.secretRef) may not be used by this Task: it has no label \
             kubeopencode.io/allow-tasks=true, and no admission policy checks who may name it; label it, or apply \
             deploy/admission/task-secrets.yaml"
        );
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_no_name() {
        let can_exist = |name: &str| NamedSecret { name: name.into(), field: String::new() }.can_exist();
        assert!(can_exist("deploy-key") && can_exist("a.b"));
        for name in ["", "..", "../configmaps/x", "a/b", "a?b", "a%2fb", "A"] {
            assert!(!can_exist(name), "{name}");
        }
    }

    #[test]
    fn only_the_value_true_opts_in() {
        let labels = |value: &str| BTreeMap::from([(labels::ALLOW_TASKS.to_owned(), value.to_owned())]);
        assert!(allows_tasks(Some(&labels("true"))));
        assert!(!allows_tasks(Some(&labels("false"))) && !allows_tasks(Some(&BTreeMap::new())) && !allows_tasks(None));
    }

    /// The paths of a schema whose name says that they hold or name a Secret.
    fn secret_fields(schema: &Value, path: &str, found: &mut Vec<String>) {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            if name.to_lowercase().contains("secret") {
                found.push(at);
            } else {
                secret_fields(field, &at, found);
            }
        }
        for (inside, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
            if schema[inside].is_object() {
                secret_fields(&schema[inside], &format!("{path}{mark}"), found);
            }
        }
    }

    #[test]
    fn no_field_of_a_task_that_names_a_secret_is_forgotten() {
        for (plural, place) in [("tasks", &[][..]), ("crontasks", &["taskTemplate", "spec"])] {
            let definitions = api::crds();
            let definition = definitions.iter().find(|crd| crd["spec"]["names"]["plural"] == plural).unwrap();
            let mut schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
            for step in place {
                schema = &schema["properties"][step];
            }
            let mut found = Vec::new();
            secret_fields(schema, "", &mut found);
            found.sort();
            assert_eq!(found, FIELDS, "{plural}: add the field to FIELDS and to deploy/admission/task-secrets.yaml");
            // The policy looks at so many items of each list.
            let list = |schema: &Value, name: &str, most: u64| {
                let list = &schema["properties"][name];
                assert!(list["maxItems"].as_u64().unwrap() <= most, "{name}");
                list["items"].clone()
            };
            list(schema, "contexts", 64);
            list(&list(schema, "services", 64), "env", 256);
            list(&list(schema, "tools", 64), "headersFrom", 64);
        }
    }

    #[test]
    fn a_policy_is_in_force_if_it_denies_everywhere() {
        let policy = |failure: Value| serde_json::from_value(json!({"spec": {"failurePolicy": failure}})).unwrap();
        let binding = |change: Value| {
            let mut spec = json!({"policyName": "task-secrets.kubeopencode.io", "validationActions": ["Deny"]});
            spec.as_object_mut().unwrap().extend(change.as_object().cloned().unwrap());
            serde_json::from_value::<ValidatingAdmissionPolicyBinding>(json!({ "spec": spec })).unwrap()
        };
        let (fails, bound) = (policy(json!("Fail")), binding(json!({})));
        assert!(is_in_force(Some(&fails), Some(&bound)));
        assert!(!is_in_force(None, Some(&bound)));
        assert!(!is_in_force(Some(&fails), None));
        assert!(!is_in_force(Some(&policy(json!("Ignore"))), Some(&bound)));
        for weaker in [
            json!({"policyName": "other"}),
            json!({"validationActions": ["Warn", "Audit"]}),
            json!({"matchResources": {"namespaceSelector": {}}}),
        ] {
            assert!(!is_in_force(Some(&fails), Some(&binding(weaker))));
        }
    }
}
