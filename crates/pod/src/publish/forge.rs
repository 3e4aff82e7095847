//! Pull requests on GitHub, GitLab, and Gitea or Forgejo.
//!
//! An open pull request of the branch is used again. Requests are not redirected: the token goes to one server only.
//! Labels and drafts that the server refuses are notes, not failures.

use std::time::Duration;

use api::run::{PullRequest, PullRequestProvider as Provider};
use domain::run::publish::{Forge, NoForge, escaped};
use egress::{ExchangeError, Outgoing, Policy, Redactor, exchange_from_pod};
use serde_json::{Value, json};

use super::Settings;

/// Time of one request.
const REQUEST: Duration = Duration::from_secs(30);
/// Bytes of an answer. A list of pull requests has their texts.
const MOST_ANSWER: u64 = 16 << 20;
/// Entries of one page of a list, and pages that are read.
const PAGE: usize = 50;
const MOST_PAGES: usize = 20;
/// Characters of a message of the server.
const MOST_MESSAGE: usize = 300;

/// Why there is no pull request. Completes "the pull request cannot be opened: …"; no text contains the token.
#[derive(Debug, thiserror::Error)]
pub enum PullRequestError {
    #[error("it needs a token; add it to the Secret of publish.secretRef as `password`")]
    NoToken,
    #[error("{0}; set publish.pullRequest.provider and publish.pullRequest.apiURL")]
    NoForge(#[from] NoForge),
    #[error("{url}: {source}")]
    Request { url: String, source: ExchangeError },
    #[error("{url} answers {status}: {message}{hint}")]
    Refused {
        url: String,
        status: u16,
        /// The server's own.
        message: String,
        /// What to do; may be empty.
        hint: &'static str,
    },
    #[error(
        "the answer of {url} is not one of {provider:?}; check publish.pullRequest.provider and \
             publish.pullRequest.apiURL"
    )]
    Answer { url: String, provider: Provider },
}

/// A pull request that is to be open.
pub struct Opening<'a> {
    pub settings: &'a Settings,
    pub token: Option<String>,
    pub redactor: Redactor,
    pub wanted: &'a PullRequest,
    pub branch: &'a str,
    pub base: &'a str,
    pub title: String,
    pub body: String,
}

/// An open pull request.
#[derive(Debug, PartialEq, Eq)]
pub struct Opened {
    /// Address of its page.
    pub url: String,
    pub notes: Vec<String>,
}

impl Opening<'_> {
    /// Finds the open pull request of the branch, or opens one.
    pub async fn open(&self, forge: &Forge) -> Result<Opened, PullRequestError> {
        let token = self.token.as_deref().ok_or(PullRequestError::NoToken)?;
        let api = Api { opening: self, forge, token };
        let mut notes = Vec::new();
        if let Some(url) = self.find(&api).await? {
            return Ok(Opened { url, notes });
        }
        let labels = self.wanted.labels.as_deref().unwrap_or_default();
        let title = forge.title(&self.title, self.wanted.draft);
        let found = match forge.provider {
            Provider::Gitea if !labels.is_empty() => api.gitea_labels(labels, &mut notes).await,
            _ => Vec::new(),
        };
        let mut request = match forge.provider {
            Provider::GitHub => json!({
                "title": title, "head": self.branch, "base": self.base, "body": self.body, "draft": self.wanted.draft,
            }),
            Provider::GitLab => json!({
                "source_branch": self.branch, "target_branch": self.base, "title": title, "description": self.body,
                "labels": labels.join(","),
            }),
            Provider::Gitea => json!({
                "title": title, "head": self.branch, "base": self.base, "body": self.body, "labels": found,
            }),
        };
        let url = api.pull_requests();
        let created = match api.post(&url, &request).await {
            Err(PullRequestError::Refused { status: 422, message, .. })
                if forge.provider == Provider::GitHub && self.wanted.draft && message.contains("raft") =>
            {
                // Not every plan of GitHub has drafts.
                notes.push("The pull request is no draft, because the repository does not allow drafts.".to_owned());
                request["draft"] = false.into();
                api.post(&url, &request).await
            }
            // Opened by another one meanwhile, or hidden from the list.
            Err(error @ PullRequestError::Refused { status: 409 | 422, .. }) => {
                return match self.find(&api).await {
                    Ok(Some(url)) => Ok(Opened { url, notes }),
                    _ => Err(error),
                };
            }
            other => other,
        }?;
        let page = api.page(&created).ok_or_else(|| api.unexpected(&url))?;
        if forge.provider == Provider::GitHub && !labels.is_empty() {
            let number = created["number"].as_u64().ok_or_else(|| api.unexpected(&url))?;
            let list = format!("{}/issues/{number}/labels", forge.project_url());
            if let Err(error) = api.post(&list, &json!({"labels": labels})).await {
                notes.push(format!("The pull request has no labels: {error}."));
            }
        }
        Ok(Opened { url: page, notes })
    }

    /// The page of the open pull request of the branch.
    async fn find(&self, api: &Api<'_>) -> Result<Option<String>, PullRequestError> {
        let (branch, base) = (escaped(self.branch), escaped(self.base));
        let url = api.pull_requests();
        let url = match api.forge.provider {
            Provider::GitHub => {
                let owner = escaped(api.forge.owner_and_name().0);
                format!("{url}?state=open&head={owner}:{branch}&base={base}")
            }
            Provider::GitLab => format!("{url}?state=opened&source_branch={branch}&target_branch={base}"),
            Provider::Gitea => format!("{url}?state=open"),
        };
        // Servers ignore a filter that they do not know.
        let is_ours = |found: &Value| match api.forge.provider {
            Provider::GitLab => {
                let own_project = found["source_project_id"] == found["target_project_id"];
                own_project && found["source_branch"] == self.branch && found["target_branch"] == self.base
            }
            Provider::GitHub | Provider::Gitea => {
                let full_name = |side: &str| found[side]["repo"]["full_name"].clone();
                let own_project = full_name("head") == full_name("base");
                own_project && found["head"]["ref"] == self.branch && found["base"]["ref"] == self.base
            }
        };
        let found = api.find(&url, is_ours).await?;
        found.map(|found| api.page(&found).ok_or_else(|| api.unexpected(&url))).transpose()
    }
}

/// The API of one server.
struct Api<'a> {
    opening: &'a Opening<'a>,
    forge: &'a Forge,
    token: &'a str,
}

impl Api<'_> {
    /// The list of pull requests, which also takes new ones.
    fn pull_requests(&self) -> String {
        let name = if self.forge.provider == Provider::GitLab { "merge_requests" } else { "pulls" };
        format!("{}/{name}", self.forge.project_url())
    }

    /// The page of a pull request, for a person.
    fn page(&self, found: &Value) -> Option<String> {
        let field = if self.forge.provider == Provider::GitLab { "web_url" } else { "html_url" };
        let page = found[field].as_str()?;
        let is_url = page.starts_with("https://") || page.starts_with("http://");
        (is_url && page.len() <= 2048 && !page.contains(char::is_whitespace)).then(|| self.opening.redactor.clean(page))
    }

    /// The first entry of a list, page by page, that is wanted.
    async fn find(&self, url: &str, wanted: impl Fn(&Value) -> bool) -> Result<Option<Value>, PullRequestError> {
        let and = if url.contains('?') { '&' } else { '?' };
        let size = if self.forge.provider == Provider::Gitea { "limit" } else { "per_page" };
        for page in 1..=MOST_PAGES {
            let answer = self.send("GET", &format!("{url}{and}{size}={PAGE}&page={page}"), None).await?;
            let entries = answer.as_array().ok_or_else(|| self.unexpected(url))?;
            if let Some(found) = entries.iter().find(|entry| wanted(entry)) {
                return Ok(Some(found.clone()));
            }
            // A server may allow shorter pages than we ask for.
            if entries.is_empty() {
                break;
            }
        }
        Ok(None)
    }

    /// The ids of labels of a repository or its organisation. Notes those that do not exist.
    async fn gitea_labels(&self, labels: &[String], notes: &mut Vec<String>) -> Vec<Value> {
        let lists = [
            format!("{}/labels", self.forge.project_url()),
            format!("{}/orgs/{}/labels", self.forge.api, escaped(self.forge.owner_and_name().0)),
        ];
        let mut found = Vec::new();
        for label in labels {
            let mut id = None;
            for list in &lists {
                // The owner may be a user, who has no labels.
                id = id.or(self.find(list, |entry| entry["name"] == *label).await.ok().flatten());
            }
            match id {
                Some(entry) => found.push(entry["id"].clone()),
                None => notes.push(format!("The pull request has no label {label}: the repository does not have it.")),
            }
        }
        found
    }

    async fn post(&self, url: &str, body: &Value) -> Result<Value, PullRequestError> {
        self.send("POST", url, Some(body)).await
    }

    async fn send(&self, method: &str, url: &str, body: Option<&Value>) -> Result<Value, PullRequestError> {
        let token = self.token;
        let (scheme, accept) = match self.forge.provider {
            Provider::GitHub => ("Bearer", "application/vnd.github+json"),
            // Takes personal, project and group tokens, and those of OAuth.
            Provider::GitLab => ("Bearer", "application/json"),
            Provider::Gitea => ("token", "application/json"),
        };
        let mut headers = vec![
            ("authorization", format!("{scheme} {token}")),
            ("accept", accept.to_owned()),
            ("content-type", "application/json".to_owned()),
        ];
        if self.forge.provider == Provider::GitHub {
            headers.push(("x-github-api-version", "2022-11-28".to_owned()));
        }
        let settings = self.opening.settings;
        let body = body.map(Value::to_string);
        let outgoing = Outgoing { method, url, headers: &headers, body };
        let policy = Policy::from(settings.loopback);
        let answer = exchange_from_pod(&settings.authorities, &policy, outgoing, REQUEST, MOST_ANSWER).await;
        let shown = self.shown(url);
        let (status, answer) = answer.map_err(|source| PullRequestError::Request { url: shown.clone(), source })?;
        if !(200..300).contains(&status) {
            let message = self.message(&answer);
            return Err(PullRequestError::Refused { url: shown, status, message, hint: hint(status) });
        }
        serde_json::from_slice(&answer).map_err(|_| self.unexpected(url))
    }

    fn unexpected(&self, url: &str) -> PullRequestError {
        PullRequestError::Answer { url: self.shown(url), provider: self.forge.provider }
    }

    /// The address without its query.
    fn shown(&self, url: &str) -> String {
        self.opening.redactor.clean(url.split('?').next().unwrap_or_default())
    }

    /// What a server says about a refusal: `message` and `errors` as text, list or object, or the text itself.
    fn message(&self, answer: &[u8]) -> String {
        let text = match serde_json::from_slice::<Value>(answer) {
            Ok(answer) => {
                let fields = ["message", "error", "error_description", "errors"].map(|name| &answer[name]);
                let texts = fields.into_iter().filter(|field| !field.is_null()).flat_map(texts);
                texts.collect::<Vec<_>>().join(", ")
            }
            // The page of a proxy says nothing.
            Err(_) if answer.trim_ascii_start().starts_with(b"<") => "a page".to_owned(),
            Err(_) => String::from_utf8_lossy(answer).into_owned(),
        };
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = self.opening.redactor.clean(&text);
        let text = if text.is_empty() { "no reason" } else { &text };
        text.chars().take(MOST_MESSAGE).collect()
    }
}

/// The texts in a value, a few levels deep.
fn texts(value: &Value) -> Vec<String> {
    fn collect(value: &Value, depth: u8, found: &mut Vec<String>) {
        match value {
            Value::String(text) => found.push(text.clone()),
            Value::Array(items) if depth > 0 => items.iter().for_each(|item| collect(item, depth - 1, found)),
            Value::Object(fields) if depth > 0 => match fields.get("message") {
                Some(message) => collect(message, depth - 1, found),
                None => fields.values().for_each(|field| collect(field, depth - 1, found)),
            },
            _ => {}
        }
    }
    let mut found = Vec::new();
    collect(value, 3, &mut found);
    found
}

fn hint(status: u16) -> &'static str {
    match status {
        300..=399 => "; set publish.pullRequest.apiURL to the address that the server redirects to",
        401 => "; the key `password` of the Secret of publish.secretRef must be a valid token",
        403 => "; the token of publish.secretRef must be allowed to open pull requests",
        404 => "; check the address, and that the token of publish.secretRef may see the repository",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_a_refusal_are_found_wherever_the_server_puts_them() {
        let check = |value: Value, expected: &[&str]| assert_eq!(texts(&value), expected, "{value}");
        check(json!("no"), &["no"]);
        check(json!(["a", {"message": "b", "code": "c"}]), &["a", "b"]);
        check(json!({"title": ["is too long"], "x": 1}), &["is too long"]);
        check(json!({"a": {"b": {"c": {"d": "too deep"}}}}), &[]);
    }
}
