//! Commands in a running container, with or without a terminal.

use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures::future::BoxFuture;
use rustix::{
    pty::OpenptFlags,
    termios::{Winsize, tcsetwinsize},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, unix::AsyncFd};

use crate::runtime::{Runtime, Target};

/// A command in a container. Dropping [`Exec::status`] kills it.
pub struct Exec {
    /// Standard input, if requested. Shutting it down or dropping it closes the input.
    pub stdin: Option<Pin<Box<dyn AsyncWrite + Send>>>,
    /// Standard output; with a terminal, all output.
    pub stdout: Pin<Box<dyn AsyncRead + Send>>,
    /// Standard error, unless there is a terminal.
    pub stderr: Option<Pin<Box<dyn AsyncRead + Send>>>,
    /// Resizes the terminal, if there is one.
    pub resize: Option<Resize>,
    /// The exit code: 128 plus the signal if a signal ended the command, 127 if it was not found.
    pub status: BoxFuture<'static, io::Result<i32>>,
}

/// Resizes a terminal.
#[derive(Clone, Debug)]
pub struct Resize(Arc<AsyncFd<OwnedFd>>);

impl Resize {
    pub fn to(&self, columns: u16, rows: u16) -> io::Result<()> {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(self.0.get_ref(), size)?)
    }
}

impl Exec {
    pub(crate) async fn start(
        runtime: &Runtime,
        target: &Target,
        command: Vec<String>,
        tty: bool,
        stdin: bool,
    ) -> io::Result<Self> {
        if tty {
            return Self::with_terminal(runtime, target, command, stdin).await;
        }
        let mut child = runtime.join(target, command, None).await?;
        let input = child.stdin.take().filter(|_| stdin);
        let missing = || io::Error::other("the command has no output");
        let (stdout, stderr) = (child.stdout.take().ok_or_else(missing)?, child.stderr.take().ok_or_else(missing)?);
        Ok(Self {
            stdin: input.map(|input| Box::pin(input) as Pin<Box<dyn AsyncWrite + Send>>),
            stdout: Box::pin(stdout),
            stderr: Some(Box::pin(stderr)),
            resize: None,
            status: Box::pin(async move { Ok(code(child.wait().await?)) }),
        })
    }

    async fn with_terminal(runtime: &Runtime, target: &Target, command: Vec<String>, stdin: bool) -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = rustix::pty::openpt(flags)?;
        rustix::pty::grantpt(&ours)?;
        rustix::pty::unlockpt(&ours)?;
        // Opened from the start: a pty that was never opened has no end of file, even if the command is gone.
        let theirs = rustix::pty::ioctl_tiocgptpeer(&ours, flags)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        #[expect(deprecated, reason = "its danger is an object whose descriptor changes; this one's never does")]
        let ours = Arc::new(AsyncFd::new(ours)?);
        let mut child = runtime.join(target, command, Some(theirs)).await?;
        drop(child.stdin.take());
        let terminal = || Terminal(Arc::clone(&ours));
        Ok(Self {
            stdin: stdin.then(|| Box::pin(terminal()) as Pin<Box<dyn AsyncWrite + Send>>),
            stdout: Box::pin(terminal()),
            stderr: None,
            resize: Some(Resize(Arc::clone(&ours))),
            status: Box::pin(async move { Ok(code(child.wait().await?)) }),
        })
    }
}

fn code(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(255)
}

/// The controlling side of a pty.
struct Terminal(Arc<AsyncFd<OwnedFd>>);

impl AsyncRead for Terminal {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.0.poll_read_ready(cx))?;
            let space = buffer.initialize_unfilled();
            let read = guard.try_io(|fd| rustix::io::read(fd.get_ref().as_fd(), space).map_err(io::Error::from));
            match read {
                Ok(Ok(count)) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                // The other side is closed: end of file.
                Ok(Err(error)) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_) => {}
            }
        }
    }
}

impl AsyncWrite for Terminal {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.0.poll_write_ready(cx))?;
            let written = guard.try_io(|fd| rustix::io::write(fd.get_ref().as_fd(), bytes).map_err(io::Error::from));
            if let Ok(written) = written {
                return Poll::Ready(written);
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
