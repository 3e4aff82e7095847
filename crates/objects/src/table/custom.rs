//! The columns of custom resources (`additionalPrinterColumns`).

use jiff::Timestamp;
use serde_json::Value;

use super::age::since;
use super::json_path::JsonPath;
use super::{Column, Columns};

/// The columns of a version of a CustomResourceDefinition; by default the age.
pub fn custom_columns(additional_printer_columns: Option<&Value>) -> Columns {
    let mut columns = vec![Column::new("Name", "string", "The name of the object.")];
    let mut paths = Vec::new();
    let defined = additional_printer_columns.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for definition in defined {
        let text = |name: &str| definition.get(name).and_then(Value::as_str).unwrap_or_default();
        let path = text("jsonPath");
        let description = match text("description") {
            "" => format!("Custom resource definition column (in JSONPath format): {path}"),
            text => text.to_owned(),
        };
        columns.push(Column {
            format: text("format").to_owned(),
            priority: definition.get("priority").and_then(Value::as_i64).unwrap_or_default(),
            ..Column::new(text("name"), text("type"), &description)
        });
        paths.push((JsonPath::parse(path), text("type").to_owned()));
    }
    if defined.is_empty() {
        columns.push(Column::new("Age", "date", "Time since the object was created."));
        paths.push((JsonPath::parse(".metadata.creationTimestamp"), "date".to_owned()));
    }
    Columns::new(columns, move |object, now| {
        let name = object.pointer("/metadata/name").cloned().unwrap_or(Value::Null);
        let cells = paths.iter().map(|(path, kind)| {
            let found = path.as_ref().and_then(|path| path.first(object));
            found.map_or(Value::Null, |value| cell(value, kind, now))
        });
        std::iter::once(name).chain(cells).collect()
    })
}

fn cell(value: &Value, kind: &str, now: Timestamp) -> Value {
    match (kind, value) {
        (_, Value::Null) => Value::Null,
        ("string", Value::String(text)) => text.clone().into(),
        ("string", other) => other.to_string().into(),
        ("integer", Value::Number(number)) => {
            #[expect(clippy::cast_possible_truncation, reason = "a column of integers shows the whole part")]
            let whole = number.as_i64().or_else(|| number.as_f64().map(|number| number as i64));
            whole.map_or(Value::Null, Value::from)
        }
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => {
            if text.parse::<Timestamp>().is_ok() {
                since(Some(value), now).into()
            } else {
                "<invalid>".into()
            }
        }
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_type_of_column_shows_what_fits_it() {
        let definitions = json!([
            {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
            {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
            {"name": "Tokens", "type": "integer", "jsonPath": ".status.tokens"},
            {"name": "Cost", "type": "number", "jsonPath": ".status.cost", "priority": 1},
            {"name": "Suspended", "type": "boolean", "jsonPath": ".spec.suspend"},
            {"name": "Started", "type": "date", "jsonPath": ".status.startTime"},
            {"name": "Labels", "type": "string", "jsonPath": ".metadata.labels"},
            {"name": "Wrong", "type": "integer", "jsonPath": ".status.phase"},
            {"name": "Missing", "type": "date", "jsonPath": ".status.never"},
        ]);
        let object = json!({
            "metadata": {"name": "t", "labels": {"a": "b"}},
            "spec": {"suspend": true},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
                "tokens": 12.9,
                "cost": 0.5,
                "startTime": "1970-01-01T00:00:00Z",
            },
        });
        let columns = custom_columns(Some(&definitions));
        let now = Timestamp::from_second(300).unwrap();
        assert_eq!(
            (columns.cells)(&object, now),
            json!(["t", "Running", "True", 12, 0.5, true, "5m", "{\"a\":\"b\"}", null, null])
                .as_array()
                .unwrap()
                .clone()
        );
        assert_eq!(columns.columns[4].priority, 1);
    }

    #[test]
    fn without_columns_there_is_the_age() {
        let columns = custom_columns(None);
        let object = json!({"metadata": {"name": "t", "creationTimestamp": "1970-01-01T00:00:00Z"}});
        assert_eq!((columns.cells)(&object, Timestamp::from_second(7).unwrap()), [json!("t"), json!("7s")]);
    }
}
