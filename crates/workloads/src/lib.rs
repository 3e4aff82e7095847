//! # The workload controllers
//!
//! The parts of kube-controller-manager and kube-scheduler that one machine needs. They use any API server through a
//! client; their tests run on a real one.
//!
//! | module | invariant |
//! | --- | --- |
//! | `deployment` | a Deployment has a ReplicaSet for its template, and rolls over to it |
//! | `replica_set` | a ReplicaSet has the desired number of Pods |
//! | `scheduler` | a Pod is bound to the node |
//! | `endpoints` | a Service has EndpointSlices with its Pods |
//! | `claims` | a PersistentVolumeClaim is bound |
//! | `garbage` | objects without owners are deleted |
//! | `namespaces` | a namespace has its default objects, and is deleted with its content |
//! | `expiry` | expired Events and orphaned Pods are deleted |
//!
//! Each kind has one watch, which fills a cache and enqueues the objects that a change affects. One work queue gives
//! each key to one worker at a time. A pass reads the caches, decides by a pure function and writes the difference.
//! No controller polls: a pass runs after a watch event, at a time that an earlier pass scheduled, or as a retry with
//! backoff.

mod claims;
mod controllers;
mod deployment;
mod endpoints;
mod expiry;
mod garbage;
mod graph;
mod kinds;
mod namespaces;
mod ownership;
mod pods;
mod replica_set;
mod scheduler;
pub mod this_node;

pub use controllers::{Settings, Workloads};

use controllers::{Shared, at};
