//! The description of the API, made from the code.

use api::{
    Agent, AgentTemplate, AgentTool, AgentWorkflow, CronTask, Instruction, MCPServer, Model, ModelProvider, Registry,
    RemoteMCPServer, Task,
};
use utoipa::{
    IntoParams, ToSchema,
    openapi::{
        Components, Content, HttpMethod, Info, License, ObjectBuilder, OpenApi, Ref, RefOr, Required, Response, Schema,
        SecurityRequirement,
        path::{Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn},
        request_body::{RequestBody, RequestBodyBuilder},
        schema::{ArrayBuilder, Type},
        security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme},
    },
};

use crate::{
    crud::{ChangeQuery, Output},
    kind::Served,
    list::ListQuery,
    wire::{CreateTask, ErrorBody, Pagination},
};

/// Answers that every operation can give, besides its own.
const REFUSALS: [(&str, &str); 10] = [
    ("400", "It cannot be understood"),
    ("401", "Nobody knows who asks"),
    ("403", "The caller may not"),
    ("404", "It does not exist"),
    ("409", "It is in another state, or was changed in between"),
    ("413", "The body is too large"),
    ("415", "The body is of another type"),
    ("422", "A field is wrong"),
    ("429", "Too many requests"),
    ("503", "Not now; try again"),
];

/// Adds what is not described where it is written: the kinds, refusals and ways to log in.
pub fn finish(api: &mut OpenApi) {
    let mut info = Info::new("KubeOpenCode", env!("CARGO_PKG_VERSION"));
    info.description = Some("Tasks, Agents, CronTasks and everything they need, over HTTP.".to_owned());
    info.license = Some(License::new("Apache-2.0"));
    api.info = info;
    describe::<Task>(api);
    describe::<CronTask>(api);
    describe::<Agent>(api);
    describe::<AgentTemplate>(api);
    describe::<Registry>(api);
    describe::<ModelProvider>(api);
    describe::<Model>(api);
    describe::<Instruction>(api);
    describe::<RemoteMCPServer>(api);
    describe::<MCPServer>(api);
    describe::<AgentTool>(api);
    describe::<AgentWorkflow>(api);
    let components = api.components.get_or_insert_with(Components::default);
    add_schema::<ErrorBody>(components);
    add_schema::<Pagination>(components);
    add_schema::<CreateTask>(components);
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    let cookie = SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::new("kubeopencode-session")));
    components.add_security_scheme("bearer", bearer);
    components.add_security_scheme("session", cookie);
    let ways = ["bearer", "session"].map(|way| SecurityRequirement::new(way, Vec::<String>::new()));
    api.security = Some(ways.to_vec());
    for item in api.paths.paths.values_mut() {
        let operations =
            [&mut item.get, &mut item.put, &mut item.post, &mut item.delete].into_iter().filter_map(Option::as_mut);
        for operation in operations {
            refuse(operation);
        }
    }
}

fn refuse(operation: &mut Operation) {
    for (code, description) in REFUSALS {
        operation.responses.responses.entry(code.to_owned()).or_insert_with(|| {
            let mut response = Response::new(description);
            response.content.insert("application/json".to_owned(), reference::<ErrorBody>());
            response.into()
        });
    }
}

fn describe<K: Served>(api: &mut OpenApi) {
    add_schema::<K::Response>(api.components.get_or_insert_with(Components::default));
    let all = format!("/api/v1/{}", K::PLURAL);
    let here = format!("/api/v1/namespaces/{{namespace}}/{}", K::PLURAL);
    let one = format!("{here}/{{name}}");
    let mut add = |path: &str, method: HttpMethod, operation: Operation| {
        api.paths.add_path_operation(path, vec![method], operation);
    };
    let (kind, namespace, name) = (K::KIND, || part("namespace"), || part("name"));
    let list = |id: &str, place: &str| {
        operation::<K>(&format!("list{kind}{id}"), &format!("Lists objects of kind {kind} {place}"), None)
            .parameters(Some(queries::<ListQuery>()))
            .response("200", answer("A page of the list", list_schema::<K>()))
    };
    let whole = |description: &str| answer(description, RefOr::Ref(Ref::from_schema_name(K::Response::name())));
    let changes = || Some(queries::<ChangeQuery>());
    add(&all, HttpMethod::Get, list("Everywhere", "in all namespaces that the caller may see").build());
    add(&here, HttpMethod::Get, list("", "in a namespace").parameter(namespace()).build());
    add(
        &here,
        HttpMethod::Post,
        operation::<K>(&format!("create{kind}"), &format!("Creates an object of kind {kind}"), Some(body()))
            .parameters(changes())
            .parameter(namespace())
            .response("201", whole("It was created"))
            .build(),
    );
    add(
        &one,
        HttpMethod::Get,
        operation::<K>(&format!("get{kind}"), &format!("Reads an object of kind {kind}"), None)
            .parameters(Some(queries::<Output>()))
            .parameter(namespace())
            .parameter(name())
            .response("200", whole("The object"))
            .build(),
    );
    add(
        &one,
        HttpMethod::Put,
        operation::<K>(
            &format!("replace{kind}"),
            &format!("Replaces the spec of an object of kind {kind}"),
            Some(body()),
        )
        .parameters(changes())
        .parameter(namespace())
        .parameter(name())
        .response("200", whole("The object as it is now"))
        .build(),
    );
    add(
        &one,
        HttpMethod::Delete,
        operation::<K>(&format!("delete{kind}"), &format!("Deletes an object of kind {kind}"), None)
            .parameters(changes())
            .parameter(namespace())
            .parameter(name())
            .response("204", Response::new("It is being deleted"))
            .build(),
    );
}

fn operation<K: Served>(id: &str, summary: &str, body: Option<RequestBody>) -> OperationBuilder {
    OperationBuilder::new().operation_id(Some(id)).summary(Some(summary)).tag(K::PLURAL).request_body(body)
}

fn part(name: &str) -> Parameter {
    let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"));
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .schema(Some(text))
        .build()
}

fn queries<Q: IntoParams>() -> Vec<Parameter> {
    Q::into_params(|| Some(ParameterIn::Query))
}

/// A whole object or its short form; the rules are those of its definition.
fn body() -> RequestBody {
    let object =
        || Content::new(Some(RefOr::T(Schema::Object(ObjectBuilder::new().schema_type(Type::Object).build()))));
    RequestBodyBuilder::new()
        .description(Some("The whole object (apiVersion, kind, metadata, spec), or its short form"))
        .required(Some(Required::True))
        .content("application/json", object())
        .content("application/yaml", object())
        .build()
}

fn answer(description: &str, schema: RefOr<Schema>) -> Response {
    let mut response = Response::new(description);
    response.content.insert("application/json".to_owned(), RefOr::T(Content::new(Some(schema))));
    response
}

fn list_schema<K: Served>() -> RefOr<Schema> {
    let objects = ArrayBuilder::new().items(Ref::from_schema_name(K::Response::name()));
    let list = ObjectBuilder::new()
        .property(K::LIST, objects)
        .required(K::LIST)
        .property("total", ObjectBuilder::new().schema_type(Type::Integer))
        .required("total")
        .property("pagination", Ref::from_schema_name(Pagination::name()))
        .required("pagination");
    RefOr::T(Schema::Object(list.build()))
}

fn reference<T: ToSchema>() -> RefOr<Content> {
    RefOr::T(Content::new(Some(RefOr::Ref(Ref::from_schema_name(T::name())))))
}

fn add_schema<T: ToSchema>(components: &mut Components) {
    let mut schemas = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut schemas);
    for (name, schema) in schemas {
        components.schemas.entry(name).or_insert(schema);
    }
}
