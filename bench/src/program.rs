//! Programs that are measured from outside.

use std::{
    ffi::OsStr,
    fs,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};

/// The release binary as a child process; it ends with this value.
pub struct Program(Child);

impl Program {
    /// Starts `kubeopencode` with these arguments.
    pub fn start<A: AsRef<OsStr>>(arguments: &[A], kubeconfig: Option<&Path>) -> anyhow::Result<Self> {
        Self::start_with(arguments, kubeconfig, &[])
    }

    /// As [`Program::start`], with these variables.
    pub fn start_with<A: AsRef<OsStr>>(
        arguments: &[A],
        kubeconfig: Option<&Path>,
        variables: &[(&str, String)],
    ) -> anyhow::Result<Self> {
        let binary = std::env::current_exe()?.with_file_name("kubeopencode");
        if !binary.exists() {
            bail!("{} is not there: run `make bench`", binary.display());
        }
        let mut command = Command::new(binary);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).env_remove("KUBECONFIG");
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        if let Some(kubeconfig) = kubeconfig {
            command.env("KUBECONFIG", kubeconfig);
        }
        Ok(Self(command.spawn().context("kubeopencode does not start")?))
    }

    /// Memory in use, in MiB.
    pub fn memory(&self) -> anyhow::Result<f64> {
        self.status("VmRSS:")
    }

    /// The most memory that was ever in use, in MiB.
    pub fn peak_memory(&self) -> anyhow::Result<f64> {
        self.status("VmHWM:")
    }

    fn status(&self, name: &str) -> anyhow::Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find(|line| line.starts_with(name)).context("it has ended")?;
        let kib: f64 = line.split_whitespace().nth(1).context("no number")?.parse()?;
        Ok(kib / 1024.0)
    }

    /// Waits for its success. Returns how long it took, and its [`Program::peak_memory`] a moment before its end.
    pub fn succeeded(mut self) -> anyhow::Result<(Duration, f64)> {
        let begin = Instant::now();
        let mut peak = 0.0;
        loop {
            peak = self.peak_memory().unwrap_or(peak);
            if let Some(status) = self.0.try_wait()? {
                ensure!(status.success(), "kubeopencode ended with {status}");
                return Ok((begin.elapsed(), peak));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Processor time that it has taken so far.
    pub fn processor_time(&self) -> anyhow::Result<Duration> {
        let stat = Stat::of(self.0.id()).context("it has ended")?;
        Ok(stat.time)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // With SIGTERM it takes its own children along; one that ended by itself is no harm.
        let pid = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        for _ in 0..100 {
            if matches!(self.0.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Processor time that our descendants with one of these names have taken so far.
pub fn processor_time_of(names: &[&str]) -> anyhow::Result<Duration> {
    let ours = std::process::id();
    let mut sum = Duration::ZERO;
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Some(stat) = Stat::of(pid) else { continue };
        let mut ancestor = stat.parent;
        while ancestor > 1 && ancestor != ours {
            ancestor = Stat::of(ancestor).map_or(0, |stat| stat.parent);
        }
        if ancestor == ours && names.contains(&stat.name.as_str()) {
            sum += stat.time;
        }
    }
    Ok(sum)
}

/// A line of /proc/PID/stat.
struct Stat {
    name: String,
    parent: u32,
    time: Duration,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (before, after) = line.rsplit_once(") ")?;
        let fields: Vec<&str> = after.split(' ').collect();
        // Counted from the state, which is the third field of the line: ppid, utime, stime.
        let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
        let time = Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second());
        Some(Self { name: before.split_once('(')?.1.to_owned(), parent: fields.get(1)?.parse().ok()?, time })
    }
}

/// A free port.
pub fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
