//! # The client of OpenCode's server
//!
//! One client for the helpers in Pods, the controller, the API server and the command line: sessions, messages, events,
//! permissions and files of `opencode serve`. Facts measured with 1.18.33. Unknown fields and event types are ignored,
//! so a newer server works as long as what is used here stays.
//!
//! How a caller reaches the server differs, so the caller chooses the address ([`Server`]) and the HTTP client:
//! [`direct`] for an address inside the cluster or the end of a tunnel, its own one if proxies and certificates matter.
//! Everything else is the same for all of them.
//!
//! Invariants: every request has a time limit and every answer a size limit; the password is never part of a URL, an
//! error or a debug output (I7); ids never change the path of a request.

pub mod client;
pub mod error;
pub mod events;
pub mod server;

pub use client::{Activity, Client, Reply};
pub use domain::{
    opencode::{message, session::Session},
    run::approval::{Asked, Rule},
};
pub use error::Error;
pub use server::{Credentials, Server, direct};
