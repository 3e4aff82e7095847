//! Artefacts of other Tasks.

use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use api::run::Input;
use domain::contract::collect::FetchReport;
use domain::contract::depot::RefusalReason;
use fileset::Unpacked;
use tokio::time::timeout_at;

use super::{Error, FetchError, InTransit, Settings};
use crate::depot::{Depot, DepotError, retry};
use crate::place::Root;
use crate::text;

/// Puts every input in place, in the order of the Task. Those that the run can do without are given up early, and
/// `hasty` is the depot for them.
pub(super) async fn fetch(
    settings: &Settings,
    depot: &Depot,
    hasty: &Depot,
    start: tokio::time::Instant,
    report: &mut FetchReport,
) -> Result<(), Error> {
    for input in &settings.fetch.inputs {
        let what = format!("artifact \"{}\" of Task \"{}\"", input.artifact, input.from_task);
        let begin = Instant::now();
        let (depot, limit) =
            if input.optional { (hasty, settings.optional_timeout) } else { (depot, settings.inputs_timeout) };
        let deadline = start + limit;
        let retry_until =
            if input.optional { deadline.min(tokio::time::Instant::now() + settings.patience) } else { deadline };
        let downloaded = match timeout_at(deadline, download(settings, depot, input, retry_until, &what)).await {
            Ok(Ok(set)) => Ok(set),
            Ok(Err(error)) => Err(failed(input, error)),
            Err(_) => Err(Error::TimedOut { limit, awaited: what.clone() }),
        };
        // Not interrupted: a thread that is left alone would go on writing.
        let fetched = match downloaded {
            Ok(set) => unpack(settings, input, set).await.map_err(|error| failed(input, error)),
            Err(error) => Err(error),
        };
        match fetched {
            Ok(Unpacked { files, bytes }) => tracing::info!(
                "{what} is in {}: {}, {}, in {}",
                input.mount_path,
                text::files(files),
                text::size(bytes),
                text::seconds(begin.elapsed())
            ),
            Err(error) if input.optional => {
                tracing::warn!("{error}; it is optional, continuing without it");
                report.notes.push(format!("continuing without an optional input: {error}"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn download(
    settings: &Settings,
    depot: &Depot,
    Input { from_task: task, artifact, .. }: &Input,
    retry_until: tokio::time::Instant,
    what: &str,
) -> Result<InTransit, FetchError> {
    let found = retry::until(retry_until, what, async || depot.find_input(task, artifact).await).await?;
    let content = depot.input_content(task, artifact, &found.digest);
    InTransit::download(settings, depot, &content, found, retry_until, what).await
}

async fn unpack(settings: &Settings, input: &Input, set: InTransit) -> Result<Unpacked, FetchError> {
    let path = Path::new(&input.mount_path);
    let Ok(relative) = path.strip_prefix(&settings.workspace) else {
        // A mount of its own: no one but the controller chose its path.
        std::fs::create_dir_all(path)?;
        return set.unpack(path.to_owned()).await;
    };
    // A repository may have put a link on the way.
    let directory = Root::open(&settings.workspace)?.directory(relative)?;
    set.unpack(PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()))).await
}

fn failed(input: &Input, source: FetchError) -> Error {
    match source {
        FetchError::Depot(DepotError::Refused { reason: RefusalReason::NotFound, message }) => {
            Error::NoInput { message }
        }
        source => Error::Input { task: input.from_task.clone(), artifact: input.artifact.clone(), source },
    }
}
