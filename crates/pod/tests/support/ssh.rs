//! A real ssh server: Debian's `sshd` on loopback, one process for each connection.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const PROGRAM: &str = "/usr/sbin/sshd";

/// Admits the user of this process with the key of the server's owner.
pub struct SshServer {
    address: SocketAddr,
    directory: tempfile::TempDir,
    ended: Arc<AtomicBool>,
}

impl SshServer {
    pub fn start() -> Self {
        assert!(Path::new(PROGRAM).exists(), "{PROGRAM} is needed for these tests: run scripts/tools");
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for name in ["host", "user"] {
            let made =
                Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path(name)).status();
            assert!(made.unwrap().success());
        }
        if rustix::process::getuid().is_root() {
            // The package makes it when its service starts.
            std::fs::create_dir_all("/run/sshd").unwrap();
        }
        let config = path("config");
        let settings = format!(
            "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n",
            path("host").display(),
            path("user.pub").display()
        );
        std::fs::write(&config, settings).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ended);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                serve(stream, config.clone());
            }
        });
        Self { address, directory, ended }
    }

    /// The URL of a repository on this machine.
    pub fn url_of(&self, path: &Path) -> String {
        let user = Command::new("id").arg("-un").output().unwrap();
        let user = String::from_utf8(user.stdout).unwrap();
        format!("ssh://{}@{}{}", user.trim(), self.address, path.display())
    }

    pub fn key(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("user")).unwrap()
    }

    /// The line of `known_hosts` by which the server is recognised at its address.
    pub fn known_hosts(&self) -> String {
        self.known_hosts_at(self.address)
    }

    /// The same, for another server at the address.
    pub fn known_hosts_of(&self, other: &Self) -> String {
        self.known_hosts_at(other.address)
    }

    fn known_hosts_at(&self, address: SocketAddr) -> String {
        let key = std::fs::read_to_string(self.directory.path().join("host.pub")).unwrap();
        format!("[{}]:{} {key}", address.ip(), address.port())
    }
}

fn serve(stream: TcpStream, config: PathBuf) {
    let Ok(input) = stream.try_clone() else { return };
    let mut command = Command::new(PROGRAM);
    command.args(["-i", "-e", "-f"]).arg(config).stderr(Stdio::null());
    command.stdin(OwnedFd::from(input)).stdout(OwnedFd::from(stream));
    if let Ok(mut child) = command.spawn() {
        // The command holds the connection, which would never end.
        drop(command);
        std::thread::spawn(move || child.wait());
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}
