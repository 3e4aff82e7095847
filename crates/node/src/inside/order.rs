//! What the node tells the process that becomes a container, and what it hears back.

use std::{
    io::{self, Write},
    os::fd::BorrowedFd,
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

/// Longer orders than this are not ours: an environment has its limit far below.
const LONGEST: usize = 64 << 20;

/// What a process of ours is for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Make the namespaces of a container, start it, and watch over it.
    Supervise(Start),
    /// Build the file system of the container and become its command.
    Init(Init),
    /// Enter the namespaces of a container and start a command there.
    Join(Join),
    /// Become that command.
    Run {
        /// The command.
        process: Process,
        /// Whether standard output is a terminal that the command should control.
        tty: bool,
    },
}

/// A container to start.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    /// Whether the namespaces need a user namespace, because the node is not root.
    pub(crate) user_namespace: bool,
    /// The control groups that its first process is put into.
    pub(crate) groups: Vec<PathBuf>,
    /// The container.
    pub(crate) init: Init,
}

/// The inside of a container.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Init {
    /// Its file system.
    pub(crate) root: Root,
    /// Its host name.
    pub(crate) hostname: String,
    /// Its command.
    pub(crate) process: Process,
}

/// A command and who runs it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Process {
    /// Program and arguments.
    pub(crate) command: Vec<String>,
    /// The whole environment.
    pub(crate) env: Vec<(String, String)>,
    /// Where it starts.
    pub(crate) directory: PathBuf,
    /// User as the container sees it.
    pub(crate) user: u32,
    /// Group as the container sees it.
    pub(crate) group: u32,
    /// More groups.
    pub(crate) groups: Vec<u32>,
    /// Whether the identity must be taken on; in a user namespace it is given by the mapping.
    pub(crate) switch_user: bool,
    /// Whether the system calls are refused that hardly any program needs.
    pub(crate) confined: bool,
}

/// The file system of a container: the machine's, read-only, and what is put into it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Root {
    /// An empty directory of the machine to build it in. Containers can share it: none sees what another mounts.
    pub(crate) scratch: PathBuf,
    /// What is put into it.
    pub(crate) mounts: Vec<Mount>,
    /// Directories of the machine that are empty in it.
    pub(crate) hidden: Vec<PathBuf>,
}

/// A file or directory of the machine at a place in the container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Mount {
    /// On the machine.
    pub(crate) source: PathBuf,
    /// Only this part of it; made if it is missing. No link leads out of the source.
    pub(crate) part: Option<PathBuf>,
    /// In the container.
    pub(crate) target: PathBuf,
    /// Whether it can only be read.
    pub(crate) read_only: bool,
}

/// A command to run in a container.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Join {
    /// The container's first process.
    pub(crate) pid: u32,
    /// Whether it has a user namespace.
    pub(crate) user_namespace: bool,
    /// Its control groups.
    pub(crate) groups: Vec<PathBuf>,
}

impl Order {
    /// Writes the order.
    pub(crate) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&self.bytes()?)
    }

    /// The order, with its length in front.
    pub(crate) fn bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; 4];
        serde_json::to_writer(&mut bytes, self)?;
        let length = u32::try_from(bytes.len() - 4).map_err(io::Error::other)?;
        bytes[..4].copy_from_slice(&length.to_be_bytes());
        Ok(bytes)
    }

    /// Reads one order and not a byte more: what follows belongs to somebody else.
    pub(crate) fn read(from: BorrowedFd<'_>) -> io::Result<Self> {
        let mut length = [0; 4];
        read_exactly(from, &mut length)?;
        let length = usize::try_from(u32::from_be_bytes(length)).map_err(io::Error::other)?;
        if length > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "too long"));
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

/// What the supervisor says, a line each.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The container's command has taken over.
    Started {
        /// The first process of the container.
        pid: u32,
    },
    /// It could not be started.
    Failed {
        /// Why, for people.
        message: String,
    },
    /// It ended.
    Exited {
        /// Its exit code; 128 and the signal if a signal ended it.
        code: i32,
        /// That signal.
        signal: Option<i32>,
    },
}

impl Report {
    /// Writes the report as a line.
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
        Order::Join(Join { pid: 7, user_namespace: true, groups: Vec::new() }).write(&mut writer).unwrap();
        writer.write_all(b"for the command").unwrap();
        drop(writer);
        let Order::Join(join) = Order::read(reader.as_fd()).unwrap() else { panic!("another order") };
        assert_eq!(join.pid, 7);
        assert_eq!(io::read_to_string(reader).unwrap(), "for the command");
    }
}
