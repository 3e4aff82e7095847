//! The route of a look-up: the same proxies and certificates as those of the Pods that would connect.

use api::workload::{CaBundlePlace, Proxy};
use domain::{platform::Platform, run::resolved::ResolvedAgent, workload::environment::direct_hosts};
use egress::Route;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use observe::Key;

use crate::{lookup::Error, shared::Shared};

/// The route of Pods without settings of their own.
pub fn of_platform(platform: &Platform) -> Route {
    through(platform.proxy.as_ref(), platform)
}

/// The route of an Agent's Pods.
pub async fn of_agent(shared: &Shared, key: &Key, agent: &ResolvedAgent) -> Result<Route, Error> {
    let authorities = match agent.ca_bundle.as_ref().and_then(api::workload::CaBundle::place) {
        Some(place) => Some(authorities(shared, &key.namespace, place).await?),
        None => None,
    };
    let platform = shared.platform();
    // The operator may name a proxy on this machine, such as a sidecar; a user may not.
    if let Some(proxy) = agent.proxy.as_ref().filter(|proxy| platform.proxy.as_ref() != Some(*proxy)) {
        for address in [&proxy.http_proxy, &proxy.https_proxy].into_iter().flatten() {
            shared.lookup.check_proxy(address).await?;
        }
    }
    Ok(Route { authorities, ..through(agent.proxy.as_ref(), &platform) })
}

fn through(proxy: Option<&Proxy>, platform: &Platform) -> Route {
    let Some(proxy) = proxy else { return Route::default() };
    Route {
        http_proxy: proxy.http_proxy.clone(),
        https_proxy: proxy.https_proxy.clone(),
        no_proxy: direct_hosts(proxy, platform, None),
        authorities: None,
    }
}

async fn authorities(shared: &Shared, namespace: &str, place: CaBundlePlace) -> Result<Vec<u8>, Error> {
    let (found, place) = match place {
        CaBundlePlace::ConfigMap { name, key } => {
            let found = shared.api::<ConfigMap>(namespace).get_opt(&name).await;
            let found = found.map(|map| map?.data?.remove(&key).map(String::into_bytes));
            (found, format!("key '{key}' of ConfigMap '{name}'"))
        }
        CaBundlePlace::Secret { name, key } => {
            let found = shared.api::<Secret>(namespace).get_opt(&name).await;
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
