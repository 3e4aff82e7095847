//! Which files and lines a session's tool calls changed.

use std::collections::BTreeSet;

use serde_json::Value;

use super::message::{Message, Part, ToolState};

/// Changed files and lines. Each tool call counts: a line that is added and removed again counts twice.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes<'a> {
    pub files: BTreeSet<&'a str>,
    pub additions: u64,
    pub deletions: u64,
}

impl<'a> Changes<'a> {
    /// The changes of all tool calls in `messages`.
    pub fn of(messages: impl Iterator<Item = &'a Message>) -> Self {
        let mut changes = Self::default();
        for part in messages.flat_map(|message| &message.parts) {
            changes.take(part);
        }
        changes
    }

    /// A patch lists its files, an edit has a diff, and a new file only its content.
    fn take(&mut self, part: &'a Part) {
        let Some((tool, state)) = part.ended_tool().filter(|(tool, state)| {
            state.status == "completed" && matches!(*tool, "write" | "edit" | "multiedit" | "patch" | "apply_patch")
        }) else {
            return;
        };
        if let Some(files) = state.metadata.get("files").and_then(Value::as_array) {
            for file in files {
                self.files.extend(text(file, &["filePath", "relativePath"]));
                self.lines(text(file, &["diff", "patch"]).unwrap_or_default());
            }
            return;
        }
        self.files.extend(path(state));
        match (text(&state.metadata, &["diff"]), text(&state.input, &["content"])) {
            (Some(diff), _) => self.lines(diff),
            (None, Some(content)) if tool == "write" => self.additions += content.lines().count() as u64,
            _ => {}
        }
    }

    /// Counts the lines of a unified diff. Hunk headers contain lengths, so a removed `-- x` is not mistaken for a
    /// header.
    fn lines(&mut self, diff: &str) {
        let (mut old, mut new) = (0_u64, 0_u64);
        for line in diff.lines() {
            if old == 0 && new == 0 {
                (old, new) = hunk(line).unwrap_or_default();
                continue;
            }
            match line.bytes().next() {
                Some(b'+') => {
                    self.additions += 1;
                    new = new.saturating_sub(1);
                }
                Some(b'-') => {
                    self.deletions += 1;
                    old = old.saturating_sub(1);
                }
                // "\ No newline at end of file"
                Some(b'\\') => {}
                _ => (old, new) = (old.saturating_sub(1), new.saturating_sub(1)),
            }
        }
    }
}

fn path(state: &ToolState) -> Option<&str> {
    text(&state.metadata, &["filepath"]).or_else(|| text(&state.input, &["filePath"]))
}

/// The first of these members that is a string.
fn text<'a>(value: &'a Value, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| value.get(name)?.as_str())
}

/// Line counts before and after in `@@ -1,3 +1,4 @@`. A missing number is one.
fn hunk(line: &str) -> Option<(u64, u64)> {
    let mut ranges = line.strip_prefix("@@ -")?.split(' ');
    let length = |range: &str| range.split_once(',').map_or(Some(1), |(_, length)| length.parse().ok());
    Some((length(ranges.next()?)?, length(ranges.next()?.strip_prefix('+')?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(calls: &str, files: &[&str], additions: u64, deletions: u64) {
        let message: Message = serde_json::from_str(&format!(r#"{{"info":{{}},"parts":[{calls}]}}"#)).unwrap();
        let expected = Changes { files: files.iter().copied().collect(), additions, deletions };
        assert_eq!(Changes::of([&message].into_iter()), expected, "{calls}");
    }

    #[test]
    fn calls_tell_what_they_changed() {
        check(
            r#"{"type":"tool","tool":"write","state":{"status":"completed","input":{"filePath":"a","content":"x\ny\n"}}}"#,
            &["a"],
            2,
            0,
        );
        check(
            r#"{"type":"tool","tool":"edit","state":{"status":"completed","input":{"filePath":"a"},"metadata":{"diff":
               "Index: a\n===\n--- a\n+++ a\n@@ -1,3 +1,2 @@\n same\n--- an SQL comment\n-x\n+++y\n\\ No newline at end of file\n"}}}"#,
            &["a"],
            1,
            2,
        );
        check(
            r#"{"type":"tool","tool":"apply_patch","state":{"status":"completed","input":{"patchText":"…"},"metadata":{"files":[
               {"filePath":"/w/a","patch":"@@ -1 +1 @@\n-x\n+y\n"},{"filePath":"/w/b","patch":"@@ -0,0 +1,2 @@\n+1\n+2\n"}]}}}"#,
            &["/w/a", "/w/b"],
            3,
            1,
        );
    }

    #[test]
    fn what_failed_or_only_read_changed_nothing() {
        check(
            r#"{"type":"tool","tool":"write","state":{"status":"error","input":{"filePath":"a","content":"x"}}},
               {"type":"tool","tool":"read","state":{"status":"completed","input":{"filePath":"a"}}},
               {"type":"text","text":"write a"}"#,
            &[],
            0,
            0,
        );
    }

    #[test]
    fn a_difference_that_is_none_counts_nothing() {
        for diff in ["", "garbage", "@@ -x +y @@", "@@ -1,99999999999999999999 +1 @@", "+1\n-2"] {
            let mut changes = Changes::default();
            changes.lines(diff);
            assert_eq!(changes, Changes::default(), "{diff}");
        }
    }
}
