//! shim with plain commands: signals, exit codes, orphans, PID 1.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use domain::contract::reason::Reason;
use kubeopencode_pod::env;
use rustix::process::Signal;

use crate::support::LIMIT;
use crate::support::helper::{Finished, Helper, command, outcome};

struct Case {
    directory: tempfile::TempDir,
}

impl Case {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn start(&self, args: &[&str], extra: &[(&str, &str)]) -> Helper {
        let record = self.path("outcome").display().to_string();
        let mut environment = vec![(env::OUTCOME_FILE, record.as_str()), (env::SHIM_GRACE_SECONDS, "2")];
        environment.extend(extra);
        Helper::start(command("shim", args, &environment))
    }

    fn shell(&self, script: &str) -> Helper {
        self.shell_with(script, &[])
    }

    fn shell_with(&self, script: &str, extra: &[(&str, &str)]) -> Helper {
        self.start(&["sh", "-c", &script.replace("DIR", &self.directory.path().display().to_string())], extra)
    }

    fn wait_for(&self, name: &str) -> String {
        let start = Instant::now();
        loop {
            match std::fs::read_to_string(self.path(name)) {
                Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
                _ => assert!(start.elapsed() < LIMIT, "{name} was not written"),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn reason(&self) -> Reason {
        outcome(&self.path("outcome")).reason
    }
}

fn finish(helper: Helper) -> Finished {
    helper.finish(LIMIT)
}

fn is_running(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn a_command_is_found_in_the_directories_in_front() {
    let case = Case::new();
    let program = case.path("only-here");
    std::fs::write(&program, "#!/bin/sh\necho \"$PATH\"\n").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let directory = case.directory.path().display().to_string();
    let finished = finish(case.start(&["only-here"], &[(env::SHIM_PATH_PREPEND, &directory)]));
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert!(
        finished.stdout.contains(&format!("{directory}:{}", std::env::var("PATH").unwrap())),
        "{}",
        finished.stdout
    );
}

#[test]
fn output_and_exit_code_pass_through() {
    let case = Case::new();
    let finished = finish(case.shell("printf 'a\\nb'; printf 'err\\n' >&2; exit 7"));
    assert_eq!(finished.code, Some(7));
    assert!(finished.stdout.contains("a\nb"), "{}", finished.stdout);
    assert!(finished.stderr.contains("err\n"), "{}", finished.stderr);
    assert_eq!(case.reason(), Reason::CommandFailed);
    assert_eq!(finish(case.shell("exit 0")).code, Some(0));
    assert_eq!(case.reason(), Reason::Succeeded);
    assert_eq!(finish(case.shell("kill -9 $$")).code, Some(137));
    assert!(outcome(&case.path("outcome")).message.contains("memory"));
    assert_eq!(finish(case.start(&["/no/such/command"], &[])).code, Some(127));
}

#[test]
fn a_client_that_judges_its_run_keeps_the_last_word() {
    let record = r#"{"outcome":"Failed","reason":"ModelError","message":"no"}"#;
    for (format, script, expected) in [
        ("client", format!("echo '{record}' > \"$OUTCOME_FILE\"; exit 1"), Reason::ModelError),
        ("client", "exit 1".to_owned(), Reason::CommandFailed),
        ("plain", format!("echo '{record}' > \"$OUTCOME_FILE\"; exit 1"), Reason::CommandFailed),
    ] {
        let case = Case::new();
        assert_eq!(finish(case.start(&["sh", "-c", &script], &[(env::SHIM_FORMAT, format)])).code, Some(1));
        assert_eq!(case.reason(), expected, "{format}: {script}");
    }
}

#[test]
fn standard_input_comes_from_a_file_byte_for_byte() {
    let case = Case::new();
    let prompt = "  two\r\n\"lines\"  \n\n";
    std::fs::write(case.path("prompt"), prompt).unwrap();
    let (from, to) = (case.path("prompt").display().to_string(), case.path("got").display().to_string());
    assert_eq!(
        finish(case.start(&["sh", "-c", &format!("cat > {to}")], &[(env::SHIM_STDIN_FILE, &from)])).code,
        Some(0)
    );
    assert_eq!(std::fs::read_to_string(case.path("got")).unwrap(), prompt);
}

#[test]
fn a_stop_reaches_the_whole_group() {
    let case = Case::new();
    let script = "trap 'echo stopped > DIR/trapped; exit 0' TERM; sleep 1000 & echo $! > DIR/pid; wait";
    // The grace period is far above the limit: a command that only SIGKILL ends does not end in time.
    let helper = case.shell_with(script, &[(env::SHIM_GRACE_SECONDS, "3600")]);
    let pid = case.wait_for("pid");
    helper.signal(Signal::TERM);
    assert_eq!(finish(helper).code, Some(143));
    assert_eq!(case.wait_for("trapped"), "stopped");
    assert!(!is_running(&pid));
    assert_eq!(case.reason(), Reason::Stopped);
}

#[test]
fn who_does_not_listen_is_killed_after_the_grace_time() {
    let case = Case::new();
    let helper = case.shell("trap '' TERM; echo $$ > DIR/pid; while true; do sleep 0.1; done");
    case.wait_for("pid");
    // Before the signal: the shim can receive it before this thread runs again.
    let start = Instant::now();
    helper.signal(Signal::TERM);
    assert_eq!(finish(helper).code, Some(143));
    assert!(start.elapsed() >= Duration::from_secs(2), "killed after {:?}", start.elapsed());
}

#[test]
fn other_signals_are_forwarded_and_do_not_stop() {
    let case = Case::new();
    let helper = case.shell(
        "trap 'echo usr1 > DIR/usr1' USR1; trap 'echo hup > DIR/hup; exit 3' HUP; echo $$ > DIR/pid; while true; do sleep 0.05; done",
    );
    case.wait_for("pid");
    helper.signal(Signal::USR1);
    assert_eq!(case.wait_for("usr1"), "usr1");
    helper.signal(Signal::HUP);
    assert_eq!(finish(helper).code, Some(3));
    assert_eq!(case.reason(), Reason::CommandFailed);
}

#[test]
fn nothing_is_left_behind_also_not_in_another_group() {
    let case = Case::new();
    // setsid puts the sleeper into a session of its own, as OpenCode does with its tools.
    let helper = case.shell(
        "setsid sh -c 'sleep 60 & echo $! > DIR/pid; wait' & while [ ! -s DIR/pid ]; do sleep 0.05; done; exit 0",
    );
    let finished = finish(helper);
    assert_eq!(finished.code, Some(0), "{}", finished.stdout);
    assert!(!is_running(&case.wait_for("pid")));
    assert!(finished.stdout.contains("still running"), "{}", finished.stdout);
}

#[test]
fn orphans_are_reaped_while_the_command_runs() {
    let case = Case::new();
    let helper = case.shell(
        "for i in 1 2 3 4 5; do sh -c 'sleep 0.1 & exit 0'; done; sleep 1; echo go > DIR/go; while [ ! -e DIR/end ]; do sleep 0.05; done",
    );
    case.wait_for("go");
    let zombies = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok())
        .filter(|stat| stat.contains(&format!(") Z {} ", helper.id())))
        .count();
    std::fs::write(case.path("end"), "").unwrap();
    assert_eq!(zombies, 0);
    assert_eq!(finish(helper).code, Some(0));
}

#[test]
fn as_pid_1_it_listens_where_opencode_would_not() {
    let case = Case::new();
    let record = case.path("outcome").display().to_string();
    let script = format!("echo $$ > {}; exec sleep 60", case.path("pid").display());
    let inner =
        command("shim", &["sh", "-c", &script], &[(env::OUTCOME_FILE, &record), (env::SHIM_GRACE_SECONDS, "2")]);
    let mut outer = std::process::Command::new("unshare");
    outer.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]);
    outer.arg(inner.get_program()).args(inner.get_args());
    outer.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    outer.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let helper = Helper::start(outer);
    case.wait_for("pid");
    // The shim is the only child of unshare.
    let children = format!("/proc/{0}/task/{0}/children", helper.id());
    let pid = std::fs::read_to_string(&children).unwrap_or_default();
    let pid: i32 =
        pid.trim().parse().expect("user namespaces are needed for this test: sysctl user.max_user_namespaces");
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    assert_eq!(finish(helper).code, Some(143));
    assert_eq!(case.reason(), Reason::Stopped);
}
