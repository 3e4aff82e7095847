//! The changes of a run.

use domain::run::changes;
use serde::Serialize;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

/// The changes of a run in its workspace, compared before and after the run.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskChangesResponse {
    /// Whether the workspace was compared. Otherwise `notes` says why not.
    pub compared: bool,
    /// Changed files, the first 300.
    pub files: Vec<ChangedFile>,
    /// Number of changed files.
    pub file_count: u64,
    /// Lines added.
    pub insertions: u64,
    /// Lines removed.
    pub deletions: u64,
    /// Commits that the run added to local branches, the newest 50.
    pub commits: Vec<ChangeCommit>,
    /// Number of these commits.
    pub commit_count: u64,
    /// Sentences about what the comparison does not cover.
    pub notes: Vec<String>,
    /// Size of the whole change as a patch; unset if none is stored.
    pub patch_bytes: Option<u64>,
}

/// A changed file.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangedFile {
    /// Path in the workspace.
    pub path: String,
    /// Path before a rename.
    pub old_path: Option<String>,
    pub status: ChangeStatus,
    /// Lines added.
    pub insertions: u64,
    /// Lines removed.
    pub deletions: u64,
    /// Binary, or too large for a patch.
    pub binary: bool,
    /// Unified diff.
    pub patch: String,
    /// The diff is shortened or left out, because it is too long.
    pub cut: bool,
}

/// How a file changed.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangeStatus {
    Added,
    Modified,
    Deleted,
    Renamed,
}

/// A commit of a run.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ChangeCommit {
    /// Full id.
    pub id: String,
    /// First line of the message.
    pub subject: String,
}

impl TaskChangesResponse {
    pub fn of(changes: changes::Changes, patch_bytes: Option<u64>) -> Self {
        let changes::Changes { compared, files, file_count, insertions, deletions, commits, commit_count, notes } =
            changes;
        let commits = commits.into_iter().map(|changes::Commit { id, subject }| ChangeCommit { id, subject }).collect();
        let files = files.into_iter().map(ChangedFile::from).collect();
        Self { compared, files, file_count, insertions, deletions, commits, commit_count, notes, patch_bytes }
    }
}

impl From<changes::FileChange> for ChangedFile {
    fn from(file: changes::FileChange) -> Self {
        let changes::FileChange { path, old_path, status, insertions, deletions, binary, patch, cut } = file;
        let status = match status {
            changes::FileStatus::Added => ChangeStatus::Added,
            changes::FileStatus::Modified => ChangeStatus::Modified,
            changes::FileStatus::Deleted => ChangeStatus::Deleted,
            changes::FileStatus::Renamed => ChangeStatus::Renamed,
        };
        Self { path, old_path, status, insertions, deletions, binary, patch, cut }
    }
}
