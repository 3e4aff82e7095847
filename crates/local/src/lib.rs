//! # The platform on one machine
//!
//! | module | what it is |
//! |---|---|
//! | [`platform`] | everything put together in one process |
//! | [`definitions`] | our kinds, made known to its API server |
//! | [`page`] | the page and the REST API, for the owner of this machine |
//! | [`workloads`] | what kube-controller-manager and kube-scheduler do on a cluster, as far as one machine needs it |
//! | [`state_dir`] | the one directory in which everything is kept |
//! | [`opencode`] | where OpenCode is on this machine |
//! | [`demo`] | Tasks that show what the platform does |
//! | [`scripted_model`] | an OpenAI-compatible model that does what the prompt's markers say |

pub mod definitions;
pub mod demo;
mod kubelet;
pub mod opencode;
pub mod page;
pub mod platform;
pub mod scripted_model;
pub mod state_dir;
pub mod workloads;
