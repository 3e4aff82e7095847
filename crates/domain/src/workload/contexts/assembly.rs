//! Builds the plan, context by context.

use std::collections::{BTreeMap, BTreeSet};

use api::context::{ContextItem, ContextType, GitContext, GitSyncPolicy};
use sha2::{Digest as _, Sha256};

use super::{
    ContextError, ContextInput, ContextPlan, DirectoryMount, FileItem, GitMount, GitTarget, Purpose, UrlFetch,
    collisions::{Content, Entry, Level, Placed},
    hex,
    paths::{self, Shape, within},
    task_directory, text,
};

/// Plans the path of each context.
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
    /// Base of relative paths: the workspace, or the Task's directory in an Agent's workspace.
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
        // The path of Runtime is ignored: its text always goes into the context file.
        let mount_path =
            item.mount_path.as_deref().filter(|path| !path.is_empty() && item.kind != ContextType::Runtime);
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
                    digest: digest(data),
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
        // Files for a server must be in the delivered directory, not in a volume next to it.
        let merge = path == self.root || matches!(self.input.purpose, Purpose::TaskOnAgent { .. });
        let part = sub_path.clone();
        let target = if merge {
            GitTarget::Merge { directory: path.clone(), sub_path }
        } else {
            GitTarget::Mount { path: path.clone(), sub_path }
        };
        let sync = git.sync.clone().filter(|sync| sync.enabled);
        let hot = sync.as_ref().is_some_and(|sync| sync.policy == GitSyncPolicy::HotReload);
        if let (Purpose::Agent { .. }, true, true, Some(path)) = (self.input.purpose, merge, hot, part) {
            // Without its `.git`, changes of the agent to the merged files cannot be detected.
            return Err(ContextError::FollowedPart { item: label.to_owned(), path });
        }
        let name = item.name.clone().filter(|name| !name.is_empty());
        let mount = GitMount {
            name: name.unwrap_or_else(|| format!("{}-{index}", if level == Level::Agent { "context" } else { "task" })),
            repository: git.repository.clone(),
            reference: git.fetch.reference.clone(),
            depth: git.fetch.depth,
            recurse_submodules: git.fetch.recurse_submodules,
            secret: git.secret_ref.as_ref().map(|secret| secret.name.clone()),
            target,
            optional: item.optional == Some(true),
            sync,
            of_task: level == Level::Task,
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
        // Reserved before the checks, so that no other file can be at or around its path.
        let context_file = super::context_file(self.workspace);
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
        let targets =
            plan.files.iter().map(|file| &file.target_path).chain(plan.urls.iter().map(|url| &url.target_path));
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

fn digest(data: &BTreeMap<String, String>) -> String {
    let mut hasher = Sha256::new();
    for text in data.iter().flat_map(|(key, value)| [key, value]) {
        hasher.update(text);
        hasher.update([0]);
    }
    hex(&hasher.finalize(), 64)
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
