//! Real repositories, on disk and behind a server.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use blackbox::git_server::{GitServer, Manner};

/// Runs git in a directory and returns its output.
pub fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "init.defaultBranch=main"])
        .args(["-c", "protocol.file.allow=always"])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .stdin(Stdio::null())
        .output()
        .expect("git is needed for these tests");
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A repository with a few commits.
pub struct Origin {
    pub base: tempfile::TempDir,
    pub path: PathBuf,
}

impl Origin {
    /// Three commits on `main`, tag `v1` on the second, branch `feature` with one more.
    pub fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("origin.git");
        std::fs::create_dir(&path).unwrap();
        let origin = Self { base, path };
        git(&origin.path, &["init", "--quiet"]);
        origin.commit("README.md", "one\n");
        origin.commit("README.md", "two\n");
        git(&origin.path, &["tag", "-a", "v1", "-m", "first"]);
        git(&origin.path, &["checkout", "--quiet", "-b", "feature"]);
        origin.commit("feature.txt", "feature\n");
        git(&origin.path, &["checkout", "--quiet", "main"]);
        origin.commit("README.md", "three\n");
        origin
    }

    pub fn commit(&self, file: &str, content: &str) -> String {
        let path = self.path.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        git(&self.path, &["add", "--all"]);
        git(&self.path, &["commit", "--quiet", "-m", file]);
        self.head()
    }

    pub fn head(&self) -> String {
        git(&self.path, &["rev-parse", "HEAD"])
    }

    pub fn url(&self) -> String {
        format!("file://{}", self.path.display())
    }

    /// Serves it over HTTP.
    pub async fn serve(&self, manner: Manner) -> GitServer {
        GitServer::serve(Ipv4Addr::LOCALHOST, self.base.path(), manner).await.unwrap()
    }
}
