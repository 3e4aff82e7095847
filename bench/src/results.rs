//! Artefacts on their way into the store and out of it, beside the tools of the operating system.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::ensure;
use serde_json::json;

use crate::depot::{Depot, DepotRun};

/// One round is not enough: what the disk does in the background changes it by a tenth.
const ROUNDS: usize = 3;
/// The artefact: so many files of so many bytes.
const LARGE_FILES: usize = 64;
const LARGE_BYTES: usize = 16 << 20;
/// Half of each such piece is noise, the other one text.
const PIECE: usize = 64 << 10;
/// The files that are restored, as in the dependencies of a page.
const SMALL_FILES: usize = 60_000;
const SMALL_BYTES: usize = 8 << 10;
const FILES_OF_A_DIRECTORY: usize = 12;

/// Prints the time of an artefact of 1 GiB beside that of tar, zstd and curl, and the memory of both ends.
pub async fn artifact() -> anyhow::Result<()> {
    let depot = Depot::start().await?;
    let dir = depot.dir.path().join("large");
    let mut dice = Dice(1);
    for number in 0..LARGE_FILES {
        let mut file = create(&dir.join(format!("workspace/dist/{:02}/{number}", number % 8)))?;
        for _ in 0..LARGE_BYTES / PIECE {
            file.write_all(&dice.half_noise(PIECE))?;
        }
    }
    let keep = json!({"artifacts": [{"name": "dist", "paths": ["dist"]}]});
    let (mut ratios, mut ours, mut theirs, mut peak) = (Vec::new(), Vec::new(), Vec::new(), 0_f64);
    let idle = depot.server.memory()?;
    for round in 0..ROUNDS {
        let run = depot.run(&format!("large-{round}"), &keep, &json!({})).await?;
        // Bytes that the store has already would be stored faster.
        fs::write(dir.join("workspace/dist/00/new"), dice.half_noise(PIECE))?;
        settle();
        let tools = send(&depot, &run, &dir)?;
        settle();
        let (time, memory) = depot.helper("housekeeper", &run, &dir, &keep)?.succeeded()?;
        ratios.push(tools.as_secs_f64() / time.as_secs_f64());
        ours.push(time.as_secs_f64());
        theirs.push(tools.as_secs_f64());
        peak = peak.max(memory);
    }
    println!("artefact of 1 GiB, half of it noise, {ROUNDS} rounds ({})", load());
    println!("  housekeeper, depot, store {:7.2} s", median(&mut ours));
    println!("  tar | zstd -T0 -3 | curl  {:7.2} s to the same depot", median(&mut theirs));
    println!("  rate of the tools' rate   {:7.0} % (limit 80)", 100.0 * median(&mut ratios));
    println!("  peak of the housekeeper   {peak:7.1} MiB (limit 64)");
    println!("  peak of the depot         {:7.1} MiB (limit 64), {idle:.1} MiB when idle", depot.server.peak_memory()?);
    Ok(())
}

/// The same files by the tools of the operating system, to the same depot.
fn send(depot: &Depot, run: &DepotRun, dir: &Path) -> anyhow::Result<Duration> {
    let header = dir.join("header");
    fs::write(&header, format!("Authorization: Bearer {}", run.token))?;
    shell(&format!(
        "tar -C {0}/workspace -cf - dist | zstd -q -T0 -3 | curl -sS --fail -o {0}/answer -H @{0}/header -T - {1}/v1/blobs",
        dir.display(),
        depot.url
    ))
}

/// Prints the time in which `prep` restores many small files, beside that of zstd and tar.
pub async fn restore() -> anyhow::Result<()> {
    let depot = Depot::start().await?;
    let (dir, mut dice) = (depot.dir.path().join("small"), Dice(2));
    for number in 0..SMALL_FILES {
        let directory = number / FILES_OF_A_DIRECTORY;
        let path = format!("workspace/modules/package-{:04}/lib-{}/file-{number}.js", directory / 8, directory % 8);
        let length = usize::try_from(dice.next() % SMALL_BYTES as u64)?;
        create(&dir.join(path))?.write_all(&dice.half_noise(length))?;
    }
    let keep = json!({"artifacts": [{"name": "modules", "paths": ["modules"]}]});
    let build = depot.run("build", &keep, &json!({})).await?;
    let (stored, collecting) = depot.helper("housekeeper", &build, &dir, &keep)?.succeeded()?;
    depot.end(&build).await?;
    let archive = dir.join("modules.tar.zst").display().to_string();
    shell(&format!("tar -C {}/workspace -cf - modules | zstd -q -T0 -3 -o {archive}", dir.display()))?;

    let (mut ratios, mut ours, mut theirs, mut peak) = (Vec::new(), Vec::new(), Vec::new(), 0_f64);
    for round in 0..ROUNDS {
        let target = depot.dir.path().join("target");
        fs::create_dir_all(target.join("workspace"))?;
        settle();
        let tools = shell(&format!("zstd -q -d -c {archive} | tar -C {}/workspace -x", target.display()))?;
        fs::remove_dir_all(&target)?;

        fs::create_dir_all(target.join("workspace"))?;
        let place = target.join("workspace/in").display().to_string();
        let fetch = json!({"inputs": [{"fromTask": "build", "artifact": "modules", "mountPath": place}]});
        let run = depot.run(&format!("use-{round}"), &json!({}), &fetch).await?;
        settle();
        let (time, memory) = depot.helper("prep", &run, &target, &fetch)?.succeeded()?;
        ensure!(count(&target.join("workspace/in"))? == SMALL_FILES, "not all files are there");
        fs::remove_dir_all(&target)?;
        ratios.push(tools.as_secs_f64() / time.as_secs_f64());
        ours.push(time.as_secs_f64());
        theirs.push(tools.as_secs_f64());
        peak = peak.max(memory);
    }
    println!("restore of {SMALL_FILES} files, {ROUNDS} rounds ({})", load());
    println!("  stored in                 {:7.2} s, peak of the housekeeper {collecting:.1} MiB", stored.as_secs_f64());
    println!("  prep, from the depot      {:7.2} s", median(&mut ours));
    println!("  zstd -d | tar x           {:7.2} s, from the disk", median(&mut theirs));
    println!("  rate of the tools' rate   {:7.0} % (limit 90)", 100.0 * median(&mut ratios));
    println!("  peak of prep              {peak:7.1} MiB");
    println!("  peak of the depot         {:7.1} MiB (limit 64)", depot.server.peak_memory()?);
    Ok(())
}

fn create(path: &Path) -> anyhow::Result<File> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    Ok(File::create(path)?)
}

/// Runs a pipeline. Returns how long it took.
fn shell(script: &str) -> anyhow::Result<Duration> {
    let begin = Instant::now();
    let status = Command::new("bash").args(["-o", "pipefail", "-c", script]).status()?;
    ensure!(status.success(), "{script} ended with {status}");
    Ok(begin.elapsed())
}

/// What the disk still has to do is not to be measured.
fn settle() {
    rustix::fs::sync();
}

fn count(dir: &Path) -> anyhow::Result<usize> {
    let mut files = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        files += if entry.file_type()?.is_dir() { count(&entry.path())? } else { 1 };
    }
    Ok(files)
}

pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// How busy the machine was, for who compares figures.
pub fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!("load {}", load.split(' ').next().unwrap_or_default())
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn half_noise(&mut self, length: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..length / 16).flat_map(|_| self.next().to_le_bytes()).collect();
        let text = b"export function resolve(path, options) { return join(options.base, path); }\n";
        bytes.extend(text.iter().cycle().take(length - bytes.len()));
        bytes
    }
}
