//! # The platform on one machine
//!
//! | module | purpose |
//! | --- | --- |
//! | [`platform`] | starts and stops API server, workload controllers, node and our controllers in one process |
//! | [`definitions`] | installs our CustomResourceDefinitions |
//! | [`page`] | serves the web page and the REST API to the owner of this machine |
//! | [`login_socket`] | issues login links to the owner of this machine |
//! | [`state_dir`] | the directory that contains all state, and its lock |
//! | [`opencode`] | finds OpenCode on this machine |
//! | [`shell`] | quotes paths in commands that users paste |
//! | `credentials` | the files that are hidden from containers |
//! | `reserve` | space for a start on a full disk |
//!
//! The crate only wires the others together and decides nothing about Tasks or Agents. It promises that a start either
//! succeeds completely or leaves nothing running, that one platform at a time uses a state directory, and that a
//! directory or kubeconfig of another program is never overwritten.

mod credentials;
pub mod definitions;
mod kubelet;
pub mod login_socket;
pub mod opencode;
pub mod page;
pub mod platform;
mod reserve;
pub mod shell;
pub mod state_dir;
