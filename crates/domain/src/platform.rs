//! Settings of the whole platform: `KubeOpenCodeConfig`, the process environment, and built-in defaults.
//!
//! The variables are the group "Platform" of [`environment::GROUPS`]. The configuration takes precedence over the
//! environment, the environment over the built-in defaults. An empty value is ignored.

use std::{collections::BTreeMap, time::Duration};

use api::{
    KubeOpenCodeConfig,
    kinds::config::{
        Cleanup, Defaults, ImageBuilding, ImagePullPolicy, KubeOpenCodeConfigSpec, Observability, OpenTelemetry,
        SystemImage,
    },
    names::{defaults, images},
    run::{Budget, Retry, Workspace},
    workload::{NetworkPolicy, Proxy},
};
use k8s_openapi::api::core::v1::LocalObjectReference;

use crate::{contract::environment, run::origin::Origin};

/// The resolved settings of the platform.
#[derive(Clone, Debug, PartialEq)]
pub struct Platform {
    /// Image of our own helpers.
    pub system_image: String,
    pub system_image_pull_policy: ImagePullPolicy,
    /// Image that copies OpenCode to `/tools`, unless an Agent or template names one.
    pub agent_image: String,
    /// Image in which agents work, unless an Agent or template names one.
    pub executor_image: String,
    /// Image of the attach client, unless an Agent or template names one.
    pub attach_image: String,
    /// DNS domain of the cluster.
    pub cluster_domain: String,
    /// Proxy of Pods whose Agent or template sets none.
    pub proxy: Option<Proxy>,
    /// Export of traces; `None` without a collector.
    pub open_telemetry: Option<OpenTelemetry>,
    /// When finished Tasks are deleted.
    pub cleanup: Cleanup,
    /// How long a Task waits for an Agent or template that does not exist yet.
    pub reference_grace_period: Duration,
    /// From admission to the start of the task container.
    pub startup_timeout: Duration,
    /// A run without an event for this long is stopped.
    pub stall_timeout: Duration,
    /// ServiceAccount of Pods, unless an Agent or template names one.
    pub service_account_name: String,
    /// Secrets for pulling images, unless an Agent or template names some.
    pub image_pull_secrets: Vec<String>,
    /// Directory of the embedded node, in which the files of Pods are; `None` on a cluster.
    pub node_directory: Option<String>,
    /// Workspace of runs that set none.
    pub workspace: Option<Workspace>,
    /// Retries of runs that set none.
    pub retry: Option<Retry>,
    /// From the end of the agent until everything that the run keeps is stored.
    pub collect_timeout: Duration,
    /// URL at which Pods reach the depot; without it nothing is kept.
    pub depot_url: Option<String>,
    /// Where images are built; `None` without a registry.
    pub image_build: Option<ImageBuilding>,
    /// Whether containers are made from images. On one machine without a container engine they are not.
    pub runs_images: bool,
    /// Budget of runs that set none.
    pub budget: Option<Budget>,
    /// Network policy of Pods that set none.
    pub network_policy: Option<NetworkPolicy>,
    /// How servers in Pods listen and are reached.
    pub addressing: Addressing,
    /// Settings that come from the configuration or the environment, by name. All others are built in.
    pub origins: BTreeMap<&'static str, Origin>,
}

/// How servers in Pods listen and are reached. One setting, so that no other code depends on where it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addressing {
    /// On a cluster: listen on every address, be reached by the Service's DNS name.
    #[default]
    Cluster,
    /// On one machine: listen on the Pod's own loopback address, be reached by the Service's address.
    Local,
}

impl Default for Platform {
    /// The built-in defaults.
    fn default() -> Self {
        Self::from(None, &|_| None)
    }
}

impl Platform {
    /// Merges the settings: `config` takes precedence over the environment, which takes precedence over the defaults.
    pub fn from(config: Option<&KubeOpenCodeConfig>, lookup: &dyn Fn(&str) -> Option<String>) -> Self {
        let KubeOpenCodeConfigSpec {
            cluster_domain,
            system_image,
            cleanup,
            proxy,
            observability,
            image_build,
            defaults: run,
        } = config.map(|config| config.spec.clone()).unwrap_or_default();
        let SystemImage { image: system_image, image_pull_policy } = system_image.unwrap_or_default();
        let Observability { open_telemetry } = observability.unwrap_or_default();
        let Defaults {
            agent_image,
            executor_image,
            attach_image,
            service_account_name,
            image_pull_secrets,
            workspace,
            startup_timeout,
            stall_timeout,
            retry,
            collect_timeout,
            budget,
            network_policy,
            reference_grace_period,
        } = run.unwrap_or_default();

        let mut from = Sources { lookup, origins: BTreeMap::new() };
        Self {
            system_image: from.text("systemImage", system_image, environment::SYSTEM_IMAGE, images::SYSTEM),
            system_image_pull_policy: from.pull_policy(image_pull_policy),
            agent_image: from.text("agentImage", agent_image, environment::AGENT_IMAGE, images::AGENT),
            executor_image: from.text("executorImage", executor_image, environment::EXECUTOR_IMAGE, images::EXECUTOR),
            attach_image: from.text("attachImage", attach_image, environment::ATTACH_IMAGE, images::ATTACH),
            cluster_domain: from.text(
                "clusterDomain",
                cluster_domain,
                environment::CLUSTER_DOMAIN,
                defaults::CLUSTER_DOMAIN,
            ),
            proxy: from.config("proxy", proxy),
            open_telemetry: from.config("openTelemetry", open_telemetry.filter(|telemetry| telemetry.enabled)),
            cleanup: from.config("cleanup", cleanup).unwrap_or_default(),
            reference_grace_period: from.span(
                "referenceGracePeriod",
                reference_grace_period,
                defaults::REFERENCE_GRACE_SECONDS,
            ),
            startup_timeout: from.span("startupTimeout", startup_timeout, defaults::STARTUP_TIMEOUT_SECONDS),
            stall_timeout: from.span("stallTimeout", stall_timeout, defaults::STALL_TIMEOUT_SECONDS),
            service_account_name: from.text(
                "serviceAccountName",
                service_account_name,
                environment::SERVICE_ACCOUNT,
                defaults::SERVICE_ACCOUNT,
            ),
            image_pull_secrets: from.names("imagePullSecrets", image_pull_secrets, environment::IMAGE_PULL_SECRETS),
            node_directory: from.environment("nodeDirectory", environment::NODE_DIRECTORY),
            workspace: from.config("workspace", workspace),
            retry: from.config("retry", retry),
            collect_timeout: from.span("collectTimeout", collect_timeout, defaults::COLLECT_TIMEOUT_SECONDS),
            depot_url: from.environment("depotURL", environment::DEPOT_URL),
            image_build: from.config("imageBuild", image_build.filter(|building| !building.registry.is_empty())),
            runs_images: from.environment("runsImages", environment::RUNS_IMAGES).is_none_or(|value| value != "false"),
            budget: from.config("budget", budget),
            network_policy: from.config("networkPolicy", network_policy),
            addressing: from.addressing(),
            origins: from.origins,
        }
    }

    /// Origin of a setting.
    pub fn origin(&self, setting: &str) -> Origin {
        self.origins.get(setting).cloned().unwrap_or(Origin::BuiltIn)
    }
}

/// The names of references; an empty one refers to nothing.
pub(crate) fn secret_names(references: Vec<LocalObjectReference>) -> Vec<String> {
    references.into_iter().map(|reference| reference.name).filter(|name| !name.is_empty()).collect()
}

/// Chooses each setting and records its origin.
struct Sources<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    origins: BTreeMap<&'static str, Origin>,
}

impl Sources<'_> {
    fn config<T>(&mut self, setting: &'static str, value: Option<T>) -> Option<T> {
        if value.is_some() {
            self.origins.insert(setting, Origin::Config);
        }
        value
    }

    fn environment(&mut self, setting: &'static str, variable: &str) -> Option<String> {
        let value = (self.lookup)(variable).filter(|value| !value.is_empty())?;
        self.origins.insert(setting, Origin::Environment);
        Some(value)
    }

    fn text(&mut self, setting: &'static str, config: Option<String>, variable: &str, built_in: &str) -> String {
        self.config(setting, config.filter(|value| !value.is_empty()))
            .or_else(|| self.environment(setting, variable))
            .unwrap_or_else(|| built_in.to_owned())
    }

    /// Names of objects; in the variable separated by commas.
    fn names(
        &mut self,
        setting: &'static str,
        config: Option<Vec<LocalObjectReference>>,
        variable: &str,
    ) -> Vec<String> {
        let config = config.map(secret_names).filter(|names| !names.is_empty());
        self.config(setting, config).unwrap_or_else(|| {
            let text = self.environment(setting, variable).unwrap_or_default();
            text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
        })
    }

    fn span(&mut self, setting: &'static str, config: Option<api::Duration>, seconds: u64) -> Duration {
        let config = config.map(api::Duration::to_std).filter(|span| !span.is_zero());
        self.config(setting, config).unwrap_or(Duration::from_secs(seconds))
    }

    fn pull_policy(&mut self, config: Option<ImagePullPolicy>) -> ImagePullPolicy {
        let setting = "systemImagePullPolicy";
        if let Some(policy) = self.config(setting, config) {
            return policy;
        }
        match self.environment(setting, environment::SYSTEM_IMAGE_PULL_POLICY).as_deref() {
            Some("Always") => ImagePullPolicy::Always,
            Some("Never") => ImagePullPolicy::Never,
            _ => ImagePullPolicy::IfNotPresent,
        }
    }

    fn addressing(&mut self) -> Addressing {
        match self.environment("addressing", environment::ADDRESSING) {
            Some(value) if value.eq_ignore_ascii_case("local") => Addressing::Local,
            _ => Addressing::Cluster,
        }
    }
}

#[cfg(test)]
mod tests {
    use api::KubeOpenCodeConfigSpec;

    use super::*;

    #[track_caller]
    fn check(config: Option<&str>, variable: Option<&str>, image: &str, origin: &Origin) {
        let config = config.map(|image| {
            let defaults = Defaults { agent_image: Some(image.into()), ..Defaults::default() };
            let spec = KubeOpenCodeConfigSpec { defaults: Some(defaults), ..KubeOpenCodeConfigSpec::default() };
            KubeOpenCodeConfig::new("cluster", spec)
        });
        let lookup = |name: &str| variable.filter(|_| name == environment::AGENT_IMAGE).map(ToOwned::to_owned);
        let platform = Platform::from(config.as_ref(), &lookup);
        assert_eq!((platform.agent_image.as_str(), &platform.origin("agentImage")), (image, origin));
    }

    #[test]
    fn the_configuration_takes_precedence_over_the_environment_and_that_over_the_defaults() {
        check(Some("a"), Some("b"), "a", &Origin::Config);
        check(None, Some("b"), "b", &Origin::Environment);
        check(Some(""), Some("b"), "b", &Origin::Environment);
        check(Some(""), Some(""), images::AGENT, &Origin::BuiltIn);
        check(None, None, images::AGENT, &Origin::BuiltIn);
    }

    #[test]
    fn names_of_secrets_are_separated_by_commas_and_an_empty_list_counts_as_unset() {
        let check = |config: Option<&[&str]>, variable: &str, expected: &[&str], origin: Origin| {
            let reference = |name: &&str| LocalObjectReference { name: (*name).to_owned() };
            let names = config.map(|names| names.iter().map(reference).collect());
            let defaults = Defaults { image_pull_secrets: names, ..Defaults::default() };
            let spec = KubeOpenCodeConfigSpec { defaults: Some(defaults), ..KubeOpenCodeConfigSpec::default() };
            let config = KubeOpenCodeConfig::new("cluster", spec);
            let lookup = |name: &str| (name == environment::IMAGE_PULL_SECRETS).then(|| variable.to_owned());
            let platform = Platform::from(Some(&config), &lookup);
            assert_eq!(platform.image_pull_secrets, expected);
            assert_eq!(platform.origin("imagePullSecrets"), origin);
        };
        check(Some(&["a", "b"]), "c", &["a", "b"], Origin::Config);
        check(Some(&[]), "c, d,", &["c", "d"], Origin::Environment);
        check(Some(&[""]), "c", &["c"], Origin::Environment);
        check(None, "", &[], Origin::BuiltIn);
    }

    #[test]
    fn one_machine_is_chosen_by_the_environment() {
        let local = |name: &str| (name == environment::ADDRESSING).then(|| "local".to_owned());
        assert_eq!(Platform::from(None, &local).addressing, Addressing::Local);
        assert_eq!(Platform::default().addressing, Addressing::Cluster);
    }
}
