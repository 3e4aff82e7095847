//! Label selectors as `kubectl -l` writes them.

use std::collections::BTreeMap;

use crate::error::ApiError;

/// What labels must be like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Missing(String),
}

impl Selector {
    /// Reads `a=b,c!=d,e,!f,g in (h,i),j notin (k)`.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        split(text).into_iter().map(|part| requirement(part.trim())).collect::<Option<_>>().map(Self).ok_or_else(|| {
            ApiError::bad_parameter("labelSelector", format!("'{text}' cannot be read; write it as for kubectl -l"))
        })
    }

    /// Whether labels are as they must be.
    pub fn matches(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        let get = |key: &String| labels.and_then(|labels| labels.get(key));
        self.0.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => get(key).is_some_and(|value| values.contains(value)),
            Requirement::NotIn(key, values) => get(key).is_none_or(|value| !values.contains(value)),
            Requirement::Exists(key) => get(key).is_some(),
            Requirement::Missing(key) => get(key).is_none(),
        })
    }
}

/// Splits at commas outside parentheses.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_u32, 0);
    for (index, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

fn requirement(part: &str) -> Option<Requirement> {
    if let Some((key, values)) = part.split_once(" notin ") {
        return Some(Requirement::NotIn(key_of(key)?, list(values)?));
    }
    if let Some((key, values)) = part.split_once(" in ") {
        return Some(Requirement::In(key_of(key)?, list(values)?));
    }
    if let Some((key, value)) = part.split_once("!=") {
        return Some(Requirement::NotIn(key_of(key)?, vec![value_of(value)?]));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Some(Requirement::In(key_of(key)?, vec![value_of(value)?]));
    }
    match part.strip_prefix('!') {
        Some(key) => Some(Requirement::Missing(key_of(key)?)),
        None => Some(Requirement::Exists(key_of(part)?)),
    }
}

fn list(text: &str) -> Option<Vec<String>> {
    let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    inner.split(',').map(value_of).collect()
}

fn key_of(text: &str) -> Option<String> {
    let text = text.trim();
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
    (!text.is_empty() && text.chars().all(allowed)).then(|| text.to_owned())
}

fn value_of(text: &str) -> Option<String> {
    let text = text.trim();
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    text.chars().all(allowed).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(selector: &str, labels: &[(&str, &str)], expected: bool) {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        assert_eq!(Selector::parse(selector).unwrap().matches(Some(&labels)), expected, "{selector}");
    }

    #[test]
    fn selectors_are_those_of_kubectl() {
        let labels = [("a", "1"), ("kubeopencode.io/agent", "dev")];
        check("", &labels, true);
        check("a=1", &labels, true);
        check("a==2", &labels, false);
        check("a!=2,kubeopencode.io/agent", &labels, true);
        check("!b", &labels, true);
        check("a in (1, 2)", &labels, true);
        check("a notin (1,2)", &labels, false);
        check("b notin (1)", &labels, true);
        check("b=1", &labels, false);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["a=b c", "a in 1", "=b", "a=(", "\u{0}"] {
            assert!(Selector::parse(text).is_err(), "{text}");
        }
    }
}
