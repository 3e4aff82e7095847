//! Addresses of Pods, forwarding of Services, and TLS of probes.

pub(crate) mod addresses;
pub(crate) mod services;
pub(crate) mod tls;
