//! What git-init and git-sync share: settings, access to the remote, running git, checking out, merging.

pub mod access;
pub mod checkout;
pub mod command;
pub mod merge;
pub mod settings;
