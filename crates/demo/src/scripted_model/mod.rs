//! An OpenAI-compatible model that follows a script in the prompt.
//!
//! Serves `POST /v1/chat/completions` (streamed or whole) and `GET /v1/models`, on loopback unless a test needs another
//! address. [`script`] is the grammar of prompts, [`plan::reply`] the pure function that decides the response; this
//! file does the I/O.

#[cfg(test)]
mod documented;
pub mod plan;
pub mod script;
pub mod wire;

use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use plan::{Answer, ChatRequest, Plan, Reply};

/// Duration of `[[hang]]`; longer than the time limit of any test or demo.
const HANG: Duration = Duration::from_hours(1);

/// Maximum size of a request. A conversation with large tool results has about one megabyte.
const LARGEST_REQUEST: usize = 16 << 20;
/// Requests whose bodies are read at the same time. Containers can reach the model, and it shares the memory of the
/// platform.
const READERS: usize = 4;
/// Time limit for the body of a request, so that a slow client does not keep its place among the readers.
const READING: Duration = Duration::from_secs(30);
/// Maximum number of conversations that are recognized when they are repeated.
const REMEMBERED: usize = 10_000;

/// The provider id that [`ScriptedModel::opencode_config`] uses.
pub const PROVIDER: &str = "scripted";
/// The model id that [`ScriptedModel::opencode_config`] uses.
pub const MODEL: &str = "scripted-1";

/// A running scripted model. Stops when it is dropped.
#[derive(Debug)]
pub struct ScriptedModel {
    address: SocketAddr,
    memory: Arc<Memory>,
    server: JoinHandle<()>,
}

/// Received requests, to recognize retries and for tests.
#[derive(Debug)]
struct Memory {
    /// Every request; `None` where the model runs for longer than a test.
    requests: Option<Mutex<Vec<Value>>>,
    seen: Mutex<HashMap<u64, u32>>,
    readers: Semaphore,
    /// The number of requests so far.
    count: AtomicU64,
}

impl Memory {
    /// Records a request. Returns its serial number, and how often the same conversation was received before.
    fn note(&self, body: &Value) -> (u64, u32) {
        let mut hasher = DefaultHasher::new();
        body.get("messages").unwrap_or(body).to_string().hash(&mut hasher);
        let conversation = hasher.finish();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= REMEMBERED && !seen.contains_key(&conversation) {
            seen.clear();
        }
        let count = seen.entry(conversation).or_default();
        let before = *count;
        *count = count.saturating_add(1);
        if let Some(requests) = &self.requests {
            requests.lock().unwrap_or_else(PoisonError::into_inner).push(body.clone());
        }
        (self.count.fetch_add(1, Ordering::Relaxed) + 1, before)
    }

    /// Reads the body of a request, when there is a place among the readers.
    async fn read(&self, body: Body) -> Result<Bytes, (u16, String)> {
        let _place = self.readers.acquire().await.map_err(|error| (503, error.to_string()))?;
        match timeout(READING, to_bytes(body, LARGEST_REQUEST)).await {
            Ok(read) => read.map_err(|error| (413, format!("the request cannot be read: {error}"))),
            Err(_) => Err((408, "the request was not sent in time".to_owned())),
        }
    }
}

impl ScriptedModel {
    /// Starts on a free port of 127.0.0.1, and records every request.
    pub async fn start() -> std::io::Result<Self> {
        Self::start_at(Ipv4Addr::LOCALHOST).await
    }

    /// Starts on a free port of this address, such as the host side of a test node, and records every request.
    pub async fn start_at(address: Ipv4Addr) -> std::io::Result<Self> {
        Self::listen(address, Some(Mutex::default())).await
    }

    /// Starts on a free port of 127.0.0.1 for as long as the platform runs: keeps no requests.
    pub async fn serve() -> std::io::Result<Self> {
        Self::listen(Ipv4Addr::LOCALHOST, None).await
    }

    async fn listen(address: Ipv4Addr, requests: Option<Mutex<Vec<Value>>>) -> std::io::Result<Self> {
        let listener = TcpListener::bind((address, 0)).await?;
        let address = listener.local_addr()?;
        let memory = Arc::new(Memory {
            requests,
            seen: Mutex::default(),
            readers: Semaphore::new(READERS),
            count: AtomicU64::new(0),
        });
        let router = Router::new()
            .route("/v1/chat/completions", post(chat))
            .route("/v1/models", get(models))
            .with_state(Arc::clone(&memory));
        let server = tokio::spawn(async move {
            // The only error is a broken listener; clients then get a refused connection.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { address, memory, server })
    }

    /// The base URL for an OpenAI-compatible client, with `/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Every recorded chat request so far, oldest first.
    pub fn requests(&self) -> Vec<Value> {
        let requests = self.memory.requests.as_ref();
        requests.map(|all| all.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap_or_default()
    }

    /// The OpenCode configuration that makes this model the only one, for `OPENCODE_CONFIG_CONTENT`.
    pub fn opencode_config(&self) -> Value {
        opencode_config(&self.base_url())
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// The OpenCode configuration for a scripted model at `base_url`.
pub fn opencode_config(base_url: &str) -> Value {
    let model = format!("{PROVIDER}/{MODEL}");
    json!({
        "$schema": "https://opencode.ai/config.json",
        "autoupdate": false,
        "share": "disabled",
        "model": model,
        "small_model": model,
        "enabled_providers": [PROVIDER],
        "provider": {PROVIDER: {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Scripted",
            "options": {"baseURL": base_url, "apiKey": "sk-scripted-model"},
            "models": {MODEL: {
                "name": "Scripted One",
                "tool_call": true,
                "limit": {"context": 128_000, "output": 8192},
                "cost": {"input": 1, "output": 2},
            }},
        }},
        "permission": "allow",
    })
}

async fn models() -> Response {
    axum::Json(json!({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": PROVIDER}]}))
        .into_response()
}

async fn chat(State(memory): State<Arc<Memory>>, request: Request) -> Response {
    let body = match memory.read(request.into_body()).await {
        Ok(body) => body,
        Err((status, message)) => return refuse(status, &message),
    };
    let body: Value = match serde_json::from_slice(&body) {
        Ok(body) => body,
        Err(error) => return refuse(400, &format!("invalid JSON: {error}")),
    };
    let (serial, seen) = memory.note(&body);
    let request: ChatRequest = match serde_json::from_value(body) {
        Ok(request) => request,
        Err(error) => return refuse(400, &format!("invalid chat completion request: {error}")),
    };
    let Reply { delay, plan } = plan::reply(&request, seen);
    tokio::time::sleep(delay).await;
    match plan {
        Plan::Answer(answer) if request.stream => streamed(&request, &answer, serial, false),
        Plan::Answer(answer) => axum::Json(wire::document(&request, &answer, serial)).into_response(),
        Plan::Cut(answer) => streamed(&request, &answer, serial, true),
        Plan::Refuse { status, message } => refuse(status, &message),
        Plan::Html => {
            ([(header::CONTENT_TYPE, "text/html")], "<!doctype html><title>Sign in</title><p>Please sign in.")
                .into_response()
        }
        Plan::Hang => {
            tokio::time::sleep(HANG).await;
            refuse(504, "the script said [[hang]]")
        }
    }
}

fn refuse(status: u16, message: &str) -> Response {
    let status_code = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status_code, axum::Json(wire::refusal(status, message))).into_response()
}

fn streamed(request: &ChatRequest, answer: &Answer, serial: u64, cut: bool) -> Response {
    let mut lines: Vec<String> =
        wire::chunks(request, answer, serial).iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    let body = if cut {
        // Send half of the chunks, then an error: the chunked body never ends, as with a lost connection.
        lines.truncate(lines.len().div_ceil(2));
        let broken = stream::once(async {
            // The first half must be sent before the connection breaks.
            tokio::time::sleep(Duration::from_millis(50)).await;
            Err(std::io::Error::other("the script said [[cut]]"))
        });
        Body::from_stream(stream::iter(lines.into_iter().map(Ok::<_, std::io::Error>)).chain(broken))
    } else {
        lines.push("data: [DONE]\n\n".to_owned());
        Body::from_stream(stream::iter(lines.into_iter().map(Ok::<_, Infallible>)))
    };
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// Sends one raw request. Returns the response head and body up to the end of the connection.
    async fn request(model: &ScriptedModel, method: &str, path: &str, body: &Value) -> String {
        let mut socket = tokio::net::TcpStream::connect(model.address).await.unwrap();
        let body = body.to_string();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        socket.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let reading = socket.read_to_end(&mut answer);
        let _ = timeout(Duration::from_mins(1), reading).await.unwrap();
        String::from_utf8(answer).unwrap()
    }

    fn chat(prompt: &str, stream: bool) -> Value {
        json!({"model": MODEL, "stream": stream, "messages": [{"role": "user", "content": prompt}], "tools": [{}]})
    }

    #[tokio::test]
    async fn it_speaks_like_a_model() {
        let model = ScriptedModel::start().await.unwrap();
        assert!(model.base_url().starts_with("http://127.0.0.1:"));
        let path = "/v1/chat/completions";
        let models = request(&model, "GET", "/v1/models", &Value::Null).await;
        assert!(models.contains(MODEL), "{models}");
        let whole = request(&model, "POST", path, &chat("[[say hello]]", false)).await;
        assert!(whole.contains(r#""content":"hello""#) && whole.contains(r#""finish_reason":"stop""#), "{whole}");
        let streamed = request(&model, "POST", path, &chat("[[say hello]]", true)).await;
        assert!(streamed.contains("text/event-stream") && streamed.contains("data: [DONE]"), "{streamed}");
        let cut =
            request(&model, "POST", path, &chat("[[cut]] [[say a text of several pieces that ends early]]", true))
                .await;
        assert!(cut.contains("data: ") && !cut.contains("[DONE]"), "{cut}");
        let html = request(&model, "POST", path, &chat("[[html]]", true)).await;
        assert!(html.contains("text/html"), "{html}");
        assert_eq!(model.requests().len(), 4);
    }

    #[tokio::test]
    async fn a_model_that_serves_the_platform_keeps_no_requests_and_refuses_huge_ones() {
        let model = ScriptedModel::serve().await.unwrap();
        let whole = request(&model, "POST", "/v1/chat/completions", &chat("[[say hello]]", false)).await;
        assert!(whole.contains(r#""content":"hello""#), "{whole}");
        assert!(model.requests().is_empty());
        let huge = model.memory.read(Body::from(vec![b' '; LARGEST_REQUEST + 1])).await;
        assert_eq!(huge.unwrap_err().0, 413);
        for number in 0..=REMEMBERED {
            model.memory.note(&json!({ "messages": number }));
        }
        assert!(model.memory.seen.lock().unwrap().len() <= REMEMBERED);
    }

    #[tokio::test]
    async fn a_retry_is_the_same_conversation_again() {
        let model = ScriptedModel::start().await.unwrap();
        let body = chat("[[status 503 times=1]] [[say back]]", false);
        let first = request(&model, "POST", "/v1/chat/completions", &body).await;
        let second = request(&model, "POST", "/v1/chat/completions", &body).await;
        assert!(first.starts_with("HTTP/1.1 503") && second.contains("back"), "{first}\n{second}");
    }
}
