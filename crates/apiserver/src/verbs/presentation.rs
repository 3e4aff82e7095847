//! Objects in the form that a client asked for.

use std::fmt::Display;

use bytes::{BufMut, Bytes, BytesMut};
use jiff::Timestamp;
use objects::table::{Columns, IncludeObject, columns, custom_columns, table};
use serde_json::{Value, json, value::RawValue};

use super::Request;
use crate::http::{Form, Include};
use crate::refusal::Refusal;

impl Request {
    /// The beginning of every object of this kind.
    pub(super) fn type_prefix(&self) -> String {
        let resource = &self.resource;
        if resource.custom.is_some() {
            format!("{{\"apiVersion\":\"{}\",\"kind\":\"{}\",", resource.api_version(), resource.kind)
        } else {
            format!("{{\"kind\":\"{}\",\"apiVersion\":\"{}\",", resource.kind, resource.api_version())
        }
    }

    /// Stored bytes with the type that was asked for. They begin with a bracket, and always have metadata.
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

    /// One object.
    pub(super) fn present_one(&self, object: &Value) -> Result<String, Refusal> {
        match self.form {
            Form::Whole => serde_json::to_string(object).map_err(Refusal::internal),
            Form::Partial => Ok(partial(&object["metadata"])),
            Form::Table(include) => {
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                let objects = std::slice::from_ref(object);
                Ok(table(objects, metadata, &self.columns(), included(include), true, Timestamp::now()).to_string())
            }
        }
    }

    /// A list of objects that are already written.
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

    /// The same in the form that was asked for.
    pub(super) fn present_items(&self, metadata: &Value, items: &[Bytes]) -> Result<Bytes, Refusal> {
        match self.form {
            Form::Whole => Ok(self.present_list(metadata, items)),
            Form::Partial => {
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
            Form::Table(include) => {
                let objects = items.iter().map(|bytes| self.resource.read(bytes)).collect::<Result<Vec<_>, _>>()?;
                let included = included(include);
                let table = table(&objects, metadata.clone(), &self.columns(), included, true, Timestamp::now());
                Ok(table.to_string().into())
            }
        }
    }

    /// One object of a watch event. Of the tables only the first has headers.
    pub(super) fn present_event(&self, stored: &[u8], columns: &Columns, first: bool) -> Result<Bytes, Refusal> {
        match self.form {
            Form::Whole => Ok(self.with_type(stored)),
            Form::Partial => Ok(partial(metadata_of(stored)?).into()),
            Form::Table(include) => {
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

/// The metadata of a stored object, as they are stored. The rest is skipped, which is most of the work in a list of
/// thousands.
fn metadata_of(stored: &[u8]) -> Result<&RawValue, Refusal> {
    #[derive(serde::Deserialize)]
    struct Stored<'a> {
        #[serde(borrow)]
        metadata: &'a RawValue,
    }
    serde_json::from_slice::<Stored<'_>>(stored).map(|stored| stored.metadata).map_err(Refusal::internal)
}

fn partial(metadata: impl Display) -> String {
    format!(r#"{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{metadata}}}"#)
}
