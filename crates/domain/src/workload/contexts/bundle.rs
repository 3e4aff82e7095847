//! Packs files for a Pod: as keys of one or more ConfigMaps, or in the Pod's own annotations if they are small, with a
//! list of the target path of each key.

use std::collections::{BTreeMap, BTreeSet};

use api::names::annotations;
use k8s_openapi::api::core::v1::{
    ConfigMapProjection, ConfigMapVolumeSource, DownwardAPIVolumeFile, DownwardAPIVolumeSource, KeyToPath,
    ObjectFieldSelector, PodSpec, ProjectedVolumeSource, Volume, VolumeProjection,
};
use sha2::{Digest as _, Sha256};

use super::{ContextError, FileItem};
use crate::contract::mappings::{self, FileMapping};

/// Kubernetes refuses a ConfigMap of more than 1 MiB, keys included; the rest is for metadata and managed fields.
const MAX_PER_CONFIG_MAP: usize = 900 * 1024;
/// For more, use a repository or a URL: every byte passes through the API server's memory and etcd.
const MAX_TOTAL: usize = 8 * 1024 * 1024;
/// Limit of `FILE_MAPPINGS` in bytes. Linux refuses an environment variable of 128 KiB.
const MAX_MAPPINGS: usize = 100 * 1024;
/// Kubernetes allows 256 KiB of annotations; the rest is left to others.
const MAX_IN_ANNOTATIONS: usize = 64 * 1024;
/// Kubernetes' limit for a key.
const MAX_KEY_LENGTH: usize = 253;

/// Packed files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bundle {
    /// Name and data of each ConfigMap, in order.
    pub config_maps: Vec<(String, BTreeMap<String, String>)>,
    /// Target path of each key.
    pub mappings: Vec<FileMapping>,
}

/// Packs files into ConfigMaps `name`, `name-2`, ….
pub fn pack(name: &str, files: &[FileItem]) -> Result<Bundle, ContextError> {
    let total: usize = files.iter().map(|file| file.content.len()).sum();
    if total > MAX_TOTAL {
        let largest = files.iter().max_by_key(|file| file.content.len());
        let largest = largest.map(|file| file.target_path.clone()).unwrap_or_default();
        return Err(ContextError::TooLarge { total, limit: MAX_TOTAL, largest });
    }
    let mut files: Vec<&FileItem> = files.iter().collect();
    files.sort_by(|a, b| a.target_path.cmp(&b.target_path));
    let mut taken = BTreeSet::new();
    let mut maps: Vec<BTreeMap<String, String>> = vec![BTreeMap::new()];
    let mut used = 0;
    let mut mappings = Vec::new();
    for file in files {
        let key = key_of(&file.target_path, &mut taken);
        let parts = parts_of(&file.content, MAX_PER_CONFIG_MAP - MAX_KEY_LENGTH - 16);
        let split = parts.len() > 1;
        let mut keys = Vec::new();
        for (number, part) in parts.into_iter().enumerate() {
            let key = if split { part_key(&key, number, &mut taken) } else { key.clone() };
            let size = key.len() + part.len();
            if used + size > MAX_PER_CONFIG_MAP && used > 0 {
                maps.push(BTreeMap::new());
                used = 0;
            }
            used += size;
            if let Some(map) = maps.last_mut() {
                map.insert(key.clone(), part.to_owned());
            }
            keys.push(key);
        }
        mappings.push(FileMapping {
            key: (!split).then(|| keys.first().cloned()).flatten(),
            keys: if split { keys } else { Vec::new() },
            target_path: file.target_path.clone().into(),
            file_mode: mappings::mode(file.mode),
            optional: false,
        });
    }
    let bundle = Bundle {
        config_maps: maps
            .into_iter()
            .enumerate()
            .filter(|(_, data)| !data.is_empty())
            .map(|(index, data)| (if index == 0 { name.to_owned() } else { format!("{name}-{}", index + 1) }, data))
            .collect(),
        mappings,
    };
    let bytes = bundle.mappings_json().len();
    if bytes > MAX_MAPPINGS {
        return Err(ContextError::TooManyFiles { files: bundle.mappings.len(), bytes, limit: MAX_MAPPINGS });
    }
    Ok(bundle)
}

impl Bundle {
    /// Value of `FILE_MAPPINGS`.
    pub fn mappings_json(&self) -> String {
        serde_json::to_string(&self.mappings).unwrap_or_default()
    }

    /// The first 16 hexadecimal digits of a SHA-256 over the bundle, so that a change rolls out.
    pub fn hash(&self) -> String {
        let mut hasher = Sha256::new();
        for (key, value) in self.config_maps.iter().flat_map(|(_, data)| data) {
            for text in [key, value] {
                hasher.update(text);
                hasher.update([0]);
            }
        }
        hasher.update(self.mappings_json());
        hex(&hasher.finalize(), 16)
    }

    /// A volume with every key as a file.
    pub(crate) fn volume(&self, name: &str) -> Volume {
        let mut volume = Volume { name: name.to_owned(), ..Volume::default() };
        match self.config_maps.as_slice() {
            [(only, _)] => {
                volume.config_map =
                    Some(ConfigMapVolumeSource { name: only.clone(), ..ConfigMapVolumeSource::default() });
            }
            several => {
                let sources = several.iter().map(|(name, _)| VolumeProjection {
                    config_map: Some(ConfigMapProjection { name: name.clone(), ..ConfigMapProjection::default() }),
                    ..VolumeProjection::default()
                });
                volume.projected = Some(ProjectedVolumeSource {
                    sources: Some(sources.collect()),
                    ..ProjectedVolumeSource::default()
                });
            }
        }
        volume
    }
}

impl Bundle {
    /// Moves the files into annotations of the Pod, which the volume `name` presents as files: most Tasks need one
    /// object less. Returns the annotations; `None` if the files are too large.
    pub(crate) fn carried(&self, pod: &mut PodSpec, name: &str) -> Option<BTreeMap<String, String>> {
        let [(_, data)] = self.config_maps.as_slice() else { return None };
        if data.values().map(String::len).sum::<usize>() > MAX_IN_ANNOTATIONS {
            return None;
        }
        let volume = pod.volumes.iter_mut().flatten().find(|volume| volume.name == name)?;
        let source = volume.config_map.take()?;
        let shown = source.items.unwrap_or_else(|| {
            data.keys().map(|key| KeyToPath { key: key.clone(), path: key.clone(), mode: None }).collect()
        });
        let keys: Vec<&String> = data.keys().collect();
        let annotation = |key: &str| {
            let number = keys.iter().position(|known| *known == key).unwrap_or_default();
            format!("{}{number}", annotations::FILE_PREFIX)
        };
        let items = shown.into_iter().map(|item| DownwardAPIVolumeFile {
            field_ref: Some(ObjectFieldSelector {
                field_path: format!("metadata.annotations['{}']", annotation(&item.key)),
                ..ObjectFieldSelector::default()
            }),
            path: item.path,
            mode: item.mode,
            ..DownwardAPIVolumeFile::default()
        });
        volume.downward_api =
            Some(DownwardAPIVolumeSource { items: Some(items.collect()), default_mode: source.default_mode });
        Some(data.iter().map(|(key, content)| (annotation(key), content.clone())).collect())
    }
}

/// The first `digits` hexadecimal digits.
pub(crate) fn hex(bytes: &[u8], digits: usize) -> String {
    let nibbles = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    nibbles.take(digits).filter_map(|nibble| char::from_digit(u32::from(nibble), 16)).collect()
}

/// The key of a path: `/workspace/task.md` becomes `workspace-task.md`. `/a/b` and `/a-b` would both become `a-b`; the
/// second one gets a hash.
fn key_of(path: &str, taken: &mut BTreeSet<String>) -> String {
    let plain: String = path
        .trim_start_matches('/')
        .chars()
        .map(|char| if char.is_ascii_alphanumeric() || matches!(char, '.' | '_' | '-') { char } else { '-' })
        .collect();
    let usable = !plain.is_empty() && !plain.starts_with("..") && plain != "." && plain.len() <= MAX_KEY_LENGTH;
    if usable && taken.insert(plain.clone()) {
        return plain;
    }
    let hash = hex(&Sha256::digest(path), 64);
    // The end of a long path is more specific than its beginning.
    let tail: String = plain.chars().skip(plain.chars().count().saturating_sub(MAX_KEY_LENGTH - 65)).collect();
    let tail = tail.trim_start_matches('.');
    // A key with one more digit is a different key, so this ends long before the digits do.
    (12..=64)
        .map(|digits| format!("{}-{tail}", &hash[..digits]))
        .find(|key| taken.insert(key.clone()))
        .unwrap_or_else(|| hash.clone())
}

fn part_key(key: &str, number: usize, taken: &mut BTreeSet<String>) -> String {
    let key: String = key.chars().take(MAX_KEY_LENGTH - 16).collect();
    let mut candidate = format!("{key}.part-{}", number + 1);
    while !taken.insert(candidate.clone()) {
        candidate.push('_');
    }
    candidate
}

/// Cuts a text into parts of at most `limit` bytes, never inside of a character.
fn parts_of(text: &str, limit: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while rest.len() > limit {
        let cut = (0..=limit).rev().find(|at| rest.is_char_boundary(*at)).unwrap_or(limit);
        let (part, tail) = rest.split_at(cut);
        parts.push(part);
        rest = tail;
    }
    parts.push(rest);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, content: String) -> FileItem {
        FileItem { target_path: path.to_owned(), content, mode: None, about: String::new() }
    }

    /// Restores the files, as `context-init` does.
    fn unpack(bundle: &Bundle) -> BTreeMap<String, String> {
        let data: BTreeMap<&String, &String> = bundle.config_maps.iter().flat_map(|(_, data)| data).collect();
        let files = bundle.mappings.iter().map(|mapping| {
            let content: String = mapping.key.iter().chain(&mapping.keys).map(|key| data[key].as_str()).collect();
            (mapping.target_path.display().to_string(), content)
        });
        files.collect()
    }

    #[test]
    fn the_key_of_the_prompt_is_what_upstream_calls_it() {
        let bundle = pack("t-context", &[file("/workspace/task.md", "x".into())]).unwrap();
        assert_eq!(bundle.mappings_json(), r#"[{"key":"workspace-task.md","targetPath":"/workspace/task.md"}]"#);
        assert_eq!(bundle.config_maps[0].0, "t-context");
    }

    #[test]
    fn paths_that_look_alike_have_keys_of_their_own() {
        let paths = ["/a/b", "/a-b", "/a b", "/a:b", "/ä", "/ö", "/..x", "/.", &format!("/{}", "x".repeat(1000))];
        let files: Vec<FileItem> = paths.iter().map(|path| file(path, format!("content of {path}"))).collect();
        let bundle = pack("t", &files).unwrap();
        let unpacked = unpack(&bundle);
        assert_eq!(unpacked.len(), paths.len());
        for (path, content) in &unpacked {
            assert_eq!(*content, format!("content of {path}"));
        }
        for key in bundle.config_maps[0].1.keys() {
            let fine = |char: char| char.is_ascii_alphanumeric() || "._-".contains(char);
            assert!(key.len() <= 253 && key.chars().all(fine) && !key.starts_with(".."), "{key}");
        }
    }

    #[test]
    fn large_files_are_split_and_come_out_whole() {
        let large = "ä".repeat(1_200_000);
        let files = [file("/workspace/large.md", large.clone()), file("/workspace/task.md", "do it".into())];
        let bundle = pack("t-context", &files).unwrap();
        let names: Vec<&str> = bundle.config_maps.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["t-context", "t-context-2", "t-context-3"]);
        for (name, data) in &bundle.config_maps {
            let size: usize = data.iter().map(|(key, value)| key.len() + value.len()).sum();
            assert!(size <= MAX_PER_CONFIG_MAP, "{name}: {size}");
        }
        assert_eq!(unpack(&bundle)["/workspace/large.md"], large);
    }

    #[test]
    fn too_much_is_refused_with_the_largest_named() {
        let error = pack("t", &[file("/workspace/huge.md", "x".repeat(9 << 20))]).unwrap_err().to_string();
        assert!(error.contains("/workspace/huge.md") && error.contains("Git or URL"), "{error}");
    }

    #[test]
    fn a_list_that_no_container_can_take_is_refused() {
        let files: Vec<FileItem> =
            (0..200).map(|number| file(&format!("/w/{}{number}", "d/".repeat(500)), String::new())).collect();
        assert!(matches!(pack("t", &files), Err(ContextError::TooManyFiles { files: 200, .. })));
    }
}
