//! The way to what lies outside the cluster: the proxy and the certificates of whoever wants to know.

use api::workload::{CaBundlePlace, Proxy};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kubeopencode_core::{environment::direct_hosts, platform::Platform, resolved::ResolvedAgent};
use observe::Key;

use crate::{context::Context, remote::Error};

/// How somebody outside is reached. The default follows the settings of this process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Way {
    /// Through a proxy.
    pub proxy: Option<Proxy>,
    /// Hosts that are reached without it, separated by commas.
    pub direct: String,
    /// Certificates to trust besides those of the system, as PEM.
    pub authorities: Option<Vec<u8>>,
}

impl Way {
    /// As Pods of the platform go.
    pub fn of_platform(platform: &Platform) -> Self {
        Self::through(platform.proxy.as_ref(), platform)
    }

    /// As the Pods of an Agent go.
    pub async fn of_agent(ctx: &Context, key: &Key, agent: &ResolvedAgent) -> Result<Self, Error> {
        let authorities = match agent.ca_bundle.as_ref().and_then(api::workload::CaBundle::place) {
            Some(place) => Some(authorities(ctx, &key.namespace, place).await?),
            None => None,
        };
        Ok(Self { authorities, ..Self::through(agent.proxy.as_ref(), &ctx.platform()) })
    }

    fn through(proxy: Option<&Proxy>, platform: &Platform) -> Self {
        let direct = proxy.map(|proxy| direct_hosts(proxy, platform, None)).unwrap_or_default();
        Self { proxy: proxy.cloned(), direct, authorities: None }
    }
}

async fn authorities(ctx: &Context, namespace: &str, place: CaBundlePlace) -> Result<Vec<u8>, Error> {
    let (found, place) = match place {
        CaBundlePlace::ConfigMap { name, key } => {
            let found = ctx.api::<ConfigMap>(namespace).get_opt(&name).await;
            let found = found.map(|map| map?.data?.remove(&key).map(String::into_bytes));
            (found, format!("key '{key}' of ConfigMap '{name}'"))
        }
        CaBundlePlace::Secret { name, key } => {
            let found = ctx.api::<Secret>(namespace).get_opt(&name).await;
            let found = found.map(|secret| secret?.data?.remove(&key).map(|value| value.0));
            (found, format!("key '{key}' of Secret '{name}'"))
        }
    };
    match found {
        Ok(Some(certificates)) => Ok(certificates),
        Ok(None) => Err(Error::Missing(format!("the certificates of caBundle are missing: there is no {place}"))),
        Err(error) => Err(Error::Missing(format!("the certificates of caBundle cannot be read, {place}: {error}"))),
    }
}
