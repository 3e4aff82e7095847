//! Files that Tasks deliver to the workspace of their Agent, and their removal with the Tasks.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};

use crate::contract::paths::{DELIVERIES, OUR_BINARY};

/// Removals in one command line, which the system limits to 128 KiB.
const AT_ONCE: usize = 100;

/// The directories in `found` whose Task is deleted. A directory that cannot be the name of a Task is ignored.
pub fn left_over(found: impl IntoIterator<Item = String>, exists: impl Fn(&str) -> bool) -> Vec<String> {
    found.into_iter().filter(|name| is_a_name(name) && !exists(name)).collect()
}

fn is_a_name(name: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    !name.starts_with('.') && !name.is_empty() && name.len() <= 253 && name.bytes().all(fine)
}

/// Shell commands for an Agent's server that remove these directories. Our own helper removes them: it follows no
/// links, and delivering an empty set of files removes the directory. It prints `removed` for each.
///
/// No argument needs quoting: paths are encoded.
pub fn removals(workspace: &str, names: &[String]) -> Vec<String> {
    let root = BASE64.encode(workspace);
    let one = |name: &String| {
        let directory = BASE64.encode(format!("{DELIVERIES}/{name}"));
        format!("{OUR_BINARY} unpack {root} {directory} removal 0 0 _")
    };
    names.chunks(AT_ONCE).map(|names| names.iter().map(one).collect::<Vec<_>>().join("; ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_of_tasks_that_are_gone_are_left_over() {
        let found = ["kept", "gone", "gone.too", "..", ".hidden", "Not-A-Task", "a b", "$(x)", ""];
        let left = left_over(found.map(str::to_owned), |name| name == "kept");
        assert_eq!(left, ["gone", "gone.too"]);
    }

    #[test]
    fn a_removal_is_safe_in_any_shell() {
        let names: Vec<String> = (0..101).map(|number| format!("task-{number}")).collect();
        let lines = removals("/work space/$(x)", &names);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].split("; ").count(), 100);
        let plain = |char: char| char.is_ascii_alphanumeric() || "_-./ ".contains(char);
        assert!(lines[1].chars().all(plain), "{}", lines[1]);
        assert!(lines[0].len() < 100 << 10);
    }
}
