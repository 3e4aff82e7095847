//! The commands of the README, pasted on a machine without a key.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Instant,
};

use serde_json::Value;

use crate::command::{LIMIT, Up};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The commands of a section, block by block.
fn commands(section: &str) -> Vec<String> {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    let (_, rest) = readme.split_once(&format!("\n## {section}")).unwrap_or_else(|| panic!("no section {section}"));
    let section = rest.split("\n## ").next().unwrap();
    section.split("```sh\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0.to_owned())).collect()
}

/// A shell in a home directory with a running platform, and the program on its PATH.
fn shell(home: &Path, script: &str) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_kubeopencode")).parent().unwrap();
    let path = std::env::join_paths([program, Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
    let mut command = Command::new("sh");
    command.args(["-e", "-c", script]).current_dir(repository()).env_clear().stdin(Stdio::null());
    command.env("HOME", home).env("PATH", path).output().unwrap()
}

#[track_caller]
fn succeeds(home: &Path, script: &str) -> (String, String) {
    let output = shell(home, script);
    let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{script}\n{stdout}\n{stderr}");
    (stdout, stderr)
}

#[test]
fn the_quick_start_works_without_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    let up = Up::start(&home.join(".kubeopencode"), &["--port", "0"]);
    let greeting = up.greeting.join("\n");
    assert!(greeting.contains(r#"Try it       kubeopencode run "Say hello""#), "{greeting}");
    // The program of this test is not on the PATH of this process.
    assert!(greeting.contains("alias kubeopencode=/"), "{greeting}");

    let [install, first] = commands("Try it").try_into().unwrap();
    // Other tests run these two.
    assert!(install.lines().map(|line| line.split('#').next().unwrap().trim()).eq(["make install", "kubeopencode up"]));
    let (log, notes) = succeeds(home, &first);
    assert!(notes.contains("using AgentTemplate 'scripted': its model is built in, needs no key"), "{notes}");
    assert!(log.contains("I am a scripted model and have read: Say hello"), "{log}\n{notes}");
    assert!(notes.contains(" succeeded after ") && notes.contains(", cost $0."), "{notes}");

    let [around] = commands("Look around").try_into().unwrap();
    let use_it = "export KUBECONFIG=~/.kubeopencode/kubeconfig\n";
    let (shown, _) = succeeds(home, &format!("{use_it}{around}"));
    assert!(shown.contains("task.kubeopencode.io/refused created"), "{shown}");
    let [with_key] = commands("With your own key").try_into().unwrap();
    assert!(with_key.starts_with("kubeopencode setup ") && with_key.contains("\nkubeopencode run "), "{with_key}");

    let started = Instant::now();
    loop {
        let (tasks, _) = succeeds(home, &format!("{use_it}kubeopencode get tasks -o json"));
        let tasks: Value = serde_json::from_str(&tasks).unwrap();
        let reason = |name: &str| {
            let task = tasks["items"].as_array()?.iter().find(|task| task["metadata"]["name"] == name)?;
            task["status"]["completionTime"].as_str()?;
            Some(task["status"]["reason"].as_str()?.to_owned())
        };
        let found = ["greet", "build", "refused", "slow"].map(reason);
        if found.iter().all(Option::is_some) {
            let found = found.map(Option::unwrap_or_default);
            assert_eq!(found, ["Succeeded", "Succeeded", "ModelError", "UserStopped"]);
            break;
        }
        // Four programs start at once.
        assert!(started.elapsed() < 3 * LIMIT, "{found:?}");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    // A mistyped name fails at once.
    let mistyped = shell(home, &format!("{use_it}kubeopencode run hello --template scriptd"));
    let stderr = String::from_utf8(mistyped.stderr).unwrap();
    assert_eq!(mistyped.status.code(), Some(5), "{stderr}");
    assert!(stderr.contains("there is no AgentTemplate 'scriptd' in namespace 'default'"), "{stderr}");
    assert!(stderr.contains("did you mean 'scripted'?"), "{stderr}");
}

/// Every file that a document of this repository links to exists.
#[test]
fn links_of_documents_lead_somewhere() {
    let root = repository();
    let mut documents: Vec<_> =
        ["README.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md"].map(|file| root.join(file)).into();
    documents.extend(fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path()));
    documents.extend(fs::read_dir(root.join("examples")).unwrap().map(|entry| entry.unwrap().path().join("README.md")));
    for document in documents.iter().filter(|path| path.is_file() && path.extension().is_some_and(|end| end == "md")) {
        let text = fs::read_to_string(document).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            if target.is_empty() || target.contains("://") || target.contains(' ') {
                continue;
            }
            let file = document.parent().unwrap().join(target);
            assert!(file.exists(), "{} links to {target}", document.display());
        }
    }
}
