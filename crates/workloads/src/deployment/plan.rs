//! Decides the changes to the ReplicaSets of a Deployment: create, scale, set the revision, delete.

use std::sync::Arc;

use k8s_openapi::{
    api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet},
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::ResourceExt as _;

use super::template;

/// Default of `revisionHistoryLimit`.
const HISTORY: i32 = 10;

/// A change of one ReplicaSet.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Create(Box<ReplicaSet>),
    /// Set the number of Pods.
    Scale(Arc<ReplicaSet>, i32),
    /// The ReplicaSet is the current one, for the first time or again after a rollback: set its revision.
    SetRevision(Arc<ReplicaSet>, i64),
    /// Beyond the history limit.
    Delete(Arc<ReplicaSet>),
}

/// The input of a pass.
pub(super) struct Observed<'a> {
    pub deployment: &'a Deployment,
    pub spec: &'a DeploymentSpec,
    /// ReplicaSets of the Deployment, oldest first.
    pub sets: &'a [Arc<ReplicaSet>],
    /// Whether Pods of older templates are still running.
    pub old_pods_running: bool,
}

/// The ReplicaSet of the current template, if it exists, and all others, oldest first.
pub(super) struct Rollout {
    pub new: Option<Arc<ReplicaSet>>,
    pub old: Vec<Arc<ReplicaSet>>,
    pub hash: String,
}

impl Rollout {
    /// The revision of the current template: one more than any older one.
    pub(super) fn revision(&self) -> i64 {
        let highest = self.old.iter().map(|set| template::revision(set)).max().unwrap_or(0);
        self.new.as_ref().map_or(0, |new| template::revision(new)).max(highest + 1)
    }
}

impl Observed<'_> {
    pub(super) fn desired(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    fn recreates(&self) -> bool {
        self.spec.strategy.as_ref().is_some_and(|strategy| strategy.type_.as_deref() == Some("Recreate"))
    }

    pub(super) fn rollout(&self) -> Rollout {
        let collisions = self.deployment.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
        let hash = template::hash(&self.spec.template, collisions);
        let is_new = |set: &&Arc<ReplicaSet>| template::is_of(set, &self.spec.template, &hash);
        // The oldest match, should there be two.
        let new = self.sets.iter().find(is_new).cloned();
        let is_old = |set: &&Arc<ReplicaSet>| new.as_ref().is_none_or(|new| new.uid() != set.uid());
        let old = self.sets.iter().filter(is_old).cloned().collect();
        Rollout { new, old, hash }
    }

    /// `maxSurge` and `maxUnavailable` as numbers of Pods.
    pub(super) fn bounds(&self) -> (i32, i32) {
        if self.recreates() {
            return (0, self.desired());
        }
        let rolling = self.spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
        let quarter = IntOrString::String("25%".to_owned());
        let bound = |value: Option<&IntOrString>, up: bool| portion(value.unwrap_or(&quarter), self.desired(), up);
        let surge = bound(rolling.and_then(|rolling| rolling.max_surge.as_ref()), true);
        let unavailable = bound(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), false);
        // With both at zero a rollout could never progress.
        if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable.min(self.desired())) }
    }

    /// The steps of this pass. Steps that depend on their effect are left to a later pass, which the watch triggers.
    pub(super) fn steps(&self, rollout: &Rollout) -> Vec<Step> {
        if self.deployment.metadata.deletion_timestamp.is_some() {
            return Vec::new();
        }
        if self.spec.paused == Some(true) {
            return self.scale_while_paused(rollout);
        }
        let mut steps = Vec::new();
        let revision = rollout.revision();
        if self.recreates() {
            steps.extend(active(&rollout.old).map(|set| Step::Scale(Arc::clone(set), 0)));
            if !steps.is_empty() || self.old_pods_running {
                return steps;
            }
        }
        let Some(new) = &rollout.new else {
            let room = self.room(&rollout.old);
            let set = template::replica_set(self.deployment, &rollout.hash, revision, room.min(self.desired()));
            return set.map(|set| Step::Create(Box::new(set))).into_iter().collect();
        };
        if template::revision(new) != revision {
            steps.push(Step::SetRevision(Arc::clone(new), revision));
        }
        let grown = self.grown(new, &rollout.old);
        if grown != size(new) {
            steps.push(Step::Scale(Arc::clone(new), grown));
        } else if !self.recreates() {
            steps.extend(self.shrink(new, &rollout.old));
        }
        if steps.is_empty() && self.is_settled(new, &rollout.old) {
            steps.extend(self.surplus_history(&rollout.old));
        }
        steps
    }

    /// How many more Pods may exist beside those of `others`.
    fn room(&self, others: &[Arc<ReplicaSet>]) -> i32 {
        let (surge, _) = self.bounds();
        (self.desired() + surge - total(others)).max(0)
    }

    /// The next size of the current ReplicaSet: towards the desired number as far as `maxSurge` allows.
    fn grown(&self, new: &ReplicaSet, old: &[Arc<ReplicaSet>]) -> i32 {
        if self.recreates() || size(new) > self.desired() {
            return self.desired();
        }
        let room = (self.room(old) - size(new)).max(0);
        size(new) + room.min(self.desired() - size(new))
    }

    /// Scales old ReplicaSets down as far as `maxUnavailable` allows; unhealthy Pods first.
    fn shrink(&self, new: &ReplicaSet, old: &[Arc<ReplicaSet>]) -> Vec<Step> {
        let (_, unavailable) = self.bounds();
        let at_least = self.desired() - unavailable;
        let not_yet = size(new) - available(new);
        let mut spare = (total(old) + size(new) - at_least - not_yet).max(0);
        let mut sizes: Vec<i32> = old.iter().map(|set| size(set)).collect();
        for (set, left) in old.iter().zip(&mut sizes) {
            let useless = (*left - available(set)).clamp(0, spare);
            *left -= useless;
            spare -= useless;
        }
        let working = available(new) + old.iter().map(|set| available(set)).sum::<i32>();
        let mut spare = spare.min((working - at_least).max(0));
        for left in &mut sizes {
            let fewer = (*left).min(spare);
            *left -= fewer;
            spare -= fewer;
        }
        let changed = old.iter().zip(sizes).filter(|(set, left)| size(set) != *left);
        changed.map(|(set, left)| Step::Scale(Arc::clone(set), left)).collect()
    }

    /// A paused Deployment only follows its number of replicas: on the one active ReplicaSet, or on the latest one.
    fn scale_while_paused(&self, rollout: &Rollout) -> Vec<Step> {
        let mut in_use = active(self.sets);
        let one = match (in_use.next(), in_use.next()) {
            (Some(one), None) => Some(one),
            (None, _) => rollout.new.as_ref().or(rollout.old.last()),
            _ => None,
        };
        let one = one.filter(|set| size(set) != self.desired());
        one.map(|set| Step::Scale(Arc::clone(set), self.desired())).into_iter().collect()
    }

    fn is_settled(&self, new: &ReplicaSet, old: &[Arc<ReplicaSet>]) -> bool {
        available(new) == self.desired() && total(old) == 0
    }

    fn surplus_history(&self, old: &[Arc<ReplicaSet>]) -> Vec<Step> {
        let limit = usize::try_from(self.spec.revision_history_limit.unwrap_or(HISTORY)).unwrap_or(0);
        let is_unused = |set: &&Arc<ReplicaSet>| {
            size(set) == 0
                && set
                    .status
                    .as_ref()
                    .is_some_and(|status| status.replicas == 0 && status.observed_generation >= set.metadata.generation)
                && set.metadata.deletion_timestamp.is_none()
        };
        let mut unused: Vec<_> = old.iter().filter(is_unused).cloned().collect();
        unused.sort_by_key(|set| template::revision(set));
        let surplus = unused.len().saturating_sub(limit);
        unused.into_iter().take(surplus).map(Step::Delete).collect()
    }
}

pub(super) fn size(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

pub(super) fn total(sets: &[Arc<ReplicaSet>]) -> i32 {
    sets.iter().map(|set| size(set)).sum()
}

fn active(sets: &[Arc<ReplicaSet>]) -> impl Iterator<Item = &Arc<ReplicaSet>> {
    sets.iter().filter(|set| size(set) > 0)
}

/// A number, or a percentage of `of`, rounded up or down.
fn portion(value: &IntOrString, of: i32, up: bool) -> i32 {
    match value {
        IntOrString::Int(number) => (*number).max(0),
        IntOrString::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            let hundredfold = percent.max(0) * i64::from(of);
            let whole = if up { (hundredfold + 99) / 100 } else { hundredfold / 100 };
            i32::try_from(whole).unwrap_or(i32::MAX)
        }
    }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "cases are written as literals")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A Deployment with image `new`; ReplicaSets as (image, size, available, revision).
    struct Case {
        spec: Value,
        sets: Vec<(&'static str, i32, i32, i64)>,
        old_pods_running: bool,
    }

    fn pod_template(image: &str) -> Value {
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
    }

    impl Case {
        fn new(spec: Value, sets: &[(&'static str, i32, i32, i64)]) -> Self {
            Self { spec, sets: sets.to_vec(), old_pods_running: false }
        }

        /// The steps as text.
        fn steps(&self) -> Vec<String> {
            let mut spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": pod_template("new")});
            for (name, value) in self.spec.as_object().unwrap() {
                spec[name] = value.clone();
            }
            let deployment: Deployment =
                serde_json::from_value(json!({"metadata": {"name": "web", "uid": "d"}, "spec": spec})).unwrap();
            let sets: Vec<Arc<ReplicaSet>> = self
                .sets
                .iter()
                .map(|(image, size, available, revision)| {
                    let mut template = pod_template(image);
                    template["metadata"]["labels"][template::HASH] = json!(format!("of-{image}"));
                    Arc::new(
                        serde_json::from_value(json!({
                            "metadata": {"name": image, "uid": image, "generation": 1,
                                         "annotations": {template::REVISION: revision.to_string()}},
                            "spec": {"replicas": size, "selector": {}, "template": template},
                            "status": {"replicas": size, "availableReplicas": available, "observedGeneration": 1},
                        }))
                        .unwrap(),
                    )
                })
                .collect();
            let spec = deployment.spec.as_ref().unwrap();
            let observed =
                Observed { deployment: &deployment, spec, sets: &sets, old_pods_running: self.old_pods_running };
            let rollout = observed.rollout();
            let words = |step: Step| match step {
                Step::Create(set) => format!("create {} as {}", size(&set), template::revision(&set)),
                Step::Scale(set, size) => format!("{} to {size}", set.name_any()),
                Step::SetRevision(set, revision) => format!("{} is {revision}", set.name_any()),
                Step::Delete(set) => format!("forget {}", set.name_any()),
            };
            observed.steps(&rollout).into_iter().map(words).collect()
        }
    }

    #[track_caller]
    fn check(spec: Value, sets: &[(&'static str, i32, i32, i64)], steps: &[&str]) {
        assert_eq!(Case::new(spec, sets).steps(), steps);
    }

    fn rolling(replicas: i32, surge: Value, unavailable: Value) -> Value {
        let update = json!({"maxSurge": surge, "maxUnavailable": unavailable});
        json!({"replicas": replicas, "strategy": {"type": "RollingUpdate", "rollingUpdate": update}})
    }

    #[test]
    fn a_first_template_is_made_in_full() {
        check(json!({"replicas": 3}), &[], &["create 3 as 1"]);
    }

    #[test]
    fn a_rolling_update_never_exceeds_its_bounds() {
        let one_more = || rolling(3, json!(1), json!(0));
        check(one_more(), &[("old", 3, 3, 1)], &["create 1 as 2"]);
        // No old Pod may be removed before the first new Pod is available.
        check(one_more(), &[("old", 3, 3, 1), ("new", 1, 0, 2)], &[]);
        check(one_more(), &[("old", 3, 3, 1), ("new", 1, 1, 2)], &["old to 2"]);
        check(one_more(), &[("old", 2, 2, 1), ("new", 1, 1, 2)], &["new to 2"]);
        check(one_more(), &[("old", 0, 0, 1), ("new", 3, 3, 2)], &[]);
        // 25 % of 4 in both directions.
        check(json!({"replicas": 4}), &[("old", 4, 4, 1)], &["create 1 as 2"]);
        check(json!({"replicas": 4}), &[("old", 4, 4, 1), ("new", 1, 0, 2)], &["old to 3"]);
    }

    #[test]
    fn pods_that_do_not_work_are_taken_away_first() {
        let none_missing = rolling(3, json!(1), json!(0));
        check(none_missing, &[("broken", 2, 0, 1), ("old", 2, 2, 2), ("new", 0, 0, 3)], &["broken to 1"]);
    }

    #[test]
    fn without_room_for_anything_one_pod_may_be_missing() {
        check(rolling(2, json!(0), json!(0)), &[("old", 2, 2, 1), ("new", 0, 0, 2)], &["old to 1"]);
        check(rolling(1, json!("10%"), json!("10%")), &[("old", 1, 1, 1)], &["create 1 as 2"]);
    }

    #[test]
    fn a_smaller_number_takes_effect_at_once() {
        check(rolling(1, json!(1), json!(0)), &[("new", 3, 3, 1)], &["new to 1"]);
        check(rolling(0, json!(1), json!(0)), &[("new", 1, 1, 1)], &["new to 0"]);
    }

    #[test]
    fn recreate_waits_until_the_old_pods_are_gone() {
        let recreate = || json!({"replicas": 2, "strategy": {"type": "Recreate"}});
        check(recreate(), &[("old", 2, 2, 1)], &["old to 0"]);
        let mut case = Case::new(recreate(), &[("old", 0, 0, 1)]);
        case.old_pods_running = true;
        assert_eq!(case.steps(), [""; 0]);
        case.old_pods_running = false;
        assert_eq!(case.steps(), ["create 2 as 2"]);
    }

    #[test]
    fn a_way_back_counts_on_from_the_last_revision() {
        let steps = ["new is 3", "new to 1"];
        check(rolling(2, json!(1), json!(1)), &[("new", 0, 0, 1), ("old", 2, 2, 2)], &steps);
    }

    #[test]
    fn a_paused_deployment_only_changes_its_size() {
        check(json!({"replicas": 2, "paused": true}), &[("old", 1, 1, 1)], &["old to 2"]);
        check(json!({"replicas": 2, "paused": true}), &[("old", 2, 2, 1)], &[]);
        check(json!({"replicas": 2, "paused": true}), &[], &[]);
    }

    #[test]
    fn only_so_much_history_is_kept() {
        let sets = [("a", 0, 0, 1), ("b", 0, 0, 2), ("c", 0, 0, 3), ("new", 1, 1, 4)];
        check(json!({"replicas": 1, "revisionHistoryLimit": 1}), &sets, &["forget a", "forget b"]);
        // Not while the current one is incomplete: the old one may be needed for a rollback.
        let sets = [("a", 0, 0, 1), ("b", 0, 0, 2), ("new", 1, 0, 4)];
        check(json!({"replicas": 1, "revisionHistoryLimit": 1}), &sets, &[]);
    }
}
