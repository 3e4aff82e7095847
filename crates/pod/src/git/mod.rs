//! Parts of git-init and git-sync: settings, access to the repository, checkout, merge.

pub mod access;
pub mod checkout;
pub mod merge;
pub mod settings;
