//! Negotiation of the representation of objects.

use crate::request::Query;
use crate::status_error::StatusError;

/// How much of an object a table row contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Object,
}

/// The representation of objects in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Representation {
    Whole,
    Table(Include),
    /// Only the metadata.
    Partial,
}

struct Media<'a> {
    name: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Media<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        Self { name, parameters: parts.filter_map(|part| part.split_once('=')).collect() }
    }

    fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }
}

fn medias(accept: &str) -> impl Iterator<Item = Media<'_>> {
    accept.split(',').map(|part| Media::parse(part.trim()))
}

impl Representation {
    /// The first supported representation of the `Accept` header. Every response is JSON: clients that prefer protobuf
    /// accept it too.
    pub(crate) fn negotiate(accept: Option<&str>, query: &Query) -> Result<Self, StatusError> {
        let Some(accept) = accept.filter(|accept| !accept.is_empty()) else { return Ok(Self::Whole) };
        for media in medias(accept) {
            let known = matches!(
                media.name,
                "application/json" | "application/*" | "*/*" | "application/vnd.kubernetes.protobuf"
            );
            if !known {
                continue;
            }
            match media.parameter("as") {
                None => return Ok(Self::Whole),
                Some("Table") if media.parameter("g") == Some("meta.k8s.io") => {
                    return Ok(Self::Table(match query.get("includeObject") {
                        Some("None") => Include::Nothing,
                        Some("Object") => Include::Object,
                        _ => Include::Metadata,
                    }));
                }
                Some("PartialObjectMetadata" | "PartialObjectMetadataList") => return Ok(Self::Partial),
                Some(_) => {}
            }
        }
        let message = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
                       application/vnd.kubernetes.protobuf, application/json;stream=watch, \
                       application/vnd.kubernetes.protobuf;stream=watch";
        Err(StatusError::new(http::StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
            .with_details(serde_json::json!({})))
    }
}

/// The version of aggregated discovery that a client requests.
pub(super) fn aggregated_discovery(accept: Option<&str>) -> Option<&'static str> {
    medias(accept.unwrap_or_default()).filter(|media| media.parameter("as") == Some("APIGroupDiscoveryList")).find_map(
        |media| match media.parameter("v") {
            Some("v2") => Some("v2"),
            Some("v2beta1") => Some("v2beta1"),
            _ => None,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(accept: &str, expected: Option<Representation>) {
        assert_eq!(Representation::negotiate(Some(accept), &Query::default()).ok(), expected, "{accept}");
    }

    #[test]
    fn the_first_form_that_can_be_had_is_taken() {
        check(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            Some(Representation::Table(Include::Metadata)),
        );
        check("application/vnd.kubernetes.protobuf,application/json", Some(Representation::Whole));
        check("application/json;as=Unheard;v=v1;g=meta.k8s.io,application/json", Some(Representation::Whole));
        check("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Some(Representation::Partial));
        check("*/*", Some(Representation::Whole));
        check("text/html", None);
    }

    #[test]
    fn aggregated_discovery_is_known_in_both_versions() {
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        assert_eq!(aggregated_discovery(Some(accept)), Some("v2beta1"));
        assert_eq!(aggregated_discovery(Some("application/json")), None);
    }
}
