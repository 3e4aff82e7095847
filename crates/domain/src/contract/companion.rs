//! The protocol of the companion: our own container beside an Agent's server, which acts on the workspace for the Pods of
//! the Agent's Tasks and for the controller.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `PUT /v1/runs/{task}/{uid}/{epoch}/files` | a tar | [`Delivered`]: its files are the directory of the Task, and nothing else is |
//! | `POST /v1/runs/{task}/{uid}/{epoch}` | [`Begin`] | 204: the workspace before the run is known |
//! | `POST /v1/runs/{task}/{uid}/{epoch}/filesets` | [`FileSetRequest`] | frames: an archive, then what it contains |
//! | `POST /v1/runs/{task}/{uid}/{epoch}/changes` | [`CompareRequest`] | frames: the patch of the whole change, then [`Compared`] |
//! | `GET /v1/runs/{task}/{uid}/{epoch}/outputs` | | the file of outputs; nothing if there is none |
//! | `DELETE /v1/runs/{task}/{uid}/{epoch}` | | 204: nothing more is asked about the run |
//! | `GET /v1/tasks` | | [`Tasks`]: names of the Tasks that left something |
//! | `DELETE /v1/tasks/{task}` | | 204: the directory of the Task is removed, and its runs are forgotten |
//!
//! Every request has the token of the Agent's companion as bearer token; `GET /healthz` needs none. A request of an older
//! run than the one that is known is refused. Frames are a length of four bytes, most significant first, and as many bytes;
//! a frame without bytes ends them, and JSON follows: a [`Framed`]. Every other answer has a [`Refusal`] as body.
//!
//! [`Refusal`]: super::depot::Refusal

use serde::{Deserialize, Serialize};

/// Port of the companion of every Agent.
pub const PORT: i32 = 14096;
/// Name of the port, and of the container.
pub const NAME: &str = "companion";
/// Key of the token in its Secret.
pub const TOKEN_KEY: &str = "token";
/// Bytes of the files of a delivery. Larger trees belong in a context of the Agent, or in its image.
pub const MOST_DELIVERY_BYTES: u64 = 4 << 30;
/// Files, links and directories of a delivery.
pub const MOST_DELIVERY_ENTRIES: u64 = 200_000;
/// Bytes of the file of outputs, which may contain more than the declared ones.
pub const MOST_OUTPUTS_BYTES: u64 = 1 << 20;
/// Bytes of the JSON after frames, most of which is a manifest.
pub const MOST_FRAMED_BYTES: u64 = 64 << 20;

/// Files that were delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivered {
    /// Number of files and links.
    pub files: u64,
    /// Bytes of the files.
    pub bytes: u64,
}

/// What a run will ask for at its end: `KUBEOPENCODE_COMPANION_BEGIN`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// The run writes outputs.
    #[serde(default)]
    pub outputs: bool,
    /// The workspace before and after the run is compared.
    #[serde(default)]
    pub changes: bool,
}

/// Asks for files of the workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSetRequest {
    /// Patterns as in `artifacts[].paths`.
    pub paths: Vec<String>,
}

/// Asks for the patch of the whole change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompareRequest {
    /// Files that the session of the run edited, absolute or relative to the workspace. If another run overlapped, the
    /// patch contains no others. `None` if they are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<Vec<String>>,
}

/// The end of an answer in frames.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Framed<T> {
    /// The frames are complete.
    Done(T),
    /// The frames are of no use. One sentence for a person.
    Failed(String),
}

/// What the companion packed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Packed<T> {
    /// The file set, without its bytes.
    pub set: T,
    /// Sentences for the run.
    pub notes: Vec<String>,
}

/// A workspace that was compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compared {
    /// Sentences for the run.
    pub notes: Vec<String>,
}

/// Tasks whose directories are in the workspace, or whose runs are known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tasks {
    pub tasks: Vec<String>,
}

/// Whether a text can be the name of a Task, and so of its directory.
pub fn is_task_name(name: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    !name.starts_with('.') && !name.is_empty() && name.len() <= 253 && name.bytes().all(fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_tasks_are_directories_of_tasks() {
        for name in ["fix", "fix.too", "a-1"] {
            assert!(is_task_name(name), "{name}");
        }
        for name in ["", ".", "..", ".hidden", "Not-A-Task", "a b", "a/b", "$(x)", "é"] {
            assert!(!is_task_name(name), "{name}");
        }
    }

    #[test]
    fn a_run_of_a_later_version_may_ask_for_more() {
        let begin: Begin = serde_json::from_str(r#"{"changes":true,"later":1}"#).unwrap();
        assert_eq!(begin, Begin { outputs: false, changes: true });
    }
}
