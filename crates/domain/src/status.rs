//! Conditions, and comparison of statuses.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::Serialize;
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    True,
    False,
    Unknown,
}

impl Truth {
    /// As Kubernetes writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// Sets the condition of a type. The transition time changes only with the truth, not with reason or message.
pub fn set(
    conditions: &mut Vec<Condition>,
    kind: &str,
    truth: impl Into<Truth>,
    reason: &str,
    message: impl Into<String>,
    generation: Option<i64>,
    now: Timestamp,
) {
    let status = truth.into().as_str();
    let unchanged = find(conditions, kind).filter(|condition| condition.status == status);
    let condition = Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.into(),
        observed_generation: generation,
        last_transition_time: unchanged.map_or(Time(now), |condition| condition.last_transition_time.clone()),
    };
    match conditions.iter_mut().find(|condition| condition.type_ == kind) {
        Some(place) => *place = condition,
        None => conditions.push(condition),
    }
}

/// Removes the condition of a type.
pub fn remove(conditions: &mut Vec<Condition>, kind: &str) {
    conditions.retain(|condition| condition.type_ != kind);
}

/// The condition of a type.
pub fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == kind)
}

/// Whether the condition of a type holds.
pub fn holds(conditions: Option<&[Condition]>, kind: &str) -> bool {
    conditions.and_then(|conditions| find(conditions, kind)).is_some_and(|condition| condition.status == "True")
}

/// Whether two statuses are equal except for transition times and the order of conditions.
pub fn same_ignoring_times<S: Serialize>(a: &S, b: &S) -> bool {
    comparable(a) == comparable(b)
}

fn comparable(status: &impl Serialize) -> Value {
    let mut value = serde_json::to_value(status).unwrap_or_default();
    if let Some(conditions) = value.get_mut("conditions").and_then(Value::as_array_mut) {
        for condition in conditions.iter_mut().filter_map(Value::as_object_mut) {
            condition.remove("lastTransitionTime");
        }
        conditions.sort_by_key(|condition| condition["type"].as_str().unwrap_or_default().to_owned());
    }
    value
}

#[cfg(test)]
mod tests {
    use api::TaskStatus;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Sets a condition twice and expects the second transition time.
    #[track_caller]
    fn check(first: (bool, &str, &str), second: (bool, &str, &str), time: i64) {
        let mut conditions = Vec::new();
        set(&mut conditions, "Ready", first.0, first.1, first.2, Some(1), at(1));
        set(&mut conditions, "Ready", second.0, second.1, second.2, Some(2), at(2));
        let [condition] = conditions.as_slice() else { panic!("{conditions:?}") };
        assert_eq!(condition.last_transition_time, Time(at(time)));
        assert_eq!((condition.reason.as_str(), condition.message.as_str()), (second.1, second.2));
        assert_eq!(condition.observed_generation, Some(2));
    }

    #[test]
    fn the_transition_time_moves_only_with_the_truth() {
        check((true, "A", "a"), (true, "A", "a"), 1);
        check((true, "A", "a"), (true, "B", "b"), 1);
        check((true, "A", "a"), (false, "A", "a"), 2);
    }

    #[test]
    fn statuses_are_compared_without_times_and_order_of_conditions() {
        let status = |first: &str, second: &str, time, message: &str| {
            let mut conditions = Vec::new();
            set(&mut conditions, first, true, "R", message, None, at(time));
            set(&mut conditions, second, true, "R", message, None, at(time));
            TaskStatus { conditions: Some(conditions), ..TaskStatus::default() }
        };
        let one = status("A", "B", 1, "m");
        assert!(same_ignoring_times(&one, &status("B", "A", 2, "m")));
        assert!(!same_ignoring_times(&one, &status("A", "B", 1, "n")));
        assert!(!same_ignoring_times(&one, &TaskStatus { exit_code: Some(1), ..one.clone() }));
        let started = |second| TaskStatus { start_time: Some(Time(at(second))), ..TaskStatus::default() };
        assert!(!same_ignoring_times(&started(1), &started(2)), "other times have a meaning");
    }

    #[test]
    fn conditions_can_be_asked_and_removed() {
        let mut conditions = Vec::new();
        set(&mut conditions, "A", Truth::Unknown, "R", "", None, at(1));
        assert!(!holds(Some(&conditions), "A"));
        set(&mut conditions, "A", true, "R", "", None, at(1));
        assert!(holds(Some(&conditions), "A") && !holds(None, "A"));
        remove(&mut conditions, "A");
        assert_eq!(conditions, []);
    }
}
