//! # Shared parts of the black-box suites
//!
//! A suite specifies an API server of KubeOpenCode, and runs against every implementation: it knows them
//! only by the trait [`ApiServer`]. The cases are data, in `tests/cases`:
//!
//! | file | contents |
//! |---|---|
//! | `full/` | manifests that together set every field of every kind |
//! | `rules.yaml` | for every validation rule, values that it accepts and values that it refuses |
//! | `whole.yaml` | objects worth a case of their own, above all about Kubernetes' types inside ours |
//! | `upstream/`, `seeds/` | manifests written for KubeOpenCode v0.1.7 and by the seed documents |
//!
//! Cases for bounds, enums, defaults and types are not written but derived: [`probe`] walks the definitions of the
//! [`kind`]s and changes one value of the full manifests at a time, so a new field has its cases before it has a user.
//!
//! The controllers are tested with the real binary ([`controller`], a [`daemon`]) on both kinds of
//! [`control_plane`]. Instead of nodes, these suites have a [`stub_kubelet`] that follows the script of
//! the case.
//! The suite `node` has a real one: real images, real OpenCode, and a model that follows a script.

pub mod cases;
pub mod control_plane;
pub mod controller;
pub mod daemon;
pub mod embedded;
pub mod git_server;
pub mod history;
pub mod install;
pub mod kind;
pub mod probe;
pub mod rest_server;
pub mod sample;
pub mod server;
pub mod stub_kubelet;
pub mod typed;

pub use kind::Kind;
pub use server::{ApiServer, Request, Response};
pub use testenv::{cases, runner};
