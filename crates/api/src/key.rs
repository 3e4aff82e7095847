//! Namespace and name.

use std::fmt;

use kube::Resource;

/// Namespace and name of an object. The namespace of a cluster-wide object is empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Namespace of the object; empty for a cluster-wide one.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

impl Key {
    /// The key of the object `name` in `namespace`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object.
    pub fn of(object: &impl Resource) -> Self {
        let meta = object.meta();
        Self { namespace: meta.namespace.clone().unwrap_or_default(), name: meta.name.clone().unwrap_or_default() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
