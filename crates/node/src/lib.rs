//! A node that runs Pods as processes on one machine.
//!
//! ```no_run
//! # async fn example(client: kube::Client) -> Result<(), kubeopencode_node::Error> {
//! use kubeopencode_node::{ImageMap, LogOptions, Node, NodeOptions};
//! let images = ImageMap::ours("/usr/bin/kubeopencode".as_ref(), None).host_images(true);
//! let node = Node::start(client, NodeOptions { images, ..NodeOptions::new("local", "/var/lib/node".into()) }).await?;
//! println!("{}", node.isolation()); // how containers are isolated on this machine
//! let log = node.logs("default", "my-pod", "main", LogOptions::default())?; // a stream of bytes
//! let shell = node.exec("default", "my-pod", "main", vec!["sh".into()], true, true).await?;
//! let connection = node.port_forward("default", "my-pod", 8080).await?;
//! # drop((log, shell, connection));
//! node.shutdown(std::time::Duration::from_secs(5)).await; // terminates every process that it started
//! # Ok(()) }
//! ```
//!
//! The node does what a kubelet does for Pods that are bound to it: volumes, init containers, sidecars, probes, hooks,
//! restarts, deadlines, deletion, logs. Each container has its own mount and PID namespace, so it sees its volumes, the
//! machine's files read-only, and only its own processes; cgroups limit its resources where the machine permits it.
//! With an [`Engine`], Podman or Docker runs the containers from real images. [`ServiceForwarding`] forwards the
//! addresses of Services to ready Pods.
//!
//! # Guarantees
//! - No container outlives the process of the node, however it ends. Containers of an [`Engine`] survive a `kill -9`;
//!   the next node on the same directory removes them before anything else.
//! - A container of a Pod that is not restarted runs at most once, also across a `kill -9`: its start is on disk before
//!   it runs. A run that was lost that way ends as Failed with the reason NodeLost.
//! - A status is written only when it changed, and only to the Pod with the same UID.
//! - Values of Secrets never appear in process arguments, and in files only where a Pod mounts them.
//!
//! # Requirement for the program
//! Containers are started through the program itself, so its `main` begins with:
//! ```ignore
//! if std::env::args().nth(1).as_deref() == Some(node::CONTAINER_ARGUMENT) { exit(node::container_main()) }
//! ```

mod logs;
mod network;
mod node;
mod pod;
mod process;
mod runtime;
mod status;
mod volumes;

pub use logs::LogOptions;
pub use network::services::ServiceForwarding;
pub use node::{Error, Node, NodeOptions, clean_up};
pub use process::exec::{Exec, Resize};
pub use process::helper::{ARGUMENT as CONTAINER_ARGUMENT, container_main};
pub use process::isolation::{Isolation, IsolationError};
pub use runtime::engine::{Engine, EngineError};
pub use runtime::images::{Image, ImageError, ImageMap};
pub use status::events::Events;
