//! Table cells of an object, according to the `additionalPrinterColumns` of its definition.

use api::conditions::types;
use domain::run::stage::STOPPED;
use jiff::Timestamp;
use serde_json::Value;

use super::{money, screen::Tone, span, table::Cell};

/// A printer column of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub heading: String,
    /// Whether only wide tables show the column.
    pub wide: bool,
    /// Whether the value is a time, shown as an age.
    date: bool,
    path: String,
}

impl Column {
    /// Parses an entry of `additionalPrinterColumns`.
    pub fn of(column: &Value) -> Self {
        let text = |key: &str| column[key].as_str().unwrap_or_default();
        Self {
            heading: text("name").to_uppercase(),
            wide: column["priority"].as_i64().unwrap_or(0) > 0,
            date: text("type") == "date",
            path: text("jsonPath").to_owned(),
        }
    }

    /// A column of wide tables with the names of a list.
    pub fn names(heading: &str, path: &str) -> Self {
        Self { heading: heading.to_owned(), wide: true, date: false, path: path.to_owned() }
    }

    /// The cell of the column for `object`.
    pub fn cell(&self, object: &Value, now: Timestamp) -> Cell {
        let found = lookup(object, &self.path);
        let text = match found {
            Some(Value::String(text)) if self.date => match text.parse::<Timestamp>() {
                Ok(time) => span::age(now.as_second() - time.as_second()),
                Err(_) => text.clone(),
            },
            Some(Value::String(text)) if text == "Completed" && is_stopped(object) => STOPPED.to_owned(),
            Some(Value::String(text)) if self.heading == "COST" => money::cost(text),
            Some(Value::String(text)) => text.clone(),
            None | Some(Value::Null) => String::new(),
            Some(Value::Array(list)) => {
                list.iter().filter_map(|element| element["name"].as_str()).collect::<Vec<_>>().join(", ")
            }
            Some(value) => value.to_string(),
        };
        Cell::new(&text, tone(&self.heading, &text))
    }
}

/// Whether a Task was ended before its own end.
fn is_stopped(object: &Value) -> bool {
    let path = format!(".status.conditions[?(@.type=='{}')].status", types::STOPPED);
    lookup(object, &path).is_some_and(|status| status == "True")
}

/// The tone of a value, by the heading of its column.
pub fn tone(heading: &str, text: &str) -> Tone {
    match heading {
        "PHASE" | "STATE" => match text {
            "Completed" | "Ready" | "Running" => Tone::Good,
            "Failed" | "Not ready" => Tone::Bad,
            "Queued" | "Pending" => Tone::Busy,
            "Suspended" | "Standby" | STOPPED => Tone::Faint,
            _ => Tone::Plain,
        },
        "READY" | "ACCEPTED" | "SECRETS" | "REACHABLE" => match text {
            "True" | "true" => Tone::Good,
            "False" | "false" => Tone::Bad,
            _ => Tone::Plain,
        },
        _ => Tone::Plain,
    }
}

/// The value at a JSON path of a definition: `.a.b`, `.a[?(@.type=='Ready')].status`.
fn lookup<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut value = object;
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(filter) = rest.strip_prefix("[?(@.") {
            let (key, after) = filter.split_once("==")?;
            let (wanted, after) = after.strip_prefix(['\'', '"'])?.split_once(['\'', '"'])?;
            rest = after.strip_prefix(")]")?;
            value = value.as_array()?.iter().find(|element| element[key] == wanted)?;
        } else {
            let step = rest.strip_prefix('.')?;
            let end = step.find(['.', '[']).unwrap_or(step.len());
            value = value.get(&step[..end])?;
            rest = &step[end..];
        }
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::kinds::Kind, *};

    #[test]
    fn paths_of_definitions_are_understood() {
        let object = json!({"a": {"b": 1}, "c": [{"type": "X", "status": "False"}, {"type": "Y", "status": "True"}]});
        assert_eq!(lookup(&object, ".a.b"), Some(&json!(1)));
        assert_eq!(lookup(&object, ".c[?(@.type=='Y')].status"), Some(&json!("True")));
        assert_eq!(lookup(&object, ".c[?(@.type=='Z')].status"), None);
        assert_eq!(lookup(&object, ".a.b.c"), None);
    }

    #[test]
    fn every_path_of_every_definition_can_be_followed() {
        // An unsupported path would look like a missing value.
        for kind in Kind::all() {
            for column in &kind.columns {
                assert!(is_understood(&column.path), "{} {}", kind.name, column.path);
            }
        }
    }

    fn is_understood(path: &str) -> bool {
        let mut object = Value::Null;
        for step in path.split('.').skip(1).collect::<Vec<_>>().into_iter().rev() {
            object = match step.split_once('[') {
                None if step.ends_with(")]") => continue,
                None => json!({ step: object }),
                Some((name, _)) => {
                    let wanted = path.split('\'').nth(1).unwrap_or_default();
                    let mut element = object;
                    element["type"] = wanted.into();
                    json!({ name: [element] })
                }
            };
        }
        lookup(&object, path).is_some()
    }

    #[test]
    fn a_stopped_task_is_called_stopped() {
        let column = Column::of(&json!({"name": "Phase", "type": "string", "jsonPath": ".status.phase"}));
        let task = |stopped: &str| json!({"status": {"phase": "Completed", "conditions": [{"type": "Stopped", "status": stopped}]}});
        assert_eq!(column.cell(&task("True"), Timestamp::UNIX_EPOCH), Cell::new("Stopped", Tone::Faint));
        assert_eq!(column.cell(&task("False"), Timestamp::UNIX_EPOCH), Cell::new("Completed", Tone::Good));
    }

    #[test]
    fn a_cost_is_shown_with_its_currency() {
        let column = Column::of(&json!({"name": "Cost", "type": "string", "jsonPath": ".cost"}));
        assert_eq!(column.cell(&json!({"cost": "0.0123"}), Timestamp::UNIX_EPOCH), "$0.0123".into());
    }

    #[test]
    fn moments_are_shown_as_ages() {
        let column = Column::of(&json!({"name": "Age", "type": "date", "jsonPath": ".t"}));
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        assert_eq!(column.cell(&json!({"t": "2026-01-01T00:00:00Z"}), now), "60m".into());
        assert_eq!(column.cell(&json!({}), now), "-".into());
    }
}
