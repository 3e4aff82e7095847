//! What the controller and the containers that build and push an image say to each other.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How to build an image, in [`super::environment::IMAGE_BUILD`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildOrder {
    /// Name and tag of the image.
    pub image: String,
    /// Path of the Dockerfile in the repository.
    pub dockerfile: String,
    /// Directory of the context in the repository; empty = all of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub context: String,
    /// Arguments of the build.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub args: BTreeMap<String, String>,
    /// Whether the registry is reached by plain HTTP, or without a check of its certificate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
}

/// The termination message of the container that pushed an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildReport {
    /// Digest of the manifest in the registry, such as `sha256:1a2b`.
    pub digest: String,
}

impl BuildReport {
    /// Reads the termination message; `None` if it names no digest.
    pub fn read(message: &str) -> Option<Self> {
        let report: Self = serde_json::from_str(message).ok()?;
        let hex = report.digest.strip_prefix("sha256:")?;
        (hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_without_a_digest_is_none() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let report = BuildReport { digest };
        assert_eq!(BuildReport::read(&serde_json::to_string(&report).unwrap()), Some(report));
        for message in ["", "{}", r#"{"digest": "latest"}"#, r#"{"digest": "sha256:xyz"}"#, "buildah exited with 1"] {
            assert_eq!(BuildReport::read(message), None, "{message}");
        }
    }
}
