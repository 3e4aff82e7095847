//! The subset of JSONPath that printer columns use: fields, indices, wildcards, filters by a field.

use serde_json::Value;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// Negative indices count from the end.
    Index(i64),
    All,
    Where {
        path: JsonPath,
        test: Option<(Comparison, Value)>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

impl JsonPath {
    /// Parses a path like `.status.conditions[?(@.type=="Ready")].status`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut steps = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            if let Some(inside) = rest.strip_prefix('[') {
                let (content, after) = split_bracket(inside)?;
                steps.push(read_bracket(content.trim())?);
                rest = after;
            } else {
                let (name, after) = read_name(rest.strip_prefix('.').unwrap_or(rest))?;
                match name.as_str() {
                    "" if after.starts_with('[') || steps.is_empty() => {}
                    "" => return None,
                    "*" => steps.push(Step::All),
                    _ => steps.push(Step::Field(name)),
                }
                if after.len() == rest.len() {
                    return None;
                }
                rest = after;
            }
        }
        Some(Self(steps))
    }

    /// The first value at the path.
    pub fn first<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        let mut found = vec![value];
        for step in &self.0 {
            found = found.into_iter().flat_map(|value| step.follow(value)).collect();
        }
        found.into_iter().next()
    }
}

impl Step {
    fn follow<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        match (self, value) {
            (Self::Field(name), Value::Object(object)) => object.get(name).into_iter().collect(),
            (Self::Index(index), Value::Array(items)) => {
                let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
                let index = if *index < 0 { index + length } else { *index };
                usize::try_from(index).ok().and_then(|index| items.get(index)).into_iter().collect()
            }
            (Self::All, Value::Array(items)) => items.iter().collect(),
            (Self::All, Value::Object(object)) => object.values().collect(),
            (Self::Where { path, test }, Value::Array(items)) => items
                .iter()
                .filter(|item| match (path.first(item), test) {
                    (Some(found), Some((comparison, expected))) => comparison.holds(found, expected),
                    (found, _) => found.is_some() && test.is_none(),
                })
                .collect(),
            _ => Vec::new(),
        }
    }
}

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> bool {
        let order = match (left, right) {
            (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            _ => None,
        };
        match self {
            Self::Equal => left == right || order.is_some_and(std::cmp::Ordering::is_eq),
            Self::NotEqual => left != right && !order.is_some_and(std::cmp::Ordering::is_eq),
            Self::Less => order.is_some_and(std::cmp::Ordering::is_lt),
            Self::LessOrEqual => order.is_some_and(std::cmp::Ordering::is_le),
            Self::Greater => order.is_some_and(std::cmp::Ordering::is_gt),
            Self::GreaterOrEqual => order.is_some_and(std::cmp::Ordering::is_ge),
        }
    }
}

/// A field name up to the next dot or bracket; a backslash escapes the next character.
fn read_name(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '.' | '[' => return Some((name, &text[index..])),
            '\\' => name.push(characters.next()?.1),
            other => name.push(other),
        }
    }
    Some((name, ""))
}

/// The content of a bracket after its start, and the rest.
fn split_bracket(text: &str) -> Option<(&str, &str)> {
    let (mut depth, mut quote) = (1, None);
    for (index, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (None, '"' | '\'') => quote = Some(character),
            (None, '[') => depth += 1,
            (None, ']') => {
                depth -= 1;
                if depth == 0 {
                    return Some((&text[..index], &text[index + 1..]));
                }
            }
            _ => {}
        }
    }
    None
}

fn read_bracket(content: &str) -> Option<Step> {
    if content == "*" {
        return Some(Step::All);
    }
    if let Ok(index) = content.parse() {
        return Some(Step::Index(index));
    }
    if let Some(name) = content.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return Some(Step::Field(name.to_owned()));
    }
    let filter = content.strip_prefix("?(")?.strip_suffix(')')?;
    let found = COMPARISONS
        .iter()
        .filter_map(|(symbol, comparison)| Some((filter.find(symbol)?, *symbol, *comparison)))
        .min_by_key(|(at, symbol, _)| (*at, std::cmp::Reverse(symbol.len())));
    let (left, test) = match found {
        Some((at, symbol, comparison)) => {
            (&filter[..at], Some((comparison, read_literal(filter[at + symbol.len()..].trim())?)))
        }
        None => (filter, None),
    };
    let path = JsonPath::parse(left.trim().strip_prefix('@')?)?;
    Some(Step::Where { path, test })
}

fn read_literal(text: &str) -> Option<Value> {
    let quoted = |quote: char| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    match quoted('"').or_else(|| quoted('\'')) {
        Some(text) => Some(Value::String(text.to_owned())),
        None => serde_json::from_str(text).ok(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_paths_of_printer_columns_lead_where_they_should() {
        let object = json!({
            "spec": {"a.b": 1, "list": [10, 20, 30], "map": {"x": "y"}},
            "status": {"conditions": [
                {"type": "Ready", "status": "False", "count": 2},
                {"type": "Done", "status": "True", "count": 5},
            ]},
        });
        for (path, expected) in [
            (".spec.list[0]", Some(json!(10))),
            (".spec.list[-1]", Some(json!(30))),
            (".spec.list[5]", None),
            (".spec.list[*]", Some(json!(10))),
            (".spec.a\\.b", Some(json!(1))),
            (".spec['a.b']", Some(json!(1))),
            (".status.conditions[?(@.type==\"Done\")].status", Some(json!("True"))),
            (".status.conditions[?(@.type=='Ready')].status", Some(json!("False"))),
            (".status.conditions[?(@.count>3)].type", Some(json!("Done"))),
            (".status.conditions[?(@.type!=\"Ready\")].type", Some(json!("Done"))),
            (".status.conditions[?(@.missing)].type", None),
            (".spec.map", Some(json!({"x": "y"}))),
            (".missing.too", None),
        ] {
            assert_eq!(JsonPath::parse(path).unwrap().first(&object).cloned(), expected, "{path}");
        }
    }

    #[test]
    fn an_invalid_path_is_none() {
        for text in [".a[", ".a[?(x)]", ".a[nonsense]"] {
            assert_eq!(JsonPath::parse(text), None, "{text}");
        }
    }
}
