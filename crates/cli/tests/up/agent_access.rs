//! Access to an Agent with a real OpenCode: by terminal, proxy, share link, and our own command.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    process::{Command, Stdio},
    time::Duration,
};

use demo::scripted_model::ScriptedModel;
use egress::Authorities;
use futures::{SinkExt as _, StreamExt as _};
use reqwest::{Client, Method, redirect::Policy};
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{WebSocketStream, tungstenite};
use tungstenite::{Message, client::IntoClientRequest as _};

use crate::command::Up;

type Socket = WebSocketStream<TcpStream>;

/// Nothing here takes longer, even on a machine that builds at the same time.
const LIMIT: Duration = Duration::from_mins(1);
const AGENT: &str = "/api/v1/namespaces/default/agents/helper";
const CTRL_C: u8 = 3;
/// A program that takes over the whole screen begins with this.
const WHOLE_SCREEN: &str = "\u{1b}[?1049h";

/// The owner's browser.
struct Browser {
    /// Name and port of the page.
    host: String,
    address: SocketAddr,
    cookie: String,
    csrf: String,
    http: Client,
}

impl Browser {
    /// Logs in by the link that the platform prints.
    async fn log_in(up: &Up) -> Self {
        let link = up.login_link();
        let host = link.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
        let (name, port) = host.split_once(':').unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap()));
        let http = Authorities::default().http_client().unwrap();
        // As browsers do: the name is not in DNS.
        let http = http.resolve(name, address);
        let http = http.redirect(Policy::none()).no_proxy().timeout(LIMIT).build().unwrap();
        let entered = http.get(link).send().await.unwrap();
        let cookie = entered.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        let mut browser = Self { host, address, cookie, csrf: String::new(), http };
        let (_, me) = browser.get("/api/v1/whoami").await;
        me["csrfToken"].as_str().unwrap().clone_into(&mut browser.csrf);
        browser
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let request = self.http.request(method, format!("http://{}{path}", self.host));
        let request = request.header("cookie", &self.cookie).header("x-kubeopencode-csrf", &self.csrf);
        let response = if body.is_null() { request } else { request.json(body) }.send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap_or_default())
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.send(Method::GET, path, &Value::Null).await
    }

    /// The status code of a request without credentials.
    async fn as_guest(&self, path: &str) -> u16 {
        self.http.get(format!("http://{}{path}", self.host)).send().await.unwrap().status().as_u16()
    }

    async fn open(&self, path: &str, headers: &[(&'static str, &str)]) -> Result<Socket, tungstenite::Error> {
        let mut request = format!("ws://{}{path}", self.host).into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let stream = TcpStream::connect(self.address).await.unwrap();
        tokio_tungstenite::client_async(request, stream).await.map(|(socket, _)| socket)
    }
}

/// Repeats a question until the answer is as wanted.
async fn until(what: &str, mut check: impl AsyncFnMut() -> bool) {
    let done = async {
        while !check().await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    assert!(timeout(LIMIT, done).await.is_ok(), "not in time: {what}");
}

/// Reads the output of a terminal until it contains `wanted`.
async fn until_shown(socket: &mut Socket, wanted: &str) {
    let mut shown = String::new();
    let reading = async {
        while let Some(Ok(message)) = socket.next().await {
            match message {
                Message::Binary(bytes) => shown.push_str(&String::from_utf8_lossy(&bytes)),
                Message::Text(text) => shown.push_str(&text),
                Message::Close(frame) => panic!("closed with {frame:?} after {shown}"),
                _ => {}
            }
            if shown.contains(wanted) {
                return;
            }
        }
        panic!("it ended without {wanted}");
    };
    let done = timeout(LIMIT, reading).await;
    assert!(done.is_ok(), "it does not show {wanted:?}: {shown:?}");
}

/// The code with which the server closes.
async fn closed(socket: &mut Socket) -> u16 {
    let closing = async {
        while let Some(Ok(message)) = socket.next().await {
            if let Message::Close(Some(frame)) = message {
                return u16::from(frame.code);
            }
        }
        panic!("it broke off");
    };
    timeout(LIMIT, closing).await.expect("still open")
}

/// All of it on one platform: to start one costs more than to use it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_is_reached_by_terminal_proxy_link_and_command() {
    let model = ScriptedModel::start().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("state"), &["--in-memory", "--port", "0"]);
    let browser = Browser::log_in(&up).await;
    let agent = json!({ "name": "helper", "config": model.opencode_config() });
    let (status, body) = browser.send(Method::POST, "/api/v1/namespaces/default/agents", &agent).await;
    assert_eq!(status, 201, "{body}");
    until("the Agent is ready", async || browser.get(AGENT).await.1["serverStatus"]["ready"] == true).await;

    a_terminal_shows_opencode_and_follows_its_size(&browser).await;
    an_open_terminal_is_closed_when_the_right_to_it_goes(&up, &browser).await;
    the_proxy_reaches_opencode(&browser).await;
    a_link_opens_a_terminal_for_whoever_holds_it(&browser).await;
    attaching_wakes_a_suspended_agent(&up, &browser).await;
    attaching_uses_the_opencode_of_the_platform(&up);
}

/// With a PATH without OpenCode: the program in the tools directory of the platform is found.
fn attaching_uses_the_opencode_of_the_platform(up: &Up) {
    let tools = up.kubeconfig.parent().unwrap().join("tools");
    fs::create_dir(&tools).unwrap();
    // An executable that is no script, and that ends well with these arguments.
    fs::copy("/bin/echo", tools.join("opencode")).unwrap();
    let attached = Command::new(env!("CARGO_BIN_EXE_kubeopencode"))
        .args(["agent", "attach", "helper"])
        .env("KUBECONFIG", &up.kubeconfig)
        .env("PATH", "/nowhere")
        .env("XDG_CACHE_HOME", "/nowhere")
        .output()
        .unwrap();
    let output = String::from_utf8(attached.stdout).unwrap();
    assert!(
        attached.status.success() && output.starts_with("attach http://127.0.0.1:"),
        "{output} {:?}",
        attached.stderr
    );
}

async fn a_terminal_shows_opencode_and_follows_its_size(browser: &Browser) {
    let path = format!("{AGENT}/terminal?cols=100&rows=30");
    let (cookie, origin) = (("cookie", browser.cookie.as_str()), format!("http://{}", browser.host));
    assert!(browser.open(&path, &[cookie, ("origin", "http://evil.example")]).await.is_err());
    assert!(browser.open(&path, &[("origin", &origin)]).await.is_err());
    let mut socket = browser.open(&path, &[cookie, ("origin", &origin)]).await.unwrap();
    until_shown(&mut socket, WHOLE_SCREEN).await;
    socket.send(Message::text(json!({ "type": "resize", "cols": 60, "rows": 20 }).to_string())).await.unwrap();
    // The screen at the new size ends at its last line.
    until_shown(&mut socket, "\u{1b}[20;").await;
    // A program that still draws does not listen yet.
    let ending = async {
        loop {
            socket.send(Message::binary(vec![CTRL_C])).await.unwrap();
            if let Ok(code) = timeout(Duration::from_secs(1), closed(&mut socket)).await {
                return code;
            }
        }
    };
    assert_eq!(timeout(LIMIT, ending).await.expect("still open"), 1000);
}

async fn an_open_terminal_is_closed_when_the_right_to_it_goes(up: &Up, browser: &Browser) {
    up.kubectl(&["create", "serviceaccount", "guest"]);
    up.kubectl(&["create", "rolebinding", "guest", "--clusterrole=cluster-admin", "--serviceaccount=default:guest"]);
    let token = up.kubectl(&["create", "token", "guest"]);
    let bearer = format!("Bearer {}", token.trim());
    // By the address of the machine, as a program connects.
    let headers = [("authorization", bearer.as_str()), ("host", "127.0.0.1")];
    let mut socket = browser.open(&format!("{AGENT}/terminal"), &headers).await.unwrap();
    until_shown(&mut socket, WHOLE_SCREEN).await;
    up.kubectl(&["delete", "rolebinding", "guest"]);
    assert_eq!(closed(&mut socket).await, 1008);
}

async fn the_proxy_reaches_opencode(browser: &Browser) {
    let (status, sessions) = browser.get(&format!("{AGENT}/proxy/session")).await;
    assert!(status == 200 && sessions.is_array(), "{status}: {sessions}");
    let title = json!({ "title": "by proxy" });
    let (_, created) = browser.send(Method::POST, &format!("{AGENT}/proxy/session"), &title).await;
    let id = created["id"].as_str().unwrap();
    assert_eq!(browser.get(&format!("{AGENT}/proxy/session/{id}")).await.1["title"], "by proxy");
}

async fn a_link_opens_a_terminal_for_whoever_holds_it(browser: &Browser) {
    let share = format!("{AGENT}/share");
    let (status, body) = browser.send(Method::POST, &share, &json!({ "expiresIn": "1h" })).await;
    assert_eq!(status, 200, "{body}");
    until("there is a link", async || browser.get(&share).await.1["token"].is_string()).await;
    let path = browser.get(&share).await.1["path"].as_str().unwrap().to_owned();
    until("the link opens", async || browser.as_guest(&format!("{path}/info")).await == 200).await;
    let mut socket = browser.open(&format!("{path}/terminal"), &[]).await.unwrap();
    until_shown(&mut socket, WHOLE_SCREEN).await;
    assert_eq!(browser.send(Method::DELETE, &share, &Value::Null).await.0, 204);
    // An open terminal is closed.
    assert_eq!(closed(&mut socket).await, 1008);
    until("the link is closed", async || browser.as_guest(&format!("{path}/info")).await == 404).await;
}

async fn attaching_wakes_a_suspended_agent(up: &Up, browser: &Browser) {
    assert_eq!(browser.send(Method::POST, &format!("{AGENT}/suspend"), &Value::Null).await.0, 200);
    until("it sleeps", async || browser.get(AGENT).await.1["phase"] == "Suspended").await;
    let mut attached = Command::new(env!("CARGO_BIN_EXE_kubeopencode"))
        .args(["agent", "attach", "helper", "--print-url"])
        .env("KUBECONFIG", &up.kubeconfig)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = attached.stdout.take().unwrap();
    let notes = attached.stderr.take().unwrap();
    let url = tokio::task::spawn_blocking(move || BufReader::new(output).lines().next().unwrap().unwrap());
    let url = timeout(LIMIT, url).await;
    let health = async |url: &str| browser.http.get(format!("{url}/global/health")).send().await.unwrap().status();
    let answered = match &url {
        Ok(Ok(url)) => Some(health(url).await.as_u16()),
        _ => None,
    };
    attached.kill().unwrap();
    attached.wait().unwrap();
    let notes = std::io::read_to_string(notes).unwrap();
    let command =
        notes.lines().find_map(|line| line.trim().strip_prefix("kubectl ")).unwrap_or_else(|| panic!("{notes}"));
    assert!(command.contains("get secret -n default helper-server-auth"), "{command}");
    let shell = format!("\"$0\" {command}");
    let kubectl = testenv::Program::Kubectl.obtain().unwrap();
    let password =
        Command::new("sh").args(["-c", &shell]).arg(kubectl).env("KUBECONFIG", &up.kubeconfig).output().unwrap();
    let password = String::from_utf8(password.stdout).unwrap();
    assert!(password.len() >= 16 && !notes.contains(&password), "{notes}");
    // A password is required: the URL leads to the Agent's own server.
    assert_eq!(answered, Some(401), "{url:?}");
    assert_eq!(browser.get(AGENT).await.1["serverStatus"]["ready"], true);
}
