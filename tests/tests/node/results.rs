//! What runs leave, by way of a depot that Pods reach over the network: artefacts, inputs, caches, changes, publishing.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use api::{TaskStatus, kinds::task::CacheHit};
use blackbox::{
    cases,
    git_server::{GitServer, Manner},
    runner::Case,
};
use k8s_openapi::api::core::v1::{Pod, Secret};
use regex::bytes::Regex;
use serde_json::json;
use tokio::time::sleep;

use crate::world::{LIMIT, World, with_world};

pub const CASES: &[Case] = cases![a_run_publishes_with_a_credential_that_its_agent_never_saw];

/// Cut in two, so that the text of this program is not found in its own place.
fn password() -> String {
    ["hunter2-of-the", "-private-repository"].concat()
}

/// Something that the agent's container does have: the search has to find it.
const KNOWN: &str = "known-to-the-agent-4711";

async fn a_run_publishes_with_a_credential_that_its_agent_never_saw() -> anyhow::Result<()> {
    with_world(async |world| {
        let manner = Manner { login: Some(("robot".to_owned(), password())), ..Manner::default() };
        let files = [("README.md", "first\n"), ("package-lock.json", "{}\n")];
        let server = GitServer::start_with(testenv::HOST_ADDRESS, &files, manner).await?;
        server.allow_pushes().await?;
        let login = json!({"stringData": {"username": "robot", "password": password()}});
        world.create::<Secret>("git", login).await?;
        world.kubectl(&["label", "secret", "git", "kubeopencode.io/allow-tasks=true"])?;
        let extra = json!([{"name": "KNOWN", "value": KNOWN}]);
        let cache =
            json!([{"name": "deps", "key": "deps-{{ hash \"repo/package-lock.json\" }}", "paths": ["repo/deps"]}]);
        world.template("t", json!({"podSpec": {"extraEnv": extra}, "caches": cache})).await?;
        let code = json!([{"name": "code", "type": "Git", "mountPath": "repo",
            "git": {"repository": server.url(), "ref": "main", "secretRef": {"name": "git"}}}]);

        let wait = "touch /workspace/waits; until [ -e /workspace/goes-on ]; do sleep 0.2; done";
        let script = format!(
            "[[bash cmd=\"cd repo && echo second >> README.md && mkdir -p deps dist && echo fetched > deps/a && \
             echo built > dist/app.txt\"]] [[bash cmd=\"{wait}\"]]"
        );
        let spec = json!({
            "templateRef": {"name": "t"}, "description": script, "contexts": code,
            "artifacts": [{"name": "dist", "paths": ["repo/dist"]}],
            "publish": {"secretRef": {"name": "git"}, "message": "Say second"},
        });
        world.task("change", spec).await?;
        waits(world, "change-pod").await?;
        let places = Places::of(&agent_container(world, "change-pod").await?)?;
        ensure!(places.with(KNOWN)?.len() >= 2, "the search misses what is there: {:?}", places.with(KNOWN)?);
        let found = places.with(&password())?;
        ensure!(found.is_empty(), "the agent's container has the credential: {found:?}");
        world.kubectl(&["exec", "change-pod", "-c", "agent", "--", "touch", "/workspace/goes-on"])?;

        let status = world.succeeds("change").await?;
        let published = status.published.clone().context("nothing was published")?;
        ensure!(published.branch.as_deref() == Some("agents/change"), "{published:?}");
        ensure!(server.read("agents/change", "README.md").await? == "first\nsecond", "{published:?}");
        ensure!(hit(&status) == Some(CacheHit::Miss), "{:?}", status.caches);
        ensure!(!world.logs("change").contains(&password()), "the log has the credential");

        let script = "[[bash cmd=\"cat in/repo/dist/app.txt repo/deps/a\"]]";
        let spec = json!({
            "templateRef": {"name": "t"}, "description": script, "contexts": code,
            "inputs": [{"fromTask": "change", "artifact": "dist", "mountPath": "in"}],
        });
        world.task("use", spec).await?;
        let status = world.succeeds("use").await?;
        ensure!(hit(&status) == Some(CacheHit::Exact), "{:?}", status.caches);
        let log = world.logs("use");
        ensure!(log.contains("built") && log.contains("fetched"), "{log}");

        // For people, also when the Pods are gone.
        world.kubectl(&["delete", "pod", "change-pod", "use-pod", "--wait=false"])?;
        ensure!(world.command(&["artifacts", "change"])?.contains("dist"), "no artefact");
        ensure!(world.command(&["artifacts", "change", "cat", "dist", "repo/dist/app.txt"])? == "built\n", "no file");
        ensure!(world.command(&["diff", "change", "--patch"])?.contains("+second"), "no patch");
        Ok(())
    })
    .await
}

fn hit(status: &TaskStatus) -> Option<CacheHit> {
    status.caches.as_ref()?.first()?.hit
}

/// Waits until the agent does.
async fn waits(world: &World, pod: &str) -> anyhow::Result<()> {
    let started = Instant::now();
    let looks = ["exec", pod, "-c", "agent", "--", "ls", "/workspace/waits"];
    while let Err(error) = world.kubectl(&looks) {
        ensure!(started.elapsed() < LIMIT, "the agent does not wait: {error:#}");
        sleep(Duration::from_millis(300)).await;
    }
    Ok(())
}

/// ID of the container `agent`, as the node's runtime has it.
async fn agent_container(world: &World, pod: &str) -> anyhow::Result<String> {
    let pod = world.api::<Pod>().get(pod).await?;
    let statuses = pod.status.and_then(|status| status.container_statuses).unwrap_or_default();
    let agent = statuses.into_iter().find(|status| status.name == "agent").context("no status of the agent")?;
    let id = agent.container_id.context("the agent has no container")?;
    Ok(id.rsplit('/').next().unwrap_or_default().to_owned())
}

/// All that the processes of a container can read without leaving it. The node is on this machine, so its processes are
/// in our `/proc`.
struct Places {
    processes: Vec<PathBuf>,
}

impl Places {
    fn of(container: &str) -> anyhow::Result<Self> {
        let mut processes = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let path = entry?.path();
            let groups = fs::read_to_string(path.join("cgroup")).unwrap_or_default();
            if groups.contains(container) {
                processes.push(path);
            }
        }
        ensure!(!processes.is_empty(), "no process of container {container} is on this machine");
        Ok(Self { processes })
    }

    /// Where the text is: arguments, environment and memory of the processes, and files.
    fn with(&self, text: &str) -> anyhow::Result<BTreeSet<String>> {
        let text = Regex::new(&regex::escape(text))?;
        let mut found = BTreeSet::new();
        for process in &self.processes {
            for part in ["cmdline", "environ"] {
                if text.is_match(&fs::read(process.join(part)).unwrap_or_default()) {
                    found.insert(format!("{part} of {}", process.display()));
                }
            }
            if in_memory(process, &text)? {
                found.insert(format!("memory of {}", process.display()));
            }
        }
        let root = self.processes.first().context("no process")?.join("root");
        in_files(&root, &root, &text, &mut found)?;
        Ok(found)
    }
}

fn in_files(root: &Path, directory: &Path, text: &Regex, found: &mut BTreeSet<String>) -> anyhow::Result<()> {
    // What the kernel shows of processes was read above.
    if ["proc", "sys", "dev"].iter().any(|name| directory == root.join(name)) {
        return Ok(());
    }
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            in_files(root, &path, text, found)?;
        } else if kind.is_file() && text.is_match(&fs::read(&path).unwrap_or_default()) {
            found.insert(path.display().to_string());
        }
    }
    Ok(())
}

const PAGE: usize = 4096;
/// Bytes of an entry of `pagemap`, whose highest bit says that the page is in memory.
const ENTRY: usize = 8;

/// Whether the text is in a page of a process that is in memory. Reservations of address space are not read.
fn in_memory(process: &Path, text: &Regex) -> anyhow::Result<bool> {
    // A process that ended meanwhile has no memory.
    let Ok(maps) = fs::read_to_string(process.join("maps")) else { return Ok(false) };
    let (Ok(memory), Ok(pages)) = (File::open(process.join("mem")), File::open(process.join("pagemap"))) else {
        return Ok(false);
    };
    // The kernel's own pages begin with [v.
    for line in maps.lines().filter(|line| !line.contains("[v")) {
        let (range, rest) = line.split_once(' ').context("a line of maps has no range")?;
        let (start, end) = range.split_once('-').context("a range has no end")?;
        let (start, end) = (usize::from_str_radix(start, 16)?, usize::from_str_radix(end, 16)?);
        if !rest.starts_with('r') {
            continue;
        }
        // Pages in a row are searched as one, so that a text across their border is found.
        let mut row = Vec::new();
        for first in (start / PAGE..end / PAGE).step_by(PAGE) {
            let mut entries = vec![0; ENTRY * PAGE.min(end / PAGE - first)];
            pages.read_exact_at(&mut entries, (first * ENTRY) as u64)?;
            for (number, entry) in entries.chunks(ENTRY).enumerate() {
                let mut content = [0; PAGE];
                let present = entry[ENTRY - 1] & 0x80 != 0;
                if present && memory.read_exact_at(&mut content, ((first + number) * PAGE) as u64).is_ok() {
                    row.extend_from_slice(&content);
                } else if !row.is_empty() {
                    if text.is_match(&row) {
                        return Ok(true);
                    }
                    row.clear();
                }
            }
        }
        if text.is_match(&row) {
            return Ok(true);
        }
    }
    Ok(false)
}
