//! Parses path and query of a request.

use http::Method;
use percent_encoding::percent_decode_str;

use crate::status_error::StatusError;

#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        Self(pairs.map(|(key, value)| (key.into_owned(), value.into_owned())).collect())
    }

    /// The first non-empty value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether a parameter is set and not false. The first value counts; Python writes `False`.
    pub(crate) fn flag(&self, name: &str) -> bool {
        let first = self.0.iter().find(|(key, _)| key == name);
        first.is_some_and(|(_, value)| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, StatusError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let problem = || StatusError::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"));
        text.parse().map(Some).map_err(|_| problem())
    }
}

/// The address of a collection, an object or a subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) group: String,
    pub(crate) version: String,
    /// Empty for cluster-scoped objects, and for a collection in all namespaces.
    pub(crate) namespace: String,
    pub(crate) resource: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Objects(Address),
    /// Discovery, health, OpenAPI documents.
    Path(String),
}

impl Target {
    pub(crate) fn parse(path: &str) -> Self {
        let other = || Self::Path(path.to_owned());
        let segments: Vec<String> = path
            .split('/')
            .filter(|segment| !segment.is_empty())
            .map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned())
            .collect();
        let words: Vec<&str> = segments.iter().map(String::as_str).collect();
        let (group, version, rest) = match words.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return other(),
        };
        let (namespace, rest) = match rest {
            ["namespaces", _, "status" | "finalize"] => ("", rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            _ => ("", rest),
        };
        let (resource, name, subresource) = match rest {
            [resource] => (*resource, "", ""),
            [resource, name] => (*resource, *name, ""),
            [resource, name, subresource] => (*resource, *name, *subresource),
            _ => return other(),
        };
        // `namespaces/x` is itself in the namespace x, so that a Role there can grant access to it.
        let namespace = if group.is_empty() && resource == "namespaces" && !name.is_empty() { name } else { namespace };
        Self::Objects(Address {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace: namespace.to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
        })
    }

    /// The verb as RBAC names it.
    pub(crate) fn verb(&self, method: &Method, query: &Query) -> &'static str {
        let Self::Objects(address) = self else { return plain_verb(method) };
        let one = !address.name.is_empty();
        match *method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if one => "delete",
            Method::DELETE => "deletecollection",
            _ if one => "get",
            _ if query.flag("watch") => "watch",
            _ => "list",
        }
    }
}

fn plain_verb(method: &Method) -> &'static str {
    match *method {
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::HEAD => "head",
        Method::OPTIONS => "options",
        _ => "get",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, expected: [&str; 6]) {
        let Target::Objects(address) = Target::parse(path) else { panic!("{path} is no address of objects") };
        let Address { group, version, namespace, resource, name, subresource } = &address;
        assert_eq!([&**group, &**version, &**namespace, &**resource, &**name, &**subresource], expected, "{path}");
    }

    #[test]
    fn paths_are_read_as_the_real_server_reads_them() {
        check("/api/v1/pods", ["", "v1", "", "pods", "", ""]);
        check("/api/v1/namespaces/a/pods/b/log", ["", "v1", "a", "pods", "b", "log"]);
        check("/api/v1/namespaces", ["", "v1", "", "namespaces", "", ""]);
        check("/api/v1/namespaces/a", ["", "v1", "a", "namespaces", "a", ""]);
        check("/api/v1/namespaces/a/finalize", ["", "v1", "a", "namespaces", "a", "finalize"]);
        check("/apis/kubeopencode.io/v1/namespaces/a/tasks", ["kubeopencode.io", "v1", "a", "tasks", "", ""]);
        check(
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Adiscovery",
            ["rbac.authorization.k8s.io", "v1", "", "clusterroles", "system:discovery", ""],
        );
    }

    #[test]
    fn everything_else_is_a_plain_path() {
        for path in
            ["/healthz", "/api", "/apis/apps", "/apis/apps/v1", "/openapi/v3/apis/apps/v1", "/api/v1/pods/a/b/c"]
        {
            assert!(matches!(Target::parse(path), Target::Path(_)), "{path}");
        }
    }

    #[test]
    fn a_flag_is_set_by_everything_that_does_not_mean_no() {
        let flag = |query: &str| Query::parse(Some(query)).flag("tty");
        for set in ["tty", "tty=", "tty=1", "tty=true", "tty=no", "tty=1&tty=0"] {
            assert!(flag(set), "{set}");
        }
        for unset in ["", "stdin=1", "tty=0", "tty=false", "tty=False", "tty=0&tty=1"] {
            assert!(!flag(unset), "{unset}");
        }
    }

    #[test]
    fn a_list_becomes_a_watch_only_without_a_name() {
        let query = Query::parse(Some("watch=1"));
        assert_eq!(Target::parse("/api/v1/pods").verb(&Method::GET, &query), "watch");
        assert_eq!(Target::parse("/api/v1/namespaces/a/pods/b").verb(&Method::GET, &query), "get");
        assert_eq!(Target::parse("/api/v1/pods").verb(&Method::DELETE, &query), "deletecollection");
    }
}
