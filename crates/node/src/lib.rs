//! A node that runs Pods as processes on one machine.
//!
//! ```no_run
//! # async fn example(client: kube::Client) -> Result<(), kubeopencode_node::Error> {
//! use kubeopencode_node::{ImageMap, LogOptions, Node, NodeOptions};
//! let images = ImageMap::ours("/usr/bin/kubeopencode".as_ref(), None).host_images(true);
//! let node = Node::start(client, NodeOptions { images, ..NodeOptions::new("local", "/var/lib/node".into()) }).await?;
//! println!("{}", node.isolation()); // what keeps containers apart on this machine
//! let log = node.logs("default", "my-pod", "main", LogOptions::default())?; // a stream of bytes
//! let shell = node.exec("default", "my-pod", "main", vec!["sh".into()], true, true).await?;
//! let connection = node.port_forward("default", "my-pod", 8080).await?;
//! # drop((log, shell, connection));
//! node.shutdown(std::time::Duration::from_secs(5)).await; // ends every process that it started
//! # Ok(()) }
//! ```
//!
//! It does what a kubelet does for Pods that are bound to it: volumes, init containers, sidecars, probes, hooks,
//! restarts, deadlines, deletion, logs. Each container has a mount and a process namespace of its own, so it sees its
//! volumes at their places, the machine's files read-only, and its own processes only; control groups limit what it uses
//! where the machine lets the node make them. With an [`Engine`], containers are those of Podman or Docker instead, from
//! real images. [`ServiceForwarding`] makes the addresses of Services lead to ready Pods.
//!
//! # What can be relied on
//! - Nothing that the node started outlives it: when its process ends, in whatever way, so do the containers. Those of an
//!   [`Engine`] outlive a `kill -9`; the next node on the same directory removes them before it does anything else.
//! - A container whose Pod is not to be restarted runs at most once, also across a `kill -9`: its start is on disk before
//!   it runs. What was lost that way ends as Failed with the reason NodeLost.
//! - A status is written only when something changed, and only to the Pod with the same UID.
//! - Values of Secrets are never in arguments of processes, and in files only where a Pod mounts them.
//!
//! # What the program must do
//! Containers are started through the program itself. Its `main` begins with
//! `if std::env::args().nth(1).as_deref() == Some(node::CONTAINER_ARGUMENT) { exit(node::container_main()) }`.

mod addresses;
mod container;
mod engine;
mod environment;
mod events;
mod exec;
mod expand;
mod facts;
mod groups;
mod images;
mod inside;
mod isolation;
mod journal;
mod life;
mod limits;
mod logs;
mod node;
mod objects;
mod pod;
mod probe;
mod quantity;
mod removal;
mod report;
mod runtime;
mod services;
mod signals;
mod status;
mod tls;
mod volumes;

pub use engine::{Engine, EngineError};
pub use events::Events;
pub use exec::{Exec, Resize};
pub use images::{Image, ImageError, ImageMap};
pub use inside::{ARGUMENT as CONTAINER_ARGUMENT, container_main};
pub use isolation::{Isolation, IsolationError};
pub use logs::LogOptions;
pub use node::{Error, Node, NodeOptions, give_back};
pub use services::ServiceForwarding;
