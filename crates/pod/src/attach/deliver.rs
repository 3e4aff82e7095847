//! Copies a directory of this Pod to the Agent's server, to the same path, before the prompt is sent.
//!
//! OpenCode's API writes no files but runs commands, so [`crate::unpack`] receives the directory on the server, piece
//! by piece, in a session that is deleted at the end: delivered files must not become part of the model's context or of
//! the Task's transcript.

use std::io;
use std::path::Path;
use std::time::Duration;

use domain::contract::reason::Reason;
use domain::contract::report::RunReport;
use opencode::{Client, Error};
use serde_json::json;

use super::settings::Delivery;
use crate::run_log::{Log, Note};
use crate::unpack::{MOST_BYTES, MOST_ENTRIES, Piece};

/// Bytes of a piece. One argument of a Linux program holds 128 KiB, of which base64 leaves 96.
const PIECE: usize = 72 << 10;
/// Attempts for a piece without an answer.
const ATTEMPTS: u32 = 3;

/// Delivers the files, or returns the report of a run that cannot continue.
pub async fn deliver(
    delivery: &Delivery,
    agent: Option<&str>,
    client: &Client,
    log: &mut Log<'_>,
) -> Result<(), Box<RunReport>> {
    let place = delivery.root.join(&delivery.directory);
    let tar = pack(&place).map_err(|error| {
        let problem = format!("the contexts in {} cannot be delivered: {error}", place.display());
        Box::new(RunReport::new(Reason::BadInvocation, problem))
    })?;
    put(delivery, &tar, agent, client, log).await
}

/// Sends a packed directory to the server.
pub async fn put(
    delivery: &Delivery,
    tar: &[u8],
    agent: Option<&str>,
    client: &Client,
    log: &mut Log<'_>,
) -> Result<(), Box<RunReport>> {
    let place = delivery.root.join(&delivery.directory);
    let failed = |problem: &str| {
        let message = format!("the contexts cannot be put at {} on the Agent's server: {problem}", place.display());
        Box::new(RunReport::new(Reason::SessionError, message))
    };
    let body = json!({ "title": "KubeOpenCode: delivery of contexts" });
    let session = client.create(&body).await.map_err(|error| failed(&error.to_string()))?.id;
    let sent = send(delivery, agent, client, &session, tar).await;
    // A session that cannot be deleted is harmless.
    let _ = client.delete(&session).await;
    let files = sent.map_err(|problem| failed(&problem))?;
    log.note(&Note::Info(&format!("{files} files, {} bytes, are at {} on the server", tar.len(), place.display())));
    Ok(())
}

/// Sends the pieces in order. Returns the number of placed files.
async fn send(
    delivery: &Delivery,
    agent: Option<&str>,
    client: &Client,
    session: &str,
    tar: &[u8],
) -> Result<usize, String> {
    let agent = match agent {
        Some(agent) => agent.to_owned(),
        None => client.default_agent().await.map_err(|error| error.to_string())?,
    };
    let mut at = 0;
    for bytes in tar.chunks(PIECE) {
        let piece = Piece {
            root: delivery.root.clone(),
            directory: delivery.directory.clone(),
            id: session.to_owned(),
            at,
            total: tar.len() as u64,
            bytes: bytes.to_vec(),
        };
        at += bytes.len() as u64;
        let command = command_line(&delivery.receiver, &piece)?;
        let output = run(client, session, &agent, &command).await.map_err(|error| error.to_string())?;
        let mut lines = output.lines().map(str::trim);
        if at < piece.total {
            if !lines.any(|line| line == format!("kept {at}")) {
                return Err(shortened(&output));
            }
        } else if let Some(files) = lines.find_map(|line| line.strip_prefix("delivered ")?.parse().ok()) {
            return Ok(files);
        } else {
            return Err(shortened(&output));
        }
    }
    Err("nothing was sent".to_owned())
}

/// Runs one command. A piece may arrive twice, so the command is repeated if there is no answer.
async fn run(client: &Client, session: &str, agent: &str, command: &str) -> Result<String, Error> {
    let mut attempt = 1;
    loop {
        match client.shell(session, agent, command).await {
            Err(error) if error.is_transient() && attempt < ATTEMPTS => attempt += 1,
            result => return result,
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// The command for a shell. No argument contains a character that a shell interprets.
fn command_line(receiver: &[String], piece: &Piece) -> Result<String, String> {
    let words: Vec<&str> = receiver.iter().map(String::as_str).collect();
    let arguments = piece.to_words();
    let words: Vec<&str> = words.into_iter().chain(arguments.iter().map(String::as_str)).collect();
    let plain = |char: char| char.is_ascii_alphanumeric() || "_-./=".contains(char);
    match words.iter().find(|word| word.is_empty() || !word.chars().all(plain)) {
        Some(word) => Err(format!("the program {word:?} has characters that a shell would read")),
        None => Ok(words.join(" ")),
    }
}

/// The output of the command, shortened.
fn shortened(output: &str) -> String {
    let line = output.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.as_str() {
        "" => "the server's shell said nothing".to_owned(),
        line => line.chars().take(300).collect(),
    }
}

/// The directory as a tar, sorted, without owners and times.
pub fn pack(directory: &Path) -> io::Result<Vec<u8>> {
    let mut packing = Packing { tar: tar::Builder::new(Vec::new()), entries: 0 };
    packing.directory(directory, Path::new(""))?;
    packing.tar.into_inner()
}

struct Packing {
    tar: tar::Builder<Vec<u8>>,
    entries: usize,
}

impl Packing {
    fn directory(&mut self, path: &Path, name: &Path) -> io::Result<()> {
        let mut children =
            std::fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
        children.sort();
        for child in children {
            self.entry(&path.join(&child), &name.join(&child))?;
        }
        Ok(())
    }

    fn entry(&mut self, path: &Path, name: &Path) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let metadata = std::fs::symlink_metadata(path)?;
        self.entries += 1;
        let packed = self.tar.get_ref().len() as u64;
        if self.entries > MOST_ENTRIES || packed.saturating_add(metadata.len()) > MOST_BYTES - (1 << 20) {
            let advice = "give large repositories and documents to the Agent instead";
            return Err(io::Error::other(format!(
                "it is larger than {} MiB or {MOST_ENTRIES} files; {advice}",
                (MOST_BYTES >> 20) - 1
            )));
        }
        let mut header = tar::Header::new_gnu();
        header.set_mode(metadata.permissions().mode() & 0o777);
        header.set_size(0);
        if metadata.is_dir() {
            header.set_entry_type(tar::EntryType::Directory);
            self.tar.append_data(&mut header, name, io::empty())?;
            self.directory(path, name)?;
        } else if metadata.is_symlink() {
            header.set_entry_type(tar::EntryType::Symlink);
            self.tar.append_link(&mut header, name, std::fs::read_link(path)?)?;
        } else if metadata.is_file() {
            // Read first: a file that grows meanwhile would break the tar.
            let content = std::fs::read(path)?;
            header.set_entry_type(tar::EntryType::Regular);
            header.set_size(content.len() as u64);
            self.tar.append_data(&mut header, name, content.as_slice())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unpack;

    #[test]
    fn what_is_packed_here_is_unpacked_there() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let long = "deep/".repeat(30);
        std::fs::create_dir_all(here.path().join(&long)).unwrap();
        std::fs::create_dir(here.path().join("empty")).unwrap();
        std::fs::write(here.path().join(&long).join("it's $HOME.md"), "content").unwrap();
        std::os::unix::fs::symlink("empty", here.path().join("link")).unwrap();
        let tar = pack(here.path()).unwrap();
        assert_eq!(tar, pack(here.path()).unwrap());
        let piece = Piece {
            root: there.path().to_owned(),
            directory: "d".into(),
            id: "x".into(),
            at: 0,
            total: tar.len() as u64,
            bytes: tar,
        };
        assert_eq!(unpack::run(&piece, there.path()).unwrap(), unpack::Taken::Delivered(2));
        let there = there.path().join("d");
        assert_eq!(std::fs::read_to_string(there.join(&long).join("it's $HOME.md")).unwrap(), "content");
        assert_eq!(std::fs::read_link(there.join("link")).unwrap(), Path::new("empty"));
        assert!(there.join("empty").is_dir());
    }

    #[test]
    fn a_flood_is_refused_before_anything_is_sent() {
        let here = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(here.path().join("big")).unwrap();
        file.set_len(MOST_BYTES).unwrap();
        let error = pack(here.path()).unwrap_err().to_string();
        assert!(error.contains("larger than 15 MiB"), "{error}");
    }

    #[test]
    fn no_word_of_the_command_means_anything_to_a_shell() {
        let piece = Piece {
            root: "/work space/$(x)".into(),
            directory: "`y`/'z'".into(),
            id: "ses_1".into(),
            at: 0,
            total: 3,
            bytes: vec![255, 254, 253],
        };
        let command = command_line(&["/tools/kubeopencode".to_owned(), "unpack".to_owned()], &piece).unwrap();
        assert!(command.chars().all(|char| char.is_ascii_alphanumeric() || "_-./= ".contains(char)), "{command}");
        assert!(command_line(&["/a b".to_owned()], &piece).is_err());
    }
}
