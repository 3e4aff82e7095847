//! plugin-init with a real npm and a package of our own: no registry is asked.

use std::process::Command;

use kubeopencode_pod::{env, plugin_init};

use crate::support::{LIMIT, lookup, until};

fn package(directory: &std::path::Path, name: &str, scripts: &str) -> String {
    let content = directory.join("package");
    std::fs::create_dir_all(&content).unwrap();
    std::fs::write(
        content.join("package.json"),
        format!(r#"{{"name": "{name}", "version": "1.0.0", "main": "index.js", "scripts": {scripts}}}"#),
    )
    .unwrap();
    std::fs::write(content.join("index.js"), "export default {}").unwrap();
    let archive = directory.join(format!("{name}.tgz"));
    let status =
        Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(directory).arg("package").status().unwrap();
    assert!(status.success());
    archive.display().to_string()
}

#[tokio::test]
async fn a_package_is_installed_readable_and_its_scripts_are_not_run() {
    let directory = tempfile::tempdir().unwrap();
    let trap = directory.path().join("trap");
    let archive = package(directory.path(), "my-plugin", &format!(r#"{{"postinstall": "touch {}"}}"#, trap.display()));
    let target = directory.path().join("plugins");
    let pairs = [
        (env::PLUGIN_PACKAGES, serde_json::to_string(&[&archive]).unwrap()),
        (env::PLUGIN_DIR, target.display().to_string()),
    ];
    let settings = plugin_init::Settings::from_env(&lookup(&pairs)).unwrap();
    assert_eq!(plugin_init::run(&settings).await.unwrap(), 1);
    let installed = target.join("node_modules/my-plugin/index.js");
    let mode = std::os::unix::fs::MetadataExt::mode(&installed.metadata().unwrap());
    assert_eq!(mode & 0o444, 0o444);
    assert!(!trap.exists(), "an install script was run");
}

#[tokio::test]
async fn what_npm_cannot_install_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("no-such-package.tgz").display().to_string();
    let pairs = [
        (env::PLUGIN_PACKAGES, serde_json::to_string(&[&missing]).unwrap()),
        (env::PLUGIN_DIR, directory.path().join("plugins").display().to_string()),
    ];
    let settings = plugin_init::Settings::from_env(&lookup(&pairs)).unwrap();
    let error = plugin_init::run(&settings).await.unwrap_err().to_string();
    assert!(error.contains("no-such-package.tgz") && error.contains("ENOENT"), "{error}");
    let nowhere = plugin_init::Settings { npm: "/no/such/npm".into(), ..settings };
    let error = plugin_init::run(&nowhere).await.unwrap_err().to_string();
    assert!(error.contains("image with node and npm"), "{error}");
}

#[tokio::test]
async fn an_installation_that_is_given_up_leaves_no_process_behind() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let (npm, pid) = (directory.path().join("npm"), directory.path().join("pid"));
    // As with the real one, a child does the work.
    let script = format!("#!/bin/sh\nsleep 600 &\necho $! > {0}.new && mv {0}.new {0}\nwait\n", pid.display());
    std::fs::write(&npm, script).unwrap();
    std::fs::set_permissions(&npm, std::fs::Permissions::from_mode(0o755)).unwrap();
    let pairs = [
        (env::PLUGIN_PACKAGES, "[\"p\"]".to_owned()),
        (env::PLUGIN_DIR, directory.path().join("plugins").display().to_string()),
        (env::PLUGIN_NPM, npm.display().to_string()),
    ];
    let settings = plugin_init::Settings::from_env(&lookup(&pairs)).unwrap();
    let started = until("the start", LIMIT, async || std::fs::read_to_string(&pid).ok());
    let pid = tokio::select! {
        _ = plugin_init::run(&settings) => panic!("it cannot end"),
        pid = started => pid,
    };
    let status = format!("/proc/{}/status", pid.trim());
    // A zombie waits for the process that reaps orphans on this machine.
    until("its end", LIMIT, async || match std::fs::read_to_string(&status) {
        Ok(text) if !text.contains("State:\tZ") => None,
        _ => Some(()),
    })
    .await;
}
