//! Registries: check every asset at the interval of the spec.

use std::{collections::BTreeMap, time::Duration};

use api::{
    Registry, RegistryStatus,
    conditions::{reasons, types},
    kinds::registry::{
        AssetPhase, ImageAsset, ImageAssetStatus, PluginAsset, PluginAssetStatus, RegistrySummary, SkillAsset,
        SkillAssetStatus,
    },
};
use domain::{registry::ImageReference, status};
use egress::Credentials;
use futures::{StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::Time};
use observe::{Cached, Key, Next};
use serde_json::Value;

use crate::{
    lookup::{Error, Login, Lookup, route},
    shared::{Shared, instant, now},
};

/// Default interval of the checks.
const INTERVAL: Duration = Duration::from_mins(10);
/// npm's own variable: the default npm registry.
const NPM: &str = "npm_config_registry";
/// Assets that are checked concurrently.
const AT_ONCE: usize = 10;

/// Reconciles one Registry.
pub async fn pass(shared: &Shared, key: &Key) -> Result<Next, kube::Error> {
    let registry = match shared.cache.registries.get(key) {
        None => return Ok(Next::Wait),
        Some(Cached::Unreadable(why)) => {
            shared.report_unreadable::<Registry>(key, &why).await?;
            return Ok(Next::Wait);
        }
        Some(Cached::Object(registry)) => registry,
    };
    let interval = registry.spec.check_interval.map_or(INTERVAL, api::Duration::to_std).max(Duration::from_secs(10));
    let interval = SignedDuration::try_from(interval).unwrap_or(SignedDuration::MAX);
    let before = registry.status.clone().unwrap_or_default();
    let fresh = before.observed_generation == registry.metadata.generation;
    let due = next_look(&before, interval).filter(|_| fresh);
    if let Some(due) = due
        && now() < due
    {
        // Our own status write, or a change without effect: the assets were checked already.
        return Ok(Next::At(instant(due)));
    }
    let after = look(shared, key, &registry).await;
    if let Some(written) = shared.write_status::<Registry>(key, &before, &after, None).await? {
        shared.cache.registries.insert_written(written);
    }
    Ok(next_look(&after, interval).map_or(Next::Wait, |at| Next::At(instant(at))))
}

/// When assets are checked again; `None` without assets.
fn next_look(status: &RegistryStatus, interval: SignedDuration) -> Option<Timestamp> {
    let images = status.images.iter().flatten().map(|asset| &asset.last_checked);
    let skills = status.skills.iter().flatten().map(|asset| &asset.last_checked);
    let plugins = status.plugins.iter().flatten().map(|asset| &asset.last_checked);
    let last = images.chain(skills).chain(plugins).flatten().map(|time| time.0).max();
    last.map(|last| last.checked_add(interval).unwrap_or(Timestamp::MAX))
}

async fn look(shared: &Shared, key: &Key, registry: &Registry) -> RegistryStatus {
    let spec = &registry.spec;
    let npm = spec.npm_registry_url.clone().or_else(|| shared.variable(NPM));
    let lookup = &shared.lookup.through(&route::of_platform(&shared.platform())).unwrap_or_else(|error| {
        tracing::warn!(registry = %key, %error, "assets are looked at without the proxy of the KubeOpenCodeConfig");
        shared.lookup.clone()
    });
    let images: Vec<_> = spec.images.iter().flatten().map(|asset| image(shared, lookup, key, asset)).collect();
    let skills: Vec<_> = spec.skills.iter().flatten().map(|asset| skill(shared, lookup, key, asset)).collect();
    let plugins: Vec<_> = spec.plugins.iter().flatten().map(|asset| plugin(lookup, npm.as_deref(), asset)).collect();
    let images = stream::iter(images).buffered(AT_ONCE).collect().await;
    let skills = stream::iter(skills).buffered(AT_ONCE).collect().await;
    let plugins = stream::iter(plugins).buffered(AT_ONCE).collect().await;
    summarise(registry, images, skills, plugins)
}

async fn image(shared: &Shared, lookup: &Lookup, key: &Key, asset: &ImageAsset) -> ImageAssetStatus {
    let secret = asset.secret_ref.as_ref().map(|secret| &secret.name);
    let found = match image_login(shared, key, secret, &asset.image).await {
        Ok(login) => lookup.image_digest(&asset.image, login.as_ref()).await,
        Err(error) => Err(error),
    };
    let (phase, digest, message) = verdict(found);
    let (name, image) = (asset.name.clone(), Some(asset.image.clone()));
    ImageAssetStatus { name, image, phase, digest, last_checked: Some(Time(now())), message }
}

async fn skill(shared: &Shared, lookup: &Lookup, key: &Key, asset: &SkillAsset) -> SkillAssetStatus {
    let found = match git_credentials(shared, key, asset.git.secret_ref.as_ref().map(|secret| &secret.name)).await {
        Ok(credentials) => lookup.commit(&asset.git.repository, &asset.git.fetch.reference, &credentials).await,
        Err(error) => Err(error),
    };
    let (phase, latest_commit, message) = verdict(found);
    SkillAssetStatus { name: asset.name.clone(), phase, latest_commit, last_checked: Some(Time(now())), message }
}

async fn plugin(lookup: &Lookup, npm: Option<&str>, asset: &PluginAsset) -> PluginAssetStatus {
    let found = match npm {
        Some(npm) => lookup.npm_version(npm, &asset.plugin.name).await,
        None => Err(Error::Unsupported(format!(
            "no npm registry is known: set npmRegistryURL, or {NPM} for the controller"
        ))),
    };
    let (phase, resolved_version, message) = verdict(found);
    PluginAssetStatus { name: asset.name.clone(), phase, resolved_version, last_checked: Some(Time(now())), message }
}

fn summarise(
    registry: &Registry,
    images: Vec<ImageAssetStatus>,
    skills: Vec<SkillAssetStatus>,
    plugins: Vec<PluginAssetStatus>,
) -> RegistryStatus {
    let phases =
        images.iter().map(|a| a.phase).chain(skills.iter().map(|a| a.phase)).chain(plugins.iter().map(|a| a.phase));
    let phases: Vec<AssetPhase> = phases.collect();
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let ready = phases.iter().filter(|phase| **phase == AssetPhase::Ready).count();
    let mut conditions = registry.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    // An earlier version of the Registry could not be read.
    status::remove(&mut conditions, types::ACCEPTED);
    let (holds, reason, message) = match (ready, phases.len()) {
        (_, 0) => (true, reasons::EMPTY, "the Registry lists nothing".to_owned()),
        (ready, all) if ready == all => (true, reasons::ALL_ASSETS_READY, "every asset is there".to_owned()),
        (ready, all) => (false, reasons::ASSETS_UNAVAILABLE, format!("{} of {all} assets are not there", all - ready)),
    };
    status::set(&mut conditions, types::READY, holds, reason, message, registry.metadata.generation, now());
    RegistryStatus {
        observed_generation: registry.metadata.generation,
        summary: Some(RegistrySummary {
            images: count(images.len()),
            skills: count(skills.len()),
            plugins: count(plugins.len()),
            ready_count: count(ready),
            total_count: count(phases.len()),
        }),
        images: Some(images),
        skills: Some(skills),
        plugins: Some(plugins),
        conditions: Some(conditions),
    }
}

fn verdict(found: Result<String, Error>) -> (AssetPhase, Option<String>, Option<String>) {
    match found {
        Ok(found) => (AssetPhase::Ready, Some(found), None),
        Err(error) => (AssetPhase::Unavailable, None, Some(error.to_string())),
    }
}

/// The credentials for a Git repository in a Secret: user name and password, or a key for ssh.
pub async fn git_credentials(shared: &Shared, key: &Key, secret: Option<&String>) -> Result<Credentials, Error> {
    let Some(name) = secret else { return Ok(Credentials::default()) };
    let data = read_secret(shared, key, name).await?;
    let text = |key: &str| data.get(key).map(|value| String::from_utf8_lossy(value).into_owned());
    Ok(Credentials {
        username: text("username"),
        password: text("password"),
        ssh_key: text("ssh-privatekey"),
        known_hosts: text("ssh-known-hosts"),
    })
}

/// User name and password of an image's registry, from a Secret of type dockerconfigjson.
async fn image_login(shared: &Shared, key: &Key, secret: Option<&String>, image: &str) -> Result<Option<Login>, Error> {
    let Some(name) = secret else { return Ok(None) };
    let data = read_secret(shared, key, name).await?;
    let config: Value =
        data.get(".dockerconfigjson").and_then(|json| serde_json::from_slice(json).ok()).unwrap_or_default();
    let (Some(auths), Some(image)) = (config["auths"].as_object(), ImageReference::parse(image)) else {
        return Ok(None);
    };
    Ok(image.login_key(auths.keys().map(String::as_str)).map(|key| login_of(&auths[key])))
}

/// A login as kubectl writes it, or as Docker does, in base64.
fn login_of(entry: &Value) -> Login {
    let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let login = Login { username: text("username"), password: text("password") };
    if !login.username.is_empty() {
        return login;
    }
    let pair = serde_json::from_value::<ByteString>(entry["auth"].clone()).ok();
    let pair = pair.and_then(|pair| String::from_utf8(pair.0).ok()).unwrap_or_default();
    match pair.split_once(':') {
        Some((username, password)) => Login { username: username.to_owned(), password: password.to_owned() },
        None => login,
    }
}

async fn read_secret(shared: &Shared, key: &Key, name: &str) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    let found = shared.api::<Secret>(&key.namespace).get_opt(name).await;
    match found {
        Ok(Some(secret)) => {
            Ok(secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect())
        }
        Ok(None) => Err(Error::Missing(format!("Secret '{name}' does not exist"))),
        Err(_) => Err(Error::Missing(format!("Secret '{name}' cannot be read"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_catalogue_is_looked_at_again_only_if_there_is_anything_in_it() {
        let interval = SignedDuration::from_mins(10);
        assert_eq!(next_look(&RegistryStatus::default(), interval), None);
        let skills = json!([{"name": "a", "phase": "Ready", "lastChecked": "2026-01-01T00:00:00Z"}]);
        let status: RegistryStatus = serde_json::from_value(json!({"skills": skills})).unwrap();
        assert_eq!(next_look(&status, interval), Some("2026-01-01T00:10:00Z".parse().unwrap()));
    }

    #[test]
    fn a_login_is_read_in_both_ways() {
        for entry in [
            json!({"username": "u", "password": "p:w"}),
            json!({"auth": "dTpwOnc="}),
            json!({"username": "u", "password": "p:w", "auth": "b3RoZXI6eA=="}),
        ] {
            let login = login_of(&entry);
            assert_eq!((login.username.as_str(), login.password.as_str()), ("u", "p:w"), "{entry}");
        }
        assert_eq!(login_of(&json!({"auth": "%"})).username, "");
    }
}
