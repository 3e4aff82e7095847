//! companion: acts on an Agent's workspace for the Pods of its Tasks and for the controller, beside the Agent's server.
//!
//! It serves the protocol of [`domain::contract::companion`]. What is in the workspace is untrusted: no link is followed,
//! no program of the agent is executed, and memory does not depend on sizes. The agent reaches the port, but knows no token.
//!
//! | module | |
//! |---|---|
//! | `serving` | connections |
//! | `routes` | the paths of the protocol, and who may use them |
//! | [`delivery`] | files of Tasks: placed and removed |
//! | `runs` | the workspace before and after a run |
//! | [`frames`] | answers whose end says whether they are complete |
//! | [`client`] | the other end, for `prep` and the housekeeper |

pub mod client;
pub mod delivery;
pub mod frames;
pub mod pack;
mod refused;
mod routes;
mod runs;
mod serving;

use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use domain::contract::paths;
use subtle::ConstantTimeEq as _;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::env::{self, Lookup, SettingError};
use refused::{Answer, Refused};

/// File sets that are packed at a time. Each needs up to 24 MiB of memory.
const PACKINGS: usize = 4;
/// How long a caller may take to send the next bytes.
const PATIENCE: Duration = Duration::from_mins(1);

/// The token of an Agent's companion. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    fn from_env(env: Lookup<'_>) -> Result<Self, SettingError> {
        env::required(env, env::COMPANION_TOKEN, "the token of the Agent's companion").map(Self)
    }

    /// Whether this text is the token. The time that it takes tells at most the length.
    fn is(&self, text: &str) -> bool {
        self.0.as_bytes().ct_eq(text.as_bytes()).into()
    }

    fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Token(…)")
    }
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub listen: SocketAddr,
    pub token: Token,
    /// The Agent's. Its path is trusted, its content is not.
    pub workspace: PathBuf,
    /// Directory of our own.
    pub state: PathBuf,
    /// See `PATIENCE`.
    pub patience: Duration,
}

impl Settings {
    pub fn from_env(env: Lookup<'_>) -> Result<Self, SettingError> {
        let expected = "an address with a port, such as 0.0.0.0:14096";
        let listen = env::required(env, env::COMPANION_LISTEN, expected)?;
        let listen = listen.parse().map_err(|_| SettingError::Invalid {
            name: env::COMPANION_LISTEN,
            problem: format!("`{listen}` is not an address"),
            expected,
        })?;
        Ok(Self {
            listen,
            token: Token::from_env(env)?,
            workspace: env::path(env, env::WORKSPACE_DIR, paths::WORKSPACE),
            state: env::path(env, env::COMPANION_DIR, paths::COMPANION),
            patience: PATIENCE,
        })
    }
}

/// Why the companion ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is invalid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The socket cannot be opened, or does not listen any more.
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
}

/// What all requests share.
struct Shared {
    settings: Settings,
    /// Tasks whose files are being placed or removed.
    busy: Mutex<BTreeSet<String>>,
    packings: Arc<Semaphore>,
}

impl Shared {
    /// The only one that changes the directory of a Task, as long as the value lives.
    fn turn(self: &Arc<Self>, task: &str) -> Answer<Turn> {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        if !busy.insert(task.to_owned()) {
            return Err(Refused::unavailable("the files of the Task are being changed by another request; try again"));
        }
        Ok(Turn { shared: Arc::clone(self), task: task.to_owned() })
    }
}

/// See [`Shared::turn`].
struct Turn {
    shared: Arc<Shared>,
    task: String,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.shared.busy.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.task);
    }
}

/// Serves until `shutdown`.
pub async fn run(settings: Settings, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
    let address = settings.listen;
    let failed = |source| Error::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    tracing::info!(%address, "the companion listens");
    serve(settings, listener, shutdown).await.map_err(failed)
}

/// As [`run`], on a socket that listens already.
pub async fn serve(settings: Settings, listener: TcpListener, shutdown: impl Future<Output = ()>) -> io::Result<()> {
    let packings = Arc::new(Semaphore::new(PACKINGS));
    let shared = Arc::new(Shared { settings, busy: Mutex::default(), packings });
    serving::serve(listener, routes::router(shared), shutdown).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::tests::of;

    #[test]
    fn a_token_is_compared_whole_and_never_printed() {
        let token = Token::new("0123456789abcdef");
        assert!(token.is("0123456789abcdef"));
        for wrong in ["", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeF"] {
            assert!(!token.is(wrong), "{wrong}");
        }
        assert!(!format!("{token:?}").contains("0123"));
    }

    #[test]
    fn without_a_token_or_an_address_nothing_is_served() {
        let pairs = [(env::COMPANION_LISTEN, "127.0.0.1:1"), (env::COMPANION_TOKEN, "t")];
        assert!(Settings::from_env(&of(&pairs)).is_ok());
        for (name, value) in
            [(env::COMPANION_LISTEN, "host:1"), (env::COMPANION_LISTEN, ""), (env::COMPANION_TOKEN, "")]
        {
            let pairs = pairs.map(|pair| if pair.0 == name { (name, value) } else { pair });
            assert!(Settings::from_env(&of(&pairs)).is_err(), "{name}={value}");
        }
    }
}
