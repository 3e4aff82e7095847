//! A socket in the state directory that issues login links, for `kubeopencode login`. Only the owner of the directory
//! can reach it: the directory is private and hidden from containers, and the kernel reports the user of each client.

use std::{
    fs::{self, File},
    io,
    os::fd::AsRawFd as _,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::geteuid;
use server::LoginLinks;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{UnixListener, UnixStream},
    task::JoinHandle,
    time::timeout,
};

pub(crate) const FILE: &str = "login.sock";
/// The platform answers within milliseconds.
const LIMIT: Duration = Duration::from_secs(10);

/// Errors of a request for a link. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("kubeopencode does not run on {}: start it with `kubeopencode up`, or name its directory with --state-dir", .0.display())]
    NotRunning(PathBuf),
    #[error("the kubeopencode that runs on {} issued no login link ({why}): restart it", dir.display())]
    NoLink { dir: PathBuf, why: String },
}

/// A served socket. Dropping the value stops it.
#[derive(Debug)]
pub struct LoginSocket(JoinHandle<()>);

impl Drop for LoginSocket {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl LoginSocket {
    /// Issues links to clients of the socket in `dir`, whose lock this process holds. `None` if there can be no socket:
    /// everything but `kubeopencode login` works without it.
    pub fn serve(dir: &Path, links: LoginLinks) -> Option<Self> {
        let served = Self::listen(dir, links);
        served.inspect_err(|error| tracing::warn!(%error, "`kubeopencode login` cannot be served")).ok()
    }

    fn listen(dir: &Path, links: LoginLinks) -> io::Result<Self> {
        let (handle, path) = short(dir)?;
        match fs::remove_file(&path) {
            // Left by a platform that was killed.
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let listener = UnixListener::bind(&path)?;
        drop(handle);
        Ok(Self(tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((client, _)) => answer(client, &links).await,
                    Err(error) => {
                        tracing::warn!(%error, "the login socket failed");
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                }
            }
        })))
    }
}

async fn answer(mut client: UnixStream, links: &LoginLinks) {
    let user = client.peer_cred().map(|peer| peer.uid());
    if !user.is_ok_and(|user| user == geteuid().as_raw() || user == 0) {
        tracing::warn!("a login link was refused to another user");
        return;
    }
    match links.issue() {
        Ok(link) => {
            // The client may be gone.
            let _ = timeout(LIMIT, client.write_all(link.as_bytes())).await;
        }
        Err(error) => tracing::error!(%error, "a login link could not be issued"),
    }
}

/// A new login link of the platform that runs on `dir`.
pub async fn request(dir: &Path) -> Result<String, Error> {
    let not_running = |_| Error::NotRunning(dir.to_owned());
    let (_handle, path) = short(dir).map_err(not_running)?;
    let mut stream = UnixStream::connect(path).await.map_err(not_running)?;
    let mut link = String::new();
    let why = match timeout(LIMIT, stream.read_to_string(&mut link)).await {
        Ok(Ok(length)) if length > 0 => return Ok(link),
        Ok(Ok(_)) => "it refused".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it does not answer".to_owned(),
    };
    Err(Error::NoLink { dir: dir.to_owned(), why })
}

/// The path of the socket through a descriptor of its directory: the path of a socket has at most 107 bytes.
fn short(dir: &Path) -> io::Result<(File, PathBuf)> {
    let handle = File::open(dir)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd())).join(FILE);
    Ok((handle, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_directory_without_a_platform_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = request(dir.path()).await.unwrap_err().to_string();
        assert!(error.contains("does not run on") && error.contains("kubeopencode up"), "{error}");
        // A socket that a killed platform left.
        drop(std::os::unix::net::UnixListener::bind(dir.path().join(FILE)).unwrap());
        assert!(matches!(request(dir.path()).await, Err(Error::NotRunning(_))));
    }
}
