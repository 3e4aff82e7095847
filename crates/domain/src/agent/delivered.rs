//! Files that Tasks deliver to the workspace of their Agent, and their removal with the Tasks.

use crate::contract::companion::is_task_name;

/// The directories in `found` whose Task is deleted. A directory that cannot be the name of a Task is ignored.
pub fn left_over(found: impl IntoIterator<Item = String>, exists: impl Fn(&str) -> bool) -> Vec<String> {
    found.into_iter().filter(|name| is_task_name(name) && !exists(name)).collect()
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
}
