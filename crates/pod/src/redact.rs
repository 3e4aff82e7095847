//! Taking secrets out of text before it is logged, recorded or put into an error.

use serde_json::Value;

/// What replaces a secret.
const HIDDEN: &str = "[redacted]";
/// Shorter values are not looked for: replacing every `a` or `1234` would destroy the text and hide nothing.
const SHORTEST: usize = 6;

/// Knows the secret values of this process and hides them in any text.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Longest first, so that a secret that contains another one disappears whole.
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
                let escaped = crate::repository::percent_encode(&trimmed);
                [trimmed, escaped]
            })
            .filter(|secret| secret.len() >= SHORTEST)
            .collect();
        let mut redactor = Self { secrets };
        redactor.sort();
        redactor
    }

    /// A redactor for every variable whose name says that it is secret, and for the keys inside of OpenCode's settings.
    pub fn from_variables(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut secrets = Vec::new();
        for (name, value) in variables {
            if OPENCODE_JSON.contains(&name.as_str()) {
                if let Ok(json) = serde_json::from_str(&value) {
                    collect_keys(&json, &mut secrets);
                }
            } else if names_a_secret(&name) {
                secrets.push(value);
            }
        }
        Self::new(secrets)
    }

    /// A redactor for this process, and for secrets that it got elsewhere.
    pub fn from_process(more: impl IntoIterator<Item = String>) -> Self {
        // Values that are no text are never printed as text.
        let variables =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let mut redactor = Self::from_variables(variables);
        redactor.secrets.extend(Self::new(more).secrets);
        redactor.sort();
        redactor
    }

    fn sort(&mut self) {
        self.secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        self.secrets.dedup();
    }

    /// The value with no secret in its texts. A secret with a quote or a line end looks different in JSON, so it must go
    /// before the value is written.
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

/// Variables that hold JSON with keys in it.
const OPENCODE_JSON: [&str; 2] = ["OPENCODE_CONFIG_CONTENT", "OPENCODE_AUTH_CONTENT"];

/// Collects the strings that stand under a secret name. `{env:NAME}` is a reference, not a secret.
fn collect_keys(json: &Value, secrets: &mut Vec<String>) {
    match json {
        Value::Array(items) => items.iter().for_each(|item| collect_keys(item, secrets)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(text) if !text.starts_with('{') => {
                        let name = name.to_ascii_uppercase();
                        if name == "KEY" || name == "AUTHORIZATION" || names_a_secret(&name) {
                            secrets.push(text.strip_prefix("Bearer ").unwrap_or(text).to_owned());
                        }
                    }
                    _ => collect_keys(value, secrets),
                }
            }
        }
        _ => {}
    }
}

fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    // GIT_SSH_KEY may be a path, and paths are no secret; its content is multi-line and never logged by git or ssh.
    if name == crate::env::GIT_SSH_KEY {
        return false;
    }
    ["PASSWORD", "PASSWD", "TOKEN", "SECRET", "API_KEY", "APIKEY", "ACCESS_KEY", "PRIVATE_KEY", "CREDENTIALS"]
        .iter()
        .any(|word| name.contains(word))
        || name.ends_with("_KEY")
}

/// Replaces the `user:password@` of every URL in a text.
pub fn hide_userinfo(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (head, tail) = rest.split_at(at + 3);
        clean.push_str(head);
        let end = tail
            .find(|char: char| char.is_whitespace() || matches!(char, '/' | '?' | '#' | '\'' | '"' | '<' | '>'))
            .unwrap_or(tail.len());
        let authority = &tail[..end];
        match authority.rfind('@') {
            Some(mark) => {
                clean.push_str(HIDDEN);
                clean.push_str(&authority[mark..]);
            }
            None => clean.push_str(authority),
        }
        rest = &tail[end..];
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn userinfo_disappears_from_every_url() {
        let check = |text: &str, expected: &str| assert_eq!(hide_userinfo(text), expected);
        check("no url", "no url");
        check("https://example.com/x@y", "https://example.com/x@y");
        check("https://me:pw@example.com/x", "https://[redacted]@example.com/x");
        check("a 'https://t@h/x' and http://u:p%40@h2", "a 'https://[redacted]@h/x' and http://[redacted]@h2");
        check("https://me:p@ss@h/x", "https://[redacted]@h/x");
    }

    #[test]
    fn secrets_disappear_also_when_escaped_and_nested() {
        let redactor = Redactor::new(["hunter2".to_owned(), "hunter2/longer".to_owned(), "abc".to_owned()]);
        assert_eq!(
            redactor.clean("x hunter2/longer hunter2%2Flonger hunter2 abc"),
            "x [redacted] [redacted] [redacted] abc"
        );
    }

    #[test]
    fn variables_are_judged_by_their_names() {
        let redactor = Redactor::from_variables(
            [
                ("OPENCODE_SERVER_PASSWORD", "sesame-1"),
                ("ANTHROPIC_API_KEY", "sesame-2"),
                ("TASK_NAME", "sesame-3"),
                ("GITHUB_TOKEN", "sesame-4"),
                (
                    "OPENCODE_CONFIG_CONTENT",
                    r#"{"provider":{"p":{"options":{"apiKey":"sesame-5","baseURL":"sesame-6"}}}}"#,
                ),
                ("OPENCODE_AUTH_CONTENT", r#"{"p":{"type":"api","key":"sesame-7"}, "q":{"key":"{env:NAME}"}}"#),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        assert_eq!(
            redactor.clean("sesame-1 sesame-2 sesame-3 sesame-4 sesame-5 sesame-6 sesame-7 {env:NAME}"),
            "[redacted] [redacted] sesame-3 [redacted] [redacted] sesame-6 [redacted] {env:NAME}"
        );
        assert_eq!(format!("{redactor:?}"), "Redactor(5 secrets)");
    }
}
