//! Containers as processes of this machine: namespaces, cgroups, limits, exec.

pub(crate) mod cgroups;
pub(crate) mod container;
pub(crate) mod exec;
pub(crate) mod helper;
pub(crate) mod isolation;
pub(crate) mod limits;
pub(crate) mod signals;
