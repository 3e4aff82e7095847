//! Authentication and authorization.

mod access;
mod bootstrap;
mod certificate;
mod escalation;
mod pki;
mod token;

pub(crate) use access::{Access, AccessCheck, Attributes, GROUP as RBAC_GROUP, RoleRef, Rule, review};
pub(crate) use bootstrap::DEFAULT_OBJECTS;
pub(crate) use certificate::subject;
pub(crate) use pki::{Pki, PkiError, write as write_private};
pub(crate) use token::{Bound, Claims, ISSUER, Identity, TokenKey};

use std::collections::BTreeMap;

use http::HeaderMap;

use crate::status_error::StatusError;

/// The group that is allowed everything.
pub(crate) const MASTERS: &str = "system:masters";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user authenticated by certificate or token.
    pub(crate) fn authenticated(name: impl Into<String>, mut groups: Vec<String>) -> Self {
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self { name: name.into(), groups, ..Self::default() }
    }

    /// The owner of the process, with all rights.
    pub(crate) fn master() -> Self {
        Self::authenticated("kubernetes-admin", vec![MASTERS.to_owned()])
    }

    pub(crate) fn anonymous() -> Self {
        Self { name: "system:anonymous".to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..Self::default() }
    }

    pub(crate) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// Namespace and name of a ServiceAccount user.
    pub(crate) fn service_account(name: &str) -> Option<(&str, &str)> {
        name.strip_prefix("system:serviceaccount:")?.split_once(':')
    }
}

pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(http::header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

/// The target of an impersonation, and the access checks that permit it.
pub(crate) struct Impersonation {
    pub(crate) user: User,
    pub(crate) checks: Vec<AccessCheck>,
}

/// Parses the `Impersonate-…` headers.
pub(crate) fn impersonation(headers: &HeaderMap) -> Result<Option<Impersonation>, StatusError> {
    let texts = |name: &str| -> Vec<String> {
        headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
    };
    let name = texts("impersonate-user").into_iter().next().unwrap_or_default();
    let groups = texts("impersonate-group");
    let uid = texts("impersonate-uid").into_iter().next().unwrap_or_default();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (header, value) in headers {
        if let (Some(key), Ok(value)) = (header.as_str().strip_prefix("impersonate-extra-"), value.to_str()) {
            let key = percent_encoding::percent_decode_str(key).decode_utf8_lossy().into_owned();
            extra.entry(key).or_default().push(value.to_owned());
        }
    }
    if name.is_empty() {
        if groups.is_empty() && uid.is_empty() && extra.is_empty() {
            return Ok(None);
        }
        let message = "requested impersonation without impersonating a user";
        return Err(StatusError::internal(message));
    }
    let mut checks = Vec::new();
    let ask = |resource: &str, subresource: &str, group: &str, namespace: &str, name: &str| AccessCheck {
        verb: "impersonate".to_owned(),
        attributes: Attributes::Resource {
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        },
    };
    match User::service_account(&name) {
        Some((namespace, account)) => checks.push(ask("serviceaccounts", "", "", namespace, account)),
        None => checks.push(ask("users", "", "", "", &name)),
    }
    checks.extend(groups.iter().map(|group| ask("groups", "", "", "", group)));
    for (key, values) in &extra {
        checks.extend(values.iter().map(|value| ask("userextras", key, "authentication.k8s.io", "", value)));
    }
    if !uid.is_empty() {
        checks.push(ask("uids", "", "authentication.k8s.io", "", &uid));
    }
    let mut all = groups;
    if let (Some((namespace, _)), true) = (User::service_account(&name), all.is_empty()) {
        all = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
    }
    let mut user = if name == "system:anonymous" {
        let mut user = User::anonymous();
        user.groups.extend(all);
        user
    } else {
        User::authenticated(name, all)
    };
    user.uid = uid;
    user.extra = extra;
    Ok(Some(Impersonation { user, checks }))
}
