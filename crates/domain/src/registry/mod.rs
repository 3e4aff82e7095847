//! Parses responses of registries and repositories: image references, Git refs, npm versions.

mod git;
mod npm;

pub use git::{commit_listed, commit_of};
pub use npm::{npm_version, package};

/// Default registry.
const DOCKER_HUB: &str = "registry-1.docker.io";
/// Other names of the default registry.
const DOCKER_HUB_TOO: [&str; 2] = ["docker.io", "index.docker.io"];

/// Registry, repository and tag or digest of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageReference {
    /// Host and port of the registry.
    pub registry: String,
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
            Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => (host_of(host), rest),
            _ => (DOCKER_HUB, name),
        };
        let own = registry == DOCKER_HUB && !repository.is_empty() && !repository.contains('/');
        let repository = if own { format!("library/{repository}") } else { repository.to_owned() };
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

    /// The key of `auths` in a Docker configuration that matches this image best.
    ///
    /// As in the kubelet, a key is a host, with or without a scheme and the beginning of a path, and may have wildcards
    /// in the host name.
    pub fn login_key<'a>(&self, keys: impl Iterator<Item = &'a str>) -> Option<&'a str> {
        let fitting = keys.filter_map(|key| {
            let place = key.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/');
            let (host, path) = place.split_once('/').unwrap_or((place, ""));
            // The version of a registry's API, which Docker appends.
            let path = if matches!(path, "v1" | "v2") { "" } else { path };
            let below = self.repository.strip_prefix(path).is_some_and(|rest| path.is_empty() || rest.starts_with('/'));
            let here = below || self.repository == path;
            (here && same_host(host_of(host), &self.registry)).then_some(((path.len(), !host.contains('*')), key))
        });
        fitting.max_by_key(|(specificity, _)| *specificity).map(|(_, key)| key)
    }

    /// URL of the manifest. Registries on this machine use plain HTTP.
    pub fn manifest_url(&self) -> String {
        let host = self.registry.split(':').next().unwrap_or_default();
        let scheme = if host == "localhost" || host.starts_with("127.") { "http" } else { "https" };
        format!("{scheme}://{}/v2/{}/manifests/{}", self.registry, self.repository, self.reference)
    }
}

/// The host behind a name: Docker Hub has several.
fn host_of(name: &str) -> &str {
    if DOCKER_HUB_TOO.contains(&name) { DOCKER_HUB } else { name }
}

/// Whether a host matches a pattern; `*` matches one label.
fn same_host(pattern: &str, host: &str) -> bool {
    let (pattern, host): (Vec<&str>, Vec<&str>) = (pattern.split('.').collect(), host.split('.').collect());
    let fits = |(pattern, part): (&&str, &&str)| match pattern.split_once('*') {
        Some((before, after)) => {
            part.len() >= before.len() + after.len() && part.starts_with(before) && part.ends_with(after)
        }
        None => pattern == part,
    };
    pattern.len() == host.len() && pattern.iter().zip(&host).all(fits)
}

/// Authentication that a registry requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// A token.
    Bearer {
        /// URL that issues tokens.
        realm: String,
        service: Option<String>,
        scope: Option<String>,
    },
    /// User name and password.
    Basic,
}

impl Challenge {
    /// Reads a `WWW-Authenticate` header.
    pub fn parse(header: &str) -> Option<Self> {
        let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        let value = |name: &str| {
            let start = rest.find(&format!("{name}=\""))? + name.len() + 2;
            let end = rest[start..].find('"')? + start;
            Some(rest[start..end].to_owned())
        };
        match scheme.to_ascii_lowercase().as_str() {
            "bearer" => Some(Self::Bearer { realm: value("realm")?, service: value("service"), scope: value("scope") }),
            "basic" => Some(Self::Basic),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
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
        image("docker.io/a/b:1", Some(("registry-1.docker.io", "a/b", "1")));
        image("docker.io/busybox", Some(("registry-1.docker.io", "library/busybox", "latest")));
        image("index.docker.io/a/b", Some(("registry-1.docker.io", "a/b", "latest")));
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
        let bearer = |header: &str| match Challenge::parse(header) {
            Some(Challenge::Bearer { realm, service, scope }) => Some((realm, service, scope)),
            _ => None,
        };
        let text = |text: &str| text.to_owned();
        let all = (text("https://auth.example/token"), Some(text("example")), Some(text("repository:a/b:pull")));
        assert_eq!(bearer(header), Some(all));
        assert_eq!(bearer("bearer realm=\"x\""), Some((text("x"), None, None)));
        assert_eq!(Challenge::parse("Basic realm=\"x\""), Some(Challenge::Basic));
        assert_eq!(Challenge::parse("BASIC"), Some(Challenge::Basic));
        assert_eq!(Challenge::parse("Bearer"), None);
        assert_eq!(Challenge::parse("Negotiate"), None);
    }

    #[test]
    fn a_login_is_for_the_registry_that_it_names() {
        let check = |image: &str, keys: &[&str], expected: Option<&str>| {
            let found = ImageReference::parse(image).unwrap();
            assert_eq!(found.login_key(keys.iter().copied()), expected, "{image} {keys:?}");
        };
        // As `kubectl create secret docker-registry` and `docker login` write Docker Hub.
        for hub in ["https://index.docker.io/v1/", "docker.io", "index.docker.io", "registry-1.docker.io"] {
            for image in ["org/app", "docker.io/org/app:1", "index.docker.io/org/app", "busybox"] {
                check(image, &["quay.io", hub], Some(hub));
            }
            check("quay.io/org/app", &[hub], None);
        }
        check("quay.io/a/b", &["https://quay.io"], Some("https://quay.io"));
        check("quay.io/a/b", &["https://quay.io/v2/"], Some("https://quay.io/v2/"));
        check("quay.io/a/b", &["quay"], None);
        check("localhost:5000/a", &["localhost:5000"], Some("localhost:5000"));
        check("localhost:5000/a", &["localhost"], None);
        // The most specific key wins.
        check("quay.io/a/b", &["quay.io", "quay.io/a", "quay.io/ab", "quay.io/c"], Some("quay.io/a"));
        check("quay.io/ab", &["quay.io/a"], None);
        check("r.example.com/a", &["*.example.com"], Some("*.example.com"));
        check("r.example.com/a", &["*.example.com", "r.example.com"], Some("r.example.com"));
        check("r.example.com/a", &["*.com"], None);
        check("r.example.com/a", &[], None);
    }
}
