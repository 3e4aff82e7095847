//! Events have two schemas: the core group's, in which they are stored, and that of `events.k8s.io`.

use serde_json::{Map, Value};

/// Field names in the core group and in `events.k8s.io`.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Converts a stored Event to `events.k8s.io`.
pub(crate) fn shown(event: Map<String, Value>) -> Map<String, Value> {
    renamed(event, |name| NAMES.iter().find(|(core, _)| *core == name).map(|(_, other)| *other))
}

/// Converts an Event of `events.k8s.io` to the stored schema.
pub(crate) fn stored(event: Map<String, Value>) -> Map<String, Value> {
    renamed(event, |name| NAMES.iter().find(|(_, other)| *other == name).map(|(core, _)| *core))
}

fn renamed(event: Map<String, Value>, name: impl Fn(&str) -> Option<&'static str>) -> Map<String, Value> {
    event.into_iter().map(|(field, value)| (name(&field).map_or(field, str::to_owned), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_comes_back_as_it_went() {
        let Value::Object(event) =
            json!({"metadata": {"name": "e"}, "involvedObject": {"name": "p"}, "message": "m", "reason": "r"})
        else {
            panic!("not an object")
        };
        let other = shown(event.clone());
        assert_eq!(other["regarding"]["name"], "p");
        assert_eq!(other["note"], "m");
        assert_eq!(stored(other), event);
    }
}
