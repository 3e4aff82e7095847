//! Serializes objects in the requested representation.

use std::fmt::Display;

use bytes::{BufMut, Bytes, BytesMut};
use jiff::Timestamp;
use objects::table::{Columns, IncludeObject, columns, custom_columns, table};
use serde_json::{Value, json, value::RawValue};

use super::Request;
use crate::http::{Include, Representation};
use crate::status_error::StatusError;

impl Request {
    /// The leading `apiVersion` and `kind` of every object of this kind.
    pub(super) fn type_prefix(&self) -> String {
        let resource = &self.resource;
        if resource.custom.is_some() {
            format!("{{\"apiVersion\":\"{}\",\"kind\":\"{}\",", resource.api_version(), resource.kind)
        } else {
            format!("{{\"kind\":\"{}\",\"apiVersion\":\"{}\",", resource.kind, resource.api_version())
        }
    }

    /// Adds the requested type to stored bytes, which begin with a brace and always have metadata.
    pub(super) fn with_type(&self, stored: &[u8]) -> Bytes {
        if self.resource.is_stored_differently()
            && let Ok(object) = self.resource.read(stored)
        {
            return object.to_string().into();
        }
        let prefix = self.type_prefix();
        let mut whole = BytesMut::with_capacity(prefix.len() + stored.len());
        whole.put_slice(prefix.as_bytes());
        whole.put_slice(stored.get(1..).unwrap_or_default());
        whole.freeze()
    }

    pub(super) fn columns(&self) -> Columns {
        match &self.resource.custom {
            Some(version) => custom_columns(Some(&version.columns).filter(|columns| columns.is_array())),
            None => columns(&self.resource.api_version(), &self.resource.kind),
        }
    }

    pub(super) fn present_one(&self, object: &Value) -> Result<String, StatusError> {
        match self.form {
            Representation::Whole => serde_json::to_string(object).map_err(StatusError::internal),
            Representation::Partial => Ok(partial(&object["metadata"])),
            Representation::Table(include) => {
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                let objects = std::slice::from_ref(object);
                Ok(table(objects, metadata, &self.columns(), included(include), true, Timestamp::now()).to_string())
            }
        }
    }

    /// A list of serialized objects.
    pub(super) fn present_list(&self, metadata: &Value, items: &[Bytes]) -> Bytes {
        let resource = &self.resource;
        let prefix = if resource.custom.is_some() { self.type_prefix() } else { "{".to_owned() };
        let head = if resource.custom.is_some() {
            format!("{{\"apiVersion\":\"{}\",\"items\":[", resource.api_version())
        } else {
            format!(
                "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
                resource.list_kind,
                resource.api_version()
            )
        };
        let tail = if resource.custom.is_some() {
            format!("],\"kind\":\"{}\",\"metadata\":{metadata}}}\n", resource.list_kind)
        } else {
            "]}\n".to_owned()
        };
        let size: usize = items.iter().map(|item| item.len() + prefix.len() + 1).sum();
        let mut whole = BytesMut::with_capacity(size + head.len() + tail.len());
        whole.put_slice(head.as_bytes());
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                whole.put_u8(b',');
            }
            if resource.is_stored_differently() {
                whole.put(self.with_type(item));
                continue;
            }
            whole.put_slice(prefix.as_bytes());
            whole.put_slice(item.get(1..).unwrap_or_default());
        }
        whole.put_slice(tail.as_bytes());
        whole.freeze()
    }

    /// A list in the requested representation.
    pub(super) fn present_items(&self, metadata: &Value, items: &[Bytes]) -> Result<Bytes, StatusError> {
        match self.form {
            Representation::Whole => Ok(self.present_list(metadata, items)),
            Representation::Partial => {
                let mut whole = format!(
                    "{{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/v1\",\
                     \"metadata\":{metadata},\"items\":["
                );
                for (index, item) in items.iter().enumerate() {
                    whole.extend([if index > 0 { "," } else { "" }, &partial(metadata_of(item)?)]);
                }
                whole.push_str("]}");
                Ok(whole.into())
            }
            Representation::Table(include) => {
                let objects = items.iter().map(|bytes| self.resource.read(bytes)).collect::<Result<Vec<_>, _>>()?;
                let included = included(include);
                let table = table(&objects, metadata.clone(), &self.columns(), included, true, Timestamp::now());
                Ok(table.to_string().into())
            }
        }
    }

    /// One object of a watch event. Only the first table of a watch has column definitions.
    pub(super) fn present_event(&self, stored: &[u8], columns: &Columns, first: bool) -> Result<Bytes, StatusError> {
        match self.form {
            Representation::Whole => Ok(self.with_type(stored)),
            Representation::Partial => Ok(partial(metadata_of(stored)?).into()),
            Representation::Table(include) => {
                let object = self.resource.read(stored)?;
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                let table = table(&[object], metadata, columns, included(include), first, Timestamp::now());
                Ok(table.to_string().into())
            }
        }
    }
}

fn included(include: Include) -> IncludeObject {
    match include {
        Include::Nothing => IncludeObject::None,
        Include::Metadata => IncludeObject::Metadata,
        Include::Object => IncludeObject::Object,
    }
}

/// The stored metadata of an object. Skipping the rest is most of the saving in a list of thousands.
fn metadata_of(stored: &[u8]) -> Result<&RawValue, StatusError> {
    #[derive(serde::Deserialize)]
    struct Stored<'a> {
        #[serde(borrow)]
        metadata: &'a RawValue,
    }
    serde_json::from_slice::<Stored<'_>>(stored).map(|stored| stored.metadata).map_err(StatusError::internal)
}

fn partial(metadata: impl Display) -> String {
    format!(r#"{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{metadata}}}"#)
}
