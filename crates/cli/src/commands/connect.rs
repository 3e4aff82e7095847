//! Which cluster and credentials a command uses.

use std::{
    env,
    path::{Path, PathBuf},
    time::Duration,
};

use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
    core::NamespaceResourceScope,
};

use super::problem::{Answer, Problem};

/// Environment variable with a kubeconfig for this program alone.
/// Environment variable with the namespace of commands without `--namespace`.
const OWN_NAMESPACE: &str = "KUBEOPENCODE_NAMESPACE";
const OWN_KUBECONFIG: &str = "KUBEOPENCODE_KUBECONFIG";
/// Environment variable with the directory of the platform on one machine.
const STATE_DIR: &str = "KUBEOPENCODE_STATE_DIR";

/// Which cluster to use.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// Kubeconfig to use instead of $KUBEOPENCODE_KUBECONFIG, $KUBECONFIG or ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig to use instead of its current one.
    #[arg(long, alias = "kube-context", value_name = "NAME")]
    pub(super) context: Option<String>,
    /// Namespace to use instead of $KUBEOPENCODE_NAMESPACE or the context's own.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
}

impl ClusterArgs {
    /// These flags, then `earlier` ones: flags are also allowed before the subcommand.
    #[must_use]
    pub fn or(self, earlier: &Self) -> Self {
        Self {
            kubeconfig: self.kubeconfig.or_else(|| earlier.kubeconfig.clone()),
            context: self.context.or_else(|| earlier.context.clone()),
            namespace: self.namespace.or_else(|| earlier.namespace.clone()),
        }
    }

    /// Creates the client. Sends no request yet.
    pub async fn connect(&self) -> Answer<Cluster> {
        let source = choose(self.kubeconfig.as_deref(), &|name| env::var(name).ok(), &|path| path.is_file())?;
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let unreadable = |error: kube::config::KubeconfigError| {
            Problem::unreachable(format!("{source} cannot be used: {error}"))
                .next("check the file with: kubectl config view, and its contexts with: kubectl config get-contexts")
        };
        let mut config = match &source {
            Source::Files(files) => {
                let mut merged = Kubeconfig::default();
                for file in files {
                    merged = merged.merge(Kubeconfig::read_from(file).map_err(unreadable)?).map_err(unreadable)?;
                }
                Config::from_custom_kubeconfig(merged, &options).await.map_err(unreadable)?
            }
            Source::Pod => Config::incluster().map_err(|error| {
                Problem::unreachable(format!("this Pod cannot log in to its cluster: {error}"))
                    .next("give the Pod a ServiceAccount whose token is mounted")
            })?,
        };
        let server = config.cluster_url.to_string();
        let usual = env::var(OWN_NAMESPACE).ok().filter(|name| !name.is_empty());
        let usual = usual.unwrap_or_else(|| config.default_namespace.clone());
        let namespace = self.namespace.clone().unwrap_or_else(|| usual.clone());
        let other_namespace = namespace != usual;
        config.connect_timeout = Some(Duration::from_secs(10));
        let client = Client::try_from(config.clone())?;
        let server = server.trim_end_matches('/').to_owned();
        Ok(Cluster { client, config, namespace, other_namespace, server, source })
    }
}

/// The cluster of a command.
#[derive(Clone)]
pub struct Cluster {
    pub client: Client,
    /// What the client was made from.
    pub config: Config,
    /// Namespace of commands without `--namespace`.
    pub namespace: String,
    /// The namespace is not the one that commands use without `--namespace`.
    pub other_namespace: bool,
    /// Address of the API server.
    pub server: String,
    /// Where the address and the credentials come from.
    pub source: Source,
}

impl Cluster {
    /// A command for hints, with `-n` if it is needed to find the same objects.
    pub fn hint(&self, command: impl Into<String>) -> String {
        command.into() + &self.namespace_flag()
    }

    /// ` -n NAMESPACE` if commands need it to find the same objects.
    pub fn namespace_flag(&self) -> String {
        if self.other_namespace { format!(" -n {}", self.namespace) } else { String::new() }
    }

    /// The API of a kind in the namespace of the command.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

/// Where the address of a cluster and the credentials come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// From these files; the first value of a setting wins.
    Files(Vec<PathBuf>),
    /// From the Pod that this process runs in.
    Pod,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Files(files) => {
                let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
                write!(f, "kubeconfig {}", files.join(":"))
            }
            Self::Pod => f.write_str("the Pod's ServiceAccount"),
        }
    }
}

/// Chooses the first that is set: the flag, `$KUBEOPENCODE_KUBECONFIG`, the platform in `$KUBEOPENCODE_STATE_DIR`,
/// `$KUBECONFIG`, `~/.kube/config`, the ServiceAccount of the Pod, and last the platform that `kubeopencode up` left in
/// the home directory.
fn choose(flag: Option<&Path>, env: &dyn Fn(&str) -> Option<String>, exists: &dyn Fn(&Path) -> bool) -> Answer<Source> {
    let env = |name: &str| env(name).filter(|value| !value.is_empty());
    let is_there = |file: PathBuf| exists(&file).then_some(file);
    if let Some(file) = flag {
        return Ok(Source::Files(vec![file.to_owned()]));
    }
    if let Some(file) = env(OWN_KUBECONFIG) {
        return Ok(Source::Files(vec![file.into()]));
    }
    if let Some(file) = env(STATE_DIR).and_then(|dir| is_there(Path::new(&dir).join("kubeconfig"))) {
        return Ok(Source::Files(vec![file]));
    }
    if let Some(list) = env("KUBECONFIG") {
        let listed: Vec<PathBuf> = env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()).collect();
        let there: Vec<_> = listed.iter().filter(|file| exists(file)).cloned().collect();
        // kubectl ignores missing files of a list; if all are missing, report it.
        return Ok(Source::Files(if there.is_empty() { listed } else { there }));
    }
    let home = env("HOME").map(PathBuf::from);
    if let Some(file) = home.as_ref().and_then(|home| is_there(home.join(".kube/config"))) {
        return Ok(Source::Files(vec![file]));
    }
    if env("KUBERNETES_SERVICE_HOST").is_some() {
        return Ok(Source::Pod);
    }
    if let Some(file) = home.and_then(|home| is_there(home.join(".kubeopencode/kubeconfig"))) {
        return Ok(Source::Files(vec![file]));
    }
    Err(Problem::unreachable("no cluster is configured")
        .next("set --kubeconfig or KUBECONFIG, or start the platform on this machine: kubeopencode up"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(flag: Option<&str>, env: &[(&str, &str)], files: &[&str], expected: &str) {
        let lookup = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let exists = |path: &Path| files.iter().any(|file| Path::new(file) == path);
        let found = choose(flag.map(Path::new), &lookup, &exists);
        assert_eq!(found.map_or_else(|problem| problem.to_string(), |source| source.to_string()), expected);
    }

    #[test]
    fn the_most_specific_source_wins() {
        let env = [("KUBEOPENCODE_KUBECONFIG", "/own"), ("KUBECONFIG", "/a"), ("HOME", "/h")];
        let files = ["/own", "/a", "/h/.kube/config"];
        check(Some("/flag"), &env, &files, "kubeconfig /flag");
        check(None, &env, &files, "kubeconfig /own");
        check(None, &env[1..], &files, "kubeconfig /a");
        check(None, &env[2..], &files, "kubeconfig /h/.kube/config");
        check(None, &[("HOME", "/h"), ("KUBECONFIG", "")], &files, "kubeconfig /h/.kube/config");
    }

    #[test]
    fn files_of_a_list_that_are_not_there_are_skipped() {
        check(None, &[("KUBECONFIG", "/a:/b:")], &["/b"], "kubeconfig /b");
        check(None, &[("KUBECONFIG", "/a:/b")], &[], "kubeconfig /a:/b");
    }

    #[test]
    fn the_platform_on_this_machine_is_found() {
        let files = ["/h/.kubeopencode/kubeconfig", "/state/kubeconfig"];
        check(None, &[("HOME", "/h")], &files, "kubeconfig /h/.kubeopencode/kubeconfig");
        check(None, &[("HOME", "/h"), ("KUBEOPENCODE_STATE_DIR", "/state")], &files, "kubeconfig /state/kubeconfig");
        check(
            None,
            &[("HOME", "/h"), ("KUBEOPENCODE_STATE_DIR", "/gone")],
            &files,
            "kubeconfig /h/.kubeopencode/kubeconfig",
        );
        check(None, &[("HOME", "/h"), ("KUBERNETES_SERVICE_HOST", "10.0.0.1")], &files, "the Pod's ServiceAccount");
        check(None, &[("HOME", "/h")], &[], "no cluster is configured");
    }

    #[test]
    fn flags_before_the_command_apply_unless_repeated_after_it() {
        let args = |context: Option<&str>, namespace: Option<&str>| ClusterArgs {
            context: context.map(Into::into),
            namespace: namespace.map(Into::into),
            ..ClusterArgs::default()
        };
        let merged = args(Some("b"), None).or(&args(Some("a"), Some("n")));
        assert_eq!((merged.context.as_deref(), merged.namespace.as_deref()), (Some("b"), Some("n")));
    }
}
