use serde_json::{Value, json};

use super::*;
use crate::sample::{agent, from_json, map, task, task_on_agent};

fn items(value: Value) -> Vec<ContextItem> {
    from_json(value)
}

fn text(name: &str, path: &str, text: &str) -> Value {
    json!({ "name": name, "type": "Text", "mountPath": path, "text": text })
}

struct Case {
    task: ResolvedTask,
    config_maps: ConfigMaps,
}

impl Case {
    fn own(agent_contexts: Value, task_contexts: Value) -> Self {
        let mut task = task(agent());
        task.agent.contexts = items(agent_contexts);
        task.contexts = items(task_contexts);
        Self { task, config_maps: ConfigMaps::new() }
    }

    fn on_agent(task_contexts: Value) -> Self {
        let mut task = task_on_agent(agent());
        task.agent.contexts = items(json!([text("server-has-it", "a.md", "a")]));
        task.contexts = items(task_contexts);
        Self { task, config_maps: ConfigMaps::new() }
    }

    fn config_map<const N: usize>(mut self, name: &str, data: [(&str, &str); N]) -> Self {
        self.config_maps.insert(name.to_owned(), Some(map(data)));
        self
    }

    fn plan(&self) -> Result<ContextPlan, ContextError> {
        assemble(&ContextInput::of_task("team", "fix", &self.task, &self.config_maps))
    }

    fn files(&self) -> BTreeMap<String, String> {
        self.plan().unwrap().files.into_iter().map(|file| (file.target_path, file.content)).collect()
    }

    fn error(&self) -> String {
        self.plan().unwrap_err().to_string()
    }
}

#[test]
fn inputs_and_outputs_of_a_task_on_an_agent_are_named_in_its_prompt() {
    let mut case = Case::on_agent(json!([]));
    let mut plan = case.plan().unwrap();
    plan.name_results("fix", &case.task);
    assert_eq!(plan.system(), None);
    case.task.inputs = from_json(json!([{ "fromTask": "build", "artifact": "dist", "mountPath": "/workspace/in/" }]));
    case.task.outputs = vec!["verdict".into(), "pages".into()];
    plan.name_results("fix", &case.task);
    let named = "The inputs of this Task:\n- `/workspace/.kubeopencode/tasks/fix/in`: artifact \"dist\" of Task \"build\"\n\n\
                 This Task has to leave outputs: `verdict`, `pages`. Before you end, write one line `NAME=value` for each of them \
                 to the file `/workspace/.kubeopencode/tasks/fix/.outputs`.\n";
    assert_eq!(plan.system(), Some(named));
    let mut with_text = Case::on_agent(json!([{ "name": "a", "type": "Text", "text": "A" }]));
    with_text.task.outputs = vec!["verdict".into()];
    let mut plan = with_text.plan().unwrap();
    plan.name_results("fix", &with_text.task);
    let system = plan.system().unwrap();
    assert!(system.starts_with("<context name=\"a\"") && system.contains("</context>\n\nThis Task has to"), "{system}");
}

#[test]
fn instructions_of_a_task_on_an_agent_come_before_its_contexts() {
    let instructions = [InstructionText { name: "rules".into(), text: "Be kind.\n".into() }];
    let block = "<context name=\"rules\" namespace=\"team\" type=\"Instruction\">\nBe kind.\n</context>";
    let mut alone = Case::on_agent(json!([])).plan().unwrap();
    alone.instruct("team", &[]);
    assert_eq!(alone.system(), None);
    alone.instruct("team", &instructions);
    assert_eq!(alone.system(), Some(format!("{block}\n").as_str()));
    assert!(alone.files.is_sorted_by_key(|file| &file.target_path));
    let mut with_text = Case::on_agent(json!([{ "name": "notes", "type": "Text", "text": "Notes." }])).plan().unwrap();
    with_text.instruct("team", &instructions);
    let system = with_text.system().unwrap();
    assert!(system.starts_with(block) && system.contains("Notes."), "{system}");
}

#[test]
fn a_part_that_is_merged_into_the_workspace_cannot_be_followed_hot() {
    let check = |path: &str, git: Value, refused: bool| {
        let mut agent = agent();
        let item = json!({ "name": "r", "type": "Git", "mountPath": path, "git": git });
        agent.contexts = items(json!([item]));
        let plan = assemble(&ContextInput::of_agent("team", "a", &agent, &ConfigMaps::new()));
        assert_eq!(plan.is_err(), refused, "{item}: {plan:?}");
        if let Err(error) = plan {
            assert!(error.to_string().contains("git.sync cannot follow it"), "{error}");
        }
    };
    let git = |part: Option<&str>, policy: &str| json!({ "repository": "https://h/r", "path": part, "sync": { "enabled": true, "policy": policy } });
    check(".", git(Some("docs"), "HotReload"), true);
    check(".", git(Some("docs"), "Rollout"), false);
    check(".", git(None, "HotReload"), false);
    check("code", git(Some("docs"), "HotReload"), false);
}

#[test]
fn the_prompt_is_right_for_any_workspace() {
    // P3: upstream's key and mapping agree only for /workspace, otherwise the prompt is empty.
    for workspace in ["/workspace", "/home/agent/ws", "/w"] {
        let mut case = Case::own(json!([]), json!([]));
        case.task.agent.workspace_dir = workspace.to_owned();
        let plan = case.plan().unwrap();
        let path = format!("{workspace}/task.md");
        assert_eq!(plan.prompt_file.as_deref(), Some(path.as_str()));
        assert_eq!(plan.prompt(), Some("Fix the bug in main.go\n"));
        let bundle = pack("fix-context", &plan.files).unwrap();
        let key = bundle.mappings[0].key.clone().unwrap();
        assert_eq!(bundle.mappings[0].target_path, path);
        assert_eq!(bundle.config_maps[0].1[&key], "Fix the bug in main.go\n");
    }
}

#[test]
fn later_levels_win_on_the_same_path() {
    let case = Case::own(
        json!([text("base", "guide.md", "agent"), text("own", "task.md", "agent's prompt")]),
        json!([text("mine", "./guide.md", "task")]),
    );
    let files = case.files();
    assert_eq!(files["/workspace/guide.md"], "task");
    assert_eq!(files["/workspace/task.md"], "Fix the bug in main.go\n");
}

#[test]
fn two_items_of_one_level_on_one_path_are_an_error_that_names_both() {
    let case = Case::own(json!([]), json!([text("one", "docs/a.md", "1"), text("two", "/workspace/docs//a.md", "2")]));
    assert_eq!(
        case.error(),
        "context \"one\" of the Task and context \"two\" of the Task both go to /workspace/docs/a.md; give one of them another mountPath"
    );
    assert_eq!(case.plan().unwrap_err().reason(), "ContextError");
}

#[test]
fn an_item_without_a_name_is_called_by_its_index() {
    let case = Case::own(json!([]), json!([{ "type": "Text", "text": "x", "mountPath": "../x" }]));
    assert_eq!(case.error(), "contexts[0] of the Task: mountPath \"../x\" contains `..`; write it without");
}

#[test]
fn a_file_cannot_be_in_a_file_nor_behind_a_repository() {
    let git = json!({ "name": "repo", "type": "Git", "mountPath": "src", "git": { "repository": "https://h/r" } });
    let cases = [
        (json!([text("a", "x", "1"), text("b", "x/y/z", "2")]), "is a file"),
        (json!([git, text("b", "src/notes.md", "2")]), "would hide it"),
        (json!([text("a", ".kubeopencode", "1"), { "type": "Text", "text": "t" }]), "is a file"),
    ];
    for (contexts, why) in cases {
        let error = Case::own(json!([]), contexts).error();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_repository_at_the_root_lets_files_be_beside_it() {
    let case = Case::own(
        json!([{ "type": "Git", "mountPath": ".", "git": { "repository": "https://h/r", "path": "/app/" } }]),
        json!([text("b", "docs/notes.md", "2")]),
    );
    let plan = case.plan().unwrap();
    let expected = GitTarget::Merge { directory: "/workspace".into(), sub_path: Some("app".into()) };
    assert_eq!(plan.git[0].target, expected);
}

#[test]
fn a_config_map_is_needed_unless_it_is_optional() {
    let source = |optional: Value| json!([{ "name": "c", "type": "ConfigMap", "optional": optional, "configMap": { "name": "guides", "key": "k" } }]);
    assert_eq!(needed_config_maps(&items(source(json!(false)))), BTreeSet::from(["guides".to_owned()]));
    let missing = Case::own(json!([]), source(json!(false)));
    assert_eq!(
        missing.error(),
        "context \"c\" of the Task: ConfigMap guides does not exist in namespace team; create it, or set `optional: true` on the context"
    );
    let no_key = Case::own(json!([]), source(json!(false))).config_map("guides", [("other", "x")]);
    assert!(no_key.error().contains("no text under the key \"k\""), "{}", no_key.error());
    let optional = Case::own(json!([]), source(json!(true))).plan().unwrap();
    assert_eq!(
        optional.left_out,
        [
            "context \"c\" of the Task: ConfigMap guides does not exist in namespace team; it is optional and was left out"
        ]
    );
    let on_config_map =
        json!([{ "type": "ConfigMap", "configMap": { "name": "guides", "key": "k", "optional": true } }]);
    assert!(Case::own(json!([]), on_config_map).plan().is_ok());
}

#[test]
fn texts_without_a_path_become_blocks_with_their_own_names() {
    // P11: upstream calls every block "context".
    let contexts = json!([
        { "name": "style", "description": "house rules", "type": "Text", "text": "tabs < spaces\n" },
        { "type": "ConfigMap", "configMap": { "name": "all" } },
        { "type": "Runtime", "mountPath": "ignored.md" },
    ]);
    let case = Case::own(contexts, json!([])).config_map("all", [("b", "2"), ("a", "1 & 1")]);
    insta::assert_snapshot!(case.plan().unwrap().system().unwrap());
}

#[test]
fn a_config_map_without_a_key_becomes_a_directory() {
    let contexts = json!([
        { "name": "guides", "type": "ConfigMap", "mountPath": "guides", "fileMode": 493, "configMap": { "name": "guides" } },
        text("extra", "guides/b.md", "beside"),
    ]);
    let case = Case::own(json!([]), contexts.clone()).config_map("guides", [("a.md", "A")]);
    let plan = case.plan().unwrap();
    assert_eq!(
        (plan.directories[0].target_path.as_str(), plan.directories[0].mode),
        ("/workspace/guides", Some(0o755))
    );
    let clash = Case::own(json!([]), contexts).config_map("guides", [("b.md", "B")]);
    assert!(clash.error().contains("has a file of that name"), "{}", clash.error());
}

#[test]
fn directories_outside_of_the_workspace_are_sorted_and_topmost() {
    // P5: upstream iterates over a map, so that every reconcile may restart the server.
    let contexts = json!([
        text("c", "/opt/z/one.md", "1"),
        text("b", "/home/agent/.config/deep/x.md", "2"),
        text("a", "/home/agent/.config/y.md", "3"),
        text("d", "/home/agent/.config2/y.md", "4"),
    ]);
    let plan = Case::own(json!([]), contexts).plan().unwrap();
    assert_eq!(plan.outside, ["/home/agent/.config", "/home/agent/.config2", "/opt/z"]);
}

#[test]
fn a_document_from_a_url_is_a_context() {
    // P7: upstream accepts it and then fails.
    let url = json!({ "name": "spec", "type": "URL", "mountPath": "spec.md", "optional": true,
        "url": { "source": "https://h/spec.md", "secretRef": { "name": "s" } } });
    let plan = Case::own(json!([]), json!([url])).plan().unwrap();
    let UrlFetch { target_path, timeout, secret, optional, .. } = &plan.urls[0];
    assert_eq!(
        (target_path.as_str(), *timeout, secret.as_deref(), *optional),
        ("/workspace/spec.md", 30, Some("s"), true)
    );
}

#[test]
fn repositories_with_one_name_or_none_are_told_apart() {
    // P11: upstream calls all of them "context".
    let git = |name: Value, path: &str| json!({ "name": name, "type": "Git", "mountPath": path, "git": { "repository": "https://h/r" } });
    let contexts = json!([git(json!("one"), "a"), git(json!("one"), "b"), git(json!(null), "c"), git(json!(""), "d")]);
    let plan = Case::own(contexts, json!([])).plan().unwrap();
    let names: Vec<&str> = plan.git.iter().map(|mount| mount.name.as_str()).collect();
    assert_eq!(names, ["one", "one-1", "context-2", "context-3"]);
}

#[test]
fn a_part_of_a_repository_stays_in_it() {
    let git = json!([{ "name": "r", "type": "Git", "mountPath": "a", "git": { "repository": "https://h/r", "path": "../../etc" } }]);
    assert!(Case::own(json!([]), git).error().contains("git.path"));
}

#[test]
fn a_task_without_a_prompt_is_refused_unless_it_has_a_command() {
    let mut case = Case::own(json!([]), json!([]));
    case.task.description = None;
    assert_eq!(case.plan(), Err(ContextError::NoPrompt));
    case.task.agent.command = Some(vec!["true".into()]);
    assert!(case.plan().is_ok());
    let mut from_context = Case::own(json!([]), json!([text("p", "task.md", "do it")]));
    from_context.task.description = None;
    assert_eq!(from_context.plan().unwrap().prompt(), Some("do it"));
}

#[test]
fn a_task_on_an_agent_hands_its_files_over() {
    let contexts = json!([
        { "name": "style", "type": "Text", "text": "be brief" },
        text("notes", "docs/notes.md", "N"),
        text("home", "/home/agent/x.md", "H"),
        { "name": "repo", "type": "Git", "mountPath": ".", "git": { "repository": "https://u:p@h/r", "ref": "main" } },
        { "name": "spec", "type": "URL", "mountPath": "spec.md", "url": { "source": "https://h/spec.md" } },
    ]);
    let plan = Case::on_agent(contexts).plan().unwrap();
    let paths: Vec<&str> = plan.files.iter().map(|file| file.target_path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "/workspace/.kubeopencode/context.md",
            "/workspace/.kubeopencode/tasks/fix/docs/notes.md",
            "/workspace/.kubeopencode/tasks/fix/home/agent/x.md",
            "/workspace/task.md",
        ]
    );
    assert_eq!(plan.delivery.as_deref(), Some("/workspace/.kubeopencode/tasks/fix"));
    assert!(plan.outside.is_empty());
    insta::assert_snapshot!(plan.system().unwrap());
}

#[test]
fn a_plain_task_on_an_agent_has_nothing_to_hand_over() {
    let plan = Case::on_agent(json!([])).plan().unwrap();
    assert_eq!((plan.delivery, plan.context_file, plan.files.len()), (None, None, 1));
}

#[test]
fn skills_are_mounted_whole_or_one_by_one() {
    let skills: Vec<SkillSource> = from_json(json!([
        { "name": "team", "git": { "repository": "https://h/s", "path": "skills/", "names": ["go", "sql"] } },
        { "name": "all", "git": { "repository": "https://h/a" } },
    ]));
    let mounts = skill_mounts(&skills).unwrap();
    let part =
        |path: &str, sub_path: Option<&str>| GitPart { path: path.into(), sub_path: sub_path.map(str::to_owned) };
    assert_eq!(
        mounts[0].target,
        GitTarget::Parts(vec![
            part("/skills/team/go", Some("skills/go")),
            part("/skills/team/sql", Some("skills/sql"))
        ])
    );
    assert_eq!(mounts[1].target, GitTarget::Parts(vec![part("/skills/all", None)]));
}
