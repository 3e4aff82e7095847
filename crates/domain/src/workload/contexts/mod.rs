//! Contexts: the information that an agent gets before it starts, as a complete plan.
//!
//! Agent contexts come first, then those of the Task, then its description. On the same path a later level wins; two
//! contexts of one level on one path are an error that names both. A Task on an Agent's server gets its files below
//! `.kubeopencode/tasks/<task>/` of the Agent's workspace, the file system of the server.

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
    workload::collect::input_on_agent,
};

pub use assembly::assemble;
pub(crate) use bundle::hex;
pub use bundle::{Bundle, pack};
pub use paths::BadPath;
#[cfg(test)]
pub(crate) use paths::within;

/// Data of ConfigMaps by name; `None` if one does not exist.
pub type ConfigMaps = BTreeMap<String, Option<BTreeMap<String, String>>>;

/// The consumer of contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose<'a> {
    /// The server of an Agent.
    Agent { name: &'a str },
    /// A Task in a Pod of its own.
    Task { name: &'a str },
    /// A Task on an Agent's server.
    TaskOnAgent { name: &'a str },
}

/// Input of [`assemble`].
#[derive(Clone, Copy, Debug)]
pub struct ContextInput<'a> {
    /// Namespace of the Task or Agent.
    pub namespace: &'a str,
    pub purpose: Purpose<'a>,
    /// Working directory of the agent.
    pub workspace_dir: &'a str,
    /// Contexts of the Agent or template. Empty for a Task on an Agent's server: the server has them.
    pub agent_contexts: &'a [ContextItem],
    pub task_contexts: &'a [ContextItem],
    /// The prompt.
    pub description: Option<&'a str>,
    /// Whether a Task without a prompt is valid: it has a command of its own.
    pub prompt_optional: bool,
    /// ConfigMaps of [`needed_config_maps`], as read by the controller.
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

/// Content and path of each context.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContextPlan {
    /// Working directory of the agent.
    pub workspace_dir: String,
    /// Sorted by path; including the prompt and `context.md`.
    pub files: Vec<FileItem>,
    /// ConfigMaps that are copied as directories.
    pub directories: Vec<DirectoryMount>,
    pub git: Vec<GitMount>,
    /// Documents to download.
    pub urls: Vec<UrlFetch>,
    /// Directories outside of the workspace that receive files and so need a volume; none is inside of another.
    pub outside: Vec<String>,
    /// Path of the prompt; `None` if there is none.
    pub prompt_file: Option<String>,
    /// Path of the contexts without a path of their own.
    pub context_file: Option<String>,
    /// Directory of the Agent's workspace to which the files below it are delivered before the Task starts, and which
    /// is removed with the Task. Only for a Task on an Agent's server, and only if it has files.
    pub delivery: Option<String>,
    /// A sentence for each optional context that is missing, for an event.
    pub left_out: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileItem {
    /// Absolute.
    pub target_path: String,
    pub content: String,
    /// Permission bits; `None` is the default.
    pub mode: Option<i32>,
    /// Description for messages.
    pub about: String,
}

/// A ConfigMap that is copied as a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryMount {
    pub config_map: String,
    /// Directory of its files; absolute.
    pub target_path: String,
    /// Permission bits of its files; `None` is the default.
    pub mode: Option<i32>,
    /// Whether it may be missing.
    pub optional: bool,
    /// Description for messages.
    pub about: String,
    /// Digest of its data. The files are not in the bundle, so only the digest shows a change.
    pub digest: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct GitMount {
    /// Name in status and annotations; unique in a plan.
    pub name: String,
    pub repository: String,
    /// Branch, tag or commit.
    pub reference: String,
    /// Number of commits; 0 is all.
    pub depth: i32,
    pub recurse_submodules: bool,
    /// Secret with credentials; `None` for anonymous access.
    pub secret: Option<String>,
    pub target: GitTarget,
    /// Whether the run continues if the repository is unavailable.
    pub optional: bool,
    /// How an Agent follows the repository; `None` if it does not.
    pub sync: Option<GitSync>,
    /// The Task chose it, not its Agent or template.
    pub of_task: bool,
}

/// How the content of a repository gets into the Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitTarget {
    /// Mounted at a path of its own.
    Mount {
        /// Absolute.
        path: String,
        /// Subdirectory of the repository; `None` is all of it.
        sub_path: Option<String>,
    },
    /// Copied into a directory; existing files stay.
    Merge {
        /// Absolute.
        directory: String,
        /// Subdirectory of the repository; `None` is all of it.
        sub_path: Option<String>,
    },
    /// Subdirectories that are mounted one by one, such as skills.
    Parts(Vec<GitPart>),
}

/// A mounted subdirectory of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitPart {
    /// Mount path; absolute.
    pub path: String,
    /// Subdirectory of the repository; `None` is all of it.
    pub sub_path: Option<String>,
}

/// A document to download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlFetch {
    pub source: String,
    /// Absolute.
    pub target_path: String,
    /// Request headers.
    pub headers: BTreeMap<String, String>,
    /// Secret with credentials; `None` for anonymous access.
    pub secret: Option<String>,
    /// Whether any certificate is accepted.
    pub insecure: bool,
    /// In seconds.
    pub timeout: i32,
    /// Largest size in bytes; `None` is the default.
    pub max_bytes: Option<i64>,
    /// Permission bits; `None` is the default.
    pub mode: Option<i32>,
    /// Whether the run continues if the document is unavailable.
    pub optional: bool,
}

/// Why contexts cannot be delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    /// A ConfigMap does not exist.
    #[error(
        "{item}: ConfigMap {config_map} does not exist in namespace {namespace}; create it, or set `optional: true` on the context"
    )]
    ConfigMapMissing { item: String, config_map: String, namespace: String },
    /// A key does not exist.
    #[error(
        "{item}: ConfigMap {config_map} has no text under the key {key:?}; add it, or set `optional: true` on the context"
    )]
    KeyMissing { item: String, config_map: String, key: String },
    /// The field that the type requires is not set. The API server refuses that, but an old object may have it.
    #[error("{item}: {field} is not set; its type needs it")]
    FieldMissing { item: String, field: &'static str },
    /// The path is invalid.
    #[error("{item}: mountPath {path:?} {problem}")]
    Path {
        item: String,
        /// As written.
        path: String,
        problem: BadPath,
    },
    /// The path in the repository is invalid.
    #[error("{item}: git.path {path:?} {problem}")]
    GitPath {
        item: String,
        /// As written.
        path: String,
        problem: BadPath,
    },
    /// A subdirectory of a repository is merged into the workspace and cannot be followed.
    #[error(
        "{item}: {path:?} of a repository is merged into the workspace, where git.sync cannot follow it; give it a mountPath of its own, leave git.path out, or use policy Rollout"
    )]
    FollowedPart { item: String, path: String },
    /// The workspace is invalid.
    #[error("workspaceDir {path:?} {problem}")]
    Workspace { path: String, problem: BadPath },
    /// Two contexts have the same path.
    #[error("{first} and {second} both go to {path}; give one of them another mountPath")]
    Collision { first: String, second: String, path: String },
    /// One context is inside of another.
    #[error(
        "{inner} goes to {inner_path}, inside of {outer} at {outer_path}, which {why}; give one of them another mountPath"
    )]
    Nested { inner: String, inner_path: String, outer: String, outer_path: String, why: &'static str },
    /// There is no prompt.
    #[error("the Task says nothing to do: set spec.description, or a context with mountPath task.md")]
    NoPrompt,
    /// The files are too large.
    #[error(
        "the contexts hold {total} bytes, more than the {limit} that can be handed to a Pod; move the largest, {largest}, to a Git or URL context"
    )]
    TooLarge {
        /// In bytes.
        total: usize,
        /// In bytes.
        limit: usize,
        /// Path of the largest file.
        largest: String,
    },
    /// The list of files is too long.
    #[error(
        "{files} context files need a list of {bytes} bytes, more than the {limit} that a container can be given; use fewer files, shorter paths or a ConfigMap as a directory"
    )]
    TooManyFiles {
        /// Number of files.
        files: usize,
        /// Length of the list.
        bytes: usize,
        limit: usize,
    },
}

impl ContextError {
    /// Whether a referenced object is missing, and may be created later.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::ConfigMapMissing { .. } | Self::KeyMissing { .. })
    }

    /// Reason of the condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } | Self::TooManyFiles { .. } => reasons::ASSIGNMENT_TOO_LARGE,
            _ => reasons::CONTEXT_ERROR,
        }
    }
}

impl ContextPlan {
    /// Puts the instructions of a Task on an Agent's server into its system prompt, before its contexts.
    pub fn instruct(&mut self, namespace: &str, instructions: &[InstructionText]) {
        if instructions.is_empty() {
            return;
        }
        let block =
            |one: &InstructionText| text::block(&one.name, namespace, "Instruction", None, &text::escaped(&one.text));
        let blocks = instructions.iter().map(block).collect::<Vec<_>>().join("\n\n");
        let file = self.context_file_of("instructions");
        file.content = format!("{blocks}\n{}{}", if file.content.is_empty() { "" } else { "\n" }, file.content);
    }

    /// Names the inputs of a Task on an Agent's server, and the file for its outputs, in its system prompt: the
    /// environment there is that of the server.
    pub fn name_results(&mut self, task: &str, resolved: &ResolvedTask) {
        let workspace = self.workspace_dir.clone();
        let inputs = resolved.inputs.iter().filter_map(|input| {
            let path = input_on_agent(&input.mount_path, &workspace, task)?;
            Some(text::input(&path, &input.artifact, &input.from_task))
        });
        let inputs: Vec<String> = inputs.collect();
        let paragraphs = [
            (!inputs.is_empty()).then(|| format!("The inputs of this Task:\n{}", inputs.join("\n"))),
            text::outputs(&task_directory(&workspace, task), &resolved.outputs),
        ];
        let text = paragraphs.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
        if !text.is_empty() {
            let file = self.context_file_of("inputs and outputs");
            file.content = format!("{}{}{text}\n", file.content, if file.content.is_empty() { "" } else { "\n" });
        }
    }

    /// The file with the contexts that have no path; made if there is none.
    fn context_file_of(&mut self, about: &str) -> &mut FileItem {
        let path = context_file(&self.workspace_dir);
        self.context_file = Some(path.clone());
        let at = match self.files.binary_search_by(|file| file.target_path.cmp(&path)) {
            Ok(at) => at,
            Err(at) => {
                let about = about.to_owned();
                self.files.insert(at, FileItem { target_path: path, content: String::new(), mode: None, about });
                at
            }
        };
        &mut self.files[at]
    }

    /// The text of the prompt.
    pub fn prompt(&self) -> Option<&str> {
        self.content_of(self.prompt_file.as_deref()?)
    }

    /// The text of the contexts without a path; for a Task on an Agent's server, the `system` field of the request.
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

/// Directory of a Task's files in an Agent's workspace.
pub fn task_directory(workspace_dir: &str, task: &str) -> String {
    format!("{}/{}/{task}", workspace_dir.trim_end_matches('/'), contract::paths::DELIVERIES)
}

/// File with the contexts that have no path.
fn context_file(workspace_dir: &str) -> String {
    format!("{workspace_dir}/{}/context.md", contract::paths::PLATFORM_DIRECTORY)
}

/// Repositories of skills: mounted at `/skills/<collection>`, whole or skill by skill.
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
            of_task: false,
        })
    });
    mounts.collect()
}

#[cfg(test)]
mod tests;
