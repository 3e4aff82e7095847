//! The description of the API (OpenAPI 3.1), made from the code and from the kinds' definitions.

mod bodies;
mod pieces;
mod tidy;

use api::{
    Agent, AgentTemplate, AgentTool, AgentWorkflow, CronTask, Instruction, MCPServer, Model, ModelProvider, Registry,
    RemoteMCPServer, Task,
};
use serde_json::{Map, Value};
use utoipa::{
    IntoParams, ToSchema,
    openapi::{
        Components, Content, HttpMethod, Info, License, ObjectBuilder, OpenApi, Ref, RefOr, Required, Response,
        SecurityRequirement,
        path::{OperationBuilder, Parameter, ParameterBuilder, ParameterIn},
        request_body::{RequestBody, RequestBodyBuilder},
        schema::Type,
        security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme},
    },
};

use crate::{
    live::list::ListQuery,
    routes::{
        crud::{ChangeQuery, Output},
        kind::Served,
    },
    wire::{CreateTask, ErrorBody, Pagination, piece},
};
use pieces::Pieces;

/// Completes the description: the annotated routes, and the generated parts for kinds, errors and authentication.
pub fn finish(mut api: OpenApi) -> Value {
    let mut info = Info::new("KubeOpenCode", env!("CARGO_PKG_VERSION"));
    info.description = Some("Tasks, Agents, CronTasks and everything they need, over HTTP.".to_owned());
    info.license = Some(License::new("Apache-2.0"));
    api.info = info;
    let components = api.components.get_or_insert_with(Components::default);
    add_schema::<ErrorBody>(components);
    add_schema::<Pagination>(components);
    add_schema::<CreateTask>(components);
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    let cookie = SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::new("kubeopencode-session")));
    components.add_security_scheme("bearer", bearer);
    components.add_security_scheme("session", cookie);
    let accepted = ["bearer", "session"].map(|scheme| SecurityRequirement::new(scheme, Vec::<String>::new()));
    api.security = Some(accepted.to_vec());
    each_kind(&mut Paths(&mut api));

    let mut document = serde_json::to_value(&api).unwrap_or_default();
    let schemas = std::mem::take(&mut document["components"]["schemas"]);
    let mut schemas = if let Value::Object(schemas) = schemas { schemas } else { Map::new() };
    let crds = api::crds();
    each_kind(&mut Schemas { schemas: &mut schemas, crds: &crds });
    schemas.shift_remove("CreateTask");
    schemas.insert("ObjectMeta".to_owned(), bodies::object_meta());
    let config = bodies::spec_of(&crds, "KubeOpenCodeConfig");
    schemas.insert("KubeOpenCodeConfig".to_owned(), bodies::whole("KubeOpenCodeConfig", &config));
    let pieces = Pieces::of_specs();
    for schema in schemas.values_mut() {
        tidy::without_null(schema);
        pieces.name_within(schema);
    }
    for (name, schema) in pieces.into_schemas().into_iter().chain(piece::definitions()) {
        schemas.entry(name).or_insert(schema);
    }
    schemas.sort_keys();
    document["components"]["schemas"] = schemas.into();
    document["components"]["responses"] = tidy::refusals().into();
    tidy::without_null(&mut document);
    tidy::operations(&mut document).for_each(|mut operation| operation.complete());
    document
}

/// An action for every kind.
trait ForKind {
    fn kind<K: Served>(&mut self);
}

fn each_kind(work: &mut impl ForKind) {
    work.kind::<Task>();
    work.kind::<CronTask>();
    work.kind::<Agent>();
    work.kind::<AgentTemplate>();
    work.kind::<Registry>();
    work.kind::<ModelProvider>();
    work.kind::<Model>();
    work.kind::<Instruction>();
    work.kind::<RemoteMCPServer>();
    work.kind::<MCPServer>();
    work.kind::<AgentTool>();
    work.kind::<AgentWorkflow>();
}

struct Schemas<'a> {
    schemas: &'a mut Map<String, Value>,
    crds: &'a [Value],
}

impl ForKind for Schemas<'_> {
    fn kind<K: Served>(&mut self) {
        bodies::add::<K>(self.schemas, self.crds);
    }
}

struct Paths<'a>(&'a mut OpenApi);

impl ForKind for Paths<'_> {
    fn kind<K: Served>(&mut self) {
        describe::<K>(self.0);
    }
}

fn describe<K: Served>(api: &mut OpenApi) {
    add_schema::<K::Response>(api.components.get_or_insert_with(Components::default));
    let all = format!("/api/v1/{}", K::PLURAL);
    let here = format!("/api/v1/namespaces/{{namespace}}/{}", K::PLURAL);
    let one = format!("{here}/{{name}}");
    let mut add = |path: &str, method: HttpMethod, operation: OperationBuilder| {
        api.paths.add_path_operation(path, vec![method], operation.build());
    };
    let kind = K::KIND;
    let operation = |id: &str, summary: String| {
        OperationBuilder::new().operation_id(Some(format!("{id}{kind}"))).summary(Some(summary)).tag(K::PLURAL)
    };
    let list = |id: &str, place: &str| {
        operation(id, format!("Lists objects of kind {kind} {place}"))
            .parameters(Some(queries::<ListQuery>()))
            .response("200", answer("A page of the list", &bodies::list_name(kind), None))
    };
    let whole = |description: &str| answer(description, &bodies::response_name::<K>(), Some(kind));
    let body = |name: &str| Some(body(name));
    add(&all, HttpMethod::Get, list("listEvery", "in all namespaces that the caller may see"));
    add(&here, HttpMethod::Get, list("list", "in a namespace").parameter(part("namespace")));
    add(
        &here,
        HttpMethod::Post,
        operation("create", format!("Creates an object of kind {kind}"))
            .request_body(body(&bodies::new_name(kind)))
            .parameters(Some(queries::<ChangeQuery>()))
            .parameter(part("namespace"))
            .response("201", whole("It was created")),
    );
    let at_one = |operation: OperationBuilder| operation.parameter(part("namespace")).parameter(part("name"));
    let read = operation("get", format!("Reads an object of kind {kind}"));
    let read = read.parameters(Some(queries::<Output>())).response("200", whole("The object"));
    add(&one, HttpMethod::Get, at_one(read));
    let replace = operation("replace", format!("Replaces the spec of an object of kind {kind}"))
        .request_body(body(&bodies::changed_name::<K>()))
        .parameters(Some(queries::<ChangeQuery>()))
        .response("200", whole("The object as it is now"));
    add(&one, HttpMethod::Put, at_one(replace));
    let delete = operation("delete", format!("Deletes an object of kind {kind}"))
        .parameters(Some(queries::<ChangeQuery>()))
        .response("204", Response::new("It is being deleted"));
    add(&one, HttpMethod::Delete, at_one(delete));
}

fn part(name: &str) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .build()
}

fn queries<Q: IntoParams>() -> Vec<Parameter> {
    Q::into_params(|| Some(ParameterIn::Query))
}

fn content(schema: &str) -> Content {
    Content::new(Some(RefOr::Ref(Ref::from_schema_name(schema))))
}

/// A whole object or its short form.
fn body(schema: &str) -> RequestBody {
    RequestBodyBuilder::new()
        .description(Some("The whole object (apiVersion, kind, metadata, spec), or its short form"))
        .required(Some(Required::True))
        .content("application/json", content(schema))
        .content("application/yaml", content(schema))
        .build()
}

fn answer(description: &str, json: &str, yaml: Option<&str>) -> Response {
    let mut response = Response::new(description);
    response.content.insert("application/json".to_owned(), RefOr::T(content(json)));
    if let Some(yaml) = yaml {
        response.content.insert("application/yaml".to_owned(), RefOr::T(content(yaml)));
    }
    response
}

fn add_schema<T: ToSchema>(components: &mut Components) {
    let mut schemas = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut schemas);
    for (name, schema) in schemas {
        components.schemas.entry(name).or_insert(schema);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn document() -> Value {
        serde_json::from_str(&crate::openapi()).unwrap()
    }

    /// Calls `look` for every object of the document, with its path.
    fn walk(value: &Value, path: &str, look: &mut impl FnMut(&str, &Map<String, Value>)) {
        match value {
            Value::Object(object) => {
                look(path, object);
                object.iter().for_each(|(key, value)| walk(value, &format!("{path}/{key}"), look));
            }
            Value::Array(list) => {
                list.iter().enumerate().for_each(|(index, value)| walk(value, &format!("{path}/{index}"), look));
            }
            _ => {}
        }
    }

    #[test]
    fn every_reference_has_a_target_and_every_schema_is_used() {
        let document = document();
        let mut used = BTreeSet::new();
        walk(&document, "", &mut |path, object| {
            if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
                assert!(document.pointer(&reference[1..]).is_some(), "{path}: {reference}");
                used.insert(reference.to_owned());
            }
        });
        let known = ["schemas", "responses"].into_iter().flat_map(|part| {
            let names = document["components"][part].as_object().unwrap().keys();
            names.map(move |name| format!("#/components/{part}/{name}"))
        });
        let unused: Vec<_> = known.filter(|name| !used.contains(name)).collect();
        assert!(unused.is_empty(), "{unused:?}");
    }

    /// Fields that accept any value: those of OpenCode, of Kubernetes, and objects of any kind.
    const FREE: [&str; 13] = [
        "podSpec",
        "config",
        "options",
        "extra",
        "metadata",
        "schema",
        "value",
        "spec",
        "status",
        "runtime",
        "params",
        "RuntimeContext",
        "openApiSchema",
    ];

    #[test]
    fn no_body_of_ours_has_an_object_that_says_nothing() {
        let document = document();
        let mut vague = Vec::new();
        walk(&document["components"]["schemas"], "", &mut |path, object| {
            let says_nothing = object.get("type").is_some_and(|kind| kind == "object")
                && !["properties", "additionalProperties", "allOf", "anyOf", "oneOf"]
                    .iter()
                    .any(|key| object.contains_key(*key));
            if says_nothing {
                vague.push(path.to_owned());
            }
        });
        let unknown: Vec<_> =
            vague.iter().filter(|path| !FREE.iter().any(|free| path.split('/').any(|part| part == *free))).collect();
        assert!(unknown.is_empty(), "{unknown:#?}");
    }

    #[test]
    fn every_operation_says_how_it_is_refused_and_has_a_name_of_its_own() {
        let mut names = BTreeSet::new();
        let mut document = document();
        for operation in tidy::operations(&mut document) {
            let id = operation.body["operationId"].as_str().unwrap().to_owned();
            assert!(names.insert(id.clone()), "{id} is there twice");
            for (code, answer) in operation.body["responses"].as_object().unwrap() {
                let refused = !code.starts_with(['2', '3']) && !operation.path.ends_with("/ready");
                let shared = answer.get("$ref").is_some();
                let schema = answer.pointer("/content/application~1json/schema/$ref");
                let is_described = shared || schema.is_some_and(|schema| schema == "#/components/schemas/ErrorBody");
                assert!(!refused || is_described, "{id} {code}");
                assert!(shared || answer["description"].as_str().is_some_and(|text| !text.is_empty()), "{id} {code}");
            }
        }
        assert!(names.len() > 80, "{}", names.len());
    }
}
