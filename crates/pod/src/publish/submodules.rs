//! Submodules of the agent's checkout. They are not published, so their changes are at least named.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use egress::{Git, GitError, View};

use super::checkout::Checkout;

/// Submodules that are compared.
const MOST: usize = 50;
/// Time for all of them: every file is read.
const LIMIT: Duration = Duration::from_secs(30);

/// Where submodules are compared with the commits that the checkout names.
pub struct Modules<'a> {
    pub git: &'a Git,
    /// No link leads out of it.
    pub workspace: &'a Path,
    pub work_tree: &'a Path,
    /// Our repository.
    pub git_dir: &'a Path,
    /// A directory of our own.
    pub scratch: &'a Path,
}

/// The submodules in `ls-files --stage -z`, with the commits that they should have.
pub fn commits(listing: &[u8]) -> BTreeMap<PathBuf, String> {
    let entries = listing.split(|byte| *byte == 0).filter_map(|entry| entry.strip_prefix(b"160000 "));
    entries
        .filter_map(|entry| {
            let mut parts = entry.splitn(2, |byte| *byte == b'\t');
            let id = parts.next()?.split(|byte| *byte == b' ').next()?;
            Some((OsStr::from_bytes(parts.next()?).into(), String::from_utf8_lossy(id).into_owned()))
        })
        .collect()
}

impl Modules<'_> {
    /// A sentence for each submodule with changes.
    pub async fn changed(&self, modules: &BTreeMap<PathBuf, String>) -> Vec<String> {
        let mut notes = Vec::new();
        let compare = async {
            for (number, (path, commit)) in modules.iter().take(MOST).enumerate() {
                if self.differs(number, path, commit).await {
                    notes.push(format!("{} is a submodule with changes, which are not published.", path.display()));
                }
            }
        };
        if tokio::time::timeout(LIMIT, compare).await.is_err() || modules.len() > MOST {
            notes.push("Not all submodules were searched for changes, which are not published.".to_owned());
        }
        notes
    }

    async fn differs(&self, number: usize, path: &Path, commit: &str) -> bool {
        let directory = self.work_tree.join(path);
        let Ok(checkout) = Checkout::read(self.workspace, &directory) else {
            // Not checked out, unless there are files.
            return std::fs::read_dir(&directory).is_ok_and(|mut entries| entries.next().is_some());
        };
        if checkout.head.as_ref().is_ok_and(|head| head != commit) {
            return true;
        }
        self.has_changed_files(number, directory, &checkout, commit).await.unwrap_or(true)
    }

    /// By an index and objects of our own: git does not run in the repository of the submodule.
    async fn has_changed_files(
        &self,
        number: usize,
        directory: PathBuf,
        checkout: &Checkout,
        commit: &str,
    ) -> Result<bool, GitError> {
        let own = self.scratch.join(format!("module-{number}"));
        let (new, linked) = (own.join("new"), own.join("objects"));
        let linkable = [&new, &linked].iter().all(|path| std::fs::create_dir_all(path).is_ok());
        if !linkable || checkout.link_objects(&linked).is_err() {
            return Ok(true);
        }
        let mut view = View::new(directory, self.git_dir.to_owned(), own.join("index"));
        view.objects = Some((new, linked));
        self.git.run_view(&view, &["read-tree", commit]).await?;
        let listing = ["ls-files", "-z", "--others", "--modified", "--exclude-standard", "--", "."];
        Ok(!self.git.run_view(&view, &listing).await?.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submodules_are_listed_with_their_commits() {
        let listing = b"100644 aa 0\tREADME.md\x00160000 bb 0\tlibs/a b\x00160000 cc 0\ttab\there\0";
        let found: Vec<(String, String)> =
            commits(listing).into_iter().map(|(path, id)| (path.display().to_string(), id)).collect();
        assert_eq!(found, [("libs/a b", "bb"), ("tab\there", "cc")].map(|(path, id)| (path.to_owned(), id.to_owned())));
    }
}
