//! One run of a Task, from the queue to its record: who starts when, with which settings, and how it ended.

pub mod approval;
pub mod budget;
pub mod changes;
pub mod cleanup;
pub mod dependencies;
pub mod history;
pub mod judge;
pub mod milestones;
pub mod needs;
pub mod origin;
pub mod outcome;
pub mod progress;
pub mod queue;
pub mod resolve;
pub mod resolved;
pub mod retention;
pub mod retry;
pub mod session;
pub mod stage;
pub mod startup;
pub mod target;
pub mod terms;
pub mod title;
pub mod trace;
pub mod unsupported;
pub mod workspace;
