//! A title for a Task, from its description.

/// Longer titles are cut after this many characters.
const LONGEST: usize = 120;
/// Of a line with more characters, the title is the first sentence.
const LONG: usize = 72;

/// The first line of a description that has text, without the marks of a heading or a list.
pub fn title(description: &str) -> Option<String> {
    let mut lines = description.lines().map(|line| line.trim().trim_start_matches(['#', '*', '-', '>']).trim());
    let line = lines.find(|line| !line.is_empty())?;
    let is_long = line.chars().nth(LONG).is_some();
    let line = line.split_once(". ").filter(|_| is_long).map_or(line, |(sentence, _)| sentence);
    Some(match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_is_the_first_line_with_text() {
        let check = |description: &str, expected: Option<&str>| {
            assert_eq!(title(description).as_deref(), expected, "{description:?}");
        };
        check("Fix the login test.\nRun the tests first.", Some("Fix the login test."));
        check("\n  \n# Fix the login\n\nDetails", Some("Fix the login"));
        check("---\n- first\n- second", Some("first"));
        let long = "The login test times out on slow machines. Find out why, and fix it. Run every test.";
        check(long, Some("The login test times out on slow machines"));
        check("", None);
        check(" \n\t\n", None);
        check(&"é".repeat(121), Some(&format!("{}…", "é".repeat(120))));
        check(&"é".repeat(120), Some(&"é".repeat(120)));
    }
}
