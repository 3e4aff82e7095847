//! The protocol between the node and the helper processes of containers.

use std::{
    io::{self, Write},
    os::fd::BorrowedFd,
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

/// Maximum length of a request; far above the kernel's limit for an environment.
const MAX_REQUEST: usize = 64 << 20;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Create the namespaces of a container, start it, and supervise it.
    Supervise(Start),
    /// Build the root file system of the container and execute its command.
    Init(Init),
    /// Enter the namespaces of a container and start a command there.
    Join(Join),
    /// Execute that command.
    Run {
        process: Process,
        /// Whether standard output is a terminal that the command should control.
        tty: bool,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    /// Whether the namespaces need a user namespace, because the node is not root.
    pub(crate) user_namespace: bool,
    /// The cgroups of its first process.
    pub(crate) groups: Vec<PathBuf>,
    pub(crate) init: Init,
}

/// The start parameters of a container.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Init {
    pub(crate) root: Root,
    pub(crate) hostname: String,
    pub(crate) process: Process,
}

/// A command with its environment and identity.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Process {
    /// Program and arguments.
    pub(crate) command: Vec<String>,
    /// The complete environment.
    pub(crate) env: Vec<(String, String)>,
    /// The working directory.
    pub(crate) directory: PathBuf,
    /// User id inside the container.
    pub(crate) user: u32,
    /// Group id inside the container.
    pub(crate) group: u32,
    /// Supplementary group ids.
    pub(crate) groups: Vec<u32>,
    /// Whether the process must switch to the user; in a user namespace the mapping does it.
    pub(crate) switch_user: bool,
    /// Whether rarely used system calls are blocked.
    pub(crate) confined: bool,
}

/// The root file system of a container: the machine's files, read-only, with mounts.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Root {
    /// An empty directory of the machine to build it in. Containers can share it: no mount is visible to another.
    pub(crate) scratch: PathBuf,
    pub(crate) mounts: Vec<Mount>,
    /// Files and directories of the machine that are left out, whether or not they exist.
    pub(crate) hidden: Vec<PathBuf>,
}

/// A bind mount.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Mount {
    /// Path on the machine.
    pub(crate) source: PathBuf,
    /// Sub-path of the source; created if it is missing. Symbolic links cannot leave the source.
    pub(crate) part: Option<PathBuf>,
    /// Path in the container.
    pub(crate) target: PathBuf,
    pub(crate) read_only: bool,
}

/// A command to run in a container.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Join {
    /// The first process of the container.
    pub(crate) pid: u32,
    /// Whether the container has a user namespace.
    pub(crate) user_namespace: bool,
    pub(crate) groups: Vec<PathBuf>,
    /// Whether rarely used system calls are blocked.
    pub(crate) confined: bool,
}

impl Request {
    pub(crate) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&self.bytes()?)
    }

    /// The request with its length in front.
    pub(crate) fn bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; 4];
        serde_json::to_writer(&mut bytes, self)?;
        let length = u32::try_from(bytes.len() - 4).map_err(io::Error::other)?;
        bytes[..4].copy_from_slice(&length.to_be_bytes());
        Ok(bytes)
    }

    /// Reads one request and not a byte more: the following bytes belong to another reader.
    pub(crate) fn read(from: BorrowedFd<'_>) -> io::Result<Self> {
        let mut length = [0; 4];
        read_exactly(from, &mut length)?;
        let length = usize::try_from(u32::from_be_bytes(length)).map_err(io::Error::other)?;
        if length > MAX_REQUEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the request is too long"));
        }
        let mut bytes = vec![0; length];
        read_exactly(from, &mut bytes)?;
        Ok(serde_json::from_slice(&bytes)?)
    }
}

fn read_exactly(from: BorrowedFd<'_>, mut into: &mut [u8]) -> io::Result<()> {
    while !into.is_empty() {
        match rustix::io::read(from, &mut *into) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => into = &mut into[count..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The messages of the supervisor, one JSON line each.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The container's command is executed.
    Started {
        /// The first process of the container.
        pid: u32,
    },
    Failed {
        message: String,
    },
    Exited {
        /// The exit code; 128 plus the signal if a signal ended it.
        code: i32,
        signal: Option<i32>,
    },
}

impl Report {
    pub(crate) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        to.write_all(&line)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn an_order_is_read_without_touching_what_follows() {
        let (reader, mut writer) = io::pipe().unwrap();
        Request::Join(Join { pid: 7, user_namespace: true, groups: Vec::new(), confined: true })
            .write(&mut writer)
            .unwrap();
        writer.write_all(b"for the command").unwrap();
        drop(writer);
        let Request::Join(join) = Request::read(reader.as_fd()).unwrap() else { panic!("another order") };
        assert_eq!(join.pid, 7);
        assert_eq!(io::read_to_string(reader).unwrap(), "for the command");
    }
}
