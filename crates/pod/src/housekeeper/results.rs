//! Files that the agent's container left. It may have put anything in their place, such as a link to our token.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};

/// Opens a regular file; `None` if there is nothing.
pub fn open(path: &Path) -> io::Result<Option<File>> {
    // Opening a named pipe must not wait.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let not_a_file = || io::Error::other(format!("{} is not a regular file", path.display()));
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => file,
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        // A link, and a socket.
        Err(rustix::io::Errno::LOOP | rustix::io::Errno::NXIO) => return Err(not_a_file()),
        Err(errno) => return Err(io::Error::other(format!("{} cannot be read: {errno}", path.display()))),
    };
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
        Ok(Some(File::from(file)))
    } else {
        Err(not_a_file())
    }
}

/// Reads a regular file that has at most `limit` bytes; `None` if there is nothing.
pub fn read(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = open(path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("{} has more than {limit} bytes", path.display())));
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_small_regular_files_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("file"), "12345").unwrap();
        assert_eq!(read(&path("file"), 5).unwrap().as_deref(), Some(&b"12345"[..]));
        assert!(read(&path("file"), 4).unwrap_err().to_string().contains("more than 4 bytes"));
        assert!(read(&path("missing"), 5).unwrap().is_none());
        symlink(path("file"), path("link")).unwrap();
        symlink("/nowhere", path("dangling")).unwrap();
        std::fs::create_dir(path("directory")).unwrap();
        let fifo = (FileType::Fifo, Mode::from_raw_mode(0o600));
        rustix::fs::mknodat(rustix::fs::CWD, path("fifo"), fifo.0, fifo.1, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        for name in ["link", "dangling", "directory", "fifo", "socket"] {
            let error = read(&path(name), 5).unwrap_err().to_string();
            assert!(error.contains("is not a regular file"), "{name}: {error}");
        }
    }
}
