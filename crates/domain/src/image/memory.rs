//! The images that were built in a namespace, in one ConfigMap. After its deletion, images are built again when they are
//! needed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{About, Plan};

/// Name of the ConfigMap.
pub const CONFIG_MAP: &str = "kubeopencode-images";
/// Images that are remembered; the oldest are forgotten first. A forgotten image is built again when it is needed.
const MOST: usize = 200;

/// An image in the registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Built {
    /// The image, by digest.
    pub image: String,
    pub repository: String,
    pub commit: String,
    pub built_at: Timestamp,
}

impl Built {
    pub fn new(about: &About, image: String, built_at: Timestamp) -> Self {
        Self { image, repository: about.repository.clone(), commit: about.commit.clone(), built_at }
    }
}

/// The image of a plan, if it was built.
pub fn recall(data: &BTreeMap<String, String>, plan: &Plan) -> Option<String> {
    read(data.get(&plan.key)?).map(|built| built.image)
}

/// Adds an image. Returns whether anything changed.
pub fn remember(data: &mut BTreeMap<String, String>, key: &str, built: &Built) -> bool {
    let text = serde_json::to_string(built).unwrap_or_default();
    if data.get(key) == Some(&text) {
        return false;
    }
    data.insert(key.to_owned(), text);
    while data.len() > MOST {
        // What cannot be read goes first.
        let age = |text: &String| read(text).map(|built| built.built_at);
        let Some(oldest) = data.iter().min_by_key(|(_, text)| age(text)).map(|(key, _)| key.clone()) else { break };
        data.remove(&oldest);
    }
    true
}

fn read(text: &str) -> Option<Built> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(second: i64) -> Built {
        let at = Timestamp::from_second(second).unwrap();
        Built::new(&About::default(), format!("r/n@sha256:{second}"), at)
    }

    #[test]
    fn the_newest_images_are_remembered() {
        let mut data = BTreeMap::from([("foreign".to_owned(), "not ours".to_owned())]);
        for second in 0..=200 {
            assert!(remember(&mut data, &format!("{second:03}"), &built(second)));
        }
        assert!(!remember(&mut data, "200", &built(200)), "it is known");
        let plan = |key: &str| Plan { key: key.into(), pod: String::new(), about: About::default() };
        assert_eq!(data.len(), MOST);
        assert_eq!(recall(&data, &plan("200")).as_deref(), Some("r/n@sha256:200"));
        assert_eq!(recall(&data, &plan("000")), None, "the oldest is forgotten");
        assert_eq!(recall(&data, &plan("foreign")), None);
    }
}
