//! The stage of a Task now.

use api::Task;
pub use domain::run::stage::{Stage, stop_requested};
use jiff::Timestamp;

use crate::shared::now;

/// When a Task that is to be tried again joins its queue, if that time has not come.
pub fn joins_later(task: &Task) -> Option<Timestamp> {
    domain::run::stage::joins_later(task, now())
}
