//! The client of an Agent's companion, for `prep` and the housekeeper of a Task on the Agent.

use std::future::Future;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use domain::contract::companion::{
    Begin, CompareRequest, Compared, Delivered, FileSetRequest, Framed, MOST_OUTPUTS_BYTES, Packed,
};
use domain::contract::depot::{Refusal, RefusalReason};
use egress::{BodyError, TransferError, read_body};
use futures::stream;
use reqwest::{Body, Client, Method, RequestBuilder, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::frames::{FramesError, Reader};
use super::{Token, pack};
use crate::env::{self, Lookup, SettingError};

/// A companion that neither reads nor answers for this long is given up. Comparing a workspace takes less.
const SILENCE: Duration = Duration::from_mins(2);
/// Pauses between attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const MOST_ANSWER_BYTES: u64 = 64 << 10;
/// Characters of the companion's own sentence that are quoted.
const MOST_MESSAGE: usize = 400;
/// Bytes that are sent at once, and chunks between the thread that packs and the connection.
const CHUNK: usize = 256 << 10;
const CHUNKS: usize = 4;

/// Where the companion is, and for which run it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub url: Url,
    pub token: Token,
    pub task: String,
    pub uid: String,
    pub epoch: String,
}

impl Settings {
    /// `None` if the run is not on an Agent's server.
    pub fn from_env(env: Lookup<'_>) -> Result<Option<Self>, SettingError> {
        if env::text(env, env::COMPANION_URL).is_none() {
            return Ok(None);
        }
        let expected = "the http:// URL of the Agent's companion";
        let url = env::url(env, env::COMPANION_URL, expected)?;
        if url.scheme() != "http" || url.cannot_be_a_base() {
            let problem = format!("{}: is not its protocol", url.scheme());
            return Err(SettingError::Invalid { name: env::COMPANION_URL, problem, expected });
        }
        Ok(Some(Self {
            url,
            token: Token::from_env(env)?,
            task: env::required(env, env::TASK_NAME, "the name of the Task")?,
            uid: env::required(env, env::TASK_UID, "the UID of the Task")?,
            epoch: env::required(env, env::TASK_EPOCH, "the number of the run")?,
        }))
    }
}

/// Why a request failed. Contains no token.
#[derive(Debug, thiserror::Error)]
pub enum CompanionError {
    /// The companion refused the request.
    #[error("the companion of the Agent refuses it: {message}")]
    Refused {
        reason: RefusalReason,
        /// Its sentence.
        message: String,
    },
    /// No connection, or the connection was lost.
    #[error("the connection to the companion of the Agent failed: {0}")]
    Transfer(TransferError),
    /// It neither read nor answered.
    #[error("the companion of the Agent did nothing for {} s", .0.as_secs())]
    Silent(Duration),
    /// Not an answer of the protocol.
    #[error("the companion of the Agent answers {0} without a reason")]
    Status(u16),
    /// Not what the protocol prescribes.
    #[error("the answer of the companion of the Agent cannot be read: {0}")]
    Unreadable(String),
    /// The frames were cut off, or cannot be written.
    #[error("the answer of the companion of the Agent is of no use: {0}")]
    Frames(#[from] FramesError),
    /// It could not do what it was asked for.
    #[error("{0}")]
    Failed(String),
    /// The files cannot be read here.
    #[error("the files cannot be read: {0}")]
    Pack(#[source] io::Error),
    /// The client cannot be created.
    #[error("{0}")]
    Setup(#[from] opencode::Error),
}

impl CompanionError {
    /// Whether the same request may succeed later.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Refused { reason, .. } => reason.is_temporary(),
            Self::Transfer(_) | Self::Silent(_) | Self::Frames(FramesError::Cut) => true,
            Self::Status(status) => matches!(status, 408 | 429 | 500..),
            Self::Unreadable(_) | Self::Frames(_) | Self::Failed(_) | Self::Pack(_) | Self::Setup(_) => false,
        }
    }
}

/// The companion of an Agent, as one run sees it.
#[derive(Clone, Debug)]
pub struct Companion {
    settings: Settings,
    client: Client,
}

impl Companion {
    pub fn connect(settings: &Settings) -> Result<Self, CompanionError> {
        Ok(Self { settings: settings.clone(), client: opencode::direct()? })
    }

    pub fn url(&self) -> &Url {
        &self.settings.url
    }

    /// Puts the content of a directory into that of the Task.
    pub async fn deliver(&self, directory: &Path) -> Result<Delivered, CompanionError> {
        let (sender, receiver) = mpsc::channel::<io::Result<Vec<u8>>>(CHUNKS);
        let directory = directory.to_owned();
        let packing = tokio::task::spawn_blocking(move || {
            let mut chunks = Chunks { sender, chunk: Vec::new() };
            let packed = pack::pack(&directory, &mut chunks);
            if packed.is_err() {
                // Without this, what was sent so far would be taken for the whole.
                let _ = chunks.sender.blocking_send(Err(io::Error::other("the files cannot be read")));
            }
            packed
        });
        let chunks =
            stream::unfold(
                receiver,
                |mut receiver| async move { receiver.recv().await.map(|chunk| (chunk, receiver)) },
            );
        let request = self.request(Method::PUT, &["files"]).body(Body::wrap_stream(chunks));
        let sent = self.read(request).await;
        match packing.await.map_err(|error| CompanionError::Unreadable(error.to_string()))? {
            // The connection was lost, or the companion answered before the end.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CompanionError::Pack(error)),
            _ => sent,
        }
    }

    /// Lets the companion read the workspace before the run.
    pub async fn begin(&self, begin: Begin) -> Result<(), CompanionError> {
        let body = serde_json::to_vec(&begin).map_err(|error| CompanionError::Unreadable(error.to_string()))?;
        let request = self.request(Method::POST, &[]).header("content-type", "application/json").body(body);
        self.answer(request, MOST_ANSWER_BYTES).await.map(drop)
    }

    /// Nothing more is asked about the run.
    pub async fn end(&self) -> Result<(), CompanionError> {
        self.answer(self.request(Method::DELETE, &[]), MOST_ANSWER_BYTES).await.map(drop)
    }

    /// The file of outputs; empty if there is none.
    pub async fn outputs(&self) -> Result<Vec<u8>, CompanionError> {
        self.answer(self.request(Method::GET, &["outputs"]), MOST_OUTPUTS_BYTES).await
    }

    /// Writes an archive of the files that match to `out`.
    pub async fn file_set(
        &self,
        paths: &[String],
        out: &mut dyn Write,
    ) -> Result<Packed<fileset::Packed>, CompanionError> {
        let body = serde_json::to_vec(&FileSetRequest { paths: paths.to_vec() });
        let body = body.map_err(|error| CompanionError::Unreadable(error.to_string()))?;
        let request = self.request(Method::POST, &["filesets"]).header("content-type", "application/json").body(body);
        self.frames(request, out).await
    }

    /// Writes the patch of the whole change to `out`; nothing if there is none.
    pub async fn changes(&self, request: &CompareRequest, out: &mut dyn Write) -> Result<Compared, CompanionError> {
        let body = serde_json::to_vec(request).map_err(|error| CompanionError::Unreadable(error.to_string()))?;
        let request = self.request(Method::POST, &["changes"]).header("content-type", "application/json").body(body);
        self.frames(request, out).await
    }

    fn request(&self, method: Method, below: &[&str]) -> RequestBuilder {
        let Settings { url, token, task, uid, epoch } = &self.settings;
        let mut url = url.clone();
        // `Settings` refuses a URL that has no path.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["v1", "runs", task, uid, epoch]).extend(below);
        }
        self.client.request(method, url).bearer_auth(token.reveal())
    }

    async fn read<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, CompanionError> {
        // Files are written while they are sent, so that only the end of the request is waited for.
        let response = request.send().await.map_err(|error| failed(&error))?;
        let body = within(SILENCE, accepted(response, MOST_ANSWER_BYTES)).await?;
        serde_json::from_slice(&body).map_err(|error| CompanionError::Unreadable(error.to_string()))
    }

    async fn answer(&self, request: RequestBuilder, most: u64) -> Result<Vec<u8>, CompanionError> {
        within(SILENCE, async {
            let response = request.send().await.map_err(|error| failed(&error))?;
            accepted(response, most).await
        })
        .await
    }

    async fn frames<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
        out: &mut dyn Write,
    ) -> Result<T, CompanionError> {
        let sending = async { request.send().await.map_err(|error| failed(&error)) };
        let mut response = within(SILENCE, sending).await?;
        if !response.status().is_success() {
            let refused = within(SILENCE, accepted(response, MOST_ANSWER_BYTES)).await;
            return Err(refused.err().unwrap_or_else(|| CompanionError::Unreadable("no reason".to_owned())));
        }
        let mut reader = Reader::default();
        loop {
            let next = async { response.chunk().await.map_err(|error| failed(&error)) };
            match within(SILENCE, next).await? {
                Some(chunk) => reader.feed(&chunk, out)?,
                None => break,
            }
        }
        match reader.finish()? {
            Framed::Done(done) => Ok(done),
            Framed::Failed(message) => Err(CompanionError::Failed(message)),
        }
    }
}

/// Repeats a request until it succeeds, fails for good, or the time is over. `what` names it in the log.
pub async fn patiently<T>(
    deadline: Instant,
    what: &str,
    mut attempt: impl AsyncFnMut() -> Result<T, CompanionError>,
) -> Result<T, CompanionError> {
    let mut pause = FIRST_PAUSE;
    let mut said = false;
    loop {
        let error = match attempt().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        if !error.is_temporary() || Instant::now() + pause >= deadline {
            return Err(error);
        }
        if !std::mem::replace(&mut said, true) {
            tracing::warn!("{what}: {error}; trying again");
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, CompanionError>>,
) -> Result<T, CompanionError> {
    tokio::time::timeout(limit, work).await.map_err(|_| CompanionError::Silent(limit))?
}

/// The body of an answer, or the reason of a refusal.
async fn accepted(response: Response, most: u64) -> Result<Vec<u8>, CompanionError> {
    let status = response.status();
    let most = if status.is_success() { most } else { MOST_ANSWER_BYTES };
    let mut body = Vec::new();
    let read = read_body(response, most, |piece| {
        body.extend_from_slice(piece);
        Ok(())
    });
    match read.await {
        Ok(_) if status.is_success() => Ok(body),
        Ok(_) => Err(refused(status, &body)),
        Err(BodyError::Transfer(error)) => Err(CompanionError::Transfer(error)),
        Err(BodyError::TooLong(_)) if !status.is_success() => Err(refused(status, &[])),
        Err(error) => Err(CompanionError::Unreadable(error.to_string())),
    }
}

fn refused(status: StatusCode, body: &[u8]) -> CompanionError {
    match serde_json::from_slice(body) {
        Ok(Refusal { reason, message }) => {
            CompanionError::Refused { reason, message: message.chars().take(MOST_MESSAGE).collect() }
        }
        Err(_) => CompanionError::Status(status.as_u16()),
    }
}

fn failed(error: &reqwest::Error) -> CompanionError {
    CompanionError::Transfer(TransferError::from(error))
}

/// Sends what is written to it in chunks. Blocks while the connection is slower.
struct Chunks {
    sender: mpsc::Sender<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
}

impl Chunks {
    fn send(&mut self) -> io::Result<()> {
        let chunk = std::mem::take(&mut self.chunk);
        self.sender.blocking_send(Ok(chunk)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len().min(CHUNK - self.chunk.len());
        self.chunk.extend_from_slice(&bytes[..length]);
        if self.chunk.len() == CHUNK {
            self.send()?;
        }
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() { Ok(()) } else { self.send() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::tests::of;

    const PAIRS: [(&str, &str); 5] = [
        (env::COMPANION_URL, "http://reviewer:14096"),
        (env::COMPANION_TOKEN, "secret"),
        (env::TASK_NAME, "fix"),
        (env::TASK_UID, "u-1"),
        (env::TASK_EPOCH, "2"),
    ];

    #[test]
    fn a_run_that_is_not_on_an_agent_has_no_companion() {
        assert!(Settings::from_env(&of(&[])).unwrap().is_none());
        let settings = Settings::from_env(&of(&PAIRS)).unwrap().unwrap();
        let request = Companion::connect(&settings).unwrap().request(Method::GET, &["outputs"]).build().unwrap();
        assert_eq!(request.url().as_str(), "http://reviewer:14096/v1/runs/fix/u-1/2/outputs");
        assert!(!format!("{settings:?}").contains("secret"));
        for name in [env::COMPANION_TOKEN, env::TASK_NAME, env::TASK_UID] {
            let pairs = PAIRS.map(|pair| if pair.0 == name { (name, "") } else { pair });
            assert!(Settings::from_env(&of(&pairs)).is_err(), "{name}");
        }
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        let refused = |reason| CompanionError::Refused { reason, message: String::new() };
        let check = |error: CompanionError, expected: bool| assert_eq!(error.is_temporary(), expected, "{error}");
        check(refused(RefusalReason::Unavailable), true);
        check(refused(RefusalReason::Unauthenticated), false);
        check(CompanionError::Transfer(TransferError::Connect("refused".to_owned())), true);
        check(CompanionError::Frames(FramesError::Cut), true);
        check(CompanionError::Failed("a file shrank".to_owned()), false);
    }
}
