use insta::assert_snapshot;
use serde_json::json;

use super::*;
use crate::sample::{agent, from_json, map};

struct Case {
    agent: ResolvedAgent,
    model: Option<ModelBinding>,
    small_model: Option<ModelBinding>,
    instructions: Vec<InstructionText>,
    tools: Vec<ToolServer>,
    contexts: ContextPlan,
    llm_traces: bool,
}

impl Case {
    fn of(config: Value) -> Self {
        let mut agent = agent();
        agent.config = (!config.is_null()).then(|| from_json(config));
        Self {
            agent,
            model: None,
            small_model: None,
            instructions: Vec::new(),
            tools: Vec::new(),
            contexts: ContextPlan::default(),
            llm_traces: false,
        }
    }

    fn compile(&self) -> Result<CompiledConfig, ConfigError> {
        compile(&ConfigInput {
            agent: &self.agent,
            model: self.model.as_ref(),
            small_model: self.small_model.as_ref(),
            instructions: &self.instructions,
            tools: &self.tools,
            contexts: &self.contexts,
            llm_traces: self.llm_traces,
        })
    }

    fn compiled(&self) -> CompiledConfig {
        self.compile().unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.compiled().json).unwrap()
    }

    fn enforced(&self) -> Value {
        serde_json::from_str(&self.compiled().enforced).unwrap()
    }
}

fn secret(name: &str, key: &str) -> SecretKeyRef {
    SecretKeyRef { name: name.into(), key: key.into() }
}

fn model(name: &str, provider: Value, model: Value) -> ModelBinding {
    ModelBinding::new(name, &from_json(provider), &from_json(model))
}

fn local_model() -> ModelBinding {
    model(
        "lab",
        json!({ "type": "openai-compatible", "baseURL": "http://llm.lab:8000/v1/",
            "apiKeySecretRef": { "name": "llm", "key": "key" }, "headers": { "X-Team": "blue" },
            "headersFrom": [{ "name": "X-Org", "secretKeyRef": { "name": "llm", "key": "org" } }] }),
        json!({ "model": "qwen/coder-30b", "providerRef": { "name": "lab" },
            "options": { "maxTokens": 4096, "temperature": 0.2, "topP": 0.9, "reasoningEffort": "high", "extra": { "seed": 7 } },
            "limit": { "context": 65536 }, "cost": { "input": 1.5, "output": 2.0, "cacheRead": 0.1 } }),
    )
}

fn tools() -> ToolServer {
    ToolServer {
        name: "git.hub".into(),
        url: "http://github-mcp:8080/mcp".into(),
        headers: map([("X-Plain", "p")]),
        secret_headers: vec![HeaderFromSecret { name: "Authorization".into(), secret_key_ref: secret("gh", "token") }],
        timeout: Some(Duration::from_secs(30)),
        allowed: vec!["list_issues".into(), "merge".into()],
        ask: vec!["merge".into()],
        enabled: true,
    }
}

fn everything() -> Case {
    let mut case = Case::of(json!({
        "model": "other/model", "share": "auto", "theme": "dark",
        "instructions": ["docs/*.md"], "plugin": ["file:///opt/own.js"],
        "permission": { "bash": { "rm *": "deny" } },
        "mcp": { "git.hub": { "type": "local", "command": ["old"] } },
    }));
    case.agent.plugins = from_json(json!([
        { "name": "@team/audit@1.2.0", "options": { "level": 2 } },
        { "name": "@team/audit@1.3.0" },
        { "name": "pretty", "target": "tui" },
    ]));
    case.agent.skills = from_json(json!([{ "name": "team", "git": { "repository": "https://h/s" } }]));
    case.model = Some(local_model());
    case.tools = vec![tools()];
    case.instructions = vec![InstructionText { name: "style".into(), text: "Be brief.".into() }];
    case.contexts.context_file = Some("/workspace/.kubeopencode/context.md".into());
    case.llm_traces = true;
    case
}

#[test]
fn everything_compiles_into_one_configuration() {
    let compiled = everything().compiled();
    assert_snapshot!("everything_json", compiled.json);
    assert_snapshot!("everything_enforced", compiled.enforced);
    assert_eq!(
        compiled.env,
        [
            SecretEnv { name: "KOC_PROVIDER_LAB_API_KEY".into(), secret: secret("llm", "key") },
            SecretEnv { name: "KOC_PROVIDER_LAB_X_ORG".into(), secret: secret("llm", "org") },
            SecretEnv { name: "KOC_MCP_GIT_HUB_AUTHORIZATION".into(), secret: secret("gh", "token") },
        ]
    );
    assert_eq!(compiled.overridden, ["mcp.git.hub", "model", "share"]);
    assert_eq!(compiled.plugin_packages, ["@team/audit@1.2.0", "pretty"]);
    assert_eq!(compiled.tui_json.as_deref(), Some(r#"{"plugin":["file:///plugins/node_modules/pretty"]}"#));
    assert_eq!(compiled.instruction_files[0].target_path, "/tools/instructions/00-style.md");
    assert_eq!(compiled.model.as_deref(), Some("lab/qwen/coder-30b"));
    assert!(!compiled.needs_npm);
}

#[test]
fn nobodys_prompts_go_to_the_hosted_model_by_accident() {
    let check = |config: Value, key: &str, expected: Value| {
        let case = Case::of(config.clone());
        assert_eq!(case.json()[key], expected, "{config}");
        assert_eq!(case.enforced()[key], expected, "{config}");
    };
    check(json!(null), "disabled_providers", json!(["opencode"]));
    check(json!({ "disabled_providers": ["x"] }), "disabled_providers", json!(["x", "opencode"]));
    check(json!({ "model": "anthropic/claude" }), "enabled_providers", json!(["anthropic"]));
    check(json!({ "model": "opencode/grok" }), "enabled_providers", json!(["opencode"]));
    check(
        json!({ "provider": { "lab": {} }, "small_model": "a/b", "agent": { "plan": { "model": "c/d" } } }),
        "enabled_providers",
        json!(["a", "c", "lab"]),
    );
    check(json!({ "enabled_providers": ["z"], "model": "a/b" }), "enabled_providers", json!(["z"]));
    let mut bound = Case::of(json!({ "enabled_providers": ["z"] }));
    bound.model = Some(local_model());
    assert_eq!(bound.json()["enabled_providers"], json!(["lab", "z"]));
    let mut key = Case::of(json!(null));
    let credential = json!([{ "name": "zen", "secretRef": { "name": "s", "key": "k" }, "env": "OPENCODE_API_KEY" }]);
    key.agent.credentials = from_json(credential);
    assert_eq!(key.json()["enabled_providers"], json!(["opencode"]));
}

#[test]
fn a_repository_cannot_send_keys_or_prompts_elsewhere() {
    let config = json!({ "model": "lab/m", "provider": { "lab": { "options": { "baseURL": "http://lab/v1" } } } });
    let enforced = Case::of(config.clone()).enforced();
    assert_eq!((&enforced["model"], &enforced["provider"]), (&config["model"], &config["provider"]));
}

#[test]
fn the_order_of_permissions_is_the_order_that_decides() {
    let rules = |case: &Case| case.json()["permission"].to_string();
    let plain = Case::of(json!(null));
    assert_eq!(plain.compiled().permission.as_deref(), Some(r#"{"*":"allow"}"#));
    assert_eq!(rules(&plain), "null");

    // A text keeps the order of keys; OPENCODE_PERMISSION would come last and allow everything again.
    let own = Case::of(serde_json::from_str(r#"{"permission":{"webfetch":"deny","*":"allow","bash":"ask"}}"#).unwrap());
    assert_eq!(own.compiled().permission, None);
    assert_eq!(rules(&own), r#"{"webfetch":"deny","*":"allow","bash":"ask"}"#);
    assert_eq!(own.enforced()["permission"].to_string(), rules(&own));

    let mut with_tools = Case::of(json!({ "permission": { "bash": "ask", "git_hub_merge": "allow" } }));
    with_tools.tools = vec![tools()];
    assert_eq!(with_tools.compiled().permission, None);
    assert_eq!(
        rules(&with_tools),
        r#"{"*":"allow","bash":"ask","git_hub_*":"deny","git_hub_list_issues":"allow","git_hub_merge":"ask"}"#
    );
    assert_eq!(with_tools.compiled().overridden, ["permission.git_hub_merge"]);

    let mut denied = Case::of(json!({ "permission": "deny" }));
    denied.tools = vec![tools()];
    assert!(rules(&denied).starts_with(r#"{"*":"deny","git_hub_*":"deny""#), "{}", rules(&denied));

    let own = r#"{"permission":{"bash":{"*":"allow","rm *":"deny"},"edit":"allow","webfetch":"deny"}}"#;
    let mut always = Case::of(serde_json::from_str(own).unwrap());
    always.agent.approval = from_json(json!({ "mode": "Always" }));
    always.tools = vec![tools()];
    assert_eq!(
        rules(&always),
        r#"{"*":"ask","bash":{"rm *":"deny"},"webfetch":"deny","git_hub_*":"deny","git_hub_list_issues":"ask","git_hub_merge":"ask"}"#
    );
}

#[test]
fn providers_are_known_to_opencode_by_their_type() {
    let check = |provider: Value, id: &str, npm: Option<&str>, base_url: Option<&str>| {
        let binding = ProviderBinding::new("mine", &from_json(provider.clone()));
        let found = (binding.id.as_str(), binding.npm.as_deref(), binding.base_url.as_deref());
        assert_eq!(found, (id, npm, base_url), "{provider}");
    };
    let compatible = Some("@ai-sdk/openai-compatible");
    check(json!({ "type": "openai" }), "openai", None, None);
    check(json!({ "type": "openai", "baseURL": "http://p/v1" }), "mine", compatible, Some("http://p/v1"));
    check(json!({ "type": "ollama", "baseURL": "http://o:11434/" }), "mine", compatible, Some("http://o:11434/v1"));
    check(json!({ "type": "bedrock", "region": "eu-west-1" }), "amazon-bedrock", None, None);
    let vertex = ProviderBinding::new("v", &from_json(json!({ "type": "vertex", "region": "r", "project": "p" })));
    assert_eq!(Value::Object(vertex.options), json!({ "location": "r", "project": "p" }));
}

#[test]
fn two_models_of_one_provider_share_it() {
    let mut case = Case::of(json!(null));
    case.model = Some(local_model());
    case.small_model = Some(ModelBinding { model: "small".into(), options: None, ..local_model() });
    let json = case.json();
    assert_eq!(json["small_model"], "lab/small");
    let models: Vec<&String> = json["provider"]["lab"]["models"].as_object().unwrap().keys().collect();
    assert_eq!(models, ["qwen/coder-30b", "small"]);
    assert!(case.compiled().overridden.is_empty());
    let mut other = local_model();
    other.provider.base_url = Some("http://elsewhere".into());
    case.small_model = Some(other);
    assert_eq!(case.compile(), Err(ConfigError::ProviderClash("lab".into())));
}

#[test]
fn other_objects_cannot_reach_into_the_agents_environment() {
    for bad in ["{env:AWS_SECRET_ACCESS_KEY}", "x{file:/etc/passwd}"] {
        let mut header = Case::of(json!(null));
        header.tools = vec![ToolServer { headers: map([("X", bad)]), ..tools() }];
        let mut url = Case::of(json!(null));
        url.tools = vec![ToolServer { url: format!("http://evil/{bad}"), ..tools() }];
        let mut provider = Case::of(json!(null));
        let mut binding = local_model();
        binding.provider.base_url = Some(format!("http://evil/{bad}"));
        provider.model = Some(binding);
        for case in [header, url, provider] {
            assert!(matches!(case.compile(), Err(ConfigError::Substitution { .. })), "{bad}");
        }
    }
}

#[test]
fn servers_whose_tools_would_have_the_same_names_are_refused() {
    let mut case = Case::of(json!(null));
    case.tools = vec![tools(), ToolServer { name: "git_hub".into(), ..tools() }];
    let error = case.compile().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the tool servers \"git.hub\" and \"git_hub\" would give their tools the same names; rename one of them"
    );
    assert_eq!(error.reason(), "ConfigInvalid");
}

#[test]
fn one_variable_is_never_two_secrets() {
    let header = |name: &str, key: &str| HeaderFromSecret { name: name.into(), secret_key_ref: secret("s", key) };
    let mut case = Case::of(json!(null));
    case.tools = vec![ToolServer {
        secret_headers: vec![header("X-A", "1"), header("X_A", "2"), header("x.a", "1")],
        ..tools()
    }];
    let compiled = case.compiled();
    let names: Vec<&str> = compiled.env.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(names[0], "KOC_MCP_GIT_HUB_X_A");
    assert!(names[1].starts_with("KOC_MCP_GIT_HUB_X_A_"), "{names:?}");
}

#[test]
fn a_broken_configuration_is_refused_with_its_path() {
    let check = |config: Value, expected: &str| {
        assert_eq!(Case::of(config).compile().unwrap_err().to_string(), expected);
    };
    check(json!({ "model": "claude" }), "config.model is not valid: expected provider/model");
    check(
        json!({ "mcp": { "gh": { "enabled": true, "ulr": "http://x" } } }),
        "config.mcp.gh.type is not valid: expected local or remote",
    );
    check(
        json!({ "mcp": { "gh": { "type": "remote", "enabled": true } } }),
        "config.mcp.gh.url is not valid: expected an http or https address",
    );
    check(
        json!({ "mcp": { "gh": { "type": "local", "command": [] } } }),
        "config.mcp.gh.command is not valid: expected a list with a program and its arguments",
    );
    check(
        json!({ "permission": { "bash": { "rm *": "never" } } }),
        "config.permission.bash.rm * is not valid: expected allow, ask or deny",
    );
    check(json!({ "plugin": "x" }), "config.plugin is not valid: expected a list of plugins");
    check(json!({ "provider": [] }), "config.provider is not valid: expected an object with one object per provider");
    assert!(Case::of(json!({ "mcp": { "gh": { "enabled": false } }, "unknown": 1 })).compile().is_ok());
}

#[test]
fn npm_is_reached_only_if_the_configuration_needs_it() {
    let check =
        |config: Value, expected: bool| assert_eq!(Case::of(config.clone()).compiled().needs_npm, expected, "{config}");
    check(json!(null), false);
    check(json!({ "plugin": ["file:///x", "./y.js", ["/z", {}]] }), false);
    check(json!({ "plugin": ["opencode-something"] }), true);
    check(json!({ "provider": { "p": { "npm": "@ai-sdk/openai-compatible" } } }), false);
    check(json!({ "provider": { "p": { "npm": "@ai-sdk/deepseek" } } }), true);
}

#[test]
fn the_hash_follows_what_matters() {
    let base = everything().compiled().hash;
    assert_eq!(base, everything().compiled().hash);
    let mut changed = everything();
    changed.instructions[0].text.push('!');
    assert_ne!(changed.compiled().hash, base);
    let mut changed = everything();
    changed.tools[0].secret_headers[0].secret_key_ref.key = "other".into();
    assert_ne!(changed.compiled().hash, base);
}

#[test]
fn variables_in_instructions_are_replaced() {
    let check = |text: &str, expected: &str| {
        assert_eq!(instruction_text(text, &map([("team", "blue"), ("loop", "{{ team }}")])), expected);
    };
    check("Team {{ team }} and {{team}}.", "Team blue and blue.");
    check("{{ unknown }} stays, {{ loop }} is not read again", "{{ unknown }} stays, {{ team }} is not read again");
    check("{{ open, {{ team }}", "{{ open, blue");
}

#[test]
fn an_agent_that_nothing_gives_a_model_lacks_one() {
    let lacks = |change: &dyn Fn(&mut Case)| {
        let mut case = Case::of(Value::Null);
        change(&mut case);
        case.compiled().check_model(false) == Err(ConfigError::NoModel)
    };
    assert!(lacks(&|_| ()));
    assert!(lacks(&|case| case.agent.config = from_json(json!({ "permission": "allow" }))));
    // Each of these may bring one.
    let config = |value: Value| move |case: &mut Case| case.agent.config = from_json(value.clone());
    assert!(!lacks(&config(json!({ "model": "opencode/big-pickle" }))));
    assert!(!lacks(&config(json!({ "provider": { "lab": {} } }))));
    assert!(!lacks(&config(json!({ "enabled_providers": ["anthropic"] }))));
    assert!(!lacks(&config(json!({ "agent": { "build": { "model": "anthropic/claude" } } }))));
    assert!(!lacks(&config(json!({ "plugin": ["opencode-auth"] }))));
    assert!(!lacks(&|case| case.model = Some(local_model())));
    assert!(!lacks(&|case| case.agent.command = Some(vec!["my-agent".into()])));
    assert!(!lacks(&|case| {
        let key = json!([{ "name": "key", "secretRef": { "name": "k", "key": "k" }, "env": "ANTHROPIC_API_KEY" }]);
        case.agent.credentials = from_json(key);
    }));
    assert!(!lacks(
        &|case| case.agent.pod = from_json(json!({ "extraEnv": [{ "name": "OPENAI_API_KEY", "value": "x" }] }))
    ));
    assert!(!lacks(&|case| {
        let config = FileItem {
            target_path: "/workspace/opencode.json".into(),
            content: "{}".into(),
            mode: None,
            about: String::new(),
        };
        case.contexts.files.push(config);
    }));
}

#[test]
fn a_limit_of_cost_needs_a_price() {
    let check = |model: ModelBinding, priced: bool| {
        let case = Case { model: Some(model), ..Case::of(Value::Null) };
        let config = case.compiled();
        assert_eq!(config.check_model(false), Ok(()));
        assert_eq!(config.check_model(true).is_ok(), priced, "{:?}", config.model);
    };
    check(local_model(), true);
    check(ModelBinding { cost: None, ..local_model() }, false);
    // Free is a price.
    check(ModelBinding { cost: Some(from_json(json!({ "input": 0.0, "output": 0.0 }))), ..local_model() }, true);
    // OpenCode's catalogue has the prices of the models that it knows.
    let known = model(
        "claude",
        json!({ "type": "anthropic" }),
        json!({ "model": "opus", "providerRef": { "name": "claude" } }),
    );
    check(known, true);
    let own = json!({ "model": "lab/x", "provider": { "lab": { "npm": "@ai-sdk/openai-compatible", "models": { "x": {} } } } });
    let error = Case::of(own).compiled().check_model(true).unwrap_err();
    assert_eq!(error.reason(), "UnpricedModel");
    assert_snapshot!(error.to_string(), @r#"maxCost cannot be enforced, because the price of model "lab/x" is not known: set cost in its Model, or provider.….models.….cost in config (0 if it is free), or use maxTokens"#);
}
