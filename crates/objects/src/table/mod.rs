//! Tables (`meta.k8s.io/v1 Table`), the representation that `kubectl get` requests: columns and cells computed by the
//! server.

mod age;
mod builtin;
mod custom;
mod json_path;
mod pod;

pub use builtin::columns;
pub use custom::custom_columns;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    name: String,
    kind: String,
    format: String,
    description: String,
    /// Columns above zero are shown in wide tables only.
    priority: i64,
}

impl Column {
    fn new(name: &str, kind: &str, description: &str) -> Self {
        let format = if name == "Name" { "name" } else { "" };
        Self {
            name: name.to_owned(),
            kind: kind.to_owned(),
            format: format.to_owned(),
            description: description.to_owned(),
            priority: 0,
        }
    }

    fn wide(name: &str, description: &str) -> Self {
        Self { priority: 1, ..Self::new(name, "string", description) }
    }

    fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

/// Computes the cells of an object; ages are relative to the timestamp.
type Cells = dyn Fn(&Value, Timestamp) -> Vec<Value> + Send + Sync;

/// The columns of a kind and their cells.
pub struct Columns {
    columns: Vec<Column>,
    cells: Box<Cells>,
}

impl Columns {
    fn new(columns: Vec<Column>, cells: impl Fn(&Value, Timestamp) -> Vec<Value> + Send + Sync + 'static) -> Self {
        Self { columns, cells: Box::new(cells) }
    }
}

/// How much of each object a row contains (`includeObject`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    /// Parses the request parameter. The error is the message of a BadRequest.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(format!("unrecognized includeObject value: {other:?}")),
        }
    }

    fn of(self, object: &Value) -> Value {
        match self {
            Self::None => Value::Null,
            Self::Object => object.clone(),
            Self::Metadata => json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": object.get("metadata").cloned().unwrap_or_else(|| Value::Object(Map::new())),
            }),
        }
    }
}

/// The table of some objects. `metadata` is that of the list, or the resourceVersion of a single object.
///
/// In a watch only the first table has `headers`.
pub fn table(
    objects: &[Value],
    metadata: Value,
    columns: &Columns,
    include: IncludeObject,
    headers: bool,
    now: Timestamp,
) -> Value {
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let mut row = Map::new();
            row.insert("cells".to_owned(), Value::Array((columns.cells)(object, now)));
            if let Some(condition) = pod::finished(object) {
                row.insert("conditions".to_owned(), json!([condition]));
            }
            row.insert("object".to_owned(), include.of(object));
            Value::Object(row)
        })
        .collect();
    let definitions =
        if headers { Value::Array(columns.columns.iter().map(Column::to_json).collect()) } else { Value::Null };
    let mut table = json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1"});
    table["metadata"] = metadata;
    table["columnDefinitions"] = definitions;
    table["rows"] = Value::Array(rows);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_bring_as_much_of_the_object_as_was_asked_for() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "y"}});
        let columns = columns("v1", "ConfigMap");
        let now = Timestamp::UNIX_EPOCH;
        let row =
            |include| table(std::slice::from_ref(&object), json!({}), &columns, include, true, now)["rows"][0].clone();
        assert_eq!(row(IncludeObject::Object)["object"], object);
        assert_eq!(row(IncludeObject::None)["object"], Value::Null);
        assert_eq!(row(IncludeObject::Metadata)["object"]["kind"], "PartialObjectMetadata");
        assert_eq!(row(IncludeObject::Metadata)["cells"], json!(["a", 1, "<unknown>"]));
    }

    #[test]
    fn an_unknown_include_is_refused() {
        assert_eq!(IncludeObject::parse("All"), Err("unrecognized includeObject value: \"All\"".to_owned()));
        assert_eq!(IncludeObject::parse(""), Ok(IncludeObject::Metadata));
    }
}
