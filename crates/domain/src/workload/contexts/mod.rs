//! Contexts: what an agent should know before it starts, as a plan that leaves nothing to decide.
//!
//! Agent contexts come first, then those of the Task, then its description. On the same path a later level wins; two
//! items of one level on one path are an error that names both. A Task on an Agent's server gets its files below
//! `.kubeopencode/tasks/<task>/` of the Agent's workspace, because that is the file system in which the work is done.

mod assembly;
mod bundle;
mod collisions;
mod paths;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use api::{
    conditions::reasons,
    context::{ContextItem, ContextType, GitSync, SkillSource},
};

use crate::{
    contract,
    opencode::InstructionText,
    run::resolved::{ResolvedAgent, ResolvedTask},
};

pub use assembly::assemble;
pub(crate) use bundle::hex;
pub use bundle::{Bundle, pack};
pub use paths::BadPath;
#[cfg(test)]
pub(crate) use paths::within;

/// What the controller read: the data of a ConfigMap by its name, `None` if it does not exist.
pub type ConfigMaps = BTreeMap<String, Option<BTreeMap<String, String>>>;

/// The consumer of contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose<'a> {
    /// The server of an Agent.
    Agent {
        /// Name of the Agent.
        name: &'a str,
    },
    /// A Task in a Pod of its own.
    Task {
        /// Name of the Task.
        name: &'a str,
    },
    /// A Task on an Agent's server.
    TaskOnAgent {
        /// Name of the Task.
        name: &'a str,
    },
}

/// What contexts are assembled from.
#[derive(Clone, Copy, Debug)]
pub struct ContextInput<'a> {
    /// Namespace of the Task or Agent.
    pub namespace: &'a str,
    /// The consumer.
    pub purpose: Purpose<'a>,
    /// Where the agent works.
    pub workspace_dir: &'a str,
    /// Contexts of the Agent or template. A Task on an Agent's server has none: the server has them.
    pub agent_contexts: &'a [ContextItem],
    /// Contexts of the Task.
    pub task_contexts: &'a [ContextItem],
    /// What the Task is.
    pub description: Option<&'a str>,
    /// Whether a Task without a prompt can work: it has a command of its own.
    pub prompt_optional: bool,
    /// What the controller read.
    pub config_maps: &'a ConfigMaps,
}

impl<'a> ContextInput<'a> {
    /// The contexts of one run.
    pub fn of_task(namespace: &'a str, name: &'a str, task: &'a ResolvedTask, config_maps: &'a ConfigMaps) -> Self {
        let attaches = crate::workload::pod::attaches(task);
        Self {
            namespace,
            purpose: if attaches { Purpose::TaskOnAgent { name } } else { Purpose::Task { name } },
            workspace_dir: &task.agent.workspace_dir,
            agent_contexts: if attaches { &[] } else { &task.agent.contexts },
            task_contexts: &task.contexts,
            description: task.description.as_deref(),
            prompt_optional: task.agent.command.is_some(),
            config_maps,
        }
    }

    /// The contexts of an Agent's server.
    pub fn of_agent(namespace: &'a str, name: &'a str, agent: &'a ResolvedAgent, config_maps: &'a ConfigMaps) -> Self {
        Self {
            namespace,
            purpose: Purpose::Agent { name },
            workspace_dir: &agent.workspace_dir,
            agent_contexts: &agent.contexts,
            task_contexts: &[],
            description: None,
            prompt_optional: true,
            config_maps,
        }
    }
}

/// What goes where.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContextPlan {
    /// Where the agent works.
    pub workspace_dir: String,
    /// Files, by path; the prompt and `context.md` among them.
    pub files: Vec<FileItem>,
    /// ConfigMaps that become directories.
    pub directories: Vec<DirectoryMount>,
    /// Repositories.
    pub git: Vec<GitMount>,
    /// Documents to fetch.
    pub urls: Vec<UrlFetch>,
    /// Directories outside of the workspace that receive files and so need a volume, none inside of another.
    pub outside: Vec<String>,
    /// Where the prompt is.
    pub prompt_file: Option<String>,
    /// Where the contexts without a path are.
    pub context_file: Option<String>,
    /// The directory of the Agent's workspace that must receive everything below it before the Task starts, and lose
    /// it when the Task is deleted. Only for a Task on an Agent's server, and only if it has files.
    pub delivery: Option<String>,
    /// Optional items that are not there, as sentences for an event.
    pub left_out: Vec<String>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileItem {
    /// Where it goes; absolute.
    pub target_path: String,
    /// What it holds.
    pub content: String,
    /// Permission bits.
    pub mode: Option<i32>,
    /// What it is, for people.
    pub about: String,
}

/// A ConfigMap that becomes a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryMount {
    /// Name of the ConfigMap.
    pub config_map: String,
    /// Where its files go; absolute.
    pub target_path: String,
    /// Permission bits of its files.
    pub mode: Option<i32>,
    /// Whether it may be missing.
    pub optional: bool,
    /// What it is, for people.
    pub about: String,
    /// A digest of its texts. They reach the Pod past the bundle, so only this shows a change.
    pub digest: String,
}

/// A repository.
#[derive(Clone, Debug, PartialEq)]
pub struct GitMount {
    /// Name in status and annotations; unique in a plan.
    pub name: String,
    /// URL of the repository.
    pub repository: String,
    /// Branch, tag or commit.
    pub reference: String,
    /// How many commits; 0 is all.
    pub depth: i32,
    /// Fetch submodules too.
    pub recurse_submodules: bool,
    /// Secret with credentials.
    pub secret: Option<String>,
    /// Where it goes.
    pub target: GitTarget,
    /// Go on without it.
    pub optional: bool,
    /// How an Agent follows it.
    pub sync: Option<GitSync>,
}

/// Where a repository goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitTarget {
    /// Mounted at a path of its own.
    Mount {
        /// The path; absolute.
        path: String,
        /// Part of the repository.
        sub_path: Option<String>,
    },
    /// Copied into a directory, never over what is there.
    Merge {
        /// The directory; absolute.
        directory: String,
        /// Part of the repository.
        sub_path: Option<String>,
    },
    /// Parts of it, mounted one by one, as skills are.
    Parts(Vec<GitPart>),
}

/// One part of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitPart {
    /// Where it is mounted; absolute.
    pub path: String,
    /// Which part of the repository; all of it when unset.
    pub sub_path: Option<String>,
}

/// A document to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlFetch {
    /// Its address.
    pub source: String,
    /// Where it goes; absolute.
    pub target_path: String,
    /// Headers to send.
    pub headers: BTreeMap<String, String>,
    /// Secret with credentials.
    pub secret: Option<String>,
    /// Accept any certificate.
    pub insecure: bool,
    /// Give up after this many seconds.
    pub timeout: i32,
    /// Largest size.
    pub max_bytes: Option<i64>,
    /// Permission bits.
    pub mode: Option<i32>,
    /// Go on without it.
    pub optional: bool,
}

/// Why contexts cannot be delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    /// A ConfigMap is missing.
    #[error(
        "{item}: ConfigMap {config_map} does not exist in namespace {namespace}; create it, or set `optional: true` on the context"
    )]
    ConfigMapMissing {
        /// The context.
        item: String,
        /// The ConfigMap.
        config_map: String,
        /// Its namespace.
        namespace: String,
    },
    /// A key is missing.
    #[error(
        "{item}: ConfigMap {config_map} has no text under the key {key:?}; add it, or set `optional: true` on the context"
    )]
    KeyMissing {
        /// The context.
        item: String,
        /// The ConfigMap.
        config_map: String,
        /// The key.
        key: String,
    },
    /// The field that its type needs is not set. The API server refuses this, an old object may have it.
    #[error("{item}: {field} is not set; its type needs it")]
    FieldMissing {
        /// The context.
        item: String,
        /// The field.
        field: &'static str,
    },
    /// The path cannot be used.
    #[error("{item}: mountPath {path:?} {problem}")]
    Path {
        /// The context.
        item: String,
        /// The path, as written.
        path: String,
        /// What is wrong with it.
        problem: BadPath,
    },
    /// The part of the repository cannot be used.
    #[error("{item}: git.path {path:?} {problem}")]
    GitPath {
        /// The context.
        item: String,
        /// The path, as written.
        path: String,
        /// What is wrong with it.
        problem: BadPath,
    },
    /// A part of a repository is merged into the workspace and cannot be followed.
    #[error(
        "{item}: {path:?} of a repository is merged into the workspace, where git.sync cannot follow it; give it a mountPath of its own, leave git.path out, or use policy Rollout"
    )]
    FollowedPart {
        /// The context.
        item: String,
        /// The part.
        path: String,
    },
    /// The workspace cannot be used.
    #[error("workspaceDir {path:?} {problem}")]
    Workspace {
        /// The path.
        path: String,
        /// What is wrong with it.
        problem: BadPath,
    },
    /// Two items on one path.
    #[error("{first} and {second} both go to {path}; give one of them another mountPath")]
    Collision {
        /// The first.
        first: String,
        /// The second.
        second: String,
        /// The path.
        path: String,
    },
    /// One item inside of another.
    #[error(
        "{inner} goes to {inner_path}, inside of {outer} at {outer_path}, which {why}; give one of them another mountPath"
    )]
    Nested {
        /// The inner one.
        inner: String,
        /// Its path.
        inner_path: String,
        /// The outer one.
        outer: String,
        /// Its path.
        outer_path: String,
        /// Why that cannot work.
        why: &'static str,
    },
    /// There is no prompt.
    #[error("the Task says nothing to do: set spec.description, or a context with mountPath task.md")]
    NoPrompt,
    /// Too much text.
    #[error(
        "the contexts hold {total} bytes, more than the {limit} that can be handed to a Pod; move the largest, {largest}, to a Git or URL context"
    )]
    TooLarge {
        /// How much there is.
        total: usize,
        /// How much may be.
        limit: usize,
        /// The largest.
        largest: String,
    },
    /// The list of files is too long.
    #[error(
        "{files} context files need a list of {bytes} bytes, more than the {limit} that a container can be given; use fewer files, shorter paths or a ConfigMap as a directory"
    )]
    TooManyFiles {
        /// How many files.
        files: usize,
        /// How long the list is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
}

impl ContextError {
    /// Whether something that it refers to is missing, and may be created at any time.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::ConfigMapMissing { .. } | Self::KeyMissing { .. })
    }

    /// The reason in the condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } | Self::TooManyFiles { .. } => reasons::ASSIGNMENT_TOO_LARGE,
            _ => reasons::CONTEXT_ERROR,
        }
    }
}

impl ContextPlan {
    /// Adds the instructions of a Task on an Agent's server to what it puts into `system`, before its contexts.
    pub fn instruct(&mut self, namespace: &str, instructions: &[InstructionText]) {
        if instructions.is_empty() {
            return;
        }
        let block =
            |one: &InstructionText| text::block(&one.name, namespace, "Instruction", None, &text::escaped(&one.text));
        let blocks = instructions.iter().map(block).collect::<Vec<_>>().join("\n\n");
        let path = context_file(&self.workspace_dir);
        if let Some(file) = self.files.iter_mut().find(|file| file.target_path == path) {
            file.content = format!("{blocks}\n\n{}", file.content);
        } else {
            let about = "instructions".to_owned();
            self.files.push(FileItem { target_path: path.clone(), content: format!("{blocks}\n"), mode: None, about });
            self.files.sort_by(|a, b| a.target_path.cmp(&b.target_path));
        }
        self.context_file = Some(path);
    }

    /// The text of the prompt.
    pub fn prompt(&self) -> Option<&str> {
        self.content_of(self.prompt_file.as_deref()?)
    }

    /// The text of the contexts without a path; for a Task on an Agent's server, what goes into `system`.
    pub fn system(&self) -> Option<&str> {
        self.content_of(self.context_file.as_deref()?)
    }

    fn content_of(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.target_path == path).map(|file| file.content.as_str())
    }
}

/// Names of the ConfigMaps that must be read before contexts can be assembled.
pub fn needed_config_maps<'a>(items: impl IntoIterator<Item = &'a ContextItem>) -> BTreeSet<String> {
    let sources = items.into_iter().filter(|item| item.kind == ContextType::ConfigMap);
    sources.filter_map(|item| item.config_map.as_ref()).map(|source| source.name.clone()).collect()
}

/// Where the files of a Task are in an Agent's workspace.
pub fn task_directory(workspace_dir: &str, task: &str) -> String {
    format!("{}/{}/{task}", workspace_dir.trim_end_matches('/'), contract::paths::DELIVERIES)
}

/// The file that holds the contexts without a path.
fn context_file(workspace_dir: &str) -> String {
    format!("{workspace_dir}/{}/context.md", contract::paths::PLATFORM_DIRECTORY)
}

/// The repositories of skills: mounted at `/skills/<collection>`, whole or skill by skill.
pub fn skill_mounts(skills: &[SkillSource]) -> Result<Vec<GitMount>, ContextError> {
    let sources = skills.iter().filter_map(|skill| Some((skill, skill.git.as_ref()?)));
    let mounts = sources.map(|(skill, git)| {
        let path = git.path.as_deref().unwrap_or_default();
        let sub_path = paths::relative(path).map_err(|problem| ContextError::GitPath {
            item: format!("skills {:?}", skill.name),
            path: path.to_owned(),
            problem,
        })?;
        let root = format!("{}/{}", contract::paths::SKILLS, skill.name);
        let parts = match git.names.as_deref() {
            None | Some([]) => vec![GitPart { path: root, sub_path }],
            Some(names) => names
                .iter()
                .map(|name| GitPart {
                    path: format!("{root}/{name}"),
                    sub_path: Some(sub_path.as_ref().map_or_else(|| name.clone(), |path| format!("{path}/{name}"))),
                })
                .collect(),
        };
        Ok(GitMount {
            name: format!("skills-{}", skill.name),
            repository: git.repository.clone(),
            reference: git.fetch.reference.clone(),
            depth: git.fetch.depth,
            recurse_submodules: git.fetch.recurse_submodules,
            secret: git.secret_ref.as_ref().map(|secret| secret.name.clone()),
            target: GitTarget::Parts(parts),
            optional: false,
            sync: None,
        })
    });
    mounts.collect()
}

#[cfg(test)]
mod tests;
