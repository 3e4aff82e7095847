//! Reads the answers of providers.

use serde_json::Value;

use super::{ApiKey, Provider};

/// More models than any provider offers; a gateway may list thousands.
const MOST_MODELS: usize = 1000;
/// Limit of `Model.spec.model`.
const LONGEST_MODEL: usize = 253;
/// A message of a provider is cut after so many characters.
const LONGEST_COMPLAINT: usize = 300;

/// OpenAI lists models for speech, images and search vectors too.
const NOT_FOR_CHAT: [&str; 12] = [
    "audio",
    "babbage",
    "dall-e",
    "davinci",
    "embedding",
    "image",
    "moderation",
    "realtime",
    "sora",
    "transcribe",
    "tts",
    "whisper",
];

/// The models in the answer of a provider, in the order to offer them; `None` if the answer is not a list of models.
pub fn models(provider: Provider, body: &[u8]) -> Option<Vec<String>> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    let (list, field) = match provider {
        Provider::Google => ("models", "name"),
        Provider::Anthropic | Provider::OpenAI | Provider::Ollama | Provider::OpenAICompatible => ("data", "id"),
    };
    let list = match answer.get(list)? {
        Value::Array(list) => list.as_slice(),
        // Ollama without models.
        Value::Null => &[],
        _ => return None,
    };
    let for_chat = |entry: &Value, name: &str| match provider {
        Provider::Google => {
            let methods = entry["supportedGenerationMethods"].as_array();
            methods.is_none_or(|methods| methods.iter().any(|method| method == "generateContent"))
        }
        Provider::OpenAI => !NOT_FOR_CHAT.iter().any(|part| name.contains(part)),
        Provider::Anthropic | Provider::Ollama | Provider::OpenAICompatible => true,
    };
    let mut found: Vec<(i64, String)> = Vec::new();
    for entry in list {
        let Some(name) = entry[field].as_str() else { continue };
        let name = name.strip_prefix("models/").unwrap_or(name);
        let usable = !name.is_empty() && name.len() <= LONGEST_MODEL && !name.contains(char::is_control);
        if usable && for_chat(entry, name) {
            found.push((entry["created"].as_i64().unwrap_or_default(), name.to_owned()));
        }
    }
    match provider {
        // Newest first, as Anthropic and Google list them.
        Provider::OpenAI => found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1))),
        Provider::Ollama | Provider::OpenAICompatible => found.sort_by(|a, b| a.1.cmp(&b.1)),
        Provider::Anthropic | Provider::Google => {}
    }
    let mut names: Vec<String> = found.into_iter().map(|(_, name)| name).collect();
    names.dedup();
    names.truncate(MOST_MODELS);
    Some(names)
}

/// Whether a model is in the list of its provider.
pub fn offers(provider: Provider, models: &[String], model: &str) -> bool {
    let latest = format!("{model}:latest");
    models.iter().any(|known| known == model || (provider == Provider::Ollama && *known == latest))
}

/// The model to offer first: one that is good at code, without being the most expensive.
pub fn suggested(provider: Provider, models: &[String]) -> Option<String> {
    let preferred: &[&str] = match provider {
        Provider::Anthropic => &["sonnet"],
        Provider::OpenAI => &["codex", "gpt-5", "gpt-4.1"],
        Provider::Google => &["-pro"],
        Provider::Ollama => &["coder", "qwen", "gpt-oss"],
        Provider::OpenAICompatible => &[],
    };
    let mut found = preferred.iter().filter_map(|part| models.iter().find(|model| model.contains(part)));
    found.next().or_else(|| models.first()).cloned()
}

/// The message in an error of a provider, on one line; `None` if there is none or it repeats the key.
pub fn complaint(body: &[u8], key: Option<&ApiKey>) -> Option<String> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    // Google wraps its error into a list.
    let answer = answer.get(0).unwrap_or(&answer);
    let error = answer.get("error").unwrap_or(&Value::Null);
    let text = [&error["message"], error, &answer["message"], &answer["detail"]].into_iter().find_map(Value::as_str)?;
    if key.is_some_and(|key| text.contains(key.reveal())) {
        return None;
    }
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().filter(|c| !c.is_control()).take(LONGEST_COMPLAINT).collect();
    (!line.is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_contains_only_models_for_chat() {
        let read = |provider, body: &str| models(provider, body.as_bytes());
        let google = r#"{"models":[{"name":"models/gemini-3-pro","supportedGenerationMethods":["generateContent"]},
            {"name":"models/embedding-1","supportedGenerationMethods":["embedContent"]}]}"#;
        assert_eq!(read(Provider::Google, google).unwrap(), ["gemini-3-pro"]);
        let openai = r#"{"data":[{"id":"gpt-4.1","created":1},{"id":"tts-1","created":2},{"id":"gpt-5","created":3}]}"#;
        assert_eq!(read(Provider::OpenAI, openai).unwrap(), ["gpt-5", "gpt-4.1"]);
        assert_eq!(read(Provider::OpenAICompatible, r#"{"data":[{"id":"a\nb"},{"id":7},{}]}"#).unwrap(), [""; 0]);
        assert_eq!(read(Provider::OpenAICompatible, r#"{"data":"x"}"#), None);
        assert_eq!(read(Provider::OpenAICompatible, "[]"), None);
    }

    #[test]
    fn a_complaint_is_one_short_line_without_the_key() {
        let key = ApiKey::read("k3y");
        let read = |body: &str| complaint(body.as_bytes(), key.as_ref());
        assert_eq!(read(r#"{"error":{"message":"no\n  money"}}"#).as_deref(), Some("no money"));
        assert_eq!(read(r#"[{"error":{"message":"API key not valid"}}]"#).as_deref(), Some("API key not valid"));
        assert_eq!(read(r#"{"detail":"Not authenticated"}"#).as_deref(), Some("Not authenticated"));
        assert_eq!(read(r#"{"error":"the key k3y is wrong"}"#), None);
        assert_eq!(read("<html>"), None);
        assert_eq!(read(&format!(r#"{{"error":"{}"}}"#, "x".repeat(999))).unwrap().len(), LONGEST_COMPLAINT);
    }
}
