//! Field selectors (`metadata.name=x,spec.nodeName!=y`).

use serde_json::Value;

use super::SelectorError;

/// All terms must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<FieldTerm>);

/// A field that must, or must not, have a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    /// The path of the field, such as `metadata.name`.
    pub field: String,
    pub value: String,
    /// Whether the field must have the value or must not have it.
    pub equal: bool,
}

/// The fields of a kind that selectors can use, beside name and namespace.
fn fields_of(api_version: &str, kind: &str) -> Option<&'static [&'static str]> {
    Some(match (api_version, kind) {
        ("v1", "Pod") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("v1", "Node") => &["spec.unschedulable"],
        ("v1", "Namespace") => &["status.phase"],
        ("v1", "Secret") => &["type"],
        ("v1", "Service") => &["spec.clusterIP", "spec.type"],
        ("v1", "Event") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        _ => return None,
    })
}

impl FieldSelector {
    /// Parses the `fieldSelector` parameter of a request.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let Some(at) = part.find("!=").into_iter().chain(part.find('=')).min() else {
                return Err(SelectorError(format!("invalid selector: '{text}'; can't understand '{part}'")));
            };
            let (field, rest) = part.split_at(at);
            let equal = !rest.starts_with('!');
            let value = rest.strip_prefix("!=").or(rest.strip_prefix("==")).or(rest.strip_prefix('=')).unwrap_or(rest);
            terms.push(FieldTerm { field: field.to_owned(), value: unescaped(value)?, equal });
        }
        Ok(Self(terms))
    }

    /// Rejects fields that selectors of this kind cannot use. `selectable` are the fields that its
    /// CustomResourceDefinition declares; empty for a built-in kind.
    pub fn check(&self, api_version: &str, kind: &str, selectable: Option<&[&str]>) -> Result<(), SelectorError> {
        let own = selectable.or_else(|| fields_of(api_version, kind));
        for FieldTerm { field, .. } in &self.0 {
            let common = matches!(field.as_str(), "metadata.name" | "metadata.namespace");
            if common || own.is_some_and(|own| own.iter().any(|known| known.trim_start_matches('.') == field)) {
                continue;
            }
            return Err(SelectorError(match own {
                Some(_) => format!("field label not supported: {field}"),
                None => {
                    format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
                }
            }));
        }
        Ok(())
    }

    /// The terms, sorted.
    pub fn terms(&self) -> &[FieldTerm] {
        &self.0
    }

    /// The value of a term on `metadata.name`, if there is one.
    pub fn name(&self) -> Option<&str> {
        self.0.iter().find(|term| term.equal && term.field == "metadata.name").map(|term| term.value.as_str())
    }

    /// Whether the object matches.
    pub fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|term| (field_value(object, &term.field) == term.value) == term.equal)
    }
}

/// The value of a field as text; empty if the field is missing.
fn field_value(object: &Value, field: &str) -> String {
    let text = |path: &str| {
        let found = path.split('.').try_fold(object, |value, name| value.get(name));
        match found {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    };
    let either = |first: &str, second: &str| Some(text(first)).filter(|text| !text.is_empty()).unwrap_or(text(second));
    match (field, object.get("kind").and_then(Value::as_str)) {
        ("source", Some("Event")) => either("source.component", "reportingComponent"),
        ("reportingComponent", Some("Event")) => either("reportingComponent", "source.component"),
        ("spec.hostNetwork" | "spec.unschedulable", _) => {
            Some(text(field)).filter(|t| !t.is_empty()).unwrap_or("false".into())
        }
        ("status.podIPs", Some("Pod")) => text("status.podIP"),
        _ => text(field),
    }
}

/// Splits at commas that are not escaped by a backslash.
fn split_terms(text: &str) -> Vec<&str> {
    let (mut terms, mut start, mut escaped) = (Vec::new(), 0, false);
    for (index, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn unescaped(text: &str) -> Result<String, SelectorError> {
    let sequence =
        |sequence: String| SelectorError(format!("invalid field selector: invalid escape sequence: {sequence}"));
    let mut value = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => value.push(escaped),
                Some(other) => return Err(sequence(format!("\\{other}"))),
                None => return Err(sequence("\\".to_owned())),
            },
            ',' | '=' => {
                // kube-apiserver prints the code point of the character.
                let number = u32::from(character);
                let text = format!("invalid field selector: unescaped character in value: {number}");
                return Err(SelectorError(text));
            }
            other => value.push(other),
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(selector: &str, object: &Value, expected: bool) {
        assert_eq!(FieldSelector::parse(selector).unwrap().matches(object), expected, "{selector}");
    }

    #[test]
    fn fields_are_compared_as_text_and_missing_ones_are_empty() {
        let pod = json!({"kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
        check("", &pod, true);
        check("metadata.name=a", &pod, true);
        check("metadata.name==a,spec.nodeName!=n", &pod, false);
        check("status.podIP=", &pod, true);
        check("status.phase!=Succeeded,status.phase!=Failed", &pod, true);
        check("spec.hostNetwork=false", &pod, true);
    }

    #[test]
    fn an_event_is_found_by_its_source_wherever_that_is_written() {
        let event = json!({"kind": "Event", "reportingComponent": "kubelet"});
        check("source=kubelet", &event, true);
        check("reportingComponent=kubelet", &event, true);
    }

    #[test]
    fn errors_are_in_the_words_of_the_api_server() {
        let message = |text: &str| FieldSelector::parse(text).unwrap_err().to_string();
        assert_eq!(message("nonsense"), "invalid selector: 'nonsense'; can't understand 'nonsense'");
        assert_eq!(message("a=b=c"), "invalid field selector: unescaped character in value: 61");
        assert_eq!(message("a=\\x"), "invalid field selector: invalid escape sequence: \\x");
        let selector = FieldSelector::parse("spec.color=red").unwrap();
        let refused = |version, kind, selectable| selector.check(version, kind, selectable).unwrap_err().to_string();
        assert_eq!(refused("v1", "Pod", None), "field label not supported: spec.color");
        assert_eq!(refused("x.io/v1", "Thing", Some(&[][..])), "field label not supported: spec.color");
        assert_eq!(
            refused("v1", "ConfigMap", None),
            "\"spec.color\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        );
        assert!(selector.check("x.io/v1", "Thing", Some(&[".spec.color"])).is_ok());
    }

    #[test]
    fn an_escaped_comma_is_part_of_the_value() {
        let selector = FieldSelector::parse("a=b\\,c").unwrap();
        assert_eq!(selector.terms(), [FieldTerm { field: "a".into(), value: "b,c".into(), equal: true }]);
    }
}
