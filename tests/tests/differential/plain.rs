//! Answers without the parts that differ between any two servers: identities, versions, times, generated names, addresses.
//!
//! Nothing is left out that a client could rely on: an identity becomes the number of its first appearance, so that a
//! version that should have changed, and has not, is seen.

use std::collections::HashMap;

use serde_json::{Value, json};

/// Clients of the sequences write times of this year; all others are a server's.
const OUR_YEAR: &str = "2020-";

/// The texts before a version in the messages of a server.
const VERSIONS: [&str; 4] = [
    "ResourceVersion in the precondition (",
    "ResourceVersion in record (",
    "ResourceVersion in precondition: ",
    "ResourceVersion in object meta: ",
];

/// How a sentence begins that shows a whole object.
const SHOWN: &str = "Invalid value: \"{\\\"";

/// Values observed in one sequence so far.
#[derive(Default)]
pub struct Plain {
    uids: HashMap<String, usize>,
    versions: HashMap<String, usize>,
    generated: Vec<String>,
}

impl Plain {
    /// A name that the server generated.
    pub fn learn_name(&mut self, name: &str) {
        if !self.generated.iter().any(|known| known == name) {
            self.generated.push(name.to_owned());
        }
    }

    /// The body of an answer, or the object of an event.
    pub fn body(&mut self, mut body: Value) -> Value {
        if body["items"].is_array() || body["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) {
            if body["items"].is_null() {
                // Go's notation of a nil list; clients read both alike.
                body["items"] = json!([]);
            }
            let metadata = &mut body["metadata"];
            metadata["resourceVersion"] = json!("a moment");
            if metadata["continue"].as_str().is_some_and(|token| !token.is_empty()) {
                metadata["continue"] = json!("a token");
            }
        }
        if body["kind"] == "Status" {
            sort_causes(&mut body);
        }
        if body["kind"] == "Namespace"
            && let Some(finalizers) = body["metadata"]["finalizers"].as_array_mut()
        {
            // A deletion leaves their order to chance.
            finalizers.sort_by_key(ToString::to_string);
        }
        self.walk("", &mut body);
        body.sort_all_objects();
        body
    }

    /// A text that a person reads.
    pub fn text(&mut self, text: &str) -> String {
        // What follows is how Go prints the difference of two Pods ("Pods that cannot change" in
        // docs/local-differences.md).
        let end = text.find('\n').filter(|_| text.contains("pod updates may not change fields"));
        let mut text = text[..end.unwrap_or(text.len())].to_owned();
        // The order of the fields in it is that of Go ("Wrong types in a patch" in docs/local-differences.md).
        if let (Some(start), Some(end)) = (text.find(SHOWN), text.rfind("}\": ")) {
            text.replace_range(start..end + 2, "Invalid value: an object");
        }
        for (index, name) in self.generated.iter().enumerate() {
            text = text.replace(name, &format!("generated-{index}"));
        }
        while let Some(at) = find_uid(&text) {
            let number = self.number_of_uid(&text[at..at + 36]);
            text.replace_range(at..at + 36, &format!("uid-{number}"));
        }
        for before in VERSIONS {
            let Some(start) = text.find(before).map(|at| at + before.len()) else { continue };
            let digits = text[start..].bytes().take_while(u8::is_ascii_digit).count();
            let number = self.number_of_version(&text[start..start + digits]);
            text.replace_range(start..start + digits, &format!("version-{number}"));
        }
        text
    }

    fn walk(&mut self, field: &str, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (field, value) in fields {
                    self.walk(field, value);
                }
            }
            Value::Array(items) => {
                for item in items.iter_mut() {
                    self.walk(field, item);
                }
                if field == "managedFields" {
                    // They are in the order of their times.
                    for item in items.iter_mut() {
                        drop(item.as_object_mut().map(|entry| entry.shift_remove("time")));
                        item.sort_all_objects();
                    }
                    items.sort_by_key(ToString::to_string);
                }
            }
            Value::String(text) => {
                if let Some(replacement) = self.replacement(field, text) {
                    *text = replacement;
                }
            }
            _ => {}
        }
    }

    fn replacement(&mut self, field: &str, text: &str) -> Option<String> {
        match field {
            "resourceVersion" if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() => {
                Some(format!("version-{}", self.number_of_version(text)))
            }
            "clusterIP" | "clusterIPs" if text.parse::<std::net::Ipv4Addr>().is_ok() => Some("an address".to_owned()),
            _ if is_time(text) && !text.starts_with(OUR_YEAR) => Some("a time".to_owned()),
            "message" | "uid" | "name" => Some(self.text(text)),
            _ if self.generated.iter().any(|name| text.contains(name.as_str())) => Some(self.text(text)),
            _ => None,
        }
    }

    fn number_of_uid(&mut self, uid: &str) -> usize {
        let next = self.uids.len();
        *self.uids.entry(uid.to_owned()).or_insert(next)
    }

    fn number_of_version(&mut self, version: &str) -> usize {
        let next = self.versions.len();
        *self.versions.entry(version.to_owned()).or_insert(next)
    }
}

fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 20
        && bytes.ends_with(b"Z")
        && bytes[10] == b'T'
        && bytes[..4].iter().all(u8::is_ascii_digit)
        && bytes[13] == b':'
}

/// Where a random identity begins in a text.
fn find_uid(text: &str) -> Option<usize> {
    let is_uid = |window: &[u8]| {
        window.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            14 => *byte == b'4',
            _ => byte.is_ascii_hexdigit(),
        })
    };
    text.as_bytes().windows(36).position(is_uid)
}

/// In which order several complaints come is left to chance in the real server, and so is the order in its sentence.
fn sort_causes(status: &mut Value) {
    let Some(causes) = status.pointer_mut("/details/causes").and_then(Value::as_array_mut) else { return };
    causes.iter_mut().for_each(Value::sort_all_objects);
    causes.sort_by_key(ToString::to_string);
    // It looks at some fields twice.
    causes.dedup();
    let several = causes.len() > 1;
    let message = status["message"].as_str().unwrap_or_default();
    if several && let Some((start, _)) = message.split_once("is invalid: ") {
        status["message"] = json!(format!("{start}is invalid: what the causes say"));
    }
}
