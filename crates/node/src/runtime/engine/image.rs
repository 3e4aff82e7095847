//! Metadata of an engine's image.

use std::path::PathBuf;

use serde::Deserialize;

use crate::runtime::images::Image;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) image: Image,
    /// The user, if it is a name: only the image can map it to a uid.
    pub(crate) user_name: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    #[serde(default)]
    config: Option<Config>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Config {
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    entrypoint: Option<Vec<String>>,
    #[serde(default)]
    cmd: Option<Vec<String>>,
    #[serde(default)]
    working_dir: Option<String>,
}

/// Parses the output of `image inspect`.
pub(super) fn read(text: &str) -> Option<Found> {
    let all: Vec<Inspected> = serde_json::from_str(text).ok()?;
    let Config { user, entrypoint, cmd, working_dir } = all.into_iter().next()?.config.unwrap_or_default();
    let user = user.unwrap_or_default();
    let (name, group) = user.split_once(':').unwrap_or((&user, ""));
    let number = if name.is_empty() { Some(0) } else { name.parse().ok() };
    let directory = working_dir.filter(|directory| !directory.is_empty());
    let image = Image {
        files: Vec::new(),
        entrypoint: entrypoint.unwrap_or_default(),
        arguments: cmd.unwrap_or_default(),
        // The engine sets the variables of the image.
        env: Vec::new(),
        user: number.unwrap_or_default(),
        group: group.parse().unwrap_or_default(),
        directory: directory.map_or_else(|| PathBuf::from("/"), PathBuf::from),
    };
    Some(Found { image, user_name: number.is_none().then(|| name.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_says_what_it_starts_as_whom_and_where() {
        let found = read(
            r#"[{"Id": "x", "Config": {"User": "1000:7", "Entrypoint": ["/run"], "Cmd": ["-v"], "WorkingDir": "/app"}}]"#,
        );
        let Found { image, user_name } = found.unwrap();
        assert_eq!((image.user, image.group, user_name), (1000, 7, None));
        assert_eq!(
            (image.entrypoint, image.arguments, image.directory),
            (vec!["/run".into()], vec!["-v".into()], "/app".into())
        );
    }

    #[test]
    fn a_user_may_be_root_or_a_name_that_only_the_image_knows() {
        let user = |text: &str| {
            let found = read(&format!(r#"[{{"Config": {{"User": {text:?}, "Entrypoint": null}}}}]"#)).unwrap();
            (found.image.user, found.user_name)
        };
        assert_eq!(user(""), (0, None));
        assert_eq!(user("node"), (0, Some("node".to_owned())));
        assert_eq!(read("[]"), None);
        assert_eq!(read("Error: no such image"), None);
    }
}
