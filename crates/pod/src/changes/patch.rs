//! The patch of the whole change of a run, as a file that `git apply` takes.
//!
//! Paths are relative to the workspace. Renames are a removal and an addition: git leaves the prefix out of the names of
//! a rename, and such a patch would not apply.

use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::contract::collect::MOST_PATCH_BYTES;
use domain::run::changes::Changes;
use egress::Git;

use super::place::{Difference, Problem, Scope};

/// A larger patch is not measured to its end.
const COUNTED: u64 = 1 << 30;

/// Writes the patch of these differences within `limit`, or notes why there is none. With `only`, other files are left
/// out. A file that was there before is
/// removed: it is not ours.
pub async fn write(
    git: &Git,
    scope: Scope<'_>,
    differences: &[Difference],
    only: Option<&[PathBuf]>,
    file: &Path,
    limit: Duration,
    changes: &mut Changes,
) {
    if let Err(problem) = remove(file) {
        return changes.notes.push(format!("The patch of the whole change is not kept: {problem}."));
    }
    if differences.iter().any(|difference| difference.large) {
        changes.notes.push("Files larger than 16 MiB are not in the patch of the whole change.".to_owned());
    }
    let work = collect(git, scope, differences, only);
    match tokio::time::timeout(limit, work).await {
        Ok(Ok((_, bytes))) if bytes > MOST_PATCH_BYTES => {
            changes.note_large_patch(bytes.min(COUNTED), bytes > COUNTED);
        }
        Ok(Ok((patch, _))) if patch.is_empty() => {}
        Ok(Ok((patch, _))) => {
            if let Err(error) = put(&patch, file) {
                changes.notes.push(format!("The patch of the whole change is not kept: {}: {error}.", file.display()));
            }
        }
        Ok(Err(problem)) => changes.notes.push(format!("The patch of the whole change is not kept: {problem}.")),
        Err(_) => changes.notes.push("The patch of the whole change is not kept: it took too long.".to_owned()),
    }
}

/// The patch, and the number of its bytes. The patch of a larger change is only measured.
async fn collect(
    git: &Git,
    scope: Scope<'_>,
    differences: &[Difference],
    only: Option<&[PathBuf]>,
) -> Result<(Vec<u8>, u64), Problem> {
    let (mut patch, mut bytes) = (Vec::new(), 0_u64);
    for difference in differences {
        let most = MOST_PATCH_BYTES.saturating_sub(bytes);
        let counted = COUNTED.saturating_sub(bytes);
        bytes += difference.patch(git, scope, only, (most, counted), &mut patch).await?;
        if bytes > COUNTED {
            break;
        }
    }
    Ok((patch, bytes))
}

fn put(patch: &[u8], file: &Path) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("/"));
    let mut written = tempfile::NamedTempFile::new_in(directory)?;
    written.write_all(patch)?;
    written.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
    written.persist(file).map_err(|error| error.error)?;
    Ok(())
}

/// A file of the agent cannot be removed.
#[derive(Debug, thiserror::Error)]
#[error("{path:?}: {source}")]
pub struct NotRemoved {
    path: PathBuf,
    source: io::Error,
}

/// Removes whatever is at the path. The agent can write there.
pub fn remove(path: &Path) -> Result<(), NotRemoved> {
    let removed = match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(_) => Ok(()),
    };
    removed.map_err(|source| NotRemoved { path: path.to_owned(), source })
}
