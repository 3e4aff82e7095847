//! Runs programs with limits of time and output.

use std::{
    io,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, Command},
};

/// Largest standard output. The refs of very large repositories take megabytes.
const MAX_STDOUT: usize = 64 << 20;
/// How much of the end of standard error is kept.
const MAX_STDERR: usize = 64 << 10;

/// The result of a program.
#[derive(Debug)]
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    /// The last 64 KiB of its standard error.
    pub stderr: Vec<u8>,
}

/// Why a program did not end by itself.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It cannot be started, or its output cannot be read.
    #[error(transparent)]
    Start(#[from] io::Error),
    /// It was killed at the time limit.
    #[error("it did not end in time")]
    TimedOut,
    /// It was killed because it printed too much.
    #[error("it printed more than {MAX_STDOUT} bytes")]
    TooLong,
}

/// Runs a program without standard input, in a process group of its own, which is killed at the limit or when the
/// future is dropped: git has helpers (ssh, remote-https), and npm has node.
pub async fn run(command: &mut Command, limit: Duration) -> Result<Finished, RunError> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).kill_on_drop(true);
    let mut child = command.spawn()?;
    let group = Group::of(&child);
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let work = async {
        let wait = async { Ok(child.wait().await?) };
        let tail = async { Ok(read_tail(stderr, MAX_STDERR).await?) };
        tokio::try_join!(read_all(stdout, MAX_STDOUT), tail, wait)
    };
    let (stdout, stderr, status) = tokio::time::timeout(limit, work).await.map_err(|_| RunError::TimedOut)??;
    group.ended();
    Ok(Finished { status, stdout, stderr })
}

/// Runs a program for the first `most` bytes of its output, and returns whether there are more. A program that prints
/// more is killed. Its exit code does not count.
pub async fn head(command: &mut Command, limit: Duration, most: usize) -> Result<(Vec<u8>, bool), RunError> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0).kill_on_drop(true);
    let mut child = command.spawn()?;
    let group = Group::of(&child);
    let stdout = child.stdout.take();
    let work = async {
        let mut bytes = Vec::new();
        if let Some(stdout) = stdout {
            stdout.take(most as u64 + 1).read_to_end(&mut bytes).await?;
        }
        Ok::<_, io::Error>(bytes)
    };
    let mut bytes = tokio::time::timeout(limit, work).await.map_err(|_| RunError::TimedOut)??;
    let more = bytes.len() > most;
    bytes.truncate(most);
    drop(group);
    child.wait().await?;
    Ok((bytes, more))
}

/// Runs a program, passes the first `most` bytes of its output to `into`, and counts up to `counted` bytes. Returns their
/// number. A program that prints more than `counted` bytes is killed.
pub async fn copy(
    command: &mut Command,
    limit: Duration,
    most: u64,
    counted: u64,
    into: &mut impl io::Write,
) -> Result<(ExitStatus, u64), RunError> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0).kill_on_drop(true);
    let mut child = command.spawn()?;
    let group = Group::of(&child);
    let stdout = child.stdout.take();
    let work = async {
        let mut total = 0;
        let Some(stdout) = stdout else { return Ok(total) };
        let mut stdout = stdout.take(counted.saturating_add(1));
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = stdout.read(&mut buffer).await?;
            if read == 0 {
                return Ok::<_, io::Error>(total);
            }
            let kept = usize::try_from(most.saturating_sub(total)).unwrap_or(usize::MAX).min(read);
            into.write_all(&buffer[..kept])?;
            total += read as u64;
        }
    };
    let total = tokio::time::timeout(limit, work).await.map_err(|_| RunError::TimedOut)??;
    if total > counted {
        drop(group);
        return Ok((child.wait().await?, total));
    }
    let status = tokio::time::timeout(limit, child.wait()).await.map_err(|_| RunError::TimedOut)??;
    group.ended();
    Ok((status, total))
}

async fn read_all(from: Option<impl AsyncRead + Unpin>, most: usize) -> Result<Vec<u8>, RunError> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.take(most as u64 + 1).read_to_end(&mut bytes).await?;
    }
    if bytes.len() > most { Err(RunError::TooLong) } else { Ok(bytes) }
}

/// Reads to the end, so that the program never blocks on output, and keeps the last `most` bytes.
async fn read_tail(from: Option<impl AsyncRead + Unpin>, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let Some(mut from) = from else { return Ok(bytes) };
    while from.read_buf(&mut bytes).await? > 0 {
        if bytes.len() > 2 * most {
            bytes.drain(..bytes.len() - most);
        }
    }
    bytes.drain(..bytes.len().saturating_sub(most));
    Ok(bytes)
}

/// Kills a process group when it is dropped.
#[derive(Debug)]
struct Group(Option<u32>);

impl Group {
    /// The group of a program that was started as the leader of a group of its own.
    fn of(child: &Child) -> Self {
        Self(child.id())
    }

    /// Disarms the guard after the program ended: its id may soon belong to another process.
    fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn shell(script: &str, limit: Duration) -> Result<Finished, RunError> {
        run(Command::new("sh").args(["-c", script]), limit).await
    }

    #[tokio::test]
    async fn output_and_status_are_returned_and_a_long_complaint_loses_its_beginning() {
        let script =
            "echo out; i=0; while [ $i -lt 20000 ]; do echo 0123456789; i=$((i+1)); done >&2; echo end >&2; exit 3";
        let finished = shell(script, Duration::from_mins(1)).await.unwrap();
        assert_eq!((finished.status.code(), finished.stdout.as_slice()), (Some(3), b"out\n".as_slice()));
        assert_eq!(finished.stderr.len(), MAX_STDERR);
        assert!(finished.stderr.ends_with(b"0123456789\nend\n"));
    }

    #[tokio::test]
    async fn a_program_is_killed_at_its_limit() {
        assert!(matches!(shell("sleep 1000", Duration::from_millis(50)).await, Err(RunError::TimedOut)));
    }

    #[tokio::test]
    async fn a_program_is_killed_with_its_children_when_nobody_waits_for_it() {
        let directory = tempfile::tempdir().unwrap();
        let mark = directory.path().join("pid");
        let script = format!("sleep 1000 & echo $! >{}; wait", mark.display());
        let running = tokio::spawn(async move { shell(&script, Duration::from_mins(9)).await.map(drop) });
        let until = async |done: &dyn Fn() -> bool| {
            let wait = async {
                while !done() {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(Duration::from_mins(1), wait).await.unwrap();
        };
        let pid = || std::fs::read_to_string(&mark).ok().filter(|text| text.ends_with('\n'));
        until(&|| pid().is_some()).await;
        running.abort();
        // A zombie has no command line any more.
        let path = format!("/proc/{}/cmdline", pid().unwrap().trim());
        until(&|| !std::fs::read(&path).is_ok_and(|line| !line.is_empty())).await;
    }

    #[tokio::test]
    async fn a_program_that_prints_without_end_is_killed() {
        assert!(matches!(shell("yes", Duration::from_mins(5)).await, Err(RunError::TooLong)));
    }

    #[tokio::test]
    async fn the_beginning_of_an_output_is_copied_and_the_rest_is_counted() {
        let copied = async |script: &str| {
            let mut into = Vec::new();
            let command = &mut Command::new("sh");
            let copied = copy(command.args(["-c", script]), Duration::from_mins(1), 4, 100_000, &mut into).await;
            let (status, total) = copied.unwrap();
            (status.success(), total, String::from_utf8(into).unwrap())
        };
        assert_eq!(copied("printf abc").await, (true, 3, "abc".to_owned()));
        assert_eq!(copied("printf abcdef; exit 1").await, (false, 6, "abcd".to_owned()));
        assert_eq!(copied("yes").await, (false, 100_001, "y\ny\n".to_owned()));
    }

    #[tokio::test]
    async fn a_missing_program_is_an_error() {
        let missing = run(&mut Command::new("/no/such/program"), Duration::from_secs(9)).await;
        assert!(matches!(missing, Err(RunError::Start(error)) if error.kind() == io::ErrorKind::NotFound));
    }
}
