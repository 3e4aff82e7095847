//! Maps container images to programs on this machine.
//!
//! Every container sees the machine's file system, read-only. An image adds a few files to it and provides the defaults
//! of command, environment and user.

use std::path::{Path, PathBuf};

use api::names::images;
use domain::contract::{environment::SHARED_PROGRAM, paths::HELPER};

/// Path of OpenCode in the agent image.
const OPENCODE: &str = "/opencode";
/// Path of our program in the attach image, in place of `opencode`.
const ATTACH_PROGRAM: &str = "/usr/local/bin/opencode";
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// User of our images.
const USER: u32 = 1000;
/// As in the agent image, but with a link instead of a copy of 185 MB.
const INSTALL_OPENCODE: &str = r#"ln -sf /opencode "${TOOLS_DIR:-/tools}/opencode""#;

/// The content and defaults of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Files and directories of the machine, and their paths in the container. Read-only.
    pub files: Vec<(PathBuf, PathBuf)>,
    /// Default of the container's `command`.
    pub entrypoint: Vec<String>,
    /// Default of the container's `args`.
    pub arguments: Vec<String>,
    /// Variables; those of the container override them.
    pub env: Vec<(String, String)>,
    /// Default of `runAsUser`.
    pub user: u32,
    /// Default of `runAsGroup`.
    pub group: u32,
    /// Default of `workingDir`.
    pub directory: PathBuf,
}

impl Default for Image {
    /// The machine's programs, with a shell as the command.
    fn default() -> Self {
        Self {
            files: Vec::new(),
            entrypoint: Vec::new(),
            arguments: vec!["/bin/sh".to_owned()],
            env: vec![("PATH".to_owned(), PATH.to_owned())],
            user: USER,
            group: USER,
            directory: PathBuf::from("/"),
        }
    }
}

/// Errors of the image lookup. Each message says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The image is unknown, and host images are disabled.
    #[error(
        "image {image:?} is not available on this machine; start with --host-images to run its commands with the programs of this machine"
    )]
    Unknown { image: String },
    /// A program of the image is missing on this machine.
    #[error("image {image:?} cannot be used: {problem}")]
    Incomplete {
        image: String,
        /// What is missing and how to install it.
        problem: String,
    },
}

/// The known images.
#[derive(Clone, Debug, Default)]
pub struct ImageMap {
    images: Vec<(String, Result<Image, String>)>,
    /// Files in every container.
    shared: Vec<(PathBuf, PathBuf)>,
    /// Directories appended to `PATH`.
    path: Option<String>,
    host_images: bool,
}

impl ImageMap {
    /// Our own images, made from `program` (this binary) and `opencode` (OpenCode on this machine, if installed).
    pub fn ours(program: &Path, opencode: Option<&Path>) -> Self {
        let ours = |at: &str| vec![(program.to_owned(), PathBuf::from(at))];
        let command = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let mut system = Image { entrypoint: command(&[HELPER]), arguments: Vec::new(), ..Image::default() };
        system.env.push((SHARED_PROGRAM.to_owned(), HELPER.to_owned()));
        let attach = Image {
            files: ours(ATTACH_PROGRAM),
            entrypoint: command(&[ATTACH_PROGRAM]),
            arguments: Vec::new(),
            ..Image::default()
        };
        let agent = match opencode {
            Some(_) => Ok(Image {
                entrypoint: command(&["/bin/sh", "-c", INSTALL_OPENCODE]),
                arguments: Vec::new(),
                ..Image::default()
            }),
            None => {
                Err("OpenCode is not on this machine; install it with `npm install --global opencode-ai`".to_owned())
            }
        };
        let executor = Image { arguments: command(&["/bin/bash"]), ..Image::default() };
        let mut map =
            Self::default().with(images::SYSTEM, system).with(images::ATTACH, attach).with(images::EXECUTOR, executor);
        map.images.push((repository(images::AGENT).to_owned(), agent));
        map.shared.extend(ours(HELPER));
        map.shared.extend(opencode.map(|path| (path.to_owned(), PathBuf::from(OPENCODE))));
        map
    }

    /// Adds an image. Tags are ignored; a trailing `*` in the name matches anything.
    #[must_use]
    pub fn with(mut self, name: &str, image: Image) -> Self {
        self.images.push((repository(name).to_owned(), Ok(image)));
        self
    }

    /// Whether unknown images run with the programs of the machine.
    #[must_use]
    pub fn host_images(mut self, allowed: bool) -> Self {
        self.host_images = allowed;
        self
    }

    /// Directories appended to the containers' `PATH`, for tools outside of the standard directories.
    #[must_use]
    pub fn path(mut self, more: &str) -> Self {
        self.path = Some(more.to_owned());
        self
    }

    pub fn find(&self, image: &str) -> Result<Image, ImageError> {
        let name = repository(image);
        let known = self.images.iter().find(|(pattern, _)| match pattern.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == pattern,
        });
        let found = match known {
            Some((_, Ok(found))) => found.clone(),
            Some((_, Err(problem))) => {
                return Err(ImageError::Incomplete { image: image.to_owned(), problem: problem.clone() });
            }
            None if self.host_images => Image::default(),
            None => return Err(ImageError::Unknown { image: image.to_owned() }),
        };
        let files = self.shared.iter().chain(&found.files).cloned().collect();
        let longer = |value: &String| match &self.path {
            Some(more) => format!("{value}:{more}"),
            None => value.clone(),
        };
        let env = found.env.iter();
        let env = env.map(|(name, value)| (name.clone(), if name == "PATH" { longer(value) } else { value.clone() }));
        Ok(Image { files, env: env.collect(), ..found })
    }
}

/// The name of an image without tag and digest.
fn repository(image: &str) -> &str {
    let image = image.split('@').next().unwrap_or(image);
    match image.rsplit_once(':') {
        // A colon before a slash belongs to the port of a registry.
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_or_digest_does_not_matter() {
        let check = |image: &str, expected: &str| assert_eq!(repository(image), expected);
        check("host:5000/team/app:v1", "host:5000/team/app");
        check("host:5000/team/app", "host:5000/team/app");
        check("app@sha256:abc", "app");
        check("app:v1@sha256:abc", "app");
    }

    #[test]
    fn an_unknown_image_says_what_to_do() {
        let map = ImageMap::ours(Path::new("/us"), None);
        let error = map.find("postgres:17").unwrap_err().to_string();
        assert!(error.contains("--host-images"), "{error}");
        assert_eq!(map.host_images(true).find("postgres:17").unwrap().arguments, Image::default().arguments);
    }

    #[test]
    fn opencode_is_in_every_container_or_the_agent_image_says_how_to_get_it() {
        let without = ImageMap::ours(Path::new("/us"), None).find(images::AGENT).unwrap_err().to_string();
        assert!(without.contains("npm install"), "{without}");
        let with = ImageMap::ours(Path::new("/us"), Some(Path::new("/oc")));
        for image in [images::AGENT, images::EXECUTOR, images::SYSTEM] {
            assert!(with.find(image).unwrap().files.contains(&("/oc".into(), "/opencode".into())), "{image}");
        }
    }

    #[test]
    fn our_program_is_in_every_container_and_need_not_be_copied() {
        let map = ImageMap::ours(Path::new("/us"), None).host_images(true);
        for image in [images::SYSTEM, images::EXECUTOR, "any"] {
            assert!(map.find(image).unwrap().files.contains(&("/us".into(), "/kubeopencode".into())), "{image}");
        }
        let system = map.find(images::SYSTEM).unwrap();
        assert_eq!(system.entrypoint, ["/kubeopencode"]);
        assert!(system.env.contains(&(SHARED_PROGRAM.to_owned(), "/kubeopencode".to_owned())));
    }

    #[test]
    fn tools_of_the_user_are_found_after_those_of_the_image() {
        let image = ImageMap::default().host_images(true).path("/home/me/bin").find("any").unwrap();
        assert_eq!(image.env, [("PATH".to_owned(), format!("{PATH}:/home/me/bin"))]);
    }

    #[test]
    fn a_star_stands_for_anything() {
        let map = ImageMap::default().with("mirror/*", Image::default());
        assert!(map.find("mirror/a/b:1").is_ok() && map.find("other").is_err());
    }
}
