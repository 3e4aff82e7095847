//! The test of a provider: which requests to send, and what their answers mean.
//!
//! A [`Probe`] makes no request itself. Its caller sends what [`Probe::start`] and [`Probe::next`] return, with its own
//! address policy and time limits.

use std::fmt;

use serde_json::json;

use super::{
    Connection, Provider, SetupError,
    answers::{complaint, models, offers, suggested},
    check_model, default_url,
};

/// A request to a provider. Its headers contain the key.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    pub method: &'static str,
    pub url: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: Option<String>,
}

impl fmt::Debug for Request {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.method, self.url)
    }
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Answer {
        status: u16,
        body: Vec<u8>,
    },
    /// No answer, and why; without the key.
    Failed(String),
}

/// The next step of a test.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Send(Request),
    Done(Finding),
}

/// The result of a test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// Whether the provider accepts the key and, if one is chosen, offers the model.
    pub works: bool,
    /// A sentence for people; contains no key.
    pub message: String,
    /// Models that the provider lists.
    pub models: Vec<String>,
    /// The model of `models` to offer first.
    pub suggested: Option<String>,
}

/// A test of a provider.
#[derive(Clone, Debug)]
pub struct Probe {
    connection: Connection,
    base: String,
    model: Option<String>,
    models: Vec<String>,
    completing: bool,
}

impl Probe {
    /// A test of a connection and, if one is chosen, of a model.
    pub fn new(connection: &Connection, model: Option<&str>) -> Result<Self, SetupError> {
        let connection = connection.checked()?;
        let model = model.filter(|model| !model.trim().is_empty()).map(check_model).transpose()?;
        let mut base = connection.base_url.clone().unwrap_or_else(|| default_url(connection.provider));
        // Ollama's own API is at the root, the compatible one below /v1.
        if connection.provider == Provider::Ollama && !base.ends_with("/v1") {
            base.push_str("/v1");
        }
        Ok(Self { connection, base, model: model.map(str::to_owned), models: Vec::new(), completing: false })
    }

    /// The first request: the list of models.
    pub fn start(&self) -> Request {
        // Only these two divide the list into pages.
        let query = match self.connection.provider {
            Provider::Anthropic => "?limit=1000",
            Provider::Google => "?pageSize=1000",
            Provider::OpenAI | Provider::Ollama | Provider::OpenAICompatible => "",
        };
        self.request("GET", &format!("models{query}"), None)
    }

    /// What follows from the answer to the last request.
    pub fn next(&mut self, reply: &Reply) -> Step {
        let (status, body) = match reply {
            Reply::Failed(why) => return self.fails(format!("{} cannot be reached: {why}", self.base)),
            Reply::Answer { status, body } => (*status, body.as_slice()),
        };
        if self.completing { self.completed(status, body) } else { self.listed(status, body) }
    }

    fn listed(&mut self, status: u16, body: &[u8]) -> Step {
        let provider = self.connection.provider;
        match status {
            200..=299 => {}
            // A compatible server need not have a list.
            404 | 405 | 501 if provider == Provider::OpenAICompatible => {
                return match &self.model.clone() {
                    Some(model) => Step::Send(self.completion(model)),
                    None => self.fails(format!(
                        "{} does not list its models: check that the address is right (it usually ends with /v1), or type the name of a model",
                        self.base
                    )),
                };
            }
            _ => return self.refused(status, body),
        }
        let Some(found) = models(provider, body) else {
            return self.fails(format!(
                "{} does not answer with a list of models: check the address (it usually ends with /v1)",
                self.base
            ));
        };
        self.models = found;
        match self.model.clone() {
            None if self.models.is_empty() && provider == Provider::Ollama => {
                self.fails("Ollama has no model yet: get one with `ollama pull qwen3`".to_owned())
            }
            None => self.works(format!("Connected: {}.", count(self.models.len()))),
            // Some servers list models to everyone, so only an answer shows that key and model work.
            Some(model) if provider == Provider::OpenAICompatible => Step::Send(self.completion(&model)),
            Some(model) if offers(provider, &self.models, &model) => {
                self.works(format!("Connected: {} offers {model}.", provider.title()))
            }
            Some(model) if provider == Provider::Ollama => {
                self.fails(format!("Ollama does not have model '{model}': get it with `ollama pull {model}`"))
            }
            Some(model) => self.fails(format!("{} offers no model '{model}' for this key", provider.title())),
        }
    }

    fn completed(&self, status: u16, body: &[u8]) -> Step {
        match (status, &self.model) {
            (200..=299, Some(model)) => self.works(format!("Connected: {model} answers.")),
            _ => self.refused(status, body),
        }
    }

    fn completion(&mut self, model: &str) -> Request {
        self.completing = true;
        let body = json!({
            "model": model,
            "messages": [{ "role": "user", "content": "Hi" }],
            "max_tokens": 1,
        });
        self.request("POST", "chat/completions", Some(body.to_string()))
    }

    fn request(&self, method: &'static str, path: &str, body: Option<String>) -> Request {
        let mut headers = vec![("accept", "application/json".to_owned())];
        if body.is_some() {
            headers.push(("content-type", "application/json".to_owned()));
        }
        if let Some(key) = &self.connection.key {
            let key = key.reveal();
            headers.push(match self.connection.provider {
                Provider::Anthropic => ("x-api-key", key.to_owned()),
                Provider::Google => ("x-goog-api-key", key.to_owned()),
                Provider::OpenAI | Provider::Ollama | Provider::OpenAICompatible => {
                    ("authorization", format!("Bearer {key}"))
                }
            });
        }
        if self.connection.provider == Provider::Anthropic {
            headers.push(("anthropic-version", "2023-06-01".to_owned()));
        }
        Request { method, url: format!("{}/{path}", self.base), headers, body }
    }

    fn refused(&self, status: u16, body: &[u8]) -> Step {
        let title = self.connection.provider.title();
        let said = complaint(body, self.connection.key.as_ref()).map(|text| format!(": {text}")).unwrap_or_default();
        self.fails(match status {
            // Google answers 400 to a wrong key.
            400 | 401 | 403 if !self.completing && self.connection.key.is_some() => {
                format!("{title} does not accept the key (status {status}){said}")
            }
            401 | 403 if self.connection.key.is_some() => format!("the server refuses the key (status {status}){said}"),
            401 | 403 => format!("the server requires a key (status {status}){said}"),
            404 if !self.completing => format!("{} does not exist (status 404): check the address", self.base),
            429 => format!("{title} refuses more requests for now (status 429){said}"),
            300..=399 => format!("{} redirects elsewhere: use the address that it redirects to", self.base),
            _ => format!("{title} answers with status {status}{said}"),
        })
    }

    fn works(&self, message: String) -> Step {
        let suggested = suggested(self.connection.provider, &self.models);
        Step::Done(Finding { works: true, message, models: self.models.clone(), suggested })
    }

    fn fails(&self, message: String) -> Step {
        let suggested = suggested(self.connection.provider, &self.models);
        Step::Done(Finding { works: false, message, models: self.models.clone(), suggested })
    }
}

fn count(models: usize) -> String {
    match models {
        1 => "1 model".to_owned(),
        models => format!("{models} models"),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::ApiKey, *};

    fn probe(provider: Provider, url: Option<&str>, key: Option<&str>, model: Option<&str>) -> Probe {
        let connection = Connection { provider, base_url: url.map(str::to_owned), key: key.and_then(ApiKey::read) };
        Probe::new(&connection, model).unwrap()
    }

    fn answer(status: u16, body: &str) -> Reply {
        Reply::Answer { status, body: body.as_bytes().to_vec() }
    }

    #[track_caller]
    fn done(step: Step) -> Finding {
        match step {
            Step::Done(finding) => finding,
            Step::Send(request) => panic!("{request:?}"),
        }
    }

    const LAB: Option<&str> = Some("http://lab:8080/v1/");

    #[test]
    fn each_provider_is_asked_for_its_models_with_its_own_header() {
        let first = |provider, url, key| {
            let request = probe(provider, url, key, None).start();
            let header = request.headers.iter().find(|(_, value)| value.contains("k3y")).map(|(name, _)| *name);
            (request.url, header)
        };
        let key = Some("k3y");
        assert_eq!(
            first(Provider::Anthropic, None, key),
            ("https://api.anthropic.com/v1/models?limit=1000".to_owned(), Some("x-api-key"))
        );
        assert_eq!(
            first(Provider::OpenAI, None, key),
            ("https://api.openai.com/v1/models".to_owned(), Some("authorization"))
        );
        assert_eq!(
            first(Provider::Google, None, key),
            (
                "https://generativelanguage.googleapis.com/v1beta/models?pageSize=1000".to_owned(),
                Some("x-goog-api-key")
            )
        );
        assert_eq!(first(Provider::Ollama, None, None), ("http://127.0.0.1:11434/v1/models".to_owned(), None));
        assert_eq!(
            first(Provider::OpenAICompatible, LAB, key),
            ("http://lab:8080/v1/models".to_owned(), Some("authorization"))
        );
        assert!(!format!("{:?}", probe(Provider::OpenAI, None, key, None).start()).contains("k3y"));
    }

    #[test]
    fn without_a_model_the_list_is_the_result() {
        let mut probe = probe(Provider::OpenAICompatible, LAB, None, None);
        let finding = done(probe.next(&answer(200, r#"{"data":[{"id":"b"},{"id":"a"}]}"#)));
        assert_eq!((finding.works, finding.message.as_str()), (true, "Connected: 2 models."));
        assert_eq!(finding.models, ["a", "b"]);
        assert_eq!(finding.suggested.as_deref(), Some("a"));
    }

    #[test]
    fn a_compatible_server_must_answer_with_the_model() {
        let start = || probe(Provider::OpenAICompatible, LAB, Some("k3y"), Some("a"));
        for listed in [answer(200, r#"{"data":[{"id":"b"}]}"#), answer(404, "")] {
            let mut probe = start();
            let Step::Send(request) = probe.next(&listed) else { panic!("no completion") };
            assert_eq!((request.method, request.url.as_str()), ("POST", "http://lab:8080/v1/chat/completions"));
            assert!(request.body.unwrap().contains(r#""max_tokens":1"#));
            assert!(done(probe.clone().next(&answer(200, "{}"))).works);
            let finding = done(probe.next(&answer(400, r#"{"error":{"message":"no such model"}}"#)));
            assert!(!finding.works);
            assert!(finding.message.ends_with("status 400: no such model"), "{}", finding.message);
        }
    }

    #[test]
    fn a_known_provider_must_list_the_model() {
        let list = answer(200, r#"{"data":[{"id":"claude-haiku-4-5"},{"id":"claude-sonnet-4-5"}]}"#);
        let mut good = probe(Provider::Anthropic, None, Some("k3y"), Some("claude-haiku-4-5"));
        let finding = done(good.next(&list));
        assert_eq!((finding.works, finding.suggested.as_deref()), (true, Some("claude-sonnet-4-5")));
        let mut wrong = probe(Provider::Anthropic, None, Some("k3y"), Some("gpt-5"));
        assert_eq!(done(wrong.next(&list)).message, "Anthropic offers no model 'gpt-5' for this key");
        let tags = answer(200, r#"{"data":[{"id":"qwen3:latest"}]}"#);
        assert!(done(probe(Provider::Ollama, None, None, Some("qwen3")).next(&tags)).works);
        let finding = done(probe(Provider::Ollama, None, None, Some("llama4")).next(&tags));
        assert!(finding.message.contains("ollama pull llama4"), "{}", finding.message);
    }

    #[test]
    fn a_failure_says_what_to_do_and_never_repeats_the_key() {
        let check = |provider, url, key: Option<&str>, reply: &Reply, text: &str| {
            let finding = done(probe(provider, url, key, None).next(reply));
            assert!(!finding.works && finding.message.contains(text), "{}", finding.message);
            assert!(!finding.message.contains("k3y"), "{}", finding.message);
        };
        let echo = answer(401, r#"{"error":{"message":"invalid key k3y"}}"#);
        check(Provider::OpenAI, None, Some("k3y"), &echo, "does not accept the key (status 401)");
        check(Provider::OpenAICompatible, LAB, None, &answer(401, "{}"), "requires a key");
        check(Provider::OpenAICompatible, LAB, None, &answer(404, "{}"), "usually ends with /v1");
        check(Provider::OpenAICompatible, LAB, None, &answer(200, "<html>"), "list of models");
        check(Provider::OpenAI, Some("http://lab"), Some("k3y"), &answer(302, ""), "redirects");
        check(Provider::OpenAI, None, Some("k3y"), &answer(503, r#"{"error":"busy"}"#), "status 503: busy");
        check(Provider::Ollama, None, None, &Reply::Failed("connection refused".into()), "11434/v1 cannot be reached");
        check(Provider::Ollama, None, None, &answer(200, r#"{"data":null}"#), "ollama pull");
    }
}
