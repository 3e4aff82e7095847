//! Rules that apply to every schema and every operation.

use serde_json::{Map, Value, json};

use super::bodies::reference;

/// No field is nullable: unset fields are omitted.
pub fn without_null(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|one| one != "null");
                if let [one] = types.as_slice() {
                    let one = one.clone();
                    object.insert("type".to_owned(), one);
                }
            }
            for key in ["oneOf", "anyOf"] {
                let Some(Value::Array(choices)) = object.get_mut(key) else { continue };
                choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
                if let [Value::Object(only)] = choices.as_slice() {
                    let only = only.clone();
                    object.shift_remove(key);
                    // The description at the field wins over that of its type.
                    for (key, value) in only {
                        object.entry(key).or_insert(value);
                    }
                }
            }
            if let Some(Value::Array(words)) = object.get_mut("enum") {
                words.retain(|word| !word.is_null());
            }
            if object.get("default").is_some_and(Value::is_null) {
                object.shift_remove("default");
            }
            object.values_mut().for_each(without_null);
        }
        Value::Array(list) => list.iter_mut().for_each(without_null),
        _ => {}
    }
}

pub struct Operation<'a> {
    pub path: &'a str,
    pub method: &'a str,
    pub body: &'a mut Value,
}

/// Every operation of a document.
pub fn operations(document: &mut Value) -> impl Iterator<Item = Operation<'_>> {
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    paths.flat_map(|(path, item)| {
        let item = item.as_object_mut().into_iter().flatten();
        let known = item.filter(|(method, _)| ["get", "put", "post", "delete"].contains(&method.as_str()));
        known.map(move |(method, body)| Operation { path, method, body })
    })
}

/// An error response that many operations share.
pub struct Refusal {
    name: &'static str,
    code: &'static str,
    description: &'static str,
}

const fn refusal(name: &'static str, code: &'static str, description: &'static str) -> Refusal {
    Refusal { name, code, description }
}

const REFUSALS: [Refusal; 12] = [
    refusal("BadRequest", "400", "The request is malformed"),
    refusal("Unauthorized", "401", "The caller is not authenticated"),
    refusal("Forbidden", "403", "The caller lacks a right"),
    refusal("NotFound", "404", "The object does not exist"),
    refusal("Conflict", "409", "Not possible in the current state, or changed concurrently"),
    refusal("TooLarge", "413", "The body is too large"),
    refusal("UnsupportedMediaType", "415", "The content type of the body is not supported"),
    refusal("Invalid", "422", "A field is invalid"),
    refusal("TooManyRequests", "429", "Too many requests"),
    refusal("Internal", "500", "Internal error of the server"),
    refusal("BadGateway", "502", "Unexpected response of the Agent's server"),
    refusal("Unavailable", "503", "Temporarily unavailable; retry"),
];

impl Refusal {
    fn response(&self, description: &str) -> Value {
        let mut response = json!({
            "description": description,
            "content": { "application/json": { "schema": reference("ErrorBody") } },
        });
        if self.code == "429" {
            response["headers"] = json!({ "Retry-After": {
                "description": "Seconds to wait.", "schema": { "type": "integer", "minimum": 1 } } });
        }
        response
    }
}

/// The shared error responses, by name.
pub fn refusals() -> Map<String, Value> {
    let named = |refusal: &Refusal| (refusal.name.to_owned(), refusal.response(refusal.description));
    REFUSALS.iter().map(named).collect()
}

/// Paths that need no login.
const OPEN: [&str; 4] = ["/api/v1/health", "/api/v1/ready", "/api/v1/info", "/api/v1/login"];

impl Operation<'_> {
    /// Describes path parameters, authentication and error responses.
    pub fn complete(&mut self) {
        self.name_parts();
        let open = OPEN.contains(&self.path);
        if open {
            self.body["security"] = json!([]);
        }
        for answer in self.body["responses"].as_object_mut().into_iter().flatten().map(|(_, answer)| answer) {
            if answer.get("description").is_none_or(|description| description == "") {
                answer["description"] = "Success".into();
            }
        }
        for refusal in &REFUSALS {
            if !self.is_refused_by(refusal, open) {
                continue;
            }
            let answer = &mut self.body["responses"][refusal.code];
            if answer.get("content").is_some() {
                continue;
            }
            *answer = match answer.get("description").and_then(Value::as_str) {
                Some(description) => refusal.response(description),
                None => json!({ "$ref": format!("#/components/responses/{}", refusal.name) }),
            };
        }
    }

    fn is_refused_by(&self, refusal: &Refusal, open: bool) -> bool {
        let changes = self.method != "get";
        let (sends, named) = (self.body.get("requestBody").is_some(), self.path.contains("{name}"));
        let asks_agent = self.path.contains("/session") || self.path.contains("/permissions");
        let login = self.path.ends_with("/login");
        match refusal.code {
            "401" | "403" => !open || login,
            "404" => named || self.path.ends_with("/config") || changes && !open,
            "409" => changes && !open || asks_agent,
            "413" | "415" => sends,
            "422" => changes || self.path.ends_with("/upcoming"),
            "502" => asks_agent,
            _ => true,
        }
    }

    /// Sets the schemas of names in paths.
    fn name_parts(&mut self) {
        for parameter in self.body.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
            if parameter["in"] != "path" {
                continue;
            }
            let schema = match parameter["name"].as_str() {
                Some("namespace") => {
                    json!({ "type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" })
                }
                Some("name") => json!({ "type": "string", "maxLength": 253,
                    "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$" }),
                _ => continue,
            };
            parameter["schema"] = schema;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mut schema: Value, expected: &Value) {
        without_null(&mut schema);
        assert_eq!(schema, *expected);
    }

    #[test]
    fn what_can_be_left_out_is_not_null() {
        check(json!({"type": ["string", "null"]}), &json!({"type": "string"}));
        check(json!({"type": ["string", "integer", "null"]}), &json!({"type": ["string", "integer"]}));
        check(
            json!({"description": "d", "oneOf": [{"type": "null"}, {"$ref": "#/x", "description": "e"}]}),
            &json!({"description": "d", "$ref": "#/x"}),
        );
        check(
            json!({"anyOf": [{"$ref": "#/x"}, {"$ref": "#/y"}]}),
            &json!({"anyOf": [{"$ref": "#/x"}, {"$ref": "#/y"}]}),
        );
        check(json!({"enum": ["a", null], "default": null}), &json!({"enum": ["a"]}));
        check(json!({"items": {"type": ["null", "boolean"]}}), &json!({"items": {"type": "boolean"}}));
    }
}
