//! The helpers with real parts: real git, real npm, real HTTP, real processes, and a real OpenCode against the scripted
//! model. Everything is on loopback, and every started process is ended.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that fails says so"
)]

mod support;

#[path = "real/attach.rs"]
mod attach;
#[path = "real/attach_person.rs"]
mod attach_person;
#[path = "real/attach_races.rs"]
mod attach_races;
#[path = "real/budget.rs"]
mod budget;
#[path = "real/changes.rs"]
mod changes;
#[path = "real/collect.rs"]
mod collect;
#[path = "real/companion.rs"]
mod companion;
#[path = "real/git.rs"]
mod git;
#[path = "real/git_sync.rs"]
mod git_sync;
#[path = "real/image_build.rs"]
mod image_build;
#[path = "real/plugins.rs"]
mod plugins;
#[path = "real/prep.rs"]
mod prep;
#[path = "real/publish.rs"]
mod publish;
#[path = "real/publish_forge.rs"]
mod publish_forge;
#[path = "real/publish_hostile.rs"]
mod publish_hostile;
#[path = "real/shim.rs"]
mod shim;
#[path = "real/shim_opencode.rs"]
mod shim_opencode;
#[path = "real/url.rs"]
mod url;

/// Not a test: the program that [`support::helper`] starts.
#[test]
#[ignore = "the test program becomes a helper with it"]
fn helper_process() {
    support::helper::become_helper();
}
