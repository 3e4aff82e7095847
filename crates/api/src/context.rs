//! Contexts: information that an agent receives before it starts.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::{
    refs::{Headers, LocalRef},
    schema::{Duration, IntoRule as _},
};

/// One piece of context for the agent: a text, a ConfigMap, a Git repository, a URL, or information about
/// the platform it runs on.
///
/// With a `mountPath` it becomes a file or directory; without one its text goes to `.kubeopencode/context.md`,
/// which OpenCode loads as instructions.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = ("self.type != 'Text' || has(self.text)", "text is required when type is Text").into_rule())]
#[x_kube(validation = ("self.type != 'ConfigMap' || has(self.configMap)", "configMap is required when type is ConfigMap").into_rule())]
#[x_kube(validation = ("self.type != 'Git' || has(self.git)", "git is required when type is Git").into_rule())]
#[x_kube(validation = ("self.type != 'URL' || has(self.url)", "url is required when type is URL").into_rule())]
#[x_kube(validation = ("self.type != 'Git' || (has(self.mountPath) && self.mountPath != '')", "mountPath is required for Git context type").into_rule())]
#[x_kube(validation = ("self.type != 'URL' || (has(self.mountPath) && self.mountPath != '')", "mountPath is required for URL context type").into_rule())]
pub struct ContextItem {
    /// Name for logs, messages and the tag around its text.
    #[schemars(length(max = 63))]
    pub name: Option<String>,
    /// Short description shown to users.
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
    /// Optional: continue if unavailable.
    pub optional: Option<bool>,
    /// What kind of context it is; the field of the same name holds it.
    #[serde(rename = "type")]
    pub kind: ContextType,
    /// Where to put it. A relative path starts at the workspace. Paths with `..` are refused.
    #[schemars(length(max = 1024))]
    #[x_kube(validation = (r"!self.matches('(^|/)[.][.](/|$)')", "mountPath must not contain '..'").into_rule())]
    pub mount_path: Option<String>,
    /// Permission bits of the file, such as 0755 (octal) or 493.
    #[schemars(range(min = 0, max = 511))]
    pub file_mode: Option<i32>,
    /// The text, when type is Text.
    #[schemars(length(max = 1_048_576))]
    pub text: Option<String>,
    /// The ConfigMap, when type is ConfigMap.
    pub config_map: Option<ConfigMapContext>,
    /// The repository, when type is Git.
    pub git: Option<GitContext>,
    /// Nothing to set: the text is generated.
    pub runtime: Option<RuntimeContext>,
    /// The document, when type is URL.
    pub url: Option<UrlContext>,
}

/// The types of context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ContextType {
    /// A text written in the manifest.
    #[default]
    Text,
    /// One key or all keys of a ConfigMap.
    ConfigMap,
    /// A Git repository or a part of it.
    Git,
    /// Information about the platform.
    Runtime,
    /// A document fetched when the task starts.
    #[serde(rename = "URL")]
    Url,
}

/// Text from a ConfigMap of the same namespace.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigMapContext {
    /// Name of the ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// One key; all keys when unset.
    #[schemars(length(max = 253))]
    pub key: Option<String>,
    /// Optional: continue if the ConfigMap or the key does not exist.
    pub optional: Option<bool>,
}

/// Files from a Git repository.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitContext {
    /// URL of the repository: https, http, ssh or `git@host:path`.
    #[schemars(length(min = 1, max = 4096))]
    pub repository: String,
    /// Path inside the repository; the whole of it when unset.
    #[schemars(length(max = 4096))]
    pub path: Option<String>,
    /// What is fetched.
    #[serde(flatten)]
    pub fetch: GitFetch,
    /// Secret with `username` and `password`, or `ssh-privatekey` and `ssh-known-hosts`.
    pub secret_ref: Option<LocalRef>,
    /// Keep it up to date while an Agent runs.
    pub sync: Option<GitSync>,
}

/// What is fetched from a Git repository: the fields that every Git source has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitFetch {
    /// Branch, tag or commit.
    #[serde(rename = "ref", default = "head")]
    #[schemars(length(max = 512))]
    pub reference: String,
    /// How many commits to fetch; 0 fetches the whole history.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub depth: i32,
    /// Fetch submodules too.
    #[serde(default)]
    pub recurse_submodules: bool,
}

/// How an Agent follows a repository.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GitSync {
    /// Follow the repository.
    #[serde(default)]
    pub enabled: bool,
    /// Polling interval; 5m when unset.
    pub interval: Option<Duration>,
    /// What to do with a new commit.
    #[serde(default)]
    pub policy: GitSyncPolicy,
}

/// Effect of a new commit on an Agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum GitSyncPolicy {
    /// A sidecar updates the files in place.
    #[default]
    HotReload,
    /// The Agent restarts with the new commit, once no Task runs.
    Rollout,
}

/// The text about the platform; there is nothing to set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuntimeContext {}

/// A document fetched over HTTP when the task starts.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UrlContext {
    /// Address of the document, http or https.
    #[schemars(length(min = 1, max = 4096), regex(pattern = r"^https?://[^\x00\s]+$"))]
    pub source: String,
    /// Headers to send.
    pub headers: Option<Headers>,
    /// Secret with `token`, or `username` and `password`.
    pub secret_ref: Option<LocalRef>,
    /// Accept any certificate. For experiments only.
    #[serde(default, rename = "insecureSkipTLSVerify")]
    pub insecure_skip_tls_verify: bool,
    /// Give up after this many seconds.
    #[serde(default = "thirty")]
    #[schemars(range(min = 1, max = 3600))]
    pub timeout: i32,
    /// Refuse a document of more than this many bytes; 10 MiB when unset.
    #[schemars(range(min = 1, max = 1_073_741_824))]
    pub max_bytes: Option<i64>,
}

/// A collection of skills from a Git repository.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(validation = ("has(self.git)", "git source is required").into_rule())]
pub struct SkillSource {
    /// Name of the collection; its skills are mounted at `/skills/<name>`.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Where it comes from.
    pub git: Option<GitSkillSource>,
}

/// Where skills come from.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitSkillSource {
    /// URL of the repository.
    #[schemars(length(min = 1, max = 4096))]
    pub repository: String,
    /// Directory with the skills.
    #[schemars(length(max = 4096))]
    pub path: Option<String>,
    /// Only these skills; all of them when unset.
    #[schemars(inner(length(min = 1, max = 253), regex(pattern = r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")))]
    #[x_kube(merge_strategy = kube::core::ListMerge::Set)]
    pub names: Option<Vec<String>>,
    /// What is fetched.
    #[serde(flatten)]
    pub fetch: GitFetch,
    /// Secret with credentials, as for a Git context.
    pub secret_ref: Option<LocalRef>,
}

/// An OpenCode plugin from npm.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PluginSpec {
    /// Package, with or without a version: `name`, `@scope/name@1.2.3`.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Which part of OpenCode loads it.
    #[serde(default)]
    pub target: PluginTarget,
    /// Options handed to the plugin.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub options: Option<serde_json::Value>,
}

/// Which part of OpenCode loads a plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PluginTarget {
    /// The server.
    #[default]
    Server,
    /// The terminal interface.
    Tui,
}

fn head() -> String {
    "HEAD".into()
}

fn one() -> i32 {
    1
}

fn thirty() -> i32 {
    30
}
