//! The contract between the controller and the Pods that it creates.
//!
//! The controller writes it into Pods ([`crate::workload`]), the helpers in a Pod read it, and the controller reads
//! back what they leave. Each name, path and reason is defined here and nowhere else.
//!
//! | module | direction | content |
//! |---|---|---|
//! | [`collect`] | both | what a run keeps and fetches, and the report on it |
//! | [`companion`] | between Pods | the protocol of the container beside an Agent's server |
//! | [`depot`] | out of the Pod | the protocol of the depot, which stores what runs keep |
//! | [`environment`] | into the Pod | every environment variable |
//! | [`image`] | both | how an image is built, and its digest |
//! | [`mappings`] | into the Pod | the files and directories that context-init copies |
//! | [`paths`] | into the Pod | every path that two containers or programs must agree on |
//! | [`report`] | out of the Pod | the report in the termination message |
//! | [`reason`] | out of the Pod | why a run ended, with exit codes |
//! | [`record`] | out of the Pod | the conversation, as invisible records in the log |
//! | [`termination`] | out of the Pod | how long a report may be |
//! | [`workspace`] | out of the Pod | what was removed from a shared workspace |

pub mod collect;
pub mod companion;
pub mod depot;
pub mod environment;
pub mod image;
pub mod mappings;
pub mod paths;
pub mod reason;
pub mod record;
pub mod report;
pub mod termination;
pub mod workspace;
