//! Images that are built from a repository at a commit: `executorImageBuild`.
//!
//! Equal builds of a namespace are one build: [`Recipe`] and commit give a key, and the key names the Pod that builds
//! ([`builder`]). What the Pod has come to is read from the Pod ([`progress`]); finished builds are remembered in one
//! ConfigMap of the namespace ([`memory`]), so that the Pod need not stay.

pub mod builder;
pub mod memory;
pub mod progress;

use std::collections::BTreeMap;

use api::{conditions::reasons, kinds::config::ImageBuilding, names::images, workload::ImageBuild};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::{platform::Platform, run::resolved::ResolvedAgent};

/// Hexadecimal digits of a key in names.
const KEY_DIGITS: usize = 16;
/// Bytes of all build arguments together. They are in one variable, and on one command line.
const MOST_ARGS: usize = 64 << 10;
/// Hexadecimal digits of a commit in names and sentences.
const COMMIT_DIGITS: usize = 12;

/// Why no image can be built. Only an edit helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecipeError {
    /// The platform has no registry for built images.
    #[error(
        "executorImageBuild needs a registry for the image: set spec.imageBuild.registry in the KubeOpenCodeConfig \
         'cluster', or set executorImage instead"
    )]
    NoRegistry,
    /// Containers on this machine are not made from images.
    #[error(
        "executorImageBuild needs a container engine, and this machine runs Pods with its own programs: start `kubeopencode \
         up` with --runtime podman or --runtime docker, or set executorImage instead"
    )]
    NoImages,
    /// A path leads out of the repository.
    #[error(
        "executorImageBuild.{field} is {path:?}, which is no path in the repository: leave out `..` and a leading `/`"
    )]
    Path { field: &'static str, path: String },
    /// A container cannot be given that much.
    #[error(
        "executorImageBuild.buildArgs hold {bytes} bytes, more than {MOST_ARGS}: put them into a file of the repository"
    )]
    Args { bytes: usize },
}

impl RecipeError {
    /// Stable reason for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoRegistry | Self::NoImages => reasons::IMAGE_BUILD_UNAVAILABLE,
            Self::Path { .. } | Self::Args { .. } => reasons::INVALID,
        }
    }
}

/// How to build an image, before the commit is known.
#[derive(Clone, Copy, Debug)]
pub struct Recipe<'a> {
    pub build: &'a ImageBuild,
    settings: &'a ImageBuilding,
    /// For proxy and certificates, which the build uses.
    agent: &'a ResolvedAgent,
}

/// The build of one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Equal keys, equal images.
    pub key: String,
    /// Name of the Pod that builds.
    pub pod: String,
    pub about: About,
}

/// What is built, for people. It is in an annotation of the Pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Name and tag of the image.
    pub image: String,
    /// URL of the repository, without credentials.
    pub repository: String,
    pub commit: String,
    /// Path of the Dockerfile.
    pub dockerfile: String,
}

impl<'a> Recipe<'a> {
    /// The recipe for the image of an agent; `None` if its image need not be built.
    pub fn of(agent: &'a ResolvedAgent, platform: &'a Platform) -> Result<Option<Self>, RecipeError> {
        let Some(build) = &agent.executor_image_build else { return Ok(None) };
        if !platform.runs_images {
            return Err(RecipeError::NoImages);
        }
        let settings = platform.image_build.as_ref().ok_or(RecipeError::NoRegistry)?;
        for (field, path) in [("dockerfile", &build.dockerfile), ("context", &build.context)] {
            let path = path.as_deref().unwrap_or_default();
            if path.starts_with(['/', '-']) || path.contains('\0') || path.split('/').any(|part| part == "..") {
                return Err(RecipeError::Path { field, path: path.to_owned() });
            }
        }
        let bytes = build.build_args.iter().flatten().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > MOST_ARGS {
            return Err(RecipeError::Args { bytes });
        }
        Ok(Some(Self { build, settings, agent }))
    }

    /// The ref to look up.
    pub fn reference(&self) -> &'a str {
        self.build.reference.as_deref().filter(|reference| !reference.is_empty()).unwrap_or("HEAD")
    }

    /// Whether the ref is a commit, which need not be looked up.
    pub fn commit(&self) -> Option<String> {
        let reference = self.reference();
        let is_commit = reference.len() == 40 && reference.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_commit.then(|| reference.to_ascii_lowercase())
    }

    fn dockerfile(&self) -> &'a str {
        self.build.dockerfile.as_deref().filter(|path| !path.is_empty()).unwrap_or("Dockerfile")
    }

    fn context(&self) -> &'a str {
        self.build.context.as_deref().map(|path| path.trim_matches('/')).filter(|path| *path != ".").unwrap_or_default()
    }

    fn builder_image(&self) -> &'a str {
        self.settings.builder_image.as_deref().filter(|image| !image.is_empty()).unwrap_or(images::BUILDER)
    }

    /// Hash of the recipe with its ref: whether an Agent's image is still the one that is wanted.
    pub fn hash(&self) -> String {
        self.digest(self.reference())
    }

    /// The build of a commit in a namespace.
    pub fn at(&self, namespace: &str, commit: &str) -> Plan {
        let key = self.digest(commit)[..KEY_DIGITS].to_owned();
        let registry = self.settings.registry.trim_end_matches('/');
        Plan {
            pod: format!("kubeopencode-image-{key}"),
            about: About {
                image: format!("{registry}/{namespace}:{}-{key}", short(commit)),
                repository: without_login(&self.build.repository),
                commit: commit.to_owned(),
                dockerfile: self.dockerfile().to_owned(),
            },
            key,
        }
    }

    /// The name of the Secret counts: a Task that may not use it gets no image from a repository that it opens. So do proxy
    /// and certificates: through those of another agent, something else could be fetched.
    fn digest(&self, commit: &str) -> String {
        let args: BTreeMap<_, _> = self.build.build_args.clone().unwrap_or_default();
        let all = json!([
            self.settings.registry,
            self.builder_image(),
            self.build.repository,
            self.build.secret_ref.as_ref().map(|secret| &secret.name),
            commit,
            self.dockerfile(),
            self.context(),
            args,
            self.agent.proxy,
            self.agent.ca_bundle,
        ]);
        format!("{:x}", Sha256::digest(all.to_string()))
    }
}

impl About {
    /// As `https://host/repo.git at 0123456789ab`.
    pub fn source(&self) -> String {
        format!("{} at {}", self.repository, short(&self.commit))
    }
}

fn short(commit: &str) -> &str {
    commit.get(..COMMIT_DIGITS).unwrap_or(commit)
}

/// The address of a repository without user and password.
fn without_login(repository: &str) -> String {
    let Some((scheme, rest)) = repository.split_once("://") else { return repository.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => repository.to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use api::refs::LocalRef;

    use super::*;
    use crate::sample;

    pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    pub fn build() -> ImageBuild {
        ImageBuild { repository: "https://git.example.com/team/tools.git".into(), ..ImageBuild::default() }
    }

    pub fn platform() -> Platform {
        let registry = "registry.example.com/agents".to_owned();
        let image_build = Some(ImageBuilding { registry, ..ImageBuilding::default() });
        Platform { image_build, ..sample::platform() }
    }

    pub fn agent(build: ImageBuild) -> ResolvedAgent {
        ResolvedAgent { executor_image_build: Some(build), ..sample::agent() }
    }

    fn plan(build: ImageBuild) -> Plan {
        Recipe::of(&agent(build), &platform()).unwrap().unwrap().at("team-a", COMMIT)
    }

    #[test]
    fn equal_builds_have_one_key_and_whatever_changes_the_image_changes_the_key() {
        let first = plan(build());
        assert_eq!(first, plan(build()));
        assert_eq!(first.pod, format!("kubeopencode-image-{}", first.key));
        assert_eq!(first.about.image, format!("registry.example.com/agents/team-a:0123456789ab-{}", first.key));
        let same = ImageBuild { dockerfile: Some("Dockerfile".into()), context: Some(".".into()), ..build() };
        assert_eq!(plan(same).key, first.key, "defaults in words");
        let args = |value: &str| Some(BTreeMap::from([("GO".to_owned(), value.to_owned())]));
        let others = [
            ImageBuild { repository: "https://git.example.com/other.git".into(), ..build() },
            ImageBuild { dockerfile: Some("build/Dockerfile".into()), ..build() },
            ImageBuild { context: Some("build".into()), ..build() },
            ImageBuild { build_args: args("1.24"), ..build() },
            ImageBuild { build_args: args("1.25"), ..build() },
            ImageBuild { secret_ref: Some(LocalRef::new("git")), ..build() },
        ];
        let mut keys: Vec<_> = others.into_iter().map(|build| plan(build).key).collect();
        keys.push(first.key);
        keys.push(
            Recipe::of(&agent(build()), &platform()).unwrap().unwrap().at("team-a", &COMMIT.replace('0', "9")).key,
        );
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 8);
    }

    #[test]
    fn a_build_that_cannot_be_done_says_what_to_change() {
        let check = |build: ImageBuild, platform: &Platform, reason: &str, word: &str| {
            let agent = agent(build);
            let error = Recipe::of(&agent, platform).unwrap_err();
            assert!(error.reason() == reason && error.to_string().contains(word), "{error}");
        };
        check(build(), &sample::platform(), "ImageBuildUnavailable", "spec.imageBuild.registry");
        check(build(), &Platform { runs_images: false, ..platform() }, "ImageBuildUnavailable", "--runtime podman");
        for path in ["../Dockerfile", "/Dockerfile", "a/../../b", "--help"] {
            check(ImageBuild { dockerfile: Some(path.into()), ..build() }, &platform(), "Invalid", "dockerfile");
            check(ImageBuild { context: Some(path.into()), ..build() }, &platform(), "Invalid", "context");
        }
        let long = BTreeMap::from([("A".to_owned(), "x".repeat(MOST_ARGS))]);
        check(ImageBuild { build_args: Some(long), ..build() }, &platform(), "Invalid", "buildArgs");
        assert!(Recipe::of(&sample::agent(), &sample::platform()).unwrap().is_none(), "nothing is to be built");
    }

    #[test]
    fn a_full_commit_needs_no_look_up() {
        let of = |reference: &str| {
            let agent = agent(ImageBuild { reference: Some(reference.into()), ..build() });
            let platform = platform();
            let recipe = Recipe::of(&agent, &platform).unwrap().unwrap();
            (recipe.reference().to_owned(), recipe.commit())
        };
        assert_eq!(of(""), ("HEAD".to_owned(), None));
        assert_eq!(of("main"), ("main".to_owned(), None));
        assert_eq!(of(&COMMIT.to_uppercase()).1.as_deref(), Some(COMMIT));
    }

    #[test]
    fn the_login_in_an_address_is_not_shown() {
        let check = |address: &str, expected: &str| assert_eq!(without_login(address), expected);
        check("https://token@host/a.git", "https://host/a.git");
        check("https://user:p@ss@host/a@b.git", "https://host/a@b.git");
        check("https://host/a@b.git", "https://host/a@b.git");
        check("git@host:a.git", "git@host:a.git");
    }
}
