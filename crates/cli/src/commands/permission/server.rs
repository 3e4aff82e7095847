//! What we ask of an Agent's OpenCode server.

use std::{net::SocketAddr, time::Duration};

use api::Task;
use kube::ResourceExt as _;
use kubeopencode_core::names;
use reqwest::{Method, RequestBuilder};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::Reply;
use crate::commands::{
    problem::{Answer, Problem},
    screen::line,
};

/// A server under load needs seconds; a request that arrives while it starts is never answered.
const LIMIT: Duration = Duration::from_secs(15);
/// The user that OpenCode expects with a password.
const USER: &str = "opencode";

/// A permission that an agent asks for.
#[derive(Clone, Debug, Deserialize)]
pub struct Request {
    /// `per_…`.
    pub id: String,
    /// The session that waits.
    #[serde(rename = "sessionID")]
    pub session: String,
    /// Which permission, such as bash.
    pub permission: String,
    /// What exactly is asked for.
    #[serde(default)]
    pub patterns: Vec<String>,
}

impl Request {
    /// In a line.
    pub fn describe(&self) -> String {
        line(&format!("{} {}", self.permission, self.patterns.join(", ")))
    }
}

#[derive(Deserialize)]
struct Session {
    id: String,
    #[serde(default)]
    metadata: Value,
}

/// A server.
pub struct Server {
    http: reqwest::Client,
    address: SocketAddr,
    password: Option<String>,
}

impl Server {
    /// The server at this address of this machine.
    pub fn new(address: SocketAddr, password: Option<String>) -> Answer<Self> {
        let http = pod::trust::Trust::default().http_client().map_err(|error| Problem::new(error.to_string()))?;
        // The way to it starts on this machine: a proxy would only send it elsewhere.
        let http = http.no_proxy().timeout(LIMIT).build().map_err(|error| Problem::new(error.to_string()))?;
        Ok(Self { http, address, password })
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("http://{}{path}", self.address));
        match &self.password {
            Some(password) => request.basic_auth(USER, Some(password)),
            None => request,
        }
    }

    async fn send(&self, request: RequestBuilder) -> Answer<reqwest::Response> {
        let answer = request.send().await.map_err(|error| {
            let what = if error.is_timeout() { "does not answer" } else { "cannot be reached" };
            Problem::new(format!("the agent's server {what}: {error}"))
        })?;
        match answer.status().as_u16() {
            200..300 => Ok(answer),
            401 => Err(Problem::new("the agent's server refuses the password of its Secret")
                .next("the Secret changed after the server started; restart the Agent (suspend and resume)")),
            404 => Err(Problem::not_found("the agent does not ask for this any more")),
            status => Err(Problem::new(format!("the agent's server answers HTTP {status}"))),
        }
    }

    async fn get<T: DeserializeOwned>(&self, path: &str, query: &[(&str, &str)]) -> Answer<T> {
        let answer = self.send(self.request(Method::GET, path).query(query)).await?;
        answer.json().await.map_err(|_| Problem::new("what answers at the agent's address is no OpenCode server"))
    }

    /// What the agent asks for in the sessions of this Task, those of its subagents included.
    pub async fn requests_of(&self, task: &Task) -> Answer<Vec<Request>> {
        let mut sessions = self.sessions_of(task).await?;
        for session in sessions.clone() {
            let children: Vec<Session> = self.get(&format!("/session/{}/children", plain(&session)), &[]).await?;
            sessions.extend(children.into_iter().map(|child| child.id));
        }
        let mut asked: Vec<Request> = self.get("/permission", &[]).await?;
        asked.retain(|request| sessions.contains(&request.session));
        Ok(asked)
    }

    async fn sessions_of(&self, task: &Task) -> Answer<Vec<String>> {
        let known = task.status.as_ref().and_then(|status| status.session.as_ref()?.id.clone());
        if let Some(known) = known {
            return Ok(vec![known]);
        }
        let uid = task.uid().unwrap_or_default();
        let title = names::session_title(&task.namespace().unwrap_or_default(), &task.name_any(), &uid);
        let found: Vec<Session> = self.get("/session", &[("search", title.as_str())]).await?;
        let is_ours = |session: &Session| session.metadata["task"]["uid"] == uid.as_str();
        Ok(found.into_iter().filter(is_ours).map(|session| session.id).collect())
    }

    /// Answers a request.
    pub async fn answer(&self, request: &Request, reply: &Reply) -> Answer<()> {
        let path = format!("/permission/{}/reply", plain(&request.id));
        self.send(self.request(Method::POST, &path).json(&body(reply))).await.map(|_| ())
    }
}

fn body(reply: &Reply) -> Value {
    match reply {
        Reply::Once => json!({ "reply": "once" }),
        Reply::Always => json!({ "reply": "always" }),
        Reply::Reject(None) => json!({ "reply": "reject" }),
        Reply::Reject(Some(message)) => json!({ "reply": "reject", "message": message }),
    }
}

/// Ids come from the server; only their plain characters may enter a path.
fn plain(id: &str) -> String {
    id.chars().filter(|char| char.is_ascii_alphanumeric() || "_-".contains(*char)).collect()
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    /// Answers each request with what `answer` makes of its first line.
    async fn serve(answer: impl Fn(&str) -> (u16, Value) + Send + 'static) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let mut request = vec![0; 8192];
                let length = connection.read(&mut request).await.unwrap();
                let request = String::from_utf8_lossy(&request[..length]).into_owned();
                let (status, body) = answer(&request);
                let body = body.to_string();
                let head =
                    format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                connection.write_all((head + &body).as_bytes()).await.unwrap();
            }
        });
        address
    }

    fn task() -> Task {
        let metadata = json!({"name": "fix", "namespace": "team", "uid": "12345678-9"});
        serde_json::from_value(json!({"apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "metadata": metadata,
            "spec": {"agentRef": {"name": "dev"}}}))
        .unwrap()
    }

    #[tokio::test]
    async fn only_requests_of_the_task_and_its_subagents_are_seen() {
        let address = serve(|request| {
            assert!(request.contains("authorization: Basic b3BlbmNvZGU6c2VjcmV0"), "{request}");
            let path = request.split(' ').nth(1).unwrap_or_default();
            let asks = |id: &str, session: &str| json!({"id": id, "sessionID": session, "permission": "bash"});
            let body = match path {
                "/session?search=kubeopencode%2Fteam%2Ffix%2F12345678" => json!([
                    {"id": "ses_1", "metadata": {"task": {"uid": "12345678-9"}}},
                    {"id": "ses_2", "metadata": {"task": {"uid": "other"}}},
                ]),
                "/session/ses_1/children" => json!([{"id": "ses_3"}]),
                "/permission" => json!([asks("per_1", "ses_1"), asks("per_2", "ses_2"), asks("per_3", "ses_3")]),
                other => panic!("{other}"),
            };
            (200, body)
        })
        .await;
        let server = Server::new(address, Some("secret".to_owned())).unwrap();
        let asked = server.requests_of(&task()).await.unwrap();
        assert_eq!(asked.iter().map(|request| request.id.as_str()).collect::<Vec<_>>(), ["per_1", "per_3"]);
    }

    #[tokio::test]
    async fn a_request_that_is_gone_and_a_wrong_password_are_told() {
        for (status, expected) in [
            (404, "the agent does not ask for this any more"),
            (401, "the agent's server refuses the password of its Secret"),
            (500, "the agent's server answers HTTP 500"),
        ] {
            let server = Server::new(serve(move |_| (status, Value::Null)).await, None).unwrap();
            let request =
                serde_json::from_value(json!({"id": "per_1", "sessionID": "s", "permission": "bash"})).unwrap();
            let problem = server.answer(&request, &Reply::Once).await.unwrap_err();
            assert_eq!(problem.to_string(), expected);
        }
    }

    #[test]
    fn a_refusal_may_say_what_to_do_instead() {
        assert_eq!(body(&Reply::Reject(Some("use main".into()))), json!({"reply": "reject", "message": "use main"}));
        assert_eq!(body(&Reply::Reject(None)), json!({"reply": "reject"}));
        assert_eq!(body(&Reply::Always), json!({"reply": "always"}));
    }
}
