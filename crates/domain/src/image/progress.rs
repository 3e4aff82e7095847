//! What a Pod that builds an image has come to, and what follows for those who want the image.

use std::time::Duration;

use api::names::{annotations, labels};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod};

use super::{
    About, Plan,
    builder::{COMPONENT, LONGEST},
};
use crate::{
    agent::rollout::complaint,
    contract::image::BuildReport,
    duration::{later, signed},
};

/// The Pod of a finished build is deleted after this time.
const KEEP_BUILT: SignedDuration = SignedDuration::from_hours(1);
/// The Pod of a failed build stays this long, for its log.
const KEEP_FAILED: SignedDuration = SignedDuration::from_hours(24);
/// An Agent has a failed build repeated after this time.
const AGENT_RETRY: SignedDuration = SignedDuration::from_mins(10);
/// Characters of a message that are quoted: its end, where the error is.
const QUOTED: usize = 600;

/// State of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It goes on. With a time, it has a problem and is given up at that time.
    Building { until: Option<Timestamp> },
    /// The image is in the registry.
    Built {
        /// The image, by digest.
        image: String,
        at: Timestamp,
    },
    /// There is no image.
    Failed { why: String, at: Timestamp },
}

/// What is built by a Pod; `None` for any other Pod.
pub fn about(pod: &Pod) -> Option<About> {
    let component = pod.metadata.labels.as_ref()?.get(labels::APP_COMPONENT)?;
    let text = pod.metadata.annotations.as_ref()?.get(annotations::IMAGE_BUILD)?;
    serde_json::from_str(text).ok().filter(|_| component == COMPONENT)
}

impl Progress {
    /// The state of a build by its Pod, which must start within `limit`.
    pub fn of(pod: &Pod, about: &About, limit: Duration, now: Timestamp) -> Self {
        let status = pod.status.clone().unwrap_or_default();
        let created = pod.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
        let mut containers = status.init_container_statuses.into_iter().flatten().collect::<Vec<_>>();
        containers.extend(status.container_statuses.into_iter().flatten());
        let ended: Vec<_> = containers.iter().filter_map(|one| Some((one, terminated(one)?))).collect();
        let last = ended.iter().filter_map(|(_, end)| end.finished_at.as_ref()).map(|time| time.0).max();
        let at = last.unwrap_or(created);
        match status.phase.as_deref() {
            Some("Succeeded") => {
                let report = ended.iter().rev().find_map(|(_, end)| BuildReport::read(end.message.as_deref()?));
                match report {
                    Some(report) => Self::Built { image: by_digest(&about.image, &report.digest), at },
                    None => Self::Failed { why: "its Pod reported no digest".to_owned(), at },
                }
            }
            Some("Failed") => {
                let failed = ended.iter().find(|(_, end)| end.exit_code != 0);
                let why = match (status.reason.as_deref(), status.message.filter(|text| !text.is_empty()), failed) {
                    (Some("DeadlineExceeded"), ..) => format!("the build took longer than {} minutes", LONGEST / 60),
                    // An eviction, for example.
                    (_, Some(message), _) => quoted(&message),
                    (_, None, Some((container, end))) => how(container, end),
                    (_, None, None) => "its Pod failed".to_owned(),
                };
                Self::Failed { why, at }
            }
            _ => match complaint(pod) {
                None => Self::Building { until: None },
                Some(problem) => {
                    let until = later(created, signed(limit));
                    if now < until {
                        Self::Building { until: Some(until) }
                    } else {
                        Self::Failed { why: problem, at: until }
                    }
                }
            },
        }
    }

    /// When the Pod of a finished build is deleted.
    pub fn delete_at(&self) -> Option<Timestamp> {
        match self {
            Self::Building { .. } => None,
            Self::Built { at, .. } => Some(later(*at, KEEP_BUILT)),
            Self::Failed { at, .. } => Some(later(*at, KEEP_FAILED)),
        }
    }

    /// When an Agent has the build repeated.
    pub fn retry_at(&self) -> Option<Timestamp> {
        match self {
            Self::Failed { at, .. } => Some(later(*at, AGENT_RETRY)),
            Self::Building { .. } | Self::Built { .. } => None,
        }
    }
}

/// Who wants an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A run of a Task that waits since then. A build that failed later is its failure; after an earlier one, the image is
    /// built anew.
    Run(Timestamp),
    /// An Agent, which has a failed build repeated from time to time.
    Agent,
}

/// What to do for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Create the Pod.
    Create,
    /// Wait for the Pod; the sentence says for what.
    Wait(String),
    /// Delete the Pod of a failed build, and create it again.
    Repeat(String),
    /// The image, by digest.
    Use(String),
    /// The build failed; the sentence says why.
    Fail(String),
}

/// Decides what to do for a request, by the Pod of the build.
pub fn decide(plan: &Plan, pod: Option<&Pod>, request: Request, limit: Duration, now: Timestamp) -> Step {
    let Plan { pod: name, about, .. } = plan;
    let Some(pod) = pod else { return Step::Create };
    let waiting = || format!("the image {} is being built from {} by Pod {name}", about.image, about.source());
    if self::about(pod).is_none() {
        return Step::Fail(format!("Pod {name} exists and builds no image: delete it"));
    }
    if pod.metadata.deletion_timestamp.is_some() {
        return Step::Wait(waiting());
    }
    let progress = Progress::of(pod, about, limit, now);
    let repeat = match (request, progress.retry_at()) {
        (Request::Agent, Some(at)) => now >= at,
        _ => false,
    };
    match progress {
        Progress::Building { .. } => Step::Wait(waiting()),
        Progress::Built { image, .. } => Step::Use(image),
        Progress::Failed { at, .. } if repeat || matches!(request, Request::Run(since) if at < since) => {
            Step::Repeat(waiting())
        }
        Progress::Failed { why, .. } => Step::Fail(format!(
            "the image could not be built from {} ({}): {why}; the whole log is in Pod {name}",
            about.source(),
            about.dockerfile
        )),
    }
}

/// `repository:tag` by digest.
fn by_digest(image: &str, digest: &str) -> String {
    let name = match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    };
    format!("{name}@{digest}")
}

fn terminated(container: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    container.state.as_ref()?.terminated.as_ref()
}

/// How a container failed, with its own words.
fn how(container: &ContainerStatus, end: &ContainerStateTerminated) -> String {
    let message = end.message.as_deref().map(str::trim).filter(|message| !message.is_empty());
    match (end.reason.as_deref(), message) {
        (Some("OOMKilled"), _) => {
            format!("container {} exceeded its memory limit: raise spec.imageBuild.resources", container.name)
        }
        (_, Some(message)) => quoted(message),
        (_, None) => format!("container {} ended with exit code {}", container.name, end.exit_code),
    }
}

fn quoted(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().rev().nth(QUOTED - 1) {
        Some((start, _)) if start > 0 => format!("…{}", &text[start..]),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::image::{Recipe, tests};

    const LIMIT: Duration = Duration::from_mins(5);

    fn plan() -> Plan {
        let (agent, platform) = (tests::agent(tests::build()), tests::platform());
        Recipe::of(&agent, &platform).unwrap().unwrap().at("team-a", tests::COMMIT)
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pod(status: &Value) -> Pod {
        let about = serde_json::to_string(&plan().about).unwrap();
        let metadata = json!({
            "name": plan().pod, "creationTimestamp": at(1000).to_string(),
            "labels": {"app.kubernetes.io/component": "image-builder"},
            "annotations": {"kubeopencode.io/image-build": about},
        });
        serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
    }

    fn container(name: &str, state: &Value) -> Value {
        json!({"name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state})
    }

    fn ended(name: &str, code: i32, message: &str) -> Value {
        let end = json!({"exitCode": code, "message": message, "finishedAt": at(2000).to_string()});
        container(name, &json!({"terminated": end}))
    }

    #[track_caller]
    fn check(status: &Value, request: Request, now: i64, expected: &Step) {
        assert_eq!(&decide(&plan(), Some(&pod(status)), request, LIMIT, at(now)), expected);
    }

    fn failed() -> Value {
        let build = ended("build", 1, "STEP 2/2: RUN make\nmake: *** [all] Error 2");
        json!({"phase": "Failed", "initContainerStatuses": [ended("git-init-0", 0, ""), build]})
    }

    #[test]
    fn an_image_is_built_once_and_used_by_digest() {
        assert_eq!(decide(&plan(), None, Request::Run(at(0)), LIMIT, at(1)), Step::Create);
        let about = plan().about;
        let waits = Step::Wait(format!(
            "the image {} is being built from https://git.example.com/team/tools.git at 0123456789ab by Pod {}",
            about.image,
            plan().pod
        ));
        check(&json!({"phase": "Pending"}), Request::Run(at(1000)), 9000, &waits);
        check(&json!({"phase": "Running"}), Request::Agent, 9000, &waits);
        let digest = format!("sha256:{}", "a".repeat(64));
        let push = ended("push", 0, &json!({"digest": digest}).to_string());
        let done = json!({"phase": "Succeeded", "containerStatuses": [push]});
        check(&done, Request::Agent, 9000, &Step::Use(format!("registry.example.com/agents/team-a@{digest}")));
        let silent = json!({"phase": "Succeeded", "containerStatuses": [ended("push", 0, "")]});
        assert!(matches!(Progress::of(&pod(&silent), &about, LIMIT, at(9000)), Progress::Failed { .. }));
    }

    #[test]
    fn a_failure_is_that_of_the_runs_that_waited_for_it() {
        let why = Step::Fail(format!(
            "the image could not be built from https://git.example.com/team/tools.git at 0123456789ab (Dockerfile): STEP \
             2/2: RUN make make: *** [all] Error 2; the whole log is in Pod {}",
            plan().pod
        ));
        check(&failed(), Request::Run(at(1999)), 2001, &why);
        check(&failed(), Request::Run(at(2000)), 2001, &why);
        let repeats =
            |request, now| matches!(decide(&plan(), Some(&pod(&failed())), request, LIMIT, at(now)), Step::Repeat(_));
        assert!(repeats(Request::Run(at(2001)), 2002), "a later run has it tried again");
        assert!(!repeats(Request::Agent, 2000 + 599) && repeats(Request::Agent, 2000 + 600));
    }

    #[test]
    fn a_pod_that_does_not_start_is_given_up() {
        let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}});
        let status = json!({"phase": "Pending", "initContainerStatuses": [container("build", &waiting)]});
        let of = |now| Progress::of(&pod(&status), &plan().about, LIMIT, at(now));
        assert_eq!(of(1299), Progress::Building { until: Some(at(1300)) });
        let Progress::Failed { why, at: ended } = of(1300) else { panic!("it is given up") };
        assert!(why.contains("no such image") && ended == at(1300), "{why}");
    }

    #[test]
    fn evictions_deadlines_and_memory_are_named() {
        let why = |status: &Value| match Progress::of(&pod(status), &plan().about, LIMIT, at(9000)) {
            Progress::Failed { why, .. } => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(why(&json!({"phase": "Failed", "message": "The node was low on disk"})), "The node was low on disk");
        let mut late = failed();
        late["reason"] = json!("DeadlineExceeded");
        assert_eq!(why(&late), "the build took longer than 60 minutes");
        let end = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
        let status = json!({"phase": "Failed", "initContainerStatuses": [container("build", &end)]});
        assert!(why(&status).contains("spec.imageBuild.resources"));
        let long = json!({"phase": "Failed", "initContainerStatuses": [ended("build", 1, &"x".repeat(5000))]});
        assert_eq!(why(&long).chars().count(), QUOTED + 1);
    }

    #[test]
    fn a_failed_build_stays_longer_than_a_good_one() {
        let failed = Progress::of(&pod(&failed()), &plan().about, LIMIT, at(9000));
        assert_eq!(failed.delete_at(), Some(at(2000 + 24 * 3600)));
        let built = Progress::Built { image: String::new(), at: at(0) };
        assert_eq!((built.delete_at(), built.retry_at()), (Some(at(3600)), None));
    }
}
