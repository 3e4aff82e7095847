//! One path element, as managedFields writes it.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Map, Value};

/// A JSON scalar with the sort order of kube-apiserver for keys and set items: numbers, strings, booleans, the rest.
#[derive(Clone, Debug)]
pub struct Scalar(pub Value);

impl Scalar {
    fn rank(&self) -> u8 {
        match self.0 {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
}

impl Ord for Scalar {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
                (Some(a), Some(b)) => a.cmp(&b),
                _ => a.as_f64().unwrap_or(0.0).total_cmp(&b.as_f64().unwrap_or(0.0)),
            },
            (Value::String(a), Value::String(b)) => a.cmp(b),
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            // Neither lists nor objects can be keys; any total order will do.
            (Value::Array(_) | Value::Object(_), Value::Array(_) | Value::Object(_)) => {
                self.rank().cmp(&other.rank()).then_with(|| self.0.to_string().cmp(&other.0.to_string()))
            }
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Scalar {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scalar {}

/// One path element. The order of the variants is the order in which managedFields lists them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// A field of an object (`f:name`).
    Field(String),
    /// The list item with these key fields, sorted by name (`k:{"name":"x"}`).
    Key(Vec<(String, Scalar)>),
    /// An item of a set (`v:"x"`).
    Item(Scalar),
    /// A list item by index (`i:0`).
    Index(usize),
}

impl Element {
    pub fn field(name: impl Into<String>) -> Self {
        Self::Field(name.into())
    }

    /// The element as a key of FieldsV1.
    pub(super) fn encoded(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => {
                let fields: Map<String, Value> =
                    fields.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect();
                format!("k:{}", escaped_like_go(&Value::Object(fields).to_string()))
            }
            Self::Item(value) => format!("v:{}", escaped_like_go(&value.0.to_string())),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// Parses a key of FieldsV1; `None` for an unknown type of element, which is ignored.
    pub(super) fn decoded(text: &str) -> Result<Option<Self>, String> {
        let Some((kind, rest)) = text.split_at_checked(2) else { return Err(format!("{text:?} is too short")) };
        match kind {
            "f:" => Ok(Some(Self::field(rest))),
            "v:" => {
                let value = serde_json::from_str(rest).map_err(|error| format!("{text:?}: {error}"))?;
                Ok(Some(Self::Item(Scalar(value))))
            }
            "k:" => {
                let fields: Map<String, Value> =
                    serde_json::from_str(rest).map_err(|error| format!("{text:?}: {error}"))?;
                let mut fields: Vec<_> = fields.into_iter().map(|(name, value)| (name, Scalar(value))).collect();
                fields.sort_by(|a, b| a.0.cmp(&b.0));
                Ok(Some(Self::Key(fields)))
            }
            "i:" => rest.parse().map(|index| Some(Self::Index(index))).map_err(|error| format!("{text:?}: {error}")),
            _ if kind.ends_with(':') => Ok(None),
            _ => Err(format!("missing colon: {text}")),
        }
    }
}

/// Go escapes these three characters in JSON strings; ownership of `v:"a<b"` must compare equal as text.
fn escaped_like_go(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

impl fmt::Display for Element {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(out, ".{name}"),
            Self::Key(fields) => {
                write!(out, "[")?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(out, "{comma}{name}={}", value.0)?;
                }
                write!(out, "]")
            }
            Self::Item(value) => write!(out, "[={}]", value.0),
            Self::Index(index) => write!(out, "[{index}]"),
        }
    }
}

/// A path in the format of conflict messages (`.spec.containers[name="app"].image`).
pub(super) fn printed(path: &[Element]) -> String {
    path.iter().map(ToString::to_string).collect()
}
