//! Reading what registries and repositories answer: image references, Git refs, npm versions.

use serde_json::Value;

/// Where an image is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageReference {
    /// Host and port of the registry.
    pub registry: String,
    /// Path of the image there.
    pub repository: String,
    /// Tag or digest.
    pub reference: String,
}

impl ImageReference {
    /// Reads `[registry/]repository[:tag][@digest]` with Docker's defaults.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (text, None),
        };
        let (name, tag) = match name.rsplit_once(':') {
            // A colon before the last slash belongs to the port of the registry.
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (name, None),
        };
        let (registry, repository) = match name.split_once('/') {
            Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => (host, rest.to_owned()),
            Some(_) => ("registry-1.docker.io", name.to_owned()),
            None => ("registry-1.docker.io", format!("library/{name}")),
        };
        let reference = digest.or(tag).unwrap_or("latest");
        let fine = !repository.is_empty()
            && !reference.is_empty()
            && repository
                .bytes()
                .chain(reference.bytes())
                .all(|byte| byte.is_ascii_alphanumeric() || b"._-/:".contains(&byte))
            && !repository.split('/').any(|part| part.is_empty() || part == "..");
        fine.then(|| Self { registry: registry.to_owned(), repository, reference: reference.to_owned() })
    }

    /// Address of its manifest. Registries on this machine speak plain HTTP.
    pub fn manifest_url(&self) -> String {
        let host = self.registry.split(':').next().unwrap_or_default();
        let scheme = if host == "localhost" || host.starts_with("127.") { "http" } else { "https" };
        format!("{scheme}://{}/v2/{}/manifests/{}", self.registry, self.repository, self.reference)
    }
}

/// What a registry wants before it answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Challenge {
    /// Where tokens are.
    pub realm: String,
    /// For which service.
    pub service: Option<String>,
    /// For what.
    pub scope: Option<String>,
}

impl Challenge {
    /// Reads a `WWW-Authenticate: Bearer …` header.
    pub fn parse(header: &str) -> Option<Self> {
        let rest = header.strip_prefix("Bearer ").or_else(|| header.strip_prefix("bearer "))?;
        let value = |name: &str| {
            let start = rest.find(&format!("{name}=\""))? + name.len() + 2;
            let end = rest[start..].find('"')? + start;
            Some(rest[start..end].to_owned())
        };
        Some(Self { realm: value("realm")?, service: value("service"), scope: value("scope") })
    }
}

/// The commit that `wanted` names in what `GET …/info/refs?service=git-upload-pack` answered.
///
/// A branch wins over a tag of the same name, as in git; an annotated tag is followed to its commit.
pub fn commit_of(advertised: &[u8], wanted: &str) -> Option<String> {
    let refs: Vec<(String, String)> = packet_lines(advertised).filter_map(advertised_ref).collect();
    let find = |name: &str| refs.iter().find(|(_, known)| known == name).map(|(commit, _)| commit.clone());
    if wanted == "HEAD" {
        return find("HEAD");
    }
    find(&format!("refs/heads/{wanted}"))
        .or_else(|| find(&format!("refs/tags/{wanted}^{{}}")))
        .or_else(|| find(&format!("refs/tags/{wanted}")))
        .or_else(|| find(wanted))
        .or_else(|| is_commit(wanted).then(|| wanted.to_ascii_lowercase()))
}

fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Lines of git's wire format: four hexadecimal digits of length, then that much text.
fn packet_lines(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        loop {
            let length = usize::from_str_radix(std::str::from_utf8(bytes.get(..4)?).ok()?, 16).ok()?;
            if length < 4 {
                // A flush between two sections.
                bytes = &bytes[4..];
                continue;
            }
            let line = bytes.get(4..length)?;
            bytes = &bytes[length..];
            return Some(line);
        }
    })
}

fn advertised_ref(line: &[u8]) -> Option<(String, String)> {
    let text = std::str::from_utf8(line.split(|byte| *byte == 0).next()?).ok()?.trim_end();
    let (commit, name) = text.split_once(' ')?;
    is_commit(commit).then(|| (commit.to_owned(), name.to_owned()))
}

/// A package and the version that is asked for: `@scope/name@1.2.3` is (`@scope/name`, `1.2.3`).
pub fn package(spec: &str) -> (&str, Option<&str>) {
    match spec.char_indices().skip(1).find(|(_, char)| *char == '@') {
        Some((at, _)) => (&spec[..at], Some(&spec[at + 1..]).filter(|version| !version.is_empty())),
        None => (spec, None),
    }
}

/// The version that npm would install, from what its registry says about the package.
pub fn npm_version(about: &Value, wanted: Option<&str>) -> Option<String> {
    let tag = wanted.unwrap_or("latest");
    if let Some(version) = about["dist-tags"][tag].as_str() {
        return Some(version.to_owned());
    }
    if about["versions"][tag].is_object() {
        return Some(tag.to_owned());
    }
    // A range: npm prefers the latest version if it fits, and we do not second-guess which others would.
    let range = tag.starts_with(['^', '~', '>', '<', '=']) || tag.contains(['x', '*', ' ', '|']);
    range.then(|| about["dist-tags"]["latest"].as_str().map(str::to_owned)).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn image(text: &str, expected: Option<(&str, &str, &str)>) {
        let found = ImageReference::parse(text);
        let found = found.as_ref().map(|i| (i.registry.as_str(), i.repository.as_str(), i.reference.as_str()));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn image_names_are_read_as_docker_does() {
        image("busybox", Some(("registry-1.docker.io", "library/busybox", "latest")));
        image("a/b:1", Some(("registry-1.docker.io", "a/b", "1")));
        image("quay.io/a/b", Some(("quay.io", "a/b", "latest")));
        image("localhost:5000/a:2", Some(("localhost:5000", "a", "2")));
        image("quay.io/a/b:1@sha256:00", Some(("quay.io", "a/b", "sha256:00")));
        image("quay.io/../b", None);
        image("quay.io/a b", None);
        image("", None);
    }

    #[test]
    fn a_challenge_says_where_tokens_are() {
        let header = r#"Bearer realm="https://auth.example/token",service="example",scope="repository:a/b:pull""#;
        let challenge = Challenge::parse(header).unwrap();
        assert_eq!(challenge.realm, "https://auth.example/token");
        assert_eq!(challenge.scope.as_deref(), Some("repository:a/b:pull"));
        assert_eq!(Challenge::parse("Basic realm=\"x\""), None);
    }

    #[test]
    fn refs_are_found_in_what_git_advertises() {
        let line = |text: &str| format!("{:04x}{text}", text.len() + 4);
        let (a, b, c) = ("a".repeat(40), "b".repeat(40), "c".repeat(40));
        let all = [
            line("# service=git-upload-pack\n"),
            "0000".into(),
            line(&format!("{a} HEAD\0multi_ack symref=HEAD:refs/heads/main\n")),
            line(&format!("{a} refs/heads/main\n")),
            line(&format!("{b} refs/tags/v1\n")),
            line(&format!("{c} refs/tags/v1^{{}}\n")),
            "0000".into(),
        ]
        .concat();
        for (wanted, commit) in [("HEAD", Some(&a)), ("main", Some(&a)), ("v1", Some(&c)), ("gone", None)] {
            assert_eq!(commit_of(all.as_bytes(), wanted).as_ref(), commit, "{wanted}");
        }
        assert_eq!(commit_of(all.as_bytes(), &"D".repeat(40)), Some("d".repeat(40)));
        assert_eq!(commit_of(b"<html>not git</html>", "main"), None);
    }

    #[test]
    fn npm_versions_are_resolved() {
        let about =
            json!({"dist-tags": {"latest": "2.1.0", "next": "3.0.0-rc"}, "versions": {"1.0.0": {}, "2.1.0": {}}});
        for (wanted, version) in [
            (None, Some("2.1.0")),
            (Some("next"), Some("3.0.0-rc")),
            (Some("1.0.0"), Some("1.0.0")),
            (Some("^2.0.0"), Some("2.1.0")),
            (Some("9.9.9"), None),
        ] {
            assert_eq!(npm_version(&about, wanted).as_deref(), version, "{wanted:?}");
        }
        assert_eq!(package("@scope/name@1.2.3"), ("@scope/name", Some("1.2.3")));
        assert_eq!(package("name"), ("name", None));
    }
}
