//! Pods: defaults, binding, eviction, logs and streams.

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use super::update::RETRIES;
use super::{Request, metadata};
use crate::api::Call;
use crate::body;
use crate::http::{self as responses, ApiResponse};
use crate::kubelet::{Attach, Exec, Kubelet, KubeletError, LogRequest};
use crate::status_error::StatusError;
use crate::store::{Action, EncodedObject, Expect, WriteError};
use crate::streams;

use std::sync::Arc;

/// Sets the fields that the server computes for a new Pod.
pub(super) fn complete_new(pod: &mut Value) {
    let account = pod["spec"]["serviceAccountName"].as_str().unwrap_or_default();
    let account = if account.is_empty() { "default" } else { account }.to_owned();
    pod["spec"]["serviceAccountName"] = json!(account);
    pod["spec"]["serviceAccount"] = json!(account);
    pod["status"] = json!({"phase": "Pending", "qosClass": quality(pod)});
}

/// Sets QoS class and default tolerations, as admission plugins do.
pub(super) fn admit(pod: &mut Value, old: Option<&Value>) {
    for (field, value) in [("priority", json!(0)), ("preemptionPolicy", json!("PreemptLowerPriority"))] {
        if pod["spec"][field].is_null() {
            pod["spec"][field] = old.and_then(|old| old["spec"].get(field)).cloned().unwrap_or(value);
        }
    }
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerations = pod["spec"]["tolerations"].as_array();
        let text = |toleration: &Value, field: &str| toleration[field].as_str().unwrap_or_default().to_owned();
        let tolerated = tolerations.into_iter().flatten().any(|toleration| {
            matches!(text(toleration, "key"), named if named.is_empty() || named == key)
                && matches!(text(toleration, "effect").as_str(), "" | "NoExecute")
        });
        if tolerated {
            continue;
        }
        if !pod["spec"]["tolerations"].is_array() {
            pod["spec"]["tolerations"] = json!([]);
        }
        if let Some(tolerations) = pod["spec"]["tolerations"].as_array_mut() {
            let patience = 300;
            tolerations
                .push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": patience}));
        }
    }
}

/// `Guaranteed` if every container has equal requests and limits, `BestEffort` if none has any, else `Burstable`.
fn quality(pod: &Value) -> &'static str {
    let containers = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|list| pod["spec"][list].as_array().into_iter().flatten());
    let (mut any, mut all) = (false, true);
    for container in containers {
        let resources = &container["resources"];
        for name in ["cpu", "memory"] {
            let (request, limit) = (&resources["requests"][name], &resources["limits"][name]);
            any |= !request.is_null() || !limit.is_null();
            all &= !limit.is_null() && (request.is_null() || request == limit);
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn node_error(error: &KubeletError) -> StatusError {
    match error {
        KubeletError::BadRequest(text) => StatusError::bad_request(text.clone()),
        KubeletError::NotFound(text) => StatusError::new(StatusCode::NOT_FOUND, "NotFound", text.clone()),
        KubeletError::Failed(text) => StatusError::internal(text),
    }
}

impl Request {
    /// `pods/binding` and `bindings`.
    pub(super) async fn bind(&self, bytes: &[u8]) -> Result<ApiResponse, StatusError> {
        let binding = body::decode(self.content_type.as_deref(), bytes)?.value;
        let name = if self.name.is_empty() { metadata::text(&binding, "name") } else { &self.name };
        let node = binding["target"]["name"].as_str().unwrap_or_default();
        let key = format!("{}/{name}", self.namespace);
        let missing = || StatusError::not_found("pods", "", name);
        for _ in 0..=RETRIES {
            let entry = self.api.store.get("pods", &key).ok_or_else(missing)?;
            let mut pod: Value = serde_json::from_slice(&entry.bytes).map_err(StatusError::internal)?;
            if metadata::is_being_deleted(&pod) {
                let why = format!("pod {name} is being deleted, cannot be assigned to a host");
                return Err(StatusError::conflict("pods/binding", "", name, &why));
            }
            if let Some(before) = pod["spec"]["nodeName"].as_str().filter(|before| !before.is_empty()) {
                let why = format!("pod {name} is already assigned to node {before:?}");
                return Err(StatusError::conflict("pods/binding", "", name, &why));
            }
            pod["spec"]["nodeName"] = json!(node);
            let condition = json!({
                "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": self.now,
            });
            if !pod["status"]["conditions"].is_array() {
                pod["status"]["conditions"] = json!([]);
            }
            if let Some(conditions) = pod["status"]["conditions"].as_array_mut() {
                conditions.retain(|condition| condition["type"] != "PodScheduled");
                conditions.push(condition);
            }
            let encoded = EncodedObject::new(&pod).map_err(StatusError::internal)?;
            match self.api.store.write("pods", &key, Expect::Revision(entry.revision), Action::Put(encoded)).await {
                Ok(_) => {
                    let status = json!({
                        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
                    });
                    return Ok(responses::json(StatusCode::CREATED, status.to_string()));
                }
                Err(WriteError::Unexpected(_)) => {}
                Err(error) => return Err(StatusError::internal(error)),
            }
        }
        Err(StatusError::stale("pods", "", name))
    }

    /// `pods/eviction`: a deletion that respects PodDisruptionBudgets.
    pub(super) async fn evict(&self, bytes: &[u8]) -> Result<ApiResponse, StatusError> {
        let eviction = body::decode(self.content_type.as_deref(), bytes)?.value;
        let pod = self.resource.read(&self.stored()?.bytes)?;
        let running = matches!(pod["status"]["phase"].as_str(), Some("Running"));
        if running && self.is_protected(&pod)? {
            let message = "Cannot evict pod as it would violate the pod's disruption budget.";
            return Err(StatusError::too_many_requests(message, 10));
        }
        let options = match &eviction["deleteOptions"] {
            Value::Null => Bytes::new(),
            options => options.to_string().into(),
        };
        let deletion = Self { content_type: None, subresource: String::new(), ..self.clone() };
        deletion.delete(&options).await?;
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
        Ok(responses::json(StatusCode::CREATED, status.to_string()))
    }

    fn is_protected(&self, pod: &Value) -> Result<bool, StatusError> {
        let budgets = self.api.store.list("poddisruptionbudgets.policy", &format!("{}/", self.namespace));
        for (_, entry) in budgets.items {
            let budget: Value = serde_json::from_slice(&entry.bytes).map_err(StatusError::internal)?;
            let selector = objects::selector::LabelSelector::from_object(budget["spec"].get("selector"));
            let selects = selector.is_ok_and(|selector| selector.matches(pod));
            if selects && budget["status"]["disruptionsAllowed"].as_i64().unwrap_or_default() <= 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn node(&self) -> Result<Arc<dyn Kubelet>, StatusError> {
        self.api.node().ok_or_else(|| StatusError::internal("no node is attached to this server"))
    }

    /// The Pod, and the requested or only container.
    fn pod_and_container(&self, what: &str) -> Result<(Value, String), StatusError> {
        let pod = self.resource.read(&self.stored()?.bytes)?;
        let names = |list: &str| -> Vec<String> {
            let containers = pod["spec"][list].as_array().into_iter().flatten();
            containers.filter_map(|container| container["name"].as_str()).map(str::to_owned).collect()
        };
        let (main, init) = (names("containers"), names("initContainers"));
        let container = match self.query.get("container") {
            Some(name) if main.iter().chain(&init).any(|known| known == name) => name.to_owned(),
            Some(name) => {
                let message = format!("container {name} is not valid for pod {}", self.name);
                return Err(StatusError::bad_request(message));
            }
            None => match main.as_slice() {
                [only] => only.clone(),
                [] => return Err(StatusError::bad_request(format!("pod {} has no containers", self.name))),
                several => {
                    let message = format!(
                        "a container name must be specified for pod {}, choose one of: [{}]{}",
                        self.name,
                        several.join(" "),
                        if init.is_empty() {
                            String::new()
                        } else {
                            format!(" or one of the init containers: [{}]", init.join(" "))
                        }
                    );
                    return Err(StatusError::bad_request(message));
                }
            },
        };
        let bound = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
        if !bound && what != "log" {
            return Err(StatusError::bad_request(format!("pod {} does not have a host assigned", self.name)));
        }
        Ok((pod, container))
    }

    /// `pods/log`.
    pub(super) async fn log(&self) -> Result<ApiResponse, StatusError> {
        let (pod, container) = self.pod_and_container("log")?;
        // A Pod that is not bound has an empty log.
        if pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty() {
            return Ok(responses::empty(StatusCode::NO_CONTENT));
        }
        let number = |name: &str| -> Result<Option<i64>, StatusError> {
            Ok(self.query.number(name)?.and_then(|number| i64::try_from(number).ok()))
        };
        let request = LogRequest {
            namespace: self.namespace.clone(),
            pod: self.name.clone(),
            container,
            follow: self.query.flag("follow"),
            previous: self.query.flag("previous"),
            since_seconds: number("sinceSeconds")?,
            since_time: self.query.get("sinceTime").map(str::to_owned),
            timestamps: self.query.flag("timestamps"),
            tail_lines: number("tailLines")?,
            limit_bytes: number("limitBytes")?,
        };
        let chunks = self.node()?.logs(request).await.map_err(|error| node_error(&error))?;
        Ok(responses::stream("text/plain", chunks))
    }

    /// `pods/exec`, `pods/attach` and `pods/portforward`.
    pub(super) fn stream(&self, call: Call) -> Result<ApiResponse, StatusError> {
        if self.subresource == "portforward" {
            self.stored()?;
            let node = self.node()?;
            return streams::forward(call, &self.query, node, self.namespace.clone(), self.name.clone());
        }
        let (_, container) = self.pod_and_container("stream")?;
        let node = self.node()?;
        let (namespace, pod) = (self.namespace.clone(), self.name.clone());
        let tty = self.query.flag("tty");
        let job = if self.subresource == "exec" {
            let command: Vec<String> = self.query.all("command").map(str::to_owned).collect();
            if command.is_empty() {
                return Err(StatusError::bad_request("you must specify at least 1 command for the container"));
            }
            streams::Job::Exec(Exec { namespace, pod, container, command, tty })
        } else {
            streams::Job::Attach(Attach { namespace, pod, container, tty })
        };
        streams::run(call, &self.query, node, job)
    }
}
