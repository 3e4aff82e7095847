//! The changes of a run: the difference of its workspace before and after, as git trees.
//!
//! A tool call reports only its own edits; a shell command reports none. So the files are compared instead. The Pod
//! takes the trees; this module reads git's output, limits it, and puts it into records of the log.

use std::collections::BTreeMap;

use api::kinds::task::TaskChanges;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::contract::collect::MOST_PATCH_BYTES;

/// Files that are listed with their patches. The others are only counted.
pub const MOST_FILES: usize = 300;
/// Commits that are listed.
pub const MOST_COMMITS: usize = 50;
/// Maximum size of all patches, in bytes.
pub const MOST_PATCH: usize = 512 << 10;
/// Maximum size of the patch of one file, as escaped JSON: a record of the log holds 256 KiB.
const MOST_FILE_PATCH: usize = 160 << 10;
/// Bytes of one text of a record. Longer texts of records are cut.
const PIECE: usize = 24 << 10;

/// The changes of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Changes {
    /// The workspace was compared. Otherwise the notes say why not, and the numbers are those of the tool calls.
    pub compared: bool,
    /// The changed files, at most [`MOST_FILES`].
    pub files: Vec<FileChange>,
    /// Number of changed files.
    pub file_count: u64,
    /// Lines added.
    pub insertions: u64,
    /// Lines removed.
    pub deletions: u64,
    /// The newest commits that the run added to local branches, at most [`MOST_COMMITS`].
    pub commits: Vec<Commit>,
    /// Number of commits that the run added to local branches.
    pub commit_count: u64,
    /// Sentences about what the comparison does not cover.
    pub notes: Vec<String>,
}

/// The change of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FileChange {
    /// Path relative to the workspace.
    pub path: String,
    /// Path before a rename.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_path: Option<String>,
    pub status: FileStatus,
    pub insertions: u64,
    pub deletions: u64,
    /// The file is binary or too large for a patch.
    pub binary: bool,
    /// Unified diff; empty for a binary file.
    pub patch: String,
    /// The patch is shortened or left out, because it is too long.
    pub cut: bool,
}

/// How a file changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum FileStatus {
    Added,
    #[default]
    Modified,
    Deleted,
    Renamed,
}

impl FileStatus {
    /// git's letter.
    pub fn letter(self) -> char {
        match self {
            Self::Added => 'A',
            Self::Modified => 'M',
            Self::Deleted => 'D',
            Self::Renamed => 'R',
        }
    }
}

/// A commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Commit {
    /// Full id.
    pub id: String,
    /// First line of the message.
    pub subject: String,
}

/// git's output for two trees of one directory.
#[derive(Clone, Debug, Default)]
pub struct TreeDiff<'a> {
    /// Path of the directory relative to the workspace; empty for the workspace.
    pub prefix: &'a str,
    /// `git diff-tree -z --raw --numstat`.
    pub listing: &'a [u8],
    /// `git diff-tree -p`, perhaps without its end.
    pub patch: &'a [u8],
    /// The end of the patch is missing.
    pub patch_cut: bool,
}

impl Changes {
    /// No comparison, for this reason.
    pub fn unknown(note: impl Into<String>) -> Self {
        Self { notes: vec![note.into()], ..Self::default() }
    }

    /// Notes that the patch of the whole change has more bytes than are kept. `more`: it has even more.
    pub fn note_large_patch(&mut self, bytes: u64, more: bool) {
        let [size, most] = [bytes, MOST_PATCH_BYTES].map(mebibytes);
        let at_least = if more { "more than " } else { "" };
        self.notes
            .push(format!("The patch of the whole change is not kept: it has {at_least}{size}, the limit is {most}."));
    }

    /// Adds the difference of one directory.
    pub fn add(&mut self, diff: &TreeDiff<'_>) {
        let listed = listing(diff.listing);
        let text = String::from_utf8_lossy(diff.patch);
        let mut sections = sections(&text).into_iter();
        for (mut file, type_changed) in listed {
            // A file that becomes a link has two sections: one removes, one adds.
            let taken: Vec<&str> = sections.by_ref().take(if type_changed { 2 } else { 1 }).collect();
            let patch = taken.concat();
            let last = diff.patch_cut && sections.len() == 0;
            (file.patch, file.cut) = match (file.binary, patch.is_empty()) {
                (true, _) => (String::new(), false),
                (false, true) => (String::new(), true),
                (false, false) => shortened(&patch, MOST_FILE_PATCH),
            };
            file.cut |= last && !file.binary;
            file.path = below(diff.prefix, &file.path);
            file.old_path = file.old_path.map(|path| below(diff.prefix, &path));
            self.add_file(file);
        }
    }

    /// Adds one file.
    pub fn add_file(&mut self, mut file: FileChange) {
        self.file_count += 1;
        self.insertions += file.insertions;
        self.deletions += file.deletions;
        let used: usize = self.files.iter().map(|file| file.patch.len()).sum();
        if used + file.patch.len() > MOST_PATCH {
            (file.patch, file.cut) = (String::new(), true);
        }
        if self.files.len() < MOST_FILES {
            self.files.push(file);
        }
    }

    /// Adds the commits in the output of `git rev-list --format=%s`, newest first.
    pub fn add_commits(&mut self, listing: &str) {
        let mut lines = listing.lines();
        while let Some(line) = lines.next() {
            let Some(id) = line.strip_prefix("commit ") else { continue };
            let subject: String = lines.next().unwrap_or_default().chars().take(200).collect();
            self.commit_count += 1;
            if self.commits.len() < MOST_COMMITS {
                self.commits.push(Commit { id: id.to_owned(), subject });
            }
        }
    }

    /// The numbers, for `status.changes`; `None` if the workspace was not compared.
    pub fn numbers(&self) -> Option<TaskChanges> {
        let count = |number: u64| Some(i64::try_from(number).unwrap_or(i64::MAX));
        self.compared.then(|| TaskChanges {
            files: count(self.file_count),
            insertions: count(self.insertions),
            deletions: count(self.deletions),
            commits: count(self.commit_count),
            note: Some(self.notes.join(" ").chars().take(500).collect()).filter(|note: &String| !note.is_empty()),
        })
    }

    /// All but the files, for a record of the log.
    pub fn summary(&self) -> Value {
        serde_json::to_value(Self { files: Vec::new(), ..self.clone() }).unwrap_or_default()
    }

    /// The changes in the records of a log; `None` if there are none.
    pub fn of_records<'a>(records: impl IntoIterator<Item = &'a Value>) -> Option<Self> {
        let mut files = Vec::new();
        let mut changes: Option<Self> = None;
        for record in records {
            match record["type"].as_str() {
                Some("change") => files.extend(FileChange::of_record(&record["change"])),
                Some("changes") => changes = serde_json::from_value(record["changes"].clone()).ok().or(changes),
                _ => {}
            }
        }
        changes.map(|changes| Self { files, ..changes })
    }
}

impl FileChange {
    /// The change for a record of the log: the patch in pieces, none of which is long enough to be cut.
    pub fn record(&self) -> Value {
        let mut record = serde_json::to_value(self).unwrap_or_default();
        record["patch"] = pieces(&self.patch).into();
        record
    }

    fn of_record(record: &Value) -> Option<Self> {
        let mut record = record.clone();
        if let Some(pieces) = record["patch"].as_array() {
            record["patch"] = pieces.iter().filter_map(Value::as_str).collect::<String>().into();
        }
        serde_json::from_value(record).ok()
    }

    /// The change in one line: `M src/main.rs +3 -1`.
    pub fn line(&self) -> String {
        let from = self.old_path.as_deref().map(|old| format!("{old} -> ")).unwrap_or_default();
        let size =
            if self.binary { "(binary)".to_owned() } else { format!("+{} -{}", self.insertions, self.deletions) };
        format!("{} {from}{} {size}", self.status.letter(), self.path)
    }
}

/// The commit that a clone of this run began with, by the reflog of its HEAD: the last one before the first commit of
/// the run. `None` for a repository that was not cloned.
pub fn cloned_at(reflog: &str) -> Option<&str> {
    let entry = |line: &'_ str| -> Option<(usize, bool)> {
        let (ids, message) = line.split_once('\t')?;
        let id = ids.split(' ').nth(1)?;
        let hex = id.len() >= 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let fetched = ["clone:", "checkout:", "pull: Fast-forward"].iter().any(|start| message.starts_with(start));
        hex.then_some((id.len(), fetched))
    };
    let mut lines = reflog.lines().map_while(|line| {
        let (length, fetched) = entry(line)?;
        let at = line.find(' ')? + 1;
        fetched.then(|| (&line[at..at + length], line))
    });
    let (mut id, first) = lines.next()?;
    if !first.split_once('\t')?.1.starts_with("clone:") {
        return None;
    }
    for (next, _) in lines {
        id = next;
    }
    Some(id)
}

fn below(prefix: &str, path: &str) -> String {
    if prefix.is_empty() { path.to_owned() } else { format!("{prefix}/{path}") }
}

/// The files of `--raw --numstat -z`, in git's order, and whether the type of each changed.
fn listing(output: &[u8]) -> Vec<(FileChange, bool)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut files: Vec<(FileChange, bool)> = Vec::new();
    let mut at: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    let mut tokens = output.split(|byte| *byte == 0);
    while let Some(token) = tokens.next() {
        if token.first() == Some(&b':') {
            let letter = token.rsplit(|byte| *byte == b' ').next().and_then(|status| status.first()).copied();
            let Some(first) = tokens.next() else { break };
            let mut file = FileChange::default();
            let mut path = first;
            file.status = match letter {
                Some(b'A') => FileStatus::Added,
                Some(b'D') => FileStatus::Deleted,
                Some(b'R' | b'C') => {
                    let Some(new) = tokens.next() else { break };
                    (file.old_path, path) = (Some(text(first)), new);
                    FileStatus::Renamed
                }
                _ => FileStatus::Modified,
            };
            file.path = text(path);
            at.insert(path.to_owned(), files.len());
            files.push((file, letter == Some(b'T')));
            continue;
        }
        let mut fields = token.splitn(3, |byte| *byte == b'\t');
        let (Some(added), Some(removed), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        // A rename has an empty path, and then the old and the new one.
        let path = if path.is_empty() { tokens.nth(1).unwrap_or_default() } else { path };
        let Some((file, _)) = at.get(path).and_then(|at| files.get_mut(*at)) else { continue };
        let number = |bytes: &[u8]| std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<u64>().ok());
        match (number(added), number(removed)) {
            (Some(added), Some(removed)) => (file.insertions, file.deletions) = (added, removed),
            _ => file.binary = true,
        }
    }
    files
}

/// The patch of each file. Lines of content begin with a sign, so only a header begins with `diff --git`.
fn sections(patch: &str) -> Vec<&str> {
    const HEADER: &str = "diff --git ";
    let mut starts: Vec<usize> = patch.match_indices("\ndiff --git ").map(|(at, _)| at + 1).collect();
    if patch.starts_with(HEADER) {
        starts.insert(0, 0);
    }
    let ends = starts.iter().skip(1).copied().chain([patch.len()]);
    starts.iter().zip(ends).map(|(start, end)| &patch[*start..end]).collect()
}

/// The first lines of a patch whose escaped JSON has at most `most` bytes, and whether lines are missing.
fn shortened(patch: &str, most: usize) -> (String, bool) {
    let mut length = 0;
    let mut end = 0;
    for line in patch.split_inclusive('\n') {
        length += line.chars().map(escaped).sum::<usize>();
        if length > most {
            return (patch[..end].to_owned(), true);
        }
        end += line.len();
    }
    (patch.to_owned(), false)
}

/// Bytes of a character in JSON that is plain ASCII.
fn escaped(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\t' | '\r' => 2,
        ' '..='~' => 1,
        _ => 6 * character.len_utf16(),
    }
}

/// Rounded up: a size above a limit never looks like the limit.
fn mebibytes(bytes: u64) -> String {
    let tenths = (bytes.saturating_mul(10)).div_ceil(1 << 20);
    match tenths % 10 {
        0 => format!("{} MiB", tenths / 10),
        tenth => format!("{}.{tenth} MiB", tenths / 10),
    }
}

fn pieces(text: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = (0..=rest.len().min(PIECE)).rev().find(|end| rest.is_char_boundary(*end)).unwrap_or(rest.len());
        let (piece, left) = rest.split_at(end);
        pieces.push(piece.to_owned());
        rest = left;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::contract::record;

    const LISTING: &str = ":100644 100644 1 2 M\0a.txt\0:000000 100644 0 3 A\0new.bin\0:100644 100644 4 4 R100\0old\0moved\0\
                           :100644 120000 5 6 T\0link\0:100644 000000 7 0 D\0gone\0\
                           1\t2\ta.txt\0-\t-\tnew.bin\x000\t0\t\0old\0moved\x001\t1\tlink\x000\t5\tgone\0";
    const PATCH: &str = "diff --git a/a.txt b/a.txt\n@@ -1,2 +1 @@\n-x\n-diff --git a/f b/f\n+y\n\
                         diff --git a/new.bin b/new.bin\nBinary files differ\n\
                         diff --git a/old b/moved\nsimilarity index 100%\n\
                         diff --git a/link b/link\n-x\ndiff --git a/link b/link\n+y\n\
                         diff --git a/gone b/gone\n-1\n";

    fn changes(prefix: &str, patch: &str, patch_cut: bool) -> Changes {
        let mut changes = Changes { compared: true, ..Changes::default() };
        changes.add(&TreeDiff { prefix, listing: LISTING.as_bytes(), patch: patch.as_bytes(), patch_cut });
        changes
    }

    #[test]
    fn each_file_has_its_numbers_and_its_patch() {
        let changes = changes("app", PATCH, false);
        let lines: Vec<String> = changes.files.iter().map(FileChange::line).collect();
        assert_eq!(
            lines,
            [
                "M app/a.txt +1 -2",
                "A app/new.bin (binary)",
                "R app/old -> app/moved +0 -0",
                "M app/link +1 -1",
                "D app/gone +0 -5",
            ]
        );
        assert!(changes.files[0].patch.ends_with("-diff --git a/f b/f\n+y\n"), "{}", changes.files[0].patch);
        assert_eq!(changes.files[1].patch, "");
        assert_eq!(changes.files[3].patch.matches("diff --git").count(), 2);
        assert_eq!(changes.files[4].patch, "diff --git a/gone b/gone\n-1\n");
        assert!(changes.files.iter().all(|file| !file.cut));
        let numbers = changes.numbers().unwrap();
        assert_eq!((numbers.files, numbers.insertions, numbers.deletions), (Some(5), Some(2), Some(8)));
    }

    #[test]
    fn a_patch_without_its_end_says_so() {
        let end = PATCH.find("diff --git a/link").unwrap();
        let cut = changes("", &PATCH[..end], true);
        let flags: Vec<bool> = cut.files.iter().map(|file| file.cut).collect();
        assert_eq!(flags, [false, false, true, true, true]);
    }

    #[test]
    fn long_patches_are_cut_at_a_line_and_fit_a_record() {
        let line = format!("+{}\n", "é\u{1}".repeat(100));
        let (patch, cut) = shortened(&line.repeat(1000), MOST_FILE_PATCH);
        assert!(cut && patch.ends_with('\n') && patch.len() > 10_000, "{}", patch.len());
        let file = FileChange { path: "a".into(), patch, ..FileChange::default() };
        let line = |name: &str, value: Value| record::line(&json!({"type": name, name: value})).unwrap();
        let lines = [line("change", file.record()), line("changes", changes("", "", false).summary())];
        let read: Vec<Value> = lines.iter().flat_map(|line| record::records(line.as_bytes())).collect();
        assert_eq!(Changes::of_records(&read).unwrap().files, [file]);
        assert_eq!(Changes::of_records(&read[..1]), None);
    }

    #[test]
    fn a_flood_is_counted_and_cut() {
        let mut changes = Changes::default();
        for number in 0..400 {
            let patch = "+x\n".repeat(2000);
            let file = FileChange { path: format!("f{number}"), patch, insertions: 2000, ..FileChange::default() };
            changes.add_file(file);
        }
        assert_eq!((changes.files.len(), changes.file_count, changes.insertions), (MOST_FILES, 400, 800_000));
        assert!(changes.files.iter().map(|file| file.patch.len()).sum::<usize>() <= MOST_PATCH);
        assert!(changes.files.last().unwrap().cut);
        let long: Vec<String> = (0..60).map(|number| format!("commit {number}\nsubject {number}\n")).collect();
        changes.add_commits(&long.concat());
        assert_eq!((changes.commits.len(), changes.commit_count), (MOST_COMMITS, 60));
        assert_eq!(changes.commits[1], Commit { id: "1".into(), subject: "subject 1".into() });
    }

    #[test]
    fn a_patch_that_is_too_large_is_noted_with_its_size() {
        let mut changes = Changes::default();
        changes.note_large_patch(MOST_PATCH_BYTES + 1, false);
        changes.note_large_patch(1 << 30, true);
        let size =
            |text: &str| format!("The patch of the whole change is not kept: it has {text}, the limit is 10 MiB.");
        assert_eq!(changes.notes, [size("10.1 MiB"), size("more than 1024 MiB")]);
    }

    #[test]
    fn garbage_changes_nothing() {
        for listing in ["", "x", ":", ":100644 100644 1 2 M", ":1 2 3 4 R100\0a", "1\t2\tunlisted\0", "\0\0\0"] {
            let mut changes = Changes::default();
            changes.add(&TreeDiff { listing: listing.as_bytes(), ..TreeDiff::default() });
            assert_eq!(changes, Changes::default(), "{listing:?}");
        }
    }

    #[test]
    fn a_clone_begins_with_the_last_commit_before_the_runs_own() {
        let id = |digit: char| digit.to_string().repeat(40);
        let line =
            |from: char, to: char, message: &str| format!("{} {} A <a@b> 1 +0000\t{message}\n", id(from), id(to));
        let clone = line('0', '1', "clone: from https://h/r");
        let check = |reflog: &str, expected: Option<char>| {
            assert_eq!(cloned_at(reflog).map(str::to_owned), expected.map(id), "{reflog}");
        };
        check(&clone, Some('1'));
        check(
            &(clone.clone() + &line('1', '2', "checkout: moving from main to dev") + &line('2', '3', "commit: x")),
            Some('2'),
        );
        check(&(clone.clone() + &line('1', '3', "commit: x") + &line('3', '1', "checkout: moving to main")), Some('1'));
        check(&line('0', '1', "commit (initial): x"), None);
        check(&line('0', '1', "checkout: moving"), None);
        check("", None);
        check("garbage\tclone: from x\n", None);
    }
}
