//! Which context wins a path, and which pairs exclude each other.

use std::collections::{BTreeMap, BTreeSet};

use super::{ContextError, ContextPlan, DirectoryMount, FileItem, GitMount, GitTarget, UrlFetch, paths};

/// Origin of a context. A later level wins over an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Agent,
    Task,
    Description,
    /// Reserved by the platform: no other context may be there.
    Platform,
}

/// Content of a path.
#[derive(Clone, Debug)]
pub(super) enum Content {
    File(FileItem),
    /// A ConfigMap and the names of its files.
    Directory(DirectoryMount, BTreeSet<String>),
    Git(GitMount),
    Url(UrlFetch),
}

/// One context at its path.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub level: Level,
    pub label: String,
    pub path: String,
    pub content: Content,
}

/// Contexts by path, and their order, which numbers volumes and containers.
#[derive(Default)]
pub(super) struct Placed {
    order: Vec<String>,
    entries: BTreeMap<String, Entry>,
}

impl Placed {
    /// Adds a context.
    pub(super) fn put(&mut self, entry: Entry) -> Result<(), ContextError> {
        if let Some(first) = self.entries.get(&entry.path) {
            if first.level == entry.level || entry.level == Level::Platform {
                return Err(ContextError::Collision {
                    first: first.label.clone(),
                    second: entry.label,
                    path: entry.path,
                });
            }
            self.order.retain(|path| *path != entry.path);
        }
        self.order.push(entry.path.clone());
        self.entries.insert(entry.path.clone(), entry);
        Ok(())
    }

    /// Finds a context that would be inside of a file, or hidden by a repository.
    pub(super) fn check_nesting(&self) -> Result<(), ContextError> {
        for inner in self.entries.values() {
            let mut above = paths::parent(&inner.path);
            let mut child = &inner.path[above.trim_end_matches('/').len() + 1..];
            while above != "/" {
                if let Some(outer) = self.entries.get(above)
                    && let Some(why) = outer.forbids(inner, child)
                {
                    return Err(ContextError::Nested {
                        inner: inner.label.clone(),
                        inner_path: inner.path.clone(),
                        outer: outer.label.clone(),
                        outer_path: outer.path.clone(),
                        why,
                    });
                }
                let next = paths::parent(above);
                child = &above[next.trim_end_matches('/').len() + 1..];
                above = next;
            }
        }
        Ok(())
    }

    /// Distributes the contexts to the lists of the plan.
    pub(super) fn split_into(mut self, plan: &mut ContextPlan) {
        for path in self.order {
            match self.entries.remove(&path).map(|entry| entry.content) {
                Some(Content::File(file)) => plan.files.push(file),
                Some(Content::Directory(mount, _)) => plan.directories.push(mount),
                Some(Content::Git(mount)) => plan.git.push(mount),
                Some(Content::Url(url)) => plan.urls.push(url),
                None => {}
            }
        }
    }
}

impl Entry {
    /// Why `inner` cannot be below this entry; `child` is the first name below it.
    fn forbids(&self, inner: &Entry, child: &str) -> Option<&'static str> {
        match &self.content {
            Content::File(_) | Content::Url(_) => Some("is a file"),
            Content::Directory(_, names) if names.contains(child) => Some("has a file of that name"),
            Content::Git(GitMount { target: GitTarget::Mount { .. }, .. })
                if !matches!(inner.content, Content::Git(_)) =>
            {
                Some("is a repository that would hide it")
            }
            Content::Directory(..) | Content::Git(_) => None,
        }
    }
}
