use super::*;
use crate::env::tests::of;
use std::os::unix::fs::{MetadataExt as _, symlink};

struct Case {
    base: tempfile::TempDir,
}

impl Case {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        for directory in ["ws", "cm", "outside"] {
            std::fs::create_dir(base.path().join(directory)).unwrap();
        }
        Self { base }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.base.path().join(path)
    }

    fn key(&self, key: &str, content: &str) -> &Self {
        std::fs::write(self.path("cm").join(key), content).unwrap();
        self
    }

    fn run(&self, files: &str, directories: &str) -> Result<Copied, Error> {
        let base = self.base.path().display().to_string();
        let (files, directories) = (files.replace("BASE", &base), directories.replace("BASE", &base));
        let (ws, cm) = (format!("{base}/ws"), format!("{base}/cm"));
        let pairs = [
            (env::WORKSPACE_DIR, ws.as_str()),
            (env::CONFIGMAP_PATH, cm.as_str()),
            (env::FILE_MAPPINGS, files.as_str()),
            (env::DIR_MAPPINGS, directories.as_str()),
        ];
        run(&Settings::from_env(&of(&pairs)).unwrap())
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }
}

#[test]
fn files_land_in_the_workspace_and_outside_of_it() {
    let case = Case::new();
    case.key("workspace-task.md", "Fix it\n").key("run.sh", "#!/bin/sh\n");
    let copied = case
        .run(
            r#"[{"key":"workspace-task.md","targetPath":"BASE/ws/task.md"},
                {"key":"run.sh","targetPath":"BASE/outside/bin/run.sh","fileMode":493}]"#,
            "",
        )
        .unwrap();
    assert_eq!(copied, Copied { files: 2, bytes: 17 });
    assert_eq!(case.read("ws/task.md"), "Fix it\n");
    assert_eq!(case.path("ws/task.md").metadata().unwrap().mode() & 0o777, 0o644);
    assert_eq!(case.path("outside/bin/run.sh").metadata().unwrap().mode() & 0o777, 0o755);
}

#[test]
fn a_content_in_parts_is_joined_exactly() {
    let case = Case::new();
    case.key("big.0", "first ").key("big.1", "second").key("big.2", "\nthird");
    case.run(r#"[{"keys":["big.0","big.1","big.2"],"targetPath":"docs/big.md"}]"#, "").unwrap();
    assert_eq!(case.read("ws/docs/big.md"), "first second\nthird");
}

#[test]
fn a_missing_key_fails_and_names_key_and_target() {
    let case = Case::new();
    let error = case.run(r#"[{"key":"gone","targetPath":"task.md"}]"#, "").unwrap_err().to_string();
    assert!(error.contains("ConfigMap key gone") && error.contains("task.md"), "{error}");
    let copied = case.run(r#"[{"key":"gone","targetPath":"task.md","optional":true}]"#, "").unwrap();
    assert_eq!(copied, Copied::default());
}

#[test]
fn hostile_paths_are_refused() {
    let case = Case::new();
    case.key("k", "x");
    symlink(case.path("outside"), case.path("ws/link")).unwrap();
    let refused = |files: &str| case.run(files, "").unwrap_err().to_string();
    refused(r#"[{"key":"k","targetPath":"../outside/x"}]"#);
    refused(r#"[{"key":"k","targetPath":"BASE/ws/../outside/x"}]"#);
    refused(r#"[{"key":"../ws/x","targetPath":"x"}]"#);
    refused(r#"[{"key":"","targetPath":"x"}]"#);
    refused(r#"[{"targetPath":"x"}]"#);
    refused(r#"[{"key":"k","targetPath":"x","fileMode":4095}]"#);
    let error = refused(r#"[{"key":"k","targetPath":"link/x"}]"#);
    assert!(error.contains("ConfigMap key k") && error.contains("symbolic link"), "{error}");
    assert_eq!(std::fs::read_dir(case.path("outside")).unwrap().count(), 0);
}

#[test]
fn named_roots_are_the_only_ones() {
    let case = Case::new();
    case.key("k", "x");
    let settings = Settings {
        workspace: case.path("ws"),
        configmap: case.path("cm"),
        files: vec![FileMapping {
            key: Some("k".to_owned()),
            keys: Vec::new(),
            target_path: case.path("outside/x"),
            file_mode: None,
            optional: false,
        }],
        directories: Vec::new(),
        roots: vec![case.path("tools")],
        copy_self_to: None,
        shared_program: None,
        combined_ca_bundle: None,
        authorities: Authorities::default(),
    };
    assert!(matches!(run(&settings), Err(Error::Outside { .. })));
    assert!(run(&Settings { roots: vec![case.path("outside")], ..settings }).is_ok());
}

#[test]
fn two_mappings_for_one_file_are_an_error_that_names_both() {
    let case = Case::new();
    case.key("a", "1").key("b", "2");
    let files = r#"[{"key":"a","targetPath":"x/y"},{"key":"b","targetPath":"BASE/ws/./x//y"}]"#;
    let error = case.run(files, "").unwrap_err().to_string();
    assert!(error.contains("ConfigMap key a") && error.contains("ConfigMap key b"), "{error}");
}

#[test]
fn a_mounted_configmap_is_copied_without_its_machinery() {
    let case = Case::new();
    let data = case.path("mount/..2026_11_15");
    std::fs::create_dir_all(data.join("sub")).unwrap();
    std::fs::write(data.join("a.md"), "A").unwrap();
    std::fs::write(data.join("sub/b.md"), "B").unwrap();
    symlink("..2026_11_15", case.path("mount/..data")).unwrap();
    symlink("..data/a.md", case.path("mount/a.md")).unwrap();
    symlink("..data/sub", case.path("mount/sub")).unwrap();
    let copied = case.run("", r#"[{"sourcePath":"BASE/mount","targetPath":"guides"}]"#).unwrap();
    assert_eq!(copied.files, 2);
    assert_eq!(case.read("ws/guides/a.md"), "A");
    assert_eq!(case.read("ws/guides/sub/b.md"), "B");
    let mode = |path: &str| case.path(path).metadata().unwrap().mode() & 0o777;
    assert_eq!(mode("ws/guides/a.md"), 0o644);
    case.run("", r#"[{"sourcePath":"BASE/mount","targetPath":"guides","fileMode":365}]"#).unwrap();
    assert_eq!((mode("ws/guides/a.md"), mode("ws/guides/sub/b.md")), (0o555, 0o555));
    assert!(case.run("", r#"[{"sourcePath":"BASE/mount","targetPath":"g","fileMode":4095}]"#).is_err());
    assert!(case.run("", r#"[{"sourcePath":"BASE/none","targetPath":"g"}]"#).is_err());
    assert!(case.run("", r#"[{"sourcePath":"BASE/none","targetPath":"g","optional":true}]"#).is_ok());
}

#[test]
fn the_agents_container_gets_our_program_and_the_certificates() {
    let case = Case::new();
    let (custom, system) = (case.path("custom.crt"), case.path("system.crt"));
    std::fs::write(&system, "SYSTEM").unwrap();
    std::fs::write(&custom, "CUSTOM\n").unwrap();
    let path = |path: &Path| path.display().to_string();
    let (ws, tools) = (path(&case.path("ws")), case.path("tools"));
    let (program, bundle) = (path(&tools.join("kubeopencode")), path(&tools.join("ca-bundle.crt")));
    let (custom, system) = (path(&custom), path(&system));
    let pairs = [
        (env::WORKSPACE_DIR, ws.as_str()),
        (env::COPY_SELF_TO, &program),
        (env::COMBINED_CA_BUNDLE, &bundle),
        (env::CUSTOM_CA_CERT_PATH, &custom),
        (env::SSL_CERT_FILE, &system),
    ];
    // Twice: a restarted init container finds its own files.
    for _ in 0..2 {
        run(&Settings::from_env(&of(&pairs)).unwrap()).unwrap();
    }
    assert_eq!(case.read("tools/ca-bundle.crt"), "SYSTEM\nCUSTOM\n");
    let copy = case.path("tools/kubeopencode").metadata().unwrap();
    assert_eq!((copy.mode() & 0o777, copy.len()), (0o755, std::fs::metadata("/proc/self/exe").unwrap().len()));
    assert_eq!(std::fs::read_dir(case.path("tools")).unwrap().count(), 2);
}

#[test]
fn where_every_container_sees_our_program_a_link_stands_for_the_copy() {
    let case = Case::new();
    let (ws, program) = (case.path("ws").display().to_string(), case.path("tools/kubeopencode"));
    let target = program.display().to_string();
    let pairs =
        [(env::WORKSPACE_DIR, ws.as_str()), (env::COPY_SELF_TO, &target), (env::SHARED_PROGRAM, "/kubeopencode")];
    for _ in 0..2 {
        run(&Settings::from_env(&of(&pairs)).unwrap()).unwrap();
    }
    assert_eq!(std::fs::read_link(&program).unwrap(), Path::new("/kubeopencode"));
    assert_eq!(std::fs::read_dir(case.path("tools")).unwrap().count(), 1);
}

#[test]
fn a_second_run_gives_the_same_files() {
    let case = Case::new();
    case.key("k", "one");
    let files = r#"[{"key":"k","targetPath":"k.md","fileMode":256}]"#;
    case.run(files, "").unwrap();
    case.key("k", "two");
    case.run(files, "").unwrap();
    assert_eq!(case.read("ws/k.md"), "two");
    assert_eq!(case.path("ws/k.md").metadata().unwrap().mode() & 0o777, 0o400);
}
