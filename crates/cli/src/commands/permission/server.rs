//! Permission requests on an Agent's OpenCode server.

use std::net::SocketAddr;

use api::Task;
use domain::{run::session::opened_by, workload::names};
use kube::ResourceExt as _;
use opencode::{Asked, Client, Error, Reply};

use crate::commands::{
    problem::{Answer, Problem},
    screen::line,
};

/// A request in one line.
pub fn describe(request: &Asked) -> String {
    line(&format!("{} {}", request.permission, request.patterns.join(", ")))
}

/// A server at the end of a tunnel.
pub struct Server(Client);

impl Server {
    /// The server at a local address.
    pub fn new(address: SocketAddr, password: Option<String>) -> Answer<Self> {
        let server = opencode::Server::at(&format!("http://{address}"), password).map_err(|error| problem(&error))?;
        Ok(Self(Client::new(opencode::direct().map_err(|error| problem(&error))?, server)))
    }

    /// The requests of the sessions of this Task, including those of its subagents.
    pub async fn requests_of(&self, task: &Task) -> Answer<Vec<Asked>> {
        let mut asked = Vec::new();
        for session in self.sessions_of(task).await? {
            asked.extend(self.0.permissions_of(&session).await.map_err(|error| problem(&error))?);
        }
        Ok(asked)
    }

    async fn sessions_of(&self, task: &Task) -> Answer<Vec<String>> {
        let known = task.status.as_ref().and_then(|status| status.session.as_ref()?.id.clone());
        if let Some(known) = known {
            return Ok(vec![known]);
        }
        let uid = task.uid().unwrap_or_default();
        let title = names::session_title(&task.namespace().unwrap_or_default(), &task.name_any(), &uid);
        let found = self.0.sessions(Some(&title)).await.map_err(|error| problem(&error))?;
        let is_ours = |session: &opencode::Session| opened_by(session).is_some_and(|opened| opened.uid == uid);
        Ok(found.into_iter().filter(is_ours).map(|session| session.id).collect())
    }

    /// Answers a request.
    pub async fn answer(&self, request: &Asked, reply: &Reply) -> Answer<()> {
        self.0.reply(&request.id, reply).await.map_err(|error| problem(&error))
    }
}

fn problem(error: &Error) -> Problem {
    match error {
        Error::Setup(_) | Error::Address(_) => Problem::new(error.to_string()),
        Error::Unreachable(cause) => Problem::new(format!("the agent's server cannot be reached: {cause}")),
        Error::NoAnswer(cause) => Problem::new(format!("the agent's server does not answer: {cause}")),
        Error::Unauthorized => Problem::new("the agent's server refuses the password of its Secret")
            .next("the Secret changed after the server started; restart the Agent (suspend and resume)"),
        Error::NotFound(_) => Problem::not_found("the agent does not ask for this any more"),
        Error::Status { status, .. } => Problem::new(format!("the agent's server answers HTTP {status}")),
        Error::NotOpenCode(_) => Problem::new("what answers at the agent's address is no OpenCode server"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
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
                "/session/ses_2" => json!({"id": "ses_2"}),
                "/session/ses_3" => json!({"id": "ses_3", "parentID": "ses_1"}),
                "/session/ses_1" => json!({"id": "ses_1"}),
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
    async fn a_request_that_is_gone_and_a_wrong_password_are_reported() {
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
}
