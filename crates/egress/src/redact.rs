//! Removes secrets from texts before they are logged, recorded or put into an error.

use serde_json::Value;

use crate::userinfo::{HIDDEN, hide_userinfo, percent_encode};

/// Shorter values are not replaced: hiding every `a` or `1234` would destroy the text and protect nothing.
const MIN_LENGTH: usize = 6;

/// Secret values to hide in texts.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Longest first, so that a secret that contains another one is hidden as a whole.
    secrets: Vec<String>,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Redactor({} secrets)", self.secrets.len())
    }
}

impl Redactor {
    /// A redactor for these values.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let secrets: Vec<String> = secrets
            .into_iter()
            .flat_map(|secret| {
                let trimmed = secret.trim().to_owned();
                let escaped = percent_encode(&trimmed);
                [trimmed, escaped]
            })
            .filter(|secret| secret.len() >= MIN_LENGTH)
            .collect();
        let mut redactor = Self { secrets };
        redactor.sort();
        redactor
    }

    /// Adds the secrets of `other`.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.secrets.extend(other.secrets);
        self.sort();
        self
    }

    fn sort(&mut self) {
        self.secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        self.secrets.dedup();
    }

    /// The value with no secret in its texts. A secret with a quote or a line end looks different in JSON, so it is
    /// replaced before the value is serialized.
    pub fn clean_json(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.clean(text).into(),
            Value::Array(items) => items.iter().map(|item| self.clean_json(item)).collect(),
            Value::Object(fields) => {
                Value::Object(fields.iter().map(|(name, field)| (name.clone(), self.clean_json(field))).collect())
            }
            other => other.clone(),
        }
    }

    /// The beginning of a text that continues, without the beginning of a secret at its end.
    pub fn settled<'a>(&self, text: &'a str) -> &'a str {
        let is_begun = |secret: &str| {
            let longest = secret.len().saturating_sub(1).min(text.len());
            let fits = |length: &usize| secret.is_char_boundary(*length) && text.ends_with(&secret[..*length]);
            (1..=longest).rev().find(fits).unwrap_or(0)
        };
        let held = self.secrets.iter().map(|secret| is_begun(secret)).max().unwrap_or(0);
        &text[..text.len() - held]
    }

    /// The text without secrets.
    pub fn clean(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), HIDDEN);
            }
        }
        hide_userinfo(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_secret_waits_for_its_end() {
        let redactor = Redactor::new(["two\nlines".to_owned()]);
        assert_eq!(redactor.settled("it is two\nli"), "it is ");
        assert_eq!(redactor.settled("it is two\nlines"), "it is two\nlines");
        assert_eq!(redactor.settled("it is two\nlions"), "it is two\nlions");
        assert_eq!(Redactor::default().settled("t"), "t");
    }

    #[test]
    fn secrets_disappear_also_when_escaped_and_nested() {
        let redactor = Redactor::new(["hunter2".to_owned(), "hunter2/longer".to_owned(), "abc".to_owned()]);
        assert_eq!(
            redactor.clean("x hunter2/longer hunter2%2Flonger hunter2 abc"),
            "x [redacted] [redacted] [redacted] abc"
        );
    }
}
