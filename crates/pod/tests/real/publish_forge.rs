//! Pull requests: the REST APIs of GitHub, GitLab and Gitea, played from their documented shapes.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use api::run::{PullRequest, PullRequestProvider as Provider};
use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use blackbox::git_server::Manner;
use domain::contract::report::RunReport;
use kubeopencode_pod::env;
use kubeopencode_pod::publish::{self, Error, Published, Settings};
use serde_json::{Value, json};

use crate::publish::{Case, PASSWORD};
use crate::support::lookup;

/// A request that the server got.
#[derive(Clone, Debug)]
struct Asked {
    method: String,
    path: String,
    query: HashMap<String, String>,
    authorization: String,
    body: Value,
}

#[derive(Default)]
struct Played {
    asked: Vec<Asked>,
    /// Pull requests as the API of the provider has them.
    open: Vec<Value>,
    /// Answers for a method and path instead of the usual one, each used once.
    instead: Vec<(&'static str, u16, Value)>,
    redirect: Option<String>,
}

struct Server {
    address: SocketAddr,
    played: Arc<Mutex<Played>>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    async fn start() -> Self {
        let played = Arc::<Mutex<Played>>::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&played));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, played, task }
    }

    fn instead(&self, path: &'static str, status: u16, answer: Value) {
        self.played.lock().unwrap().instead.push((path, status, answer));
    }

    fn asked(&self) -> Vec<Asked> {
        self.played.lock().unwrap().asked.clone()
    }

    /// The bodies of requests with this method and path.
    fn bodies(&self, method: &str, path: &str) -> Vec<Value> {
        let asked = self.asked().into_iter().filter(|asked| asked.method == method && asked.path == path);
        asked.map(|asked| asked.body).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The repository is `o/r` everywhere.
async fn answer(State(played): State<Arc<Mutex<Played>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    let query = parts.uri.query().unwrap_or_default();
    let asked = Asked {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name.to_owned(), egress::percent_decode(value)))
            .collect(),
        authorization: parts
            .headers
            .get("authorization")
            .map_or(String::new(), |value| value.to_str().unwrap().to_owned()),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    let mut played = played.lock().unwrap();
    played.asked.push(asked.clone());
    if let Some(to) = &played.redirect {
        return (StatusCode::TEMPORARY_REDIRECT, [("location", to.clone())]).into_response();
    }
    let line = format!("{} {}", asked.method, asked.path);
    if let Some(at) = played.instead.iter().position(|(path, ..)| *path == line) {
        let (_, status, answer) = played.instead.remove(at);
        return (StatusCode::from_u16(status).unwrap(), axum::Json(answer)).into_response();
    }
    let (status, answer) = usual(&mut played, &asked, &line);
    (StatusCode::from_u16(status).unwrap(), axum::Json(answer)).into_response()
}

fn usual(played: &mut Played, asked: &Asked, line: &str) -> (u16, Value) {
    let page = |entries: Vec<Value>, size: &str| -> Value {
        let number = |name: &str| asked.query.get(name).and_then(|text| text.parse::<usize>().ok());
        // Servers have a limit of their own.
        let size = number(size).unwrap_or(30).min(2);
        entries.into_iter().skip((number("page").unwrap_or(1) - 1) * size).take(size).collect()
    };
    let field = |name: &str| asked.body[name].clone();
    let pull = |number: usize| {
        let repo = json!({"full_name": "o/r"});
        json!({
            "number": number, "html_url": format!("https://git.example/o/r/pulls/{number}"), "state": "open",
            "title": field("title"), "body": field("body"), "draft": field("draft"),
            "head": {"ref": field("head"), "repo": repo}, "base": {"ref": field("base"), "repo": repo},
        })
    };
    match line {
        "GET /repos/o/r/pulls" | "GET /api/v1/repos/o/r/pulls" => {
            let wanted = asked.query.get("head").map(|head| head.strip_prefix("o:").unwrap().to_owned());
            let open =
                played.open.iter().filter(|pull| wanted.as_ref().is_none_or(|head| pull["head"]["ref"] == *head));
            (200, page(open.cloned().collect(), if line.contains("v1") { "limit" } else { "per_page" }))
        }
        "POST /repos/o/r/pulls" | "POST /api/v1/repos/o/r/pulls" => {
            let created = pull(played.open.len() + 1);
            played.open.push(created.clone());
            (201, created)
        }
        "POST /repos/o/r/issues/1/labels" => (200, json!([{"id": 1, "name": "bot"}])),
        "GET /api/v4/projects/o%2Fr/merge_requests" => {
            let matches = |request: &&Value| request["source_branch"] == asked.query["source_branch"];
            (200, page(played.open.iter().filter(matches).cloned().collect(), "per_page"))
        }
        "POST /api/v4/projects/o%2Fr/merge_requests" => {
            let number = played.open.len() + 1;
            let created = json!({
                "iid": number, "web_url": format!("https://git.example/o/r/-/merge_requests/{number}"), "state": "opened",
                "source_branch": field("source_branch"), "target_branch": field("target_branch"),
                "source_project_id": 7, "target_project_id": 7, "title": field("title"),
            });
            played.open.push(created.clone());
            (201, created)
        }
        "GET /api/v1/repos/o/r/labels" => {
            let labels = ["a", "b", "c", "bot"].iter().enumerate();
            (200, page(labels.map(|(id, name)| json!({"id": id, "name": name})).collect(), "limit"))
        }
        "GET /api/v1/orgs/o/labels" => (200, page(vec![json!({"id": 77, "name": "of the organisation"})], "limit")),
        _ => (404, json!({"message": "Not Found"})),
    }
}

/// A change that is to become a pull request, and the server of the API.
struct Pull {
    case: Case,
    server: Server,
}

impl Pull {
    async fn new(provider: Provider) -> Self {
        let (mut case, server) = (Case::new().await, Server::start().await);
        let root = match provider {
            Provider::GitHub => "",
            Provider::GitLab => "/api/v4",
            Provider::Gitea => "/api/v1",
        };
        // The address of the API and the path of the repository are of another server than git's.
        let path = case.origin.path.with_file_name("o");
        std::fs::create_dir(&path).unwrap();
        std::os::unix::fs::symlink(&case.origin.path, path.join("r.git")).unwrap();
        case.plan.repository = case.server.url_of("o/r.git");
        case.plan.settings.pull_request = Some(PullRequest {
            provider: Some(provider),
            api_url: Some(format!("http://{}{root}", server.address)),
            ..PullRequest::default()
        });
        case.write("poem.md", "one\n");
        Self { case, server }
    }

    fn wanted(&mut self) -> &mut PullRequest {
        self.case.plan.settings.pull_request.as_mut().unwrap()
    }

    async fn open(&self) -> Result<Published, Error> {
        let settings = Settings::from_env(&lookup(&self.case.environment())).unwrap();
        let report = RunReport { summary: "The poem is better now.".to_owned(), ..RunReport::succeeded() };
        let opened = publish::run(&self.case.plan, &settings, Some(&report)).await;
        if let Err(error) = &opened {
            assert!(!format!("{error} {error:?}").contains(PASSWORD), "{error:?}");
        }
        opened
    }

    /// The error, and what was published in spite of it.
    async fn fail(&self) -> (String, Published) {
        let error = self.open().await.unwrap_err();
        let published = error.published().cloned().unwrap_or_default();
        assert_eq!(published.status.branch.as_deref(), Some("agents/fix"), "{error}");
        assert_eq!(published.status.commit, Some(self.case.remote(&["rev-parse", "agents/fix"])));
        (error.to_string(), published)
    }
}

const BODY: &str = "The poem is better now.\n\nCreated by KubeOpenCode Task team/fix, run 1";

#[tokio::test]
async fn github_opens_a_pull_request_with_labels_once() {
    let mut pull = Pull::new(Provider::GitHub).await;
    pull.wanted().labels = Some(vec!["bot".to_owned()]);
    pull.wanted().draft = true;
    let published = pull.open().await.unwrap();
    assert_eq!(published.status.url.as_deref(), Some("https://git.example/o/r/pulls/1"));
    assert_eq!(published.notes, [""; 0]);
    let created = pull.server.bodies("POST", "/repos/o/r/pulls");
    let expected = json!({
        "title": "Fix the poem", "head": "agents/fix", "base": "main", "body": BODY, "draft": true,
    });
    assert_eq!(created, [expected]);
    assert_eq!(pull.server.bodies("POST", "/repos/o/r/issues/1/labels"), [json!({"labels": ["bot"]})]);
    let bearer = format!("Bearer {PASSWORD}");
    assert!(pull.server.asked().iter().all(|asked| asked.authorization == bearer));

    // A rerun finds it.
    assert_eq!(pull.open().await.unwrap().status, published.status);
    assert_eq!(pull.server.bodies("POST", "/repos/o/r/pulls").len(), 1);
}

#[tokio::test]
async fn gitlab_opens_a_merge_request_as_a_draft() {
    let mut pull = Pull::new(Provider::GitLab).await;
    pull.case.plan.settings.base_branch = Some("feature".to_owned());
    *pull.wanted() = PullRequest {
        draft: true,
        title: Some("Better\n poem".to_owned()),
        body: Some("My own text".to_owned()),
        labels: Some(vec!["a".to_owned(), "b c".to_owned()]),
        ..pull.wanted().clone()
    };
    let published = pull.open().await.unwrap();
    assert_eq!(published.status.url.as_deref(), Some("https://git.example/o/r/-/merge_requests/1"));
    let expected = json!({
        "source_branch": "agents/fix", "target_branch": "feature", "title": "Draft: Better poem",
        "description": "My own text", "labels": "a,b c",
    });
    assert_eq!(pull.server.bodies("POST", "/api/v4/projects/o%2Fr/merge_requests"), [expected]);
    assert_eq!(pull.open().await.unwrap().status, published.status);
    assert_eq!(pull.server.bodies("POST", "/api/v4/projects/o%2Fr/merge_requests").len(), 1);
}

#[tokio::test]
async fn gitea_opens_a_pull_request_with_the_ids_of_labels() {
    let mut pull = Pull::new(Provider::Gitea).await;
    pull.wanted().draft = true;
    pull.wanted().labels = Some(["bot", "of the organisation", "missing"].map(str::to_owned).into());
    let published = pull.open().await.unwrap();
    assert_eq!(published.status.url.as_deref(), Some("https://git.example/o/r/pulls/1"));
    let note = "The pull request has no label missing: the repository does not have it.";
    assert_eq!(published.notes, [note]);
    let created = pull.server.bodies("POST", "/api/v1/repos/o/r/pulls");
    let expected = json!({
        "title": "WIP: Fix the poem", "head": "agents/fix", "base": "main", "body": BODY, "labels": [3, 77],
    });
    assert_eq!(created, [expected]);
    assert!(pull.server.asked().iter().all(|asked| asked.authorization == format!("token {PASSWORD}")));

    // It is found among many, on whichever page it is.
    {
        let mut played = pull.server.played.lock().unwrap();
        let ours = played.open.pop().unwrap();
        for number in 0..5 {
            let mut other = ours.clone();
            other["head"]["ref"] = format!("other-{number}").into();
            played.open.push(other);
        }
        let mut of_a_fork = ours.clone();
        of_a_fork["head"]["repo"]["full_name"] = "mallory/r".into();
        of_a_fork["html_url"] = "https://git.example/mallory".into();
        played.open.extend([of_a_fork, ours]);
    }
    assert_eq!(pull.open().await.unwrap().status, published.status);
    assert_eq!(pull.server.bodies("POST", "/api/v1/repos/o/r/pulls").len(), 1);
}

#[tokio::test]
async fn a_branch_is_published_even_if_its_pull_request_fails() {
    let mut pull = Pull::new(Provider::GitHub).await;
    let refusal = json!({
        "message": format!("Validation Failed for {PASSWORD}"), "errors": [{"message": "No commits between main and x"}],
    });
    pull.server.instead("POST /repos/o/r/pulls", 422, refusal);
    let (error, _) = pull.fail().await;
    assert!(
        error.starts_with("the branch agents/fix was pushed, but the pull request cannot be opened: http://"),
        "{error}"
    );
    assert!(
        error
            .ends_with("/repos/o/r/pulls answers 422: Validation Failed for [redacted], No commits between main and x"),
        "{error}"
    );

    pull.server.instead("GET /repos/o/r/pulls", 401, json!({"message": "Bad credentials"}));
    let (error, _) = pull.fail().await;
    assert!(error.contains("Bad credentials; the key `password` of the Secret of publish.secretRef"), "{error}");

    pull.server.instead("GET /repos/o/r/pulls", 200, json!("<html>"));
    let (error, _) = pull.fail().await;
    assert!(error.contains("is not one of GitHub; check publish.pullRequest.provider"), "{error}");
    assert_eq!(error.matches("cannot be opened").count(), 1, "{error}");

    pull.server.instead("POST /repos/o/r/pulls", 201, json!({"html_url": "javascript:alert(1)"}));
    let (error, _) = pull.fail().await;
    assert!(error.contains("is not one of GitHub"), "{error}");

    // Loopback addresses are refused on a cluster.
    pull.case.more = vec![(env::URL_ALLOW_LOOPBACK, "false".to_owned())];
    let (error, _) = pull.fail().await;
    assert!(error.contains("is this machine"), "{error}");
    pull.case.more.clear();

    // Nothing listens there.
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    pull.wanted().api_url = Some(format!("http://{nowhere}"));
    let (error, _) = pull.fail().await;
    assert!(error.contains("refused"), "{error}");
}

#[tokio::test]
async fn the_token_does_not_follow_a_redirect() {
    let pull = Pull::new(Provider::GitHub).await;
    let other = Server::start().await;
    pull.server.played.lock().unwrap().redirect = Some(format!("http://{}/repos/o/r/pulls", other.address));
    let (error, _) = pull.fail().await;
    assert!(error.contains("answers 307") && error.contains("set publish.pullRequest.apiURL"), "{error}");
    assert!(other.asked().is_empty());
}

#[tokio::test]
async fn a_draft_that_is_not_allowed_and_labels_that_fail_are_notes() {
    let mut pull = Pull::new(Provider::GitHub).await;
    pull.wanted().draft = true;
    pull.wanted().labels = Some(vec!["bot".to_owned()]);
    let refusal = json!({"message": "Draft pull requests are not supported in this repository."});
    pull.server.instead("POST /repos/o/r/pulls", 422, refusal);
    pull.server.instead("POST /repos/o/r/issues/1/labels", 403, json!({"message": "Resource not accessible"}));
    let published = pull.open().await.unwrap();
    assert!(published.status.url.is_some());
    assert!(published.notes[0].starts_with("The pull request is no draft"), "{:?}", published.notes);
    assert!(
        published.notes[1].contains("no labels") && published.notes[1].contains("Resource"),
        "{:?}",
        published.notes
    );
    let drafts: Vec<Value> =
        pull.server.bodies("POST", "/repos/o/r/pulls").iter().map(|body| body["draft"].clone()).collect();
    assert_eq!(drafts, [true, false]);
}

#[tokio::test]
async fn a_pull_request_that_another_one_opened_meanwhile_is_used() {
    let pull = Pull::new(Provider::GitLab).await;
    pull.open().await.unwrap();
    // The first list does not show it.
    pull.server.instead("GET /api/v4/projects/o%2Fr/merge_requests", 200, json!([]));
    let message = "Another open merge request already exists for this source branch: !1";
    pull.server.instead("POST /api/v4/projects/o%2Fr/merge_requests", 409, json!({"message": [message]}));
    let published = pull.open().await.unwrap();
    assert_eq!(published.status.url.as_deref(), Some("https://git.example/o/r/-/merge_requests/1"));
}

#[tokio::test]
async fn without_a_token_the_branch_is_pushed_and_the_secret_is_named() {
    let mut pull = Pull::new(Provider::Gitea).await;
    // Anybody may push there.
    let open = pull.case.origin.serve(Manner::default()).await;
    pull.case.plan.repository = open.url_of("o/r.git");
    pull.case.more = vec![(env::GIT_USERNAME, String::new()), (env::GIT_PASSWORD, String::new())];
    let (error, _) = pull.fail().await;
    assert!(error.contains("it needs a token; add it to the Secret of publish.secretRef as `password`"), "{error}");
    assert!(pull.server.asked().is_empty());
}
