//! Where a Task stands now.

use api::Task;
use jiff::Timestamp;
pub use kubeopencode_core::standing::{Standing, stop_requested};

use crate::context::now;

/// When a Task that is to be tried again joins its queue, if that time has not come.
pub fn joins_later(task: &Task) -> Option<Timestamp> {
    kubeopencode_core::standing::joins_later(task, now())
}
