//! `docs/reference/cli.md`: every command and flag, from the parser itself.

use std::fmt::Write as _;

use clap::Command;

/// The whole page.
pub fn page() -> String {
    let mut page = String::from("# Command line reference\n\nMade from the code by `make generate`.\n");
    let mut command = kubeopencode::command().term_width(100);
    command.build();
    write_command(&mut page, &mut command, "");
    page
}

fn write_command(page: &mut String, command: &mut Command, parent: &str) {
    let name = format!("{parent}{}", command.get_name());
    let help = command.render_long_help().to_string();
    let help = help.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    let _ = write!(page, "\n## {name}\n\n```text\n{}\n```\n", help.trim_end());
    for sub in command.get_subcommands_mut() {
        if sub.get_name() != "help" && !sub.is_hide_set() {
            write_command(page, sub, &format!("{name} "));
        }
    }
}
