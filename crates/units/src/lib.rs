//! Quantities (`500m`, `1Gi`) and durations (`1h30m`) as Kubernetes reads and writes them.
//!
//! Every crate parses them here, so that a value that the API server accepts means the same to the controllers, the
//! node, the server and the command line. Pure, and no input panics or overflows.

pub mod duration;
mod quantity;

pub use quantity::{InvalidQuantity, Quantity};
