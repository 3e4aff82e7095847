//! The built-in template `scripted`: a first Task needs neither a key nor the internet.

use api::AgentTemplate;
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;

use crate::demo::{self, Error};

/// The name of the built-in template.
pub const NAME: &str = "scripted";
/// The label of the built-in template. Commands use it only where there is no other template.
pub const LABEL: &str = "kubeopencode.io/scripted-model";

const MANIFEST: &str = include_str!("../manifests/template.yaml");

/// Creates or updates the template in `namespace`, with the scripted model at `model_url`. A template of a user with
/// the same name is left alone.
pub async fn offer(client: &Client, namespace: &str, model_url: &str) -> Result<(), Error> {
    let templates: Api<AgentTemplate> = Api::namespaced(client.clone(), namespace);
    match templates.get_metadata_opt(NAME).await {
        Ok(Some(found)) if !found.labels().contains_key(LABEL) => Ok(()),
        Ok(_) => demo::apply(client, &manifest(namespace, model_url)?).await,
        Err(error) => Err(Error::Api { what: format!("cannot read AgentTemplate {NAME}"), why: demo::message(error) }),
    }
}

pub(crate) fn manifest(namespace: &str, model_url: &str) -> Result<Value, Error> {
    let text = MANIFEST.replace("MODEL_URL", model_url);
    let mut template: Value = serde_saphyr::from_str(&text).map_err(|error| Error::Manifest(error.to_string()))?;
    template["metadata"]["namespace"] = namespace.into();
    Ok(template)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_where_it_was_asked_for_and_says_what_it_is() {
        let template = manifest("here", "http://127.0.0.1:1/v1").unwrap();
        assert_eq!(template["metadata"]["namespace"], "here");
        assert_eq!(template["metadata"]["name"], NAME);
        assert_eq!(template["metadata"]["labels"][LABEL], "true");
        assert_eq!(template["spec"]["config"]["provider"]["scripted"]["options"]["baseURL"], "http://127.0.0.1:1/v1");
    }
}
