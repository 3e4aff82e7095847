//! The REST API of the KubeOpenCode server, for what is not in the cluster's own API: what runs left, and the audit of
//! approvals.
//!
//! The server of the platform on this machine is found by its state directory, whose socket issues login links to the
//! owner alone. Another one is named, and receives the token with which the kubeconfig logs in to the cluster.

use std::{
    env,
    path::{Path, PathBuf},
    time::Duration,
};

use futures::AsyncBufRead;
use http::{HeaderName, HeaderValue, Request, StatusCode, Uri, header};
use kube::{
    Client, Config,
    client::Body,
    config::{AuthInfo, Kubeconfig},
};
use local::{login_socket, state_dir};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    connect::{Cluster, Source},
    exit::Exit,
    output::note,
    problem::{Answer, Problem},
};

/// Environment variable with a token for the server, for kubeconfigs that log in by certificate.
const TOKEN: &str = "KUBEOPENCODE_TOKEN";
/// How this program names itself: the audit of approvals says that an answer came from the command line.
const NAME: &str = concat!("kubeopencode-cli/", env!("CARGO_PKG_VERSION"));
/// Header with the proof that a change by a session is not forged.
const CSRF: HeaderName = HeaderName::from_static("x-kubeopencode-csrf");
/// Timeout for a connection to the server.
const CONNECT: Duration = Duration::from_secs(10);

/// Which KubeOpenCode server to ask.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub struct ServerArg {
    /// KubeOpenCode server, such as https://agents.example.com [default: that of the platform on this machine]. It
    /// receives the token of the kubeconfig, or $KUBEOPENCODE_TOKEN.
    #[arg(long, value_name = "URL", env = "KUBEOPENCODE_SERVER")]
    server: Option<String>,
}

impl ServerArg {
    /// These flags, then `earlier` ones.
    #[must_use]
    pub fn or(self, earlier: Self) -> Self {
        Self { server: self.server.or(earlier.server) }
    }

    /// Whether the user named a server.
    pub fn is_named(&self) -> bool {
        self.server.as_deref().is_some_and(|server| !server.is_empty())
    }

    /// Finds the server.
    pub async fn connect(&self, cluster: &Cluster) -> Answer<Rest> {
        let config = match self.server.as_deref().filter(|server| !server.is_empty()) {
            Some(url) => named(url, &cluster.config, env::var(TOKEN).ok().filter(|token| !token.is_empty()))?,
            None => on_this_machine(cluster).await?,
        };
        let address = config.cluster_url.to_string();
        let mut config = config;
        config.headers.push((header::USER_AGENT, HeaderValue::from_static(NAME)));
        Ok(Rest { client: Client::try_from(config)?, address: address.trim_end_matches('/').to_owned() })
    }
}

/// The REST API of a server.
#[derive(Clone)]
pub struct Rest {
    client: Client,
    /// For messages.
    address: String,
}

impl Rest {
    /// Reads JSON. `path` is below `/api/v1`.
    pub async fn read<T: DeserializeOwned>(&self, path: &str) -> Answer<T> {
        let text = self.client.request_text(request(path)?).await.map_err(|error| self.problem(error))?;
        serde_json::from_str(&text).map_err(|error| {
            Problem::new(format!("{} answers something else than a KubeOpenCode server: {error}", self.address))
                .next("check the URL of --server, and that both programs have the same version")
        })
    }

    /// Sends JSON, and ignores the body of the answer.
    pub async fn send(&self, path: &str, body: &Value) -> Answer<()> {
        let who: WhoAmI = self.read("/whoami").await?;
        let mut request = Request::post(format!("/api/v1{path}")).header(header::CONTENT_TYPE, "application/json");
        if let Some(token) = who.csrf_token {
            request = request.header(CSRF, token);
        }
        let request = request.body(body.to_string().into_bytes());
        let request = request.map_err(|error| Problem::new(format!("{path} is not a path: {error}")))?;
        self.client.request_text(request).await.map_err(|error| self.problem(error)).map(drop)
    }

    /// Reads bytes as they arrive.
    pub async fn stream(&self, path: &str) -> Answer<impl AsyncBufRead + Unpin + Send + 'static> {
        Ok(Box::pin(self.client.request_stream(request(path)?).await.map_err(|error| self.problem(error))?))
    }

    fn problem(&self, error: kube::Error) -> Problem {
        match error {
            // The sentence of the server is about what was asked for, not about an object of the cluster.
            kube::Error::Api(status) if status.code == 404 => Problem::not_found(status.message.clone()),
            kube::Error::Api(status) if status.code == 401 => {
                let refused = format!("the server at {} does not accept your token", self.address);
                Problem::new(refused).with_exit(Exit::Forbidden).next(format!(
                    "set {TOKEN} to a token of the cluster, such as the output of: kubectl create token NAME"
                ))
            }
            kube::Error::Api(status) => Problem::from_status(&status),
            kube::Error::Service(_) | kube::Error::HyperError(_) => {
                let why = Problem::from(error).to_string();
                let why = why.strip_prefix("the cluster cannot be reached: ").unwrap_or(&why).to_owned();
                Problem::unreachable(format!("the server at {} cannot be reached: {why}", self.address))
                    .next("check the URL of --server, or $KUBEOPENCODE_SERVER")
            }
            error => error.into(),
        }
    }
}

/// What a change needs of the authenticated user.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WhoAmI {
    /// Only of a session.
    csrf_token: Option<String>,
}

fn request(path: &str) -> Answer<Request<Vec<u8>>> {
    let request = Request::get(format!("/api/v1{path}")).body(Vec::new());
    request.map_err(|error| Problem::new(format!("{path} is not a path: {error}")))
}

/// The path of what a Task has, with a query of the pairs that are set.
pub fn task_path(cluster: &Cluster, task: &str, rest: &str, query: &[(&str, Option<String>)]) -> String {
    let mut path = format!("/namespaces/{}/tasks/{task}{rest}", cluster.namespace);
    let mut separator = '?';
    for (name, value) in query {
        if let Some(value) = value {
            path.extend([separator]);
            path.push_str(name);
            path.push('=');
            path.push_str(&percent_encoded(value));
            separator = '&';
        }
    }
    path
}

/// A text as the value of a query.
pub fn percent_encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let one = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}

/// A server by its URL, with the credentials of the kubeconfig that it can check.
fn named(url: &str, cluster: &Config, token: Option<String>) -> Answer<Config> {
    let invalid = || Problem::usage(format!("'{url}' is not the URL of a server")).next("write it as https://HOST");
    let uri: Uri = url.parse().map_err(|_| invalid())?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
        return Err(invalid());
    }
    if uri.scheme_str() == Some("http") && !uri.host().is_some_and(is_loopback) {
        note(&format!("your token travels to {url} unencrypted; use https outside of a private network"));
    }
    let AuthInfo { token: known, token_file, exec, auth_provider, .. } = cluster.auth_info.clone();
    let mut config = server(uri);
    if let Some(token) = token {
        let value = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut value = value.map_err(|_| Problem::usage(format!("{TOKEN} is not a token")))?;
        value.set_sensitive(true);
        config.headers.push((header::AUTHORIZATION, value));
    } else if known.is_none() && token_file.is_none() && exec.is_none() && auth_provider.is_none() {
        return Err(Problem::new("the server accepts tokens, and your kubeconfig logs in with a certificate")
            .with_exit(Exit::Forbidden)
            .next(format!("set {TOKEN}, for example to the output of: kubectl create token NAME")));
    } else {
        config.auth_info = AuthInfo { token: known, token_file, exec, auth_provider, ..AuthInfo::default() };
    }
    Ok(config)
}

fn server(uri: Uri) -> Config {
    let mut config = Config::new(uri);
    config.connect_timeout = Some(CONNECT);
    config
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// The server of the platform on this machine, logged in as its owner.
async fn on_this_machine(cluster: &Cluster) -> Answer<Config> {
    let homes = [
        env::var_os("KUBEOPENCODE_STATE_DIR").map(PathBuf::from),
        env::home_dir().map(|home| home.join(".kubeopencode")),
    ];
    let beside = match &cluster.source {
        Source::Files(files) => {
            files.iter().filter_map(|file| file.canonicalize().ok()?.parent().map(Path::to_owned)).collect()
        }
        Source::Pod => Vec::new(),
    };
    let mut states = beside.into_iter().chain(homes.into_iter().flatten());
    let Some(state) = states.find(|state| state_dir::is_state_dir(state) && serves(state, &cluster.server)) else {
        return Err(Problem::unreachable("no KubeOpenCode server is known for this cluster")
            .next("name it with --server URL, or with $KUBEOPENCODE_SERVER"));
    };
    let link = login_socket::request(&state).await.map_err(|error| Problem::unreachable(error.to_string()))?;
    log_in(&link).await
}

/// Whether the platform on a state directory is this cluster.
fn serves(state: &Path, server: &str) -> bool {
    let Ok(config) = Kubeconfig::read_from(state.join("kubeconfig")) else { return false };
    let urls = config.clusters.iter().filter_map(|known| known.cluster.as_ref()?.server.as_deref());
    urls.into_iter().any(|url| url.trim_end_matches('/') == server)
}

/// Redeems a login link of the platform on this machine. Its host name need not be known to the resolver.
async fn log_in(link: &str) -> Answer<Config> {
    let odd =
        || Problem::new("the platform on this machine issued a login link that cannot be used").next("restart it");
    let uri: Uri = link.parse().map_err(|_| odd())?;
    let host = HeaderValue::from_str(uri.authority().ok_or_else(odd)?.as_str()).map_err(|_| odd())?;
    let address = format!("http://127.0.0.1:{}", uri.port_u16().ok_or_else(odd)?);
    let mut config = server(address.parse().map_err(|_| odd())?);
    config.headers.push((header::HOST, host));
    let path = uri.path_and_query().ok_or_else(odd)?.as_str();
    let request = Request::get(path).body(Body::empty()).map_err(|_| odd())?;
    let response = Client::try_from(config.clone())?.send(request).await?;
    let cookie = response.headers().get(header::SET_COOKIE).and_then(|cookie| cookie.to_str().ok());
    let cookie = cookie.and_then(|cookie| cookie.split(';').next()).filter(|_| is_login(response.status()));
    let mut cookie = cookie.and_then(|cookie| HeaderValue::from_str(cookie).ok()).ok_or_else(odd)?;
    cookie.set_sensitive(true);
    config.headers.push((HeaderName::from_static("cookie"), cookie));
    Ok(config)
}

fn is_login(status: StatusCode) -> bool {
    status.is_redirection() || status.is_success()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_token() -> Config {
        let mut config = Config::new("https://cluster.example".parse().unwrap());
        config.auth_info = serde_json::from_str(r#"{"token": "secret", "client-certificate": "/c"}"#).unwrap();
        config
    }

    #[test]
    fn a_named_server_gets_the_token_of_the_kubeconfig_and_nothing_else() {
        let config = named("https://agents.example.com/base", &with_token(), None).unwrap();
        assert!(config.auth_info.token.is_some() && config.auth_info.client_certificate.is_none());
        assert_eq!(config.cluster_url.to_string(), "https://agents.example.com/base");
        let config = named("http://127.0.0.1:2746", &with_token(), Some("mine".to_owned())).unwrap();
        assert!(config.auth_info.token.is_none());
        assert!(config.headers.iter().any(|(name, value)| *name == header::AUTHORIZATION && value == "Bearer mine"));
        let mut certificate = with_token();
        certificate.auth_info.token = None;
        let problem = named("https://agents.example.com", &certificate, None).unwrap_err();
        assert!(problem.next_step().unwrap().contains("KUBEOPENCODE_TOKEN"), "{problem}");
        for wrong in ["agents.example.com", "ftp://x", "", "https://", "unix:/run/x"] {
            assert!(named(wrong, &with_token(), None).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_query_keeps_every_name() {
        assert_eq!(percent_encoded("a b/\u{e4}?&=\n"), "a%20b%2F%C3%A4%3F%26%3D%0A");
    }
}
