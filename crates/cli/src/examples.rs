//! Examples in the help of commands. Tests parse them all, so that they can be pasted.

use clap::Command;

/// Path of a command -> its examples. A `#` begins a comment.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "kubeopencode up                     # start the platform on this machine",
            "kubeopencode run \"Say hello\"        # run a Task, stream its log, exit with its result",
            "kubeopencode explain task-x7k2p     # why it waits or failed",
        ],
    ),
    (
        "run",
        &[
            "kubeopencode run \"Fix the failing test\" --agent dev",
            "kubeopencode run \"Write a haiku\" --template scripted --timeout 10m",
            "kubeopencode run \"Follow these notes\" -c notes.md -c api.yaml:docs/api.yaml",
            "git diff | kubeopencode run - --agent reviewer --detach",
        ],
    ),
    (
        "get",
        &[
            "kubeopencode get tasks --watch",
            "kubeopencode get templates",
            "kubeopencode get task fix -o yaml",
            "kubeopencode get all --all-namespaces",
        ],
    ),
    ("describe", &["kubeopencode describe task fix", "kubeopencode describe agent/dev template/python"]),
    ("apply", &["kubeopencode apply -f examples/02-template", "kubeopencode apply -f - --dry-run"]),
    (
        "delete",
        &[
            "kubeopencode delete task fix",
            "kubeopencode delete tasks -l team=a",
            "kubeopencode delete -f examples/02-template",
        ],
    ),
    (
        "logs",
        &[
            "kubeopencode logs fix --follow",
            "kubeopencode logs fix --previous         # the run before the current one",
            "kubeopencode logs fix --run 1 --grep \"permission denied\"",
            "kubeopencode logs agent/dev --tail 100   # the server of an Agent",
        ],
    ),
    ("explain", &["kubeopencode explain fix", "kubeopencode explain fix --all -o json"]),
    ("runs", &["kubeopencode runs fix"]),
    ("top", &["kubeopencode top", "kubeopencode top --all-namespaces"]),
    (
        "artifacts",
        &[
            "kubeopencode artifacts fix",
            "kubeopencode artifacts fix get dist -o ./dist",
            "kubeopencode artifacts fix cat report summary.md",
        ],
    ),
    (
        "artifacts get",
        &["kubeopencode artifacts fix get dist", "kubeopencode artifacts fix get dist -o /tmp/dist --epoch 2"],
    ),
    ("artifacts cat", &["kubeopencode artifacts fix cat report summary.md"]),
    (
        "diff",
        &[
            "kubeopencode diff fix",
            "kubeopencode diff fix --stat",
            "kubeopencode diff fix > fix.patch      # apply it with: git apply --3way fix.patch",
        ],
    ),
    (
        "pull",
        &[
            "kubeopencode pull fix                  # into the checkout of the current directory",
            "kubeopencode pull fix --branch fix ~/src/app",
        ],
    ),
    ("outputs", &["kubeopencode outputs fix", "kubeopencode outputs fix URL", "kubeopencode outputs fix -o env"]),
    ("stop", &["kubeopencode stop fix", "kubeopencode stop fix other --wait"]),
    ("rerun", &["kubeopencode rerun fix --follow"]),
    (
        "approve",
        &["kubeopencode approve fix --list", "kubeopencode approve fix", "kubeopencode approve fix --all --always"],
    ),
    ("deny", &["kubeopencode deny fix", "kubeopencode deny fix --message \"use the staging database\""]),
    ("agent", &["kubeopencode agent list", "kubeopencode agent attach dev"]),
    ("agent attach", &["kubeopencode agent attach dev", "kubeopencode agent attach dev --print-url"]),
    ("agent list", &["kubeopencode agent list --all-namespaces"]),
    ("agent suspend", &["kubeopencode agent suspend dev --wait"]),
    ("agent resume", &["kubeopencode agent resume dev --wait --timeout 2m"]),
    (
        "agent share",
        &[
            "kubeopencode agent share dev --expires-in 24h",
            "kubeopencode agent share dev --allowed-ips 10.0.0.0/8",
            "kubeopencode agent share dev --show",
        ],
    ),
    ("agent unshare", &["kubeopencode agent unshare dev"]),
    ("crontask", &["kubeopencode crontask list", "kubeopencode crontask trigger nightly"]),
    ("crontask list", &["kubeopencode crontask list"]),
    ("crontask trigger", &["kubeopencode crontask trigger nightly"]),
    ("crontask suspend", &["kubeopencode crontask suspend nightly"]),
    ("crontask resume", &["kubeopencode crontask resume nightly"]),
    ("task", &["kubeopencode task list", "kubeopencode task logs fix"]),
    ("task list", &["kubeopencode task list --watch", "kubeopencode task list -A -o wide"]),
    ("task logs", &["kubeopencode task logs fix --follow"]),
    ("task explain", &["kubeopencode task explain fix"]),
    ("task runs", &["kubeopencode task runs fix -o json"]),
    ("task stop", &["kubeopencode task stop fix"]),
    ("task rerun", &["kubeopencode task rerun fix --wait"]),
    ("templates", &["kubeopencode templates", "kubeopencode templates -o wide"]),
    ("store", &["kubeopencode store check", "kubeopencode store gc --dry-run"]),
    (
        "store check",
        &[
            "kubeopencode store check                                        # the store of `kubeopencode up`",
            "kubeopencode store check --store /var/lib/kubeopencode",
            "kubeopencode store check --records postgres://db/records --blobs s3://bucket/prefix",
        ],
    ),
    ("store gc", &["kubeopencode store gc --dry-run", "kubeopencode store gc --grace 48h"]),
    (
        "store export",
        &[
            "kubeopencode store export /backup",
            "kubeopencode store export --to-records postgres://db/records --to-blobs s3://bucket/prefix",
        ],
    ),
    ("store import", &["kubeopencode store import /backup"]),
    ("doctor", &["kubeopencode doctor", "kubeopencode doctor -n team-a"]),
    ("completion", &["kubeopencode completion bash > ~/.local/share/bash-completion/completions/kubeopencode"]),
    ("man", &["kubeopencode man | man -l -", "kubeopencode man --directory ~/.local/share/man/man1"]),
    ("version", &["kubeopencode version", "kubeopencode version --client -o json"]),
    (
        "setup",
        &[
            "kubeopencode setup                                                  # asks for everything",
            "kubeopencode setup --provider anthropic --model claude-sonnet-4-5 --key-file ~/anthropic.key",
            "kubeopencode setup --provider ollama --model qwen3 --run \"Say hello\"",
        ],
    ),
    ("login", &["kubeopencode login --open"]),
    (
        "up",
        &[
            "kubeopencode up                                     # state in ~/.kubeopencode",
            "kubeopencode up --demo                              # with an Agent and Tasks to look at",
            "kubeopencode up --in-memory --port 0 --api-port 0   # leaves nothing behind",
        ],
    ),
    ("down", &["kubeopencode down", "kubeopencode down --purge   # removes all data"]),
    ("controller", &["kubeopencode controller --leader-elect"]),
    ("server", &["kubeopencode server --address 127.0.0.1:2746 --anonymous"]),
    ("crds", &["kubeopencode crds | kubectl apply -f -"]),
];

/// Adds its examples to the help of every command.
pub fn add(command: Command) -> Command {
    add_below(command, "")
}

fn add_below(command: Command, path: &str) -> Command {
    let names: Vec<_> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let command = names.into_iter().fold(command, |command, name| {
        let path = if path.is_empty() { name.clone() } else { format!("{path} {name}") };
        command.mut_subcommand(name, |sub| add_below(sub, &path))
    });
    let Some((_, examples)) = EXAMPLES.iter().find(|(of, _)| *of == path) else { return command };
    let examples = format!("Examples:\n  {}", examples.join("\n  "));
    let long = command.get_after_long_help().map(ToString::to_string);
    // A command may have longer examples in its long help.
    let long = long.map(|more| if more.starts_with("Examples:") { more } else { format!("{examples}\n\n{more}") });
    let command = command.after_help(examples);
    match long {
        Some(long) => command.after_long_help(long),
        None => command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths of the commands that the help lists.
    fn listed(command: &Command, path: &str, found: &mut Vec<String>) {
        found.push(path.to_owned());
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
            listed(sub, format!("{path} {}", sub.get_name()).trim(), found);
        }
    }

    /// The words of the part of a line that calls this program.
    fn words(line: &str) -> Vec<String> {
        let start = line.find("kubeopencode ").unwrap_or_else(|| panic!("{line}"));
        let mut words = vec![String::new()];
        let mut quoted = None;
        for char in line[start..].chars() {
            match char {
                quote if quoted == Some(quote) => quoted = None,
                '"' | '\'' if quoted.is_none() => quoted = Some(char),
                '#' | '|' | '>' if quoted.is_none() => break,
                ' ' if quoted.is_none() => words.push(String::new()),
                other => words.last_mut().unwrap().push(other),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn every_command_has_examples_and_every_example_can_be_pasted() {
        let mut paths = Vec::new();
        listed(&crate::command(), "", &mut paths);
        let without: Vec<_> = paths.iter().filter(|path| !EXAMPLES.iter().any(|(of, _)| of == path)).collect();
        assert!(without.is_empty(), "commands without examples: {without:?}");
        for (path, examples) in EXAMPLES.iter().filter(|(path, _)| paths.iter().any(|known| known == path)) {
            for example in *examples {
                let words = words(example);
                // Arguments may stand before a subcommand: `artifacts TASK get NAME`.
                let mut rest = words[1..].iter();
                assert!(
                    path.split(' ').all(|name| rest.any(|word| word == name)) || path.is_empty(),
                    "{path}: {example}"
                );
                if let Err(error) = crate::command().try_get_matches_from(&words) {
                    panic!("{example}: {error}");
                }
            }
        }
    }

    /// Commands in blocks of shell commands.
    #[test]
    fn every_command_in_the_documentation_can_be_pasted() {
        let repository = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let pages = std::fs::read_dir(repository.join("docs")).unwrap().map(|entry| entry.unwrap().path());
        let pages = pages.filter(|path| path.extension().is_some_and(|end| end == "md"));
        let mut checked = 0;
        for page in pages.chain([repository.join("README.md")]) {
            let text = std::fs::read_to_string(&page).unwrap();
            let blocks = text.split("```sh\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0));
            for line in blocks.flat_map(str::lines).filter(|line| line.contains("kubeopencode ")) {
                let words = words(line);
                if words.len() > 1
                    && let Err(error) = crate::command().try_get_matches_from(&words)
                {
                    panic!("{}: {line}: {error}", page.display());
                }
                checked += 1;
            }
        }
        assert!(checked > 25, "only {checked} commands were found");
    }

    /// Commands in messages, with `{name}` and the like in place of names.
    #[test]
    fn every_command_in_a_message_can_be_pasted() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let command = crate::command();
        let mut checked = 0;
        for file in sources(&["cli", "domain", "local", "demo"].map(|name| root.join(name).join("src"))) {
            let text = std::fs::read_to_string(&file).unwrap();
            let text = text.split("#[cfg(test)]").next().unwrap();
            for line in text.lines().filter(|line| !line.trim_start().starts_with("//") && line.contains('"')) {
                for (hint, is_command) in hints(line) {
                    let words: Vec<_> = hint.split_whitespace().collect();
                    let known = words.get(1).is_some_and(|name| command.find_subcommand(name).is_some());
                    // Such as "kubeopencode already runs".
                    if !is_command && !known {
                        continue;
                    }
                    if let Err(error) = crate::command().try_get_matches_from(&words) {
                        panic!("{}: {hint}: {error}", file.display());
                    }
                    checked += 1;
                }
            }
        }
        assert!(checked > 20, "only {checked} commands were found");
    }

    fn sources(directories: &[std::path::PathBuf]) -> Vec<std::path::PathBuf> {
        // Tests name commands that do not exist.
        let skipped = ["examples.rs", "tests.rs"];
        let mut found = Vec::new();
        for entry in directories.iter().flat_map(|directory| std::fs::read_dir(directory).unwrap()) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.extend(sources(&[path]));
            } else if path.extension().is_some_and(|end| end == "rs")
                && !skipped.iter().any(|name| path.ends_with(name))
            {
                found.push(path);
            }
        }
        found
    }

    /// The commands of this program in a line of source code, from its name to the end of the text or of the command;
    /// with whether it can only be a command, because it follows a backtick or a colon.
    fn hints(line: &str) -> Vec<(String, bool)> {
        let mut found = Vec::new();
        for (start, _) in line.match_indices("kubeopencode ") {
            let before = &line[..start];
            let is_command = before.ends_with('`') || before.ends_with(": ");
            if !is_command && !before.ends_with(['"', ' ']) {
                continue;
            }
            let rest = &line[start..];
            let next = rest["kubeopencode ".len()..].chars().next();
            if !next.is_some_and(|char| char.is_ascii_lowercase()) {
                continue;
            }
            let end = rest.find(['`', '"', ';', ',', '|', '\\', '…', '(']).unwrap_or(rest.len());
            let text = rest[..end].trim_end_matches(['.', ' ']);
            // `{name}` and `{}` stand for names; `{name}{}` for a name and flags.
            let mut hint = String::new();
            let mut depth = 0;
            for char in text.chars() {
                match char {
                    '{' => {
                        depth += 1;
                        hint.push('x');
                    }
                    '}' => depth -= 1,
                    other if depth == 0 => hint.push(other),
                    _ => {}
                }
            }
            found.push((hint.trim().to_owned(), is_command));
        }
        found
    }
}
