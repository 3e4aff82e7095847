//! Request handling from end to end: authentication, authorization, dispatch.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, header};
use jiff::Timestamp;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::Semaphore;

use crate::auth::{self, Access, AccessCheck, Attributes, Pki, User};
use crate::http::{self as responses, ApiResponse, Representation};
use crate::kinds::Registry;
use crate::kubelet::Kubelet;
use crate::request::{Address, Query, Target};
use crate::status_error::StatusError;
use crate::store::Store;
use crate::verbs;
use crate::{Cause, Options, Storage};

/// An incoming request.
pub(crate) struct Call {
    pub(crate) parts: http::request::Parts,
    pub(crate) body: Bytes,
    /// The user of the client certificate.
    pub(crate) certificate: Option<User>,
    /// The connection of the request, for requests that become a stream.
    pub(crate) upgrade: Option<hyper::upgrade::OnUpgrade>,
}

impl Call {
    pub(crate) fn header(&self, name: impl header::AsHeaderName) -> Option<&str> {
        self.parts.headers.get(name)?.to_str().ok()
    }
}

pub(crate) struct Api {
    pub(crate) store: Store,
    pub(crate) pki: Pki,
    pub(crate) options: Options,
    registry: RwLock<Arc<Registry>>,
    access: RwLock<Arc<Access>>,
    node: RwLock<Option<Arc<dyn Kubelet>>>,
    random: SystemRandom,
    /// Where the search for the next free Service address begins.
    service_addresses: Mutex<u32>,
    /// Turns of writes that take long.
    pub(crate) heavy: Arc<Semaphore>,
}

impl Api {
    pub(crate) async fn open(options: Options) -> Result<Arc<Self>, Cause> {
        let (store, pki) = match &options.storage {
            Storage::Memory => (Store::in_memory()?, Pki::open(None)?),
            Storage::Directory(directory) => {
                let directory = directory.clone();
                // Load the keys under the storage lock, so that two processes do not create them at the same time.
                let opened = tokio::task::spawn_blocking(move || -> Result<_, Cause> {
                    let store = Store::open(&directory)?;
                    Ok((store, Pki::open(Some(&directory.join("pki")))?))
                });
                opened.await.map_err(|error| Cause::Bootstrap(error.to_string()))??
            }
        };
        let registry = RwLock::new(Arc::new(Registry::read(&store, None)));
        let access = RwLock::new(Arc::new(Access::read(&store)));
        let random = SystemRandom::new();
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let api = Arc::new(Self {
            store,
            pki,
            options,
            registry,
            access,
            node: RwLock::new(None),
            random,
            service_addresses: Mutex::new(0),
            heavy: Arc::new(Semaphore::new(cores.saturating_sub(1).max(1))),
        });
        verbs::bootstrap(&api).await.map_err(|error| Cause::Bootstrap(error.message().to_owned()))?;
        Ok(api)
    }

    pub(crate) fn attach_node(&self, node: Arc<dyn Kubelet>) {
        *self.node.write().unwrap_or_else(PoisonError::into_inner) = Some(node);
    }

    pub(crate) fn node(&self) -> Option<Arc<dyn Kubelet>> {
        self.node.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The kinds that are served now.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        let current = Arc::clone(&self.registry.read().unwrap_or_else(PoisonError::into_inner));
        if current.is_current(&self.store) {
            return current;
        }
        let fresh = Arc::new(Registry::read(&self.store, Some(&current)));
        *self.registry.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&fresh);
        fresh
    }

    /// The current roles and bindings.
    pub(crate) fn access(&self) -> Arc<Access> {
        let current = Arc::clone(&self.access.read().unwrap_or_else(PoisonError::into_inner));
        if current.is_current(&self.store) {
            return current;
        }
        let fresh = Arc::new(Access::read(&self.store));
        *self.access.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&fresh);
        fresh
    }

    /// Whether `user` is allowed to. Skips reading roles for system:masters.
    pub(crate) fn allows(&self, user: &User, check: &AccessCheck) -> bool {
        user.is_in(auth::MASTERS) || self.access().allows(user, check)
    }

    /// The first free index below `count` after the last allocated one: concurrent callers get different ones although
    /// neither is stored yet.
    pub(crate) fn allocate_service_address(&self, count: u32, is_free: impl Fn(u32) -> bool) -> Option<u32> {
        let mut next = self.service_addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let place = (0..count).map(|step| (*next + step) % count).find(|place| is_free(*place))?;
        *next = place + 1;
        Some(place)
    }

    pub(crate) fn random<const N: usize>(&self) -> Result<[u8; N], StatusError> {
        let mut bytes = [0; N];
        self.random.fill(&mut bytes).map_err(|_| StatusError::internal("no random bytes available"))?;
        Ok(bytes)
    }

    pub(crate) async fn answer(self: &Arc<Self>, call: Call) -> ApiResponse {
        match self.authorize_and_dispatch(call).await {
            Ok(response) => response,
            Err(error) => responses::failure(&error),
        }
    }

    async fn authorize_and_dispatch(self: &Arc<Self>, call: Call) -> Result<ApiResponse, StatusError> {
        let query = Query::parse(call.parts.uri.query());
        let target = Target::parse(call.parts.uri.path());
        let verb = target.verb(&call.parts.method, &query);
        let user = self.authenticate(&call.parts.headers, call.certificate.clone())?;
        let check = access_check(&target, verb);
        if !self.allows(&user, &check) {
            return Err(check.forbidden(&user));
        }
        match target {
            Target::Path(path) => self.path(&path, &call),
            Target::Objects(address) => self.objects(address, verb, query, user, call).await,
        }
    }

    /// Authenticates by certificate or token, or as anonymous; then applies impersonation.
    fn authenticate(&self, headers: &HeaderMap, certificate: Option<User>) -> Result<User, StatusError> {
        let user = match (certificate, auth::bearer(headers)) {
            (Some(user), _) => user,
            (None, Some(token)) => {
                verbs::token_user(self, token, &[auth::ISSUER.to_owned()]).ok_or_else(StatusError::unauthorized)?.0
            }
            (None, None) => User::anonymous(),
        };
        let Some(impersonation) = auth::impersonation(headers)? else { return Ok(user) };
        for check in &impersonation.checks {
            if !self.allows(&user, check) {
                return Err(check.forbidden(&user));
            }
        }
        Ok(impersonation.user)
    }

    /// Serves paths that are not objects.
    fn path(&self, path: &str, call: &Call) -> Result<ApiResponse, StatusError> {
        if !matches!(call.parts.method, Method::GET | Method::HEAD) {
            return Err(StatusError::method_not_allowed());
        }
        match path.trim_end_matches('/') {
            "/healthz" | "/livez" | "/readyz" => return Ok(responses::text(StatusCode::OK, "ok")),
            "/version" => return Ok(responses::json(StatusCode::OK, version())),
            _ => {}
        }
        let registry = self.registry();
        let accept = call.header(header::ACCEPT);
        responses::discovery(&registry, path, accept)
            .or_else(|| responses::documents(&registry, path, accept))
            .map_or_else(|| Ok(responses::text(StatusCode::NOT_FOUND, "404 page not found\n")), Ok)
    }

    async fn objects(
        self: &Arc<Self>,
        address: Address,
        verb: &'static str,
        query: Query,
        user: User,
        call: Call,
    ) -> Result<ApiResponse, StatusError> {
        let registry = self.registry();
        let resource = registry
            .find(&address.group, &address.version, &address.resource)
            .filter(|resource| resource.namespaced || address.namespace.is_empty() || resource.is("", "namespaces"))
            .cloned();
        let Some(resource) = resource else {
            // An existing group version responds that the kind is unknown; an unknown version is a plain 404.
            return match registry.of_version(&address.group, &address.version).next() {
                Some(_) => Err(StatusError::no_such_path()),
                None => Ok(responses::text(StatusCode::NOT_FOUND, "404 page not found\n")),
            };
        };
        let verbs = if address.subresource.is_empty() {
            resource.verbs
        } else {
            let missing = || match resource.custom {
                Some(_) => resource.not_found(&address.name),
                None => StatusError::no_such_path(),
            };
            resource.subresource(&address.subresource).ok_or_else(missing)?.verbs
        };
        let creates_at_a_name = verb == "create" && address.subresource.is_empty() && !address.name.is_empty();
        if !verbs.contains(&verb) || creates_at_a_name {
            return Err(StatusError::method_not_allowed());
        }
        let form = Representation::negotiate(call.header(header::ACCEPT), &query)?;
        let namespace = if resource.namespaced { address.namespace } else { String::new() };
        let request = verbs::Request {
            api: Arc::clone(self),
            registry,
            resource,
            namespace,
            name: address.name,
            subresource: address.subresource,
            query,
            form,
            user,
            content_type: call.header(header::CONTENT_TYPE).map(str::to_owned),
            user_agent: call.header(header::USER_AGENT).unwrap_or_default().to_owned(),
            now: now(),
            options_kind: match verb {
                "update" => "UpdateOptions",
                "patch" => "PatchOptions",
                "delete" | "deletecollection" => "DeleteOptions",
                _ => "CreateOptions",
            },
        };
        request.answer(verb, call).await
    }
}

fn access_check(target: &Target, verb: &str) -> AccessCheck {
    let attributes = match target {
        Target::Path(path) => Attributes::Path(path.clone()),
        Target::Objects(address) => Attributes::Resource {
            group: address.group.clone(),
            resource: address.resource.clone(),
            subresource: address.subresource.clone(),
            namespace: address.namespace.clone(),
            name: address.name.clone(),
        },
    };
    AccessCheck { verb: verb.to_owned(), attributes }
}

/// The current time in the format of Kubernetes.
pub(crate) fn now() -> String {
    printed(Timestamp::now())
}

/// A timestamp in the format of Kubernetes.
pub(crate) fn printed(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn version() -> String {
    serde_json::json!({
        "major": "1",
        "minor": "34",
        "emulationMajor": "1",
        "emulationMinor": "34",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "33",
        "gitVersion": concat!("v1.34.4+kubeopencode-", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": if cfg!(target_arch = "aarch64") { "linux/arm64" } else { "linux/amd64" },
    })
    .to_string()
}
