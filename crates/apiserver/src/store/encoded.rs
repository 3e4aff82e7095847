//! A serialized object without its revision.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::Value;

/// The bytes of an object with a gap for its revision.
///
/// Only the writer thread knows the next revision, and it must not spend its time on serialization.
#[derive(Clone, Debug)]
pub(crate) struct EncodedObject {
    bytes: Vec<u8>,
    gap: usize,
}

impl EncodedObject {
    /// Serializes `object`. Omits `apiVersion` and `kind`, which depend on the requested version.
    pub(crate) fn new(object: &Value) -> Result<Self, serde_json::Error> {
        let mut bytes = Vec::with_capacity(1024);
        let mut gap = 0;
        bytes.extend_from_slice(b"{\"metadata\":{");
        if let Some(Value::Object(metadata)) = object.get("metadata") {
            for (key, value) in metadata.iter().filter(|(key, _)| *key != "resourceVersion") {
                member(&mut bytes, key, value)?;
                bytes.push(b',');
                if key == "uid" {
                    gap = revision_gap(&mut bytes);
                    bytes.push(b',');
                }
            }
        }
        if gap == 0 {
            gap = revision_gap(&mut bytes);
        } else {
            bytes.pop();
        }
        bytes.push(b'}');
        for (key, value) in object.as_object().into_iter().flatten() {
            if !matches!(key.as_str(), "metadata" | "apiVersion" | "kind") {
                bytes.push(b',');
                member(&mut bytes, key, value)?;
            }
        }
        bytes.push(b'}');
        Ok(Self { bytes, gap })
    }

    /// Size without the revision, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The object at `revision`.
    pub(crate) fn at(&self, revision: u64) -> Bytes {
        let number = revision.to_string();
        let mut whole = BytesMut::with_capacity(self.bytes.len() + number.len());
        whole.put_slice(self.bytes.get(..self.gap).unwrap_or_default());
        whole.put_slice(number.as_bytes());
        whole.put_slice(self.bytes.get(self.gap..).unwrap_or_default());
        whole.freeze()
    }
}

fn member(bytes: &mut Vec<u8>, key: &str, value: &Value) -> Result<(), serde_json::Error> {
    serde_json::to_writer(&mut *bytes, key)?;
    bytes.push(b':');
    serde_json::to_writer(bytes, value)
}

fn revision_gap(bytes: &mut Vec<u8>) -> usize {
    bytes.extend_from_slice(b"\"resourceVersion\":\"");
    let gap = bytes.len();
    bytes.push(b'"');
    gap
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(object: &Value, expected: &Value) {
        let bytes = EncodedObject::new(object).unwrap().at(42);
        assert_eq!(&serde_json::from_slice::<Value>(&bytes).unwrap(), expected);
    }

    #[test]
    fn the_revision_is_put_into_the_metadata_and_the_type_is_left_out() {
        check(
            &json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a", "uid": "u", "labels": {}}, "spec": {"x": "resourceVersion"}}),
            &json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "42", "labels": {}}, "spec": {"x": "resourceVersion"}}),
        );
        check(&json!({"metadata": {"resourceVersion": "7"}}), &json!({"metadata": {"resourceVersion": "42"}}));
        check(&json!({}), &json!({"metadata": {"resourceVersion": "42"}}));
        check(&json!({"metadata": {"uid": "u"}}), &json!({"metadata": {"uid": "u", "resourceVersion": "42"}}));
        check(&json!({"metadata": {"name": "u"}}), &json!({"metadata": {"name": "u", "resourceVersion": "42"}}));
    }
}
