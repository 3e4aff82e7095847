//! # Egress: connections to the outside for a user
//!
//! Users name URLs, repositories, registries and proxies, and we connect to them on their behalf: from Pods (git-init,
//! git-sync, url-fetch, plugin-init) and from the controller (look-ups of images, commits and packages). Everything
//! that makes such a connection safe is in this crate, so that a fix is made once.
//!
//! | module | |
//! |---|---|
//! | `address` | which addresses may be reached, checked after DNS and at every redirect |
//! | `authorities` | which certificate authorities are trusted |
//! | `http` | HTTP clients behind proxies and the address policy; bodies with a size limit |
//! | `exchange` | one request with credentials and its answer |
//! | `git` | git and ssh with a hardened environment; addresses of repositories |
//! | `process` | programs with limits of time and output |
//! | `redact` | texts without secrets |
//!
//! ## Invariants
//!
//! - HTTP clients, and the controller's look-ups over ssh, never reach a link-local or metadata address, nor any other
//!   that their [`Policy`] refuses: not by a URL, a DNS name or a redirect. git in a Pod connects by itself; the Pod's NetworkPolicy is its limit.
//! - Credentials are never in arguments, logs or errors (I7). git and ssh read them from files that only this user can
//!   read, and that are deleted with [`Git`].
//! - Every git command gets its environment from one function. git reads no configuration of the system or the user,
//!   runs no hooks, asks no questions, speaks only allowed protocols and inherits only listed variables.
//! - Every program and every answer has a limit of time and size. A program that exceeds it is killed with all its
//!   children.

mod address;
mod authorities;
mod exchange;
mod git;
mod http;
mod process;
mod redact;
mod userinfo;

pub use address::{BadRange, Loopback, Policy, Refused, RefusedTarget, check, check_host, check_url};
pub use authorities::{Authorities, AuthoritiesError};
pub use exchange::{ExchangeError, Outgoing, exchange, exchange_from_pod};
pub use git::{
    Access, AccessError, BadRepository, Cause, Credentials, Git, GitError, Repository, Transport, View, check_ref,
};
pub use http::{BodyError, Route, RouteError, TransferError, guard, read_body};
pub use process::{Finished, RunError, run};
pub use redact::Redactor;
pub use userinfo::{hide_userinfo, percent_decode, percent_encode, printable, take_userinfo};
