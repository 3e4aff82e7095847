//! The helpers that run inside Pods.
//!
//! Each helper is a module with `Settings::from_env` and `run`; the binary `kubeopencode` offers them as subcommands.
//!
//! | subcommand | module | |
//! |---|---|---|
//! | `context-init` | [`context_init`] | files and directories of the contexts |
//! | `git-init` | [`git_init`] | a repository, checked out once |
//! | `git-sync` | [`git_sync`] | a repository, kept at its newest commit |
//! | `url-fetch` | [`url_fetch`] | a URL, as a file |
//! | `plugin-init` | [`plugin_init`] | OpenCode plugins from npm |
//! | `probe` | [`probe`] | whether an Agent's server can be used |
//! | `attach` (and the name `opencode`) | [`attach`] | a Task on an Agent's server |
//! | `changes` | [`changes::agent`] | compares an Agent's workspace before and after a Task |
//! | `companion` | [`companion`] | acts on an Agent's workspace for the Pods of its Tasks |
//! | `session-log` | [`session_log`] | the records of a session, as the log of a container beside the agent |
//! | `shim` | [`shim`] | a Task's own command in a standalone Pod |
//! | `prep` | [`prep`] | inputs and caches, from the depot |
//! | `housekeeper` | [`housekeeper`] | what a run leaves, into the depot |
//! | `image-build`, `image-push` | [`image_build`] | an image from a repository, built and pushed by buildah |
//! | `workspace-clean` | [`workspace_clean`] | removes directories of deleted Tasks from a shared workspace |
//!
//! Invariants: secrets never enter arguments, logs or errors (I7); nothing is written outside of the allowed roots or
//! through links; files are written atomically; every wait has a limit; the outcome of a run is judged by
//! [`domain::run::judge`] and reported with the exit codes and the report of [`domain::contract`].

pub mod attach;
pub mod authorities;
pub mod budget;
pub mod changes;
pub mod companion;
pub mod context_init;
pub mod depot;
pub mod env;
pub mod git;
pub mod git_init;
pub mod git_sync;
pub mod housekeeper;
pub mod image_build;
pub mod last_word;
pub mod outcome;
pub mod place;
pub mod plugin_init;
pub mod prep;
pub mod probe;
pub mod publish;
pub mod recorder;
pub mod redact;
pub mod run_log;
pub mod session_log;
pub mod shim;
pub mod stop;
mod text;
pub mod tool_output;
pub mod url_fetch;
pub mod workspace_clean;
