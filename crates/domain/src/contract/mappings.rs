//! Files that context-init copies: the JSON values of `FILE_MAPPINGS` and `DIR_MAPPINGS`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One file to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileMapping {
    /// The ConfigMap key with the content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Several keys whose contents are joined without a separator, if one cannot hold the content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// The file to write; relative to the workspace or absolute.
    pub target_path: PathBuf,
    /// Permission bits as a number (420 is 0644).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_mode: Option<u32>,
    /// Whether a missing key is ignored.
    #[serde(default, skip_serializing_if = "is_false")]
    pub optional: bool,
}

/// One directory to copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DirMapping {
    /// Mount of a ConfigMap.
    pub source_path: PathBuf,
    /// The directory to write; relative to the workspace or absolute.
    pub target_path: PathBuf,
    /// Permission bits of its files as a number (420 is 0644).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_mode: Option<u32>,
    /// Whether a missing directory is ignored.
    #[serde(default, skip_serializing_if = "is_false")]
    pub optional: bool,
}

/// The permission bits of a spec, which are signed in Kubernetes.
pub fn mode(bits: Option<i32>) -> Option<u32> {
    bits.and_then(|bits| u32::try_from(bits).ok())
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}
