//! Contexts: what an agent should know before it starts, as a plan that leaves nothing to decide.
//!
//! Agent contexts come first, then those of the Task, then its description. On the same path a later level wins; two
//! items of one level on one path are an error that names both. A Task on an Agent's server gets its files below
//! `.kubeopencode/tasks/<task>/` of the Agent's workspace, because that is the file system in which the work is done.

mod bundle;
mod collisions;
mod paths;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use api::{
    conditions::reasons,
    context::{ContextItem, ContextType, GitContext, GitSync, SkillSource},
};

use crate::resolved::{ResolvedAgent, ResolvedTask};

pub use bundle::{Bundle, FileMapping, pack};
pub use paths::BadPath;
pub(crate) use paths::within;

use collisions::{Content, Entry, Level, Placed};
use paths::Shape;

/// What the controller read: the data of a ConfigMap by its name, `None` if it does not exist.
pub type ConfigMaps = BTreeMap<String, Option<BTreeMap<String, String>>>;

/// Whom contexts are for.
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
    /// Whom they are for.
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
        let attaches = crate::pod::attaches(task);
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
    #[error("{inner} goes to {inner_path}, inside of {outer} at {outer_path}, which {why}; give one of them another mountPath")]
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
    /// The reason in the condition.
    pub fn reason(&self) -> &'static str {
        reasons::CONTEXT_ERROR
    }
}

impl ContextPlan {
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
    format!("{}/.kubeopencode/tasks/{task}", workspace_dir.trim_end_matches('/'))
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
        let root = format!("/skills/{}", skill.name);
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
            reference: git.reference.clone(),
            depth: git.depth,
            recurse_submodules: git.recurse_submodules,
            secret: git.secret_ref.as_ref().map(|secret| secret.name.clone()),
            target: GitTarget::Parts(parts),
            optional: false,
            sync: None,
        })
    });
    mounts.collect()
}

/// Plans what goes where.
pub fn assemble(input: &ContextInput<'_>) -> Result<ContextPlan, ContextError> {
    paths::check_workspace(input.workspace_dir)?;
    let workspace = input.workspace_dir.trim_end_matches('/');
    let mut assembly = Assembly::new(input, workspace);
    for (level, items) in [(Level::Agent, input.agent_contexts), (Level::Task, input.task_contexts)] {
        for (index, item) in items.iter().enumerate() {
            assembly.add(level, index, item)?;
        }
    }
    assembly.finish()
}

struct Assembly<'a> {
    input: &'a ContextInput<'a>,
    workspace: &'a str,
    /// Where relative paths start: the workspace, or the Task's directory in an Agent's workspace.
    root: String,
    blocks: Vec<String>,
    placed: Placed,
    left_out: Vec<String>,
}

impl<'a> Assembly<'a> {
    fn new(input: &'a ContextInput<'a>, workspace: &'a str) -> Self {
        let root = match input.purpose {
            Purpose::TaskOnAgent { name } => task_directory(workspace, name),
            Purpose::Agent { .. } | Purpose::Task { .. } => workspace.to_owned(),
        };
        Self { input, workspace, root, blocks: Vec::new(), placed: Placed::default(), left_out: Vec::new() }
    }

    fn add(&mut self, level: Level, index: usize, item: &ContextItem) -> Result<(), ContextError> {
        let label = label(level, index, item);
        // Runtime ignores its path: it is always read, never looked up.
        let mount_path = item.mount_path.as_deref().filter(|path| !path.is_empty() && item.kind != ContextType::Runtime);
        let missing = |field| ContextError::FieldMissing { item: label.clone(), field };
        match item.kind {
            ContextType::Text => {
                let text = item.text.as_deref().ok_or_else(|| missing("text"))?;
                self.text(level, &label, item, mount_path, text, &text::escaped(text))
            }
            ContextType::Runtime => {
                let text = text::runtime(self.input.purpose, self.input.namespace, self.workspace);
                self.text(level, &label, item, None, &text, &text::escaped(&text))
            }
            ContextType::ConfigMap => self.config_map(level, &label, item, mount_path),
            ContextType::Git => {
                let git = item.git.as_ref().ok_or_else(|| missing("git"))?;
                let path = mount_path.ok_or_else(|| missing("mountPath"))?;
                self.git(level, index, &label, item, git, path)
            }
            ContextType::Url => {
                let url = item.url.as_ref().ok_or_else(|| missing("url"))?;
                let path = mount_path.ok_or_else(|| missing("mountPath"))?;
                let target_path = self.place(&label, path, Shape::File)?;
                self.placed.put(Entry {
                    level,
                    label,
                    path: target_path.clone(),
                    content: Content::Url(UrlFetch {
                        source: url.source.clone(),
                        target_path,
                        headers: url.headers.clone().unwrap_or_default(),
                        secret: url.secret_ref.as_ref().map(|secret| secret.name.clone()),
                        insecure: url.insecure_skip_tls_verify,
                        timeout: url.timeout,
                        max_bytes: url.max_bytes,
                        mode: item.file_mode,
                        optional: item.optional == Some(true),
                    }),
                })
            }
        }
    }

    fn place(&self, label: &str, path: &str, shape: Shape) -> Result<String, ContextError> {
        let refused = |problem| ContextError::Path { item: label.to_owned(), path: path.to_owned(), problem };
        let placed = paths::place(self.workspace, path, shape).map_err(refused)?;
        if self.root == self.workspace {
            return Ok(placed);
        }
        // On an Agent's server every path is moved below the Task's directory: other Tasks use the same file system.
        let inside = placed.strip_prefix(self.workspace).unwrap_or(&placed);
        Ok(format!("{}{inside}", self.root))
    }

    fn text(
        &mut self,
        level: Level,
        label: &str,
        item: &ContextItem,
        mount_path: Option<&str>,
        content: &str,
        body: &str,
    ) -> Result<(), ContextError> {
        let Some(path) = mount_path else {
            let kind = kind_name(item.kind);
            let fallback = if item.kind == ContextType::Runtime { "runtime" } else { "context" };
            let name = item.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(fallback);
            self.blocks.push(text::block(name, self.input.namespace, kind, item.description.as_deref(), body));
            return Ok(());
        };
        // A Task on a server has its prompt in the attach Pod, not among the delivered files.
        let is_prompt = level == Level::Task && paths::absolute(self.workspace, path).ok() == Some(self.prompt_path());
        let target_path = if is_prompt { self.prompt_path() } else { self.place(label, path, Shape::File)? };
        self.placed.put(Entry {
            level,
            label: label.to_owned(),
            path: target_path.clone(),
            content: Content::File(FileItem {
                target_path,
                content: content.to_owned(),
                mode: item.file_mode,
                about: about(item, label),
            }),
        })
    }

    fn config_map(
        &mut self,
        level: Level,
        label: &str,
        item: &ContextItem,
        mount_path: Option<&str>,
    ) -> Result<(), ContextError> {
        let missing = ContextError::FieldMissing { item: label.to_owned(), field: "configMap" };
        let source = item.config_map.as_ref().ok_or(missing)?;
        let optional = item.optional == Some(true) || source.optional == Some(true);
        let found = self.input.config_maps.get(&source.name).and_then(Option::as_ref);
        let Some(data) = found else {
            let error = ContextError::ConfigMapMissing {
                item: label.to_owned(),
                config_map: source.name.clone(),
                namespace: self.input.namespace.to_owned(),
            };
            return self.leave_out(optional, error);
        };
        match (source.key.as_deref().filter(|key| !key.is_empty()), mount_path) {
            (Some(key), _) => match data.get(key) {
                Some(value) => self.text(level, label, item, mount_path, value, &text::escaped(value)),
                None => self.leave_out(
                    optional,
                    ContextError::KeyMissing {
                        item: label.to_owned(),
                        config_map: source.name.clone(),
                        key: key.to_owned(),
                    },
                ),
            },
            (None, None) => self.text(level, label, item, None, "", &text::all_keys(data)),
            (None, Some(path)) => {
                let target_path = self.place(label, path, Shape::Directory)?;
                let mount = DirectoryMount {
                    config_map: source.name.clone(),
                    target_path: target_path.clone(),
                    mode: item.file_mode,
                    optional,
                    about: about(item, label),
                };
                let content = Content::Directory(mount, data.keys().cloned().collect());
                self.placed.put(Entry { level, label: label.to_owned(), path: target_path, content })
            }
        }
    }

    fn git(
        &mut self,
        level: Level,
        index: usize,
        label: &str,
        item: &ContextItem,
        git: &GitContext,
        mount_path: &str,
    ) -> Result<(), ContextError> {
        let path = self.place(label, mount_path, Shape::Repository)?;
        let part = git.path.as_deref().unwrap_or_default();
        let sub_path = paths::relative(part).map_err(|problem| ContextError::GitPath {
            item: label.to_owned(),
            path: part.to_owned(),
            problem,
        })?;
        // What is handed over to a server must lie in the directory that is handed over, not in a volume beside it.
        let merge = path == self.root || matches!(self.input.purpose, Purpose::TaskOnAgent { .. });
        let target = if merge {
            GitTarget::Merge { directory: path.clone(), sub_path }
        } else {
            GitTarget::Mount { path: path.clone(), sub_path }
        };
        let name = item.name.clone().filter(|name| !name.is_empty());
        let mount = GitMount {
            name: name.unwrap_or_else(|| format!("{}-{index}", if level == Level::Agent { "context" } else { "task" })),
            repository: git.repository.clone(),
            reference: git.reference.clone(),
            depth: git.depth,
            recurse_submodules: git.recurse_submodules,
            secret: git.secret_ref.as_ref().map(|secret| secret.name.clone()),
            target,
            optional: item.optional == Some(true),
            sync: git.sync.clone().filter(|sync| sync.enabled),
        };
        self.placed.put(Entry { level, label: label.to_owned(), path, content: Content::Git(mount) })
    }

    fn leave_out(&mut self, optional: bool, error: ContextError) -> Result<(), ContextError> {
        if !optional {
            return Err(error);
        }
        let sentence = error.to_string();
        let fact = sentence.split(';').next().unwrap_or_default();
        self.left_out.push(format!("{fact}; it is optional and was left out"));
        Ok(())
    }

    fn prompt_path(&self) -> String {
        format!("{}/task.md", self.workspace)
    }

    fn finish(mut self) -> Result<ContextPlan, ContextError> {
        let prompt = self.prompt_path();
        if let Some(description) = self.input.description.filter(|text| !text.is_empty()) {
            self.placed.put(Entry {
                level: Level::Description,
                label: "spec.description".to_owned(),
                path: prompt.clone(),
                content: Content::File(FileItem {
                    target_path: prompt.clone(),
                    content: description.to_owned(),
                    mode: None,
                    about: "what the Task is".to_owned(),
                }),
            })?;
        }
        // Reserved before the checks, so that nothing else can be at or around its path.
        let context_file = format!("{}/.kubeopencode/context.md", self.workspace);
        let on_agent = matches!(self.input.purpose, Purpose::TaskOnAgent { .. });
        if !self.blocks.is_empty() || on_agent {
            self.placed.put(Entry {
                level: Level::Platform,
                label: "the contexts without a mountPath".to_owned(),
                path: context_file.clone(),
                content: Content::File(FileItem {
                    target_path: context_file.clone(),
                    content: String::new(),
                    mode: None,
                    about: "contexts without a path".to_owned(),
                }),
            })?;
        }
        self.placed.check_nesting()?;
        let mut plan = ContextPlan { workspace_dir: self.workspace.to_owned(), ..ContextPlan::default() };
        self.placed.split_into(&mut plan);
        plan.left_out = self.left_out;
        let targets = plan.files.iter().map(|file| &file.target_path).chain(plan.urls.iter().map(|url| &url.target_path));
        plan.prompt_file = targets.into_iter().any(|path| *path == prompt).then(|| prompt.clone());
        let is_task = !matches!(self.input.purpose, Purpose::Agent { .. });
        if is_task && plan.prompt_file.is_none() && !self.input.prompt_optional {
            return Err(ContextError::NoPrompt);
        }
        if on_agent {
            let ours = [&prompt, &context_file];
            let files = plan.files.iter().filter(|file| !ours.contains(&&file.target_path));
            let note = text::delivered(&self.root, files, &plan.directories, &plan.git, &plan.urls);
            plan.delivery = note.is_some().then(|| self.root.clone());
            self.blocks.extend(note);
        }
        if self.blocks.is_empty() {
            plan.files.retain(|file| file.target_path != context_file);
        } else if let Some(file) = plan.files.iter_mut().find(|file| file.target_path == context_file) {
            file.content = format!("{}\n", self.blocks.join("\n\n"));
            plan.context_file = Some(context_file);
        }
        plan.files.sort_by(|a, b| a.target_path.cmp(&b.target_path));
        plan.outside = outside(&plan);
        unique_names(&mut plan.git);
        Ok(plan)
    }
}

/// The topmost directories outside of the workspace that receive files.
fn outside(plan: &ContextPlan) -> Vec<String> {
    let files = plan.files.iter().map(|file| paths::parent(&file.target_path));
    let urls = plan.urls.iter().map(|url| paths::parent(&url.target_path));
    let directories = plan.directories.iter().map(|mount| mount.target_path.as_str());
    let all: BTreeSet<&str> =
        files.chain(urls).chain(directories).filter(|path| !within(path, &plan.workspace_dir)).collect();
    all.iter()
        .filter(|path| !all.iter().any(|other| other != *path && within(path, other)))
        .map(|path| (*path).to_owned())
        .collect()
}

/// Two repositories with one name would share one entry in the status and one annotation.
fn unique_names(mounts: &mut [GitMount]) {
    let mut taken = BTreeSet::new();
    for (index, mount) in mounts.iter_mut().enumerate() {
        while !taken.insert(mount.name.clone()) {
            mount.name = format!("{}-{index}", mount.name);
        }
    }
}

fn label(level: Level, index: usize, item: &ContextItem) -> String {
    let owner = if level == Level::Agent { "the agent" } else { "the Task" };
    match item.name.as_deref().filter(|name| !name.is_empty()) {
        Some(name) => format!("context {name:?} of {owner}"),
        None => format!("contexts[{index}] of {owner}"),
    }
}

fn about(item: &ContextItem, label: &str) -> String {
    item.description.clone().filter(|text| !text.is_empty()).unwrap_or_else(|| label.to_owned())
}

fn kind_name(kind: ContextType) -> &'static str {
    match kind {
        ContextType::Text => "Text",
        ContextType::ConfigMap => "ConfigMap",
        ContextType::Git => "Git",
        ContextType::Runtime => "Runtime",
        ContextType::Url => "URL",
    }
}

#[cfg(test)]
mod tests;
