//! The secrets of this process, by the names of its variables and inside OpenCode's configuration.

use serde_json::Value;

pub use egress::Redactor;

/// Variables with JSON that contains keys.
const OPENCODE_JSON: [&str; 2] = ["OPENCODE_CONFIG_CONTENT", "OPENCODE_AUTH_CONTENT"];

/// A redactor for every variable whose name marks it as secret, and for the keys inside OpenCode's configuration.
pub fn from_variables(variables: impl IntoIterator<Item = (String, String)>) -> Redactor {
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
    Redactor::new(secrets)
}

/// A redactor for the variables of this process, and for secrets from elsewhere.
pub fn from_process(more: impl IntoIterator<Item = String>) -> Redactor {
    // Values that are not UTF-8 are never printed.
    let variables =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    from_variables(variables).and(Redactor::new(more))
}

/// Collects the strings whose names mark them as secret. `{env:NAME}` is a reference, not a secret.
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
    // GIT_SSH_KEY may be a path, and paths are not secret; its content is multi-line and never logged by git or ssh.
    if name == crate::env::GIT_SSH_KEY {
        return false;
    }
    ["PASSWORD", "PASSWD", "TOKEN", "SECRET", "API_KEY", "APIKEY", "ACCESS_KEY", "PRIVATE_KEY", "CREDENTIALS"]
        .iter()
        .any(|word| name.contains(word))
        || name.ends_with("_KEY")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_judged_by_their_names() {
        let redactor = from_variables(
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
