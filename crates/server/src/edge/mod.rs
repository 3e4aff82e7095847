//! The edge of the server: connections, client addresses, rate limits, headers, and how requests are read.

pub(crate) mod address;
pub(crate) mod connections;
pub(crate) mod download;
pub(crate) mod extract;
pub(crate) mod front;
pub(crate) mod limits;
pub(crate) mod names;
