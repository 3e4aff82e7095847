//! `docs/reference/environment.md`: every environment variable, and the exit codes of a run, from the Pod contract.

use std::fmt::Write as _;

use domain::contract::{environment, reason::Reason};

/// The whole page.
pub fn page() -> String {
    let mut page = String::from(
        "# Environment reference\n\nMade from the code by `make generate`.\n\n\
         The controller sets most of these variables in the Pods that it creates. A Task's command may read them. \
         A variable in `extraEnv` overrides them. Flags of the command line have variables of their own: see [cli.md](cli.md).\n",
    );
    for group in environment::GROUPS {
        let _ = write!(page, "\n## {}\n\n{}\n\n| Variable | Meaning |\n|---|---|\n", group.title, group.about);
        for variable in group.variables {
            let rest = if variable.is_prefix() { "…" } else { "" };
            let description = variable.description.trim().replace('|', "\\|");
            let _ = writeln!(page, "| `{}{rest}` | {description} |", variable.name);
        }
    }
    page.push_str(
        "\n## Exit codes\n\nThe container of a Task ends with one of these codes and leaves the reason in its termination \
         message. The reason of the Task's condition may be more general.\n\n\
         | Exit code | Reason | Reason of the condition | Meaning |\n|---|---|---|---|\n",
    );
    for reason in Reason::ALL {
        let (word, status) = (reason.word(), reason.status().unwrap_or_default());
        let _ = writeln!(page, "| {} | {word} | {status} | {} |", reason.exit_code(), reason.meaning());
    }
    page
}
