//! Operations on objects of every kind: list, create, read, replace, delete.

use std::sync::Arc;

use api::names::annotations;
use axum::{
    Json, Router,
    extract::State,
    response::{IntoResponse, Response},
    routing::get,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::IntoParams;

use crate::{
    auth::{Caller, TaskSecrets, Via, ours},
    cluster::{self, WriteOptions},
    edge::extract::{At, In, Params, Sent},
    error::{Answer, ApiError},
    live::list::{Filter, ListQuery, Page},
    routes::kind::Served,
    state::Server,
    wire::ErrorReason,
};

/// Attempts of a change that conflicts with another change, unless the caller requested a version.
const ATTEMPTS: usize = 4;

/// Form of the response.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Output {
    /// `yaml`: the whole object as YAML.
    #[param(inline)]
    pub output: Option<Form>,
}

/// Forms of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    Json,
    Yaml,
}

/// Options of a change.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct ChangeQuery {
    /// Validate only; nothing is stored.
    pub dry_run: Option<bool>,
    /// `yaml`: answer with the whole object as YAML.
    #[param(inline)]
    pub output: Option<Form>,
}

impl ChangeQuery {
    /// The options for the Kubernetes API.
    pub fn write_options(&self) -> WriteOptions {
        WriteOptions { dry_run: self.dry_run.unwrap_or_default() }
    }
}

/// The routes of a kind.
pub fn routes<K: Served>() -> Router<Arc<Server>> {
    let (all, here) = (format!("/{}", K::PLURAL), format!("/namespaces/{{namespace}}/{}", K::PLURAL));
    let one = format!("{here}/{{name}}");
    Router::new()
        .route(&all, get(list_everywhere::<K>))
        .route(&here, get(list_here::<K>).post(create::<K>))
        .route(&one, get(read::<K>).put(replace::<K>).delete(delete::<K>))
}

async fn list_everywhere<K: Served>(
    State(server): State<Arc<Server>>,
    caller: Caller,
    Params(query): Params<ListQuery>,
) -> Answer<Json<Page<K>>> {
    list::<K>(&server, &caller, None, query).await
}

async fn list_here<K: Served>(
    State(server): State<Arc<Server>>,
    caller: Caller,
    In(namespace): In,
    Params(query): Params<ListQuery>,
) -> Answer<Json<Page<K>>> {
    list::<K>(&server, &caller, Some(&namespace), query).await
}

/// Lists the objects that `caller` may see.
pub async fn list<K: Served>(
    server: &Server,
    caller: &Caller,
    namespace: Option<&str>,
    query: ListQuery,
) -> Answer<Json<Page<K>>> {
    let filter = Filter::read(query)?;
    let visible = server.visible::<K>(caller, namespace).await?;
    if !K::cache(&server.caches).is_complete() {
        return Err(ApiError::unavailable("the server has just started and its caches are incomplete; try again"));
    }
    Ok(Json(filter.answer(&server.caches, |key| visible.shows(key))))
}

async fn create<K: Served>(
    State(server): State<Arc<Server>>,
    caller: Caller,
    In(namespace): In,
    Params(query): Params<ChangeQuery>,
    sent: Sent,
) -> Answer<Response> {
    let sent = sent.object()?;
    let mut object = if is_whole(&sent) { Value::Object(sent) } else { K::expand(sent)? };
    complete::<K>(&mut object, &namespace, None)?;
    set_author(&mut object, (caller.via != Via::Anonymous).then_some(caller.user.name.as_str()));
    server.reviews.require(&caller, &ours("create", K::PLURAL, Some(&namespace), None)).await?;
    if let Some(secrets) = task_secrets::<K>(&server, &caller, &namespace) {
        Box::pin(secrets.check(&object, None)).await?;
    }
    let client = server.cluster.client(&caller)?;
    let path = cluster::path::<K>(Some(&namespace), None);
    let created = cluster::create(&client, &path, &object, query.write_options()).await?;
    let mut response = answer::<K>(&server, created, query.output)?;
    *response.status_mut() = StatusCode::CREATED;
    Ok(response)
}

async fn read<K: Served>(
    State(server): State<Arc<Server>>,
    caller: Caller,
    At { namespace, name }: At,
    Params(output): Params<Output>,
) -> Answer<Response> {
    let object = fetch_value::<K>(&server, &caller, &namespace, &name).await?;
    answer::<K>(&server, object, output.output)
}

async fn replace<K: Served>(
    State(server): State<Arc<Server>>,
    caller: Caller,
    At { namespace, name }: At,
    Params(query): Params<ChangeQuery>,
    headers: HeaderMap,
    sent: Sent,
) -> Answer<Response> {
    let sent = sent.object()?;
    let mut wanted = if is_whole(&sent) { Value::Object(sent) } else { K::partial(sent)? };
    complete::<K>(&mut wanted, &namespace, Some(&name))?;
    if let Some(version) = if_match(&headers) {
        wanted["metadata"]["resourceVersion"] = version.into();
    }
    server.reviews.require(&caller, &ours("update", K::PLURAL, Some(&namespace), Some(&name))).await?;
    let client = server.cluster.client(&caller)?;
    let path = cluster::path::<K>(Some(&namespace), Some(&name));
    let secrets = task_secrets::<K>(&server, &caller, &namespace);
    let replaced = put(&client, &path, &wanted, query.write_options(), secrets.as_ref()).await?;
    answer::<K>(&server, replaced, query.output)
}

async fn delete<K: Served>(
    State(server): State<Arc<Server>>,
    caller: Caller,
    At { namespace, name }: At,
    Params(query): Params<ChangeQuery>,
    headers: HeaderMap,
) -> Answer<StatusCode> {
    server.reviews.require(&caller, &ours("delete", K::PLURAL, Some(&namespace), Some(&name))).await?;
    let client = server.cluster.client(&caller)?;
    let path = cluster::path::<K>(Some(&namespace), Some(&name));
    cluster::delete(&client, &path, if_match(&headers).as_deref(), query.write_options()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The check of the Secrets that an object of kind `K` names, if the kind has one.
fn task_secrets<'a, K: Served>(server: &'a Server, caller: &'a Caller, namespace: &'a str) -> Option<TaskSecrets<'a>> {
    let kind = domain::task_secrets::Kind::of(K::KIND)?;
    Some(TaskSecrets { server, caller, kind, namespace })
}

/// Reads an object with the rights of `caller`.
pub async fn fetch<K: Served>(server: &Server, caller: &Caller, namespace: &str, name: &str) -> Answer<K> {
    typed(fetch_value::<K>(server, caller, namespace, name).await?)
}

async fn fetch_value<K: Served>(server: &Server, caller: &Caller, namespace: &str, name: &str) -> Answer<Value> {
    server.reviews.require(caller, &ours("get", K::PLURAL, Some(namespace), Some(name))).await?;
    let client = server.cluster.client(caller)?;
    let object = cluster::read(&client, &cluster::path::<K>(Some(namespace), Some(name))).await;
    object.map_err(|error| match error.status {
        StatusCode::NOT_FOUND => ApiError::no_such(K::KIND, namespace, name),
        _ => error,
    })
}

/// Patches an object with the rights of `caller`, and returns it.
pub async fn change<K: Served>(
    server: &Server,
    caller: &Caller,
    at: &At,
    change: &Value,
    options: WriteOptions,
) -> Answer<K> {
    let At { namespace, name } = at;
    server.reviews.require(caller, &ours("patch", K::PLURAL, Some(namespace), Some(name))).await?;
    let client = server.cluster.client(caller)?;
    let path = cluster::path::<K>(Some(namespace), Some(name));
    typed(cluster::merge(&client, &path, change, options).await?)
}

/// A merge patch that sets one annotation.
pub fn annotate(key: &str, value: &str) -> Value {
    json!({ "metadata": { "annotations": { key: value } } })
}

/// An object as our type.
pub fn typed<K: Served>(object: Value) -> Answer<K> {
    serde_json::from_value(object)
        .map_err(|error| ApiError::internal(&format!("an object of kind {} cannot be read", K::KIND), &error))
}

/// The response with an object.
fn answer<K: Served>(server: &Server, object: Value, form: Option<Form>) -> Answer<Response> {
    let version = object["metadata"]["resourceVersion"].as_str().map(|version| format!("\"{version}\""));
    let mut response = match form {
        Some(Form::Yaml) => yaml(object)?,
        Some(Form::Json) | None => Json(typed::<K>(object)?.detail(&server.caches)).into_response(),
    };
    if let Some(version) = version.and_then(|version| HeaderValue::from_str(&version).ok()) {
        response.headers_mut().insert(header::ETAG, version);
    }
    Ok(response)
}

/// A whole object as YAML, without managed fields.
pub fn yaml(mut object: Value) -> Answer<Response> {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("managedFields");
    }
    let text =
        serde_saphyr::to_string(&object).map_err(|error| ApiError::internal("an object cannot be written", &error))?;
    Ok(([(header::CONTENT_TYPE, "application/yaml")], text).into_response())
}

/// Whether a body is a whole object, not a short form.
pub fn is_whole(sent: &Map<String, Value>) -> bool {
    sent.contains_key("kind") || sent.contains_key("apiVersion") || sent.contains_key("metadata")
}

/// Adds the kind, name and namespace of the path to an object, and refuses others.
fn complete<K: Served>(object: &mut Value, namespace: &str, name: Option<&str>) -> Answer<()> {
    expect(object, "apiVersion", &format!("{}/{}", api::names::GROUP, api::names::VERSION))?;
    expect(object, "kind", K::KIND)?;
    if !object.get("metadata").is_some_and(Value::is_object) {
        object["metadata"] = json!({});
    }
    let metadata = &mut object["metadata"];
    expect(metadata, "namespace", namespace).map_err(|error| inside("metadata", error))?;
    if let Some(name) = name {
        expect(metadata, "name", name).map_err(|error| inside("metadata", error))?;
    }
    if let Some(object) = object.as_object_mut() {
        object.shift_remove("status");
    }
    Ok(())
}

/// Records the user who created an object. A value that the caller sent is replaced: only the server vouches for it.
fn set_author(object: &mut Value, author: Option<&str>) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if author.is_some() && metadata.get("annotations").is_none_or(Value::is_null) {
        metadata.insert("annotations".to_owned(), json!({}));
    }
    // Annotations of another type are refused by the API server.
    let Some(known) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    match author {
        Some(author) => known.insert(annotations::CREATED_BY.to_owned(), author.into()),
        None => known.shift_remove(annotations::CREATED_BY),
    };
}

fn expect(object: &mut Value, field: &str, value: &str) -> Answer<()> {
    match &object[field] {
        Value::Null => object[field] = value.into(),
        Value::String(text) if text == value => {}
        _ => return Err(ApiError::invalid(field, format!("it must be '{value}', as the path says"))),
    }
    Ok(())
}

fn inside(outer: &str, mut error: ApiError) -> ApiError {
    for wrong in &mut error.fields {
        wrong.field = format!("{outer}.{}", wrong.field);
    }
    error
}

/// Replaces spec, labels and annotations of the object at `path`; sections that `wanted` omits stay.
///
/// With a `resourceVersion` in `wanted`, only that version is replaced; without, the last write wins.
pub async fn put(
    client: &kube::Client,
    path: &str,
    wanted: &Value,
    options: WriteOptions,
    secrets: Option<&TaskSecrets<'_>>,
) -> Answer<Value> {
    let asked_for = wanted["metadata"].get("resourceVersion").filter(|version| !version.is_null());
    for attempt in 1.. {
        let before = cluster::read(client, path).await?;
        let mut object = before.clone();
        if let Some(version) = asked_for {
            object["metadata"]["resourceVersion"] = version.clone();
        }
        let author = object["metadata"]["annotations"][annotations::CREATED_BY].as_str().map(str::to_owned);
        for field in ["labels", "annotations"] {
            if let Some(given) = wanted["metadata"].get(field) {
                object["metadata"][field] = given.clone();
            }
        }
        set_author(&mut object, author.as_deref());
        match wanted.get(PARTIAL) {
            Some(partial) => merge_into(&mut object["spec"], partial),
            None => object["spec"] = wanted.get("spec").cloned().unwrap_or_else(|| json!({})),
        }
        if let Some(secrets) = secrets {
            Box::pin(secrets.check(&object, Some(&before))).await?;
        }
        match cluster::replace(client, path, &object, options).await {
            Err(error) if error.reason == ErrorReason::Conflict && asked_for.is_none() && attempt < ATTEMPTS => {}
            answer => return answer,
        }
    }
    Err(ApiError::conflict("the object changes too often; try again"))
}

/// Key that marks the partial changes of [`Served::partial`]. No object has it.
pub const PARTIAL: &str = "\0partial";

/// Merges as a JSON merge patch does: null removes.
fn merge_into(target: &mut Value, change: &Value) {
    let Value::Object(change) = change else {
        *target = change.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in change {
        if value.is_null() {
            if let Some(target) = target.as_object_mut() {
                target.shift_remove(key);
            }
        } else {
            merge_into(&mut target[key.as_str()], value);
        }
    }
}

/// The version in `If-Match`.
pub fn if_match(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(header::IF_MATCH)?.to_str().ok()?.trim();
    let version = text.trim_start_matches("W/").trim_matches('"');
    (!version.is_empty() && version != "*").then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use api::Task;

    use super::*;

    #[test]
    fn what_contradicts_the_path_is_refused_with_the_field() {
        let mut good = json!({"metadata": {"name": "a"}, "spec": {}, "status": {"phase": "Completed"}});
        complete::<Task>(&mut good, "team", Some("a")).unwrap();
        assert_eq!(
            good,
            json!({"metadata": {"name": "a", "namespace": "team"}, "spec": {},
                "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task"})
        );
        for (object, field) in [
            (json!({"kind": "Agent"}), "kind"),
            (json!({"apiVersion": "v1"}), "apiVersion"),
            (json!({"metadata": {"namespace": "other"}}), "metadata.namespace"),
            (json!({"metadata": {"name": "b"}}), "metadata.name"),
        ] {
            let error = complete::<Task>(&mut object.clone(), "team", Some("a")).unwrap_err();
            assert_eq!(error.fields[0].field, field);
        }
    }

    #[test]
    fn the_author_is_the_authenticated_user_and_nothing_that_a_caller_sends() {
        let check = |metadata: Value, author: Option<&str>, expected: Value| {
            let mut object = json!({ "metadata": metadata });
            set_author(&mut object, author);
            assert_eq!(object["metadata"], expected);
        };
        let by = |name: &str| json!({ "annotations": { "kubeopencode.io/created-by": name } });
        check(json!({}), Some("anna"), by("anna"));
        check(by("root"), Some("anna"), by("anna"));
        check(json!({ "annotations": null }), Some("anna"), by("anna"));
        check(by("root"), None, json!({ "annotations": {} }));
        check(json!({}), None, json!({}));
        check(json!({ "annotations": "x" }), Some("anna"), json!({ "annotations": "x" }));
    }

    #[test]
    fn a_partial_change_touches_what_it_names() {
        let mut target = json!({"a": 1, "b": {"c": 2, "d": 3}});
        merge_into(&mut target, &json!({"b": {"c": null, "e": 4}, "f": {"g": 5}}));
        assert_eq!(target, json!({"a": 1, "b": {"d": 3, "e": 4}, "f": {"g": 5}}));
    }

    #[test]
    fn a_version_is_read_from_if_match() {
        let version =
            |text: &'static str| if_match(&HeaderMap::from_iter([(header::IF_MATCH, HeaderValue::from_static(text))]));
        assert_eq!(version("\"12\"").as_deref(), Some("12"));
        assert_eq!(version("W/\"12\"").as_deref(), Some("12"));
        assert_eq!(version("*"), None);
    }
}
