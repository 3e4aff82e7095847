//! Patches as git writes them: which files they change, and which lines.
//!
//! A patch comes from an agent, so it may contain anything. git decides whether it applies; this module only reads it.

use std::{fmt::Write as _, ops::Range};

use crate::commands::screen::{Screen, Tone, columns, cut, line};

/// Columns of the signs of one file in statistics, where nothing limits the width.
const WIDEST: usize = 80;

/// The change of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileChange {
    /// Path after the change, or before it if the file is gone.
    pub path: String,
    /// The file was there before.
    pub existed: bool,
    pub insertions: u64,
    pub deletions: u64,
    pub binary: bool,
    /// Its bytes in the patch.
    pub section: Range<usize>,
}

/// The changes of a patch, in order.
pub fn read(patch: &[u8]) -> Vec<FileChange> {
    let mut files: Vec<FileChange> = Vec::new();
    // Lines of the current hunk that are left, before and after the change.
    let (mut old, mut new) = (0_u64, 0_u64);
    let mut start = 0;
    for text in patch.split_inclusive(|byte| *byte == b'\n') {
        let end = start + text.len();
        let at = start;
        start = end;
        if old > 0 || new > 0 {
            let Some(file) = files.last_mut() else { continue };
            match text.first() {
                Some(b'+') => {
                    file.insertions += 1;
                    new = new.saturating_sub(1);
                }
                Some(b'-') => {
                    file.deletions += 1;
                    old = old.saturating_sub(1);
                }
                Some(b'\\') => {}
                _ => (old, new) = (old.saturating_sub(1), new.saturating_sub(1)),
            }
            file.section.end = end;
            continue;
        }
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        if let Some(names) = text.strip_prefix(b"diff --git ") {
            let name = both(names).unwrap_or_default();
            files.push(FileChange { path: name, existed: true, section: at..end, ..FileChange::default() });
            continue;
        }
        let Some(file) = files.last_mut() else { continue };
        file.section.end = end;
        if let Some(hunk) = text.strip_prefix(b"@@ -") {
            (old, new) = hunk_lengths(hunk).unwrap_or_default();
        } else if text.starts_with(b"new file mode ") {
            file.existed = false;
        } else if let Some(name) = text.strip_prefix(b"rename to ").or(text.strip_prefix(b"copy to ")) {
            file.path = unquoted(name);
        } else if let Some(name) = text.strip_prefix(b"+++ ").or(text.strip_prefix(b"--- ")) {
            // Names with blanks end with a tab here.
            let name = unquoted(name.strip_suffix(b"\t").unwrap_or(name));
            if let Some((_, path)) = name.split_once('/').filter(|_| name != "/dev/null") {
                path.clone_into(&mut file.path);
            }
        } else if text == b"GIT binary patch" || text.starts_with(b"Binary files ") {
            file.binary = true;
        }
    }
    files
}

/// `1,5 +1,6 @@`: the lines of a hunk before and after the change.
fn hunk_lengths(hunk: &[u8]) -> Option<(u64, u64)> {
    let hunk = str::from_utf8(hunk.split(|byte| *byte == b'@').next()?).ok()?;
    let (old, new) = hunk.trim().split_once(" +")?;
    let length = |range: &str| {
        let (start, length) = range.split_once(',').unwrap_or((range, "1"));
        start.parse::<u64>().ok().and(length.parse().ok())
    };
    Some((length(old)?, length(new)?))
}

/// The name in `a/NAME b/NAME`; only renamed files have two, and those have lines of their own.
fn both(names: &[u8]) -> Option<String> {
    if names.starts_with(b"\"") {
        let name = unquoted(names);
        return name.split_once('/').map(|(_, name)| name.to_owned());
    }
    let names = String::from_utf8_lossy(names);
    let middle = names.len().checked_sub(1)? / 2;
    let name = names.get(..middle)?.split_once('/')?.1;
    let second = names.get(middle + 1..)?.split_once('/')?.1;
    (name == second).then(|| name.to_owned())
}

/// A name that git may have quoted as C does. What follows the closing quote is left out.
fn unquoted(name: &[u8]) -> String {
    let Some(quoted) = name.strip_prefix(b"\"") else { return String::from_utf8_lossy(name).into_owned() };
    let mut bytes = Vec::new();
    let mut rest = quoted.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => break,
            b'\\' => match rest.next() {
                Some(b'n') => bytes.push(b'\n'),
                Some(b't') => bytes.push(b'\t'),
                Some(b'r') => bytes.push(b'\r'),
                Some(b'a') => bytes.push(7),
                Some(b'b') => bytes.push(8),
                Some(b'v') => bytes.push(11),
                Some(b'f') => bytes.push(12),
                Some(digit @ b'0'..=b'7') => {
                    let mut value = u32::from(digit - b'0');
                    while let Some(digit) = rest.next_if(|next| (b'0'..=b'7').contains(next) && value < 32) {
                        value = value * 8 + u32::from(digit - b'0');
                    }
                    bytes.push(u8::try_from(value).unwrap_or(b'?'));
                }
                Some(other) => bytes.push(other),
                None => {}
            },
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The files and the numbers of their changed lines, as `git diff --stat` shows them.
pub fn stat(files: &[FileChange], screen: &Screen) -> String {
    let width = screen.width.unwrap_or(WIDEST).clamp(40, 120);
    let changed = |file: &FileChange| file.insertions + file.deletions;
    let most = files.iter().map(changed).max().unwrap_or_default();
    let number = most.to_string().len().max(3);
    let names: Vec<String> = files.iter().map(|file| cut(&line(&file.path), width / 2)).collect();
    let longest = names.iter().map(|name| columns(name)).max().unwrap_or_default();
    let signs = width.saturating_sub(longest + number + 5).max(10) as u64;
    let mut shown = String::new();
    for (file, name) in files.iter().zip(&names) {
        let padding = " ".repeat(longest - columns(name));
        let _ = write!(shown, " {name}{padding} | ");
        if file.binary {
            let _ = writeln!(shown, "{:>number$}", "Bin");
            continue;
        }
        let _ = write!(shown, "{:>number$}", changed(file));
        // Every change has at least one sign.
        let scaled = |count: u64| if most <= signs { count } else { (count * signs / most).max(u64::from(count > 0)) };
        let sign = |text: &str, count: u64| text.repeat(usize::try_from(scaled(count)).unwrap_or_default());
        let (plus, minus) = (sign("+", file.insertions), sign("-", file.deletions));
        if !(plus.is_empty() && minus.is_empty()) {
            let _ = write!(shown, " {}{}", screen.paint(Tone::Good, &plus), screen.paint(Tone::Bad, &minus));
        }
        shown.push('\n');
    }
    let _ = writeln!(shown, " {}", summary(files));
    shown
}

/// `2 files changed, 3 insertions(+), 1 deletion(-)`.
pub fn summary(files: &[FileChange]) -> String {
    let sum = |count: fn(&FileChange) -> u64| files.iter().map(count).sum::<u64>();
    totals(files.len() as u64, sum(|file| file.insertions), sum(|file| file.deletions))
}

/// The same by the numbers.
pub fn totals(files: u64, insertions: u64, deletions: u64) -> String {
    let count = |number: u64, what: &str, sign: &str| {
        let plural = if number == 1 { "" } else { "s" };
        (number > 0).then(|| format!(", {number} {what}{plural}({sign})"))
    };
    let more = [count(insertions, "insertion", "+"), count(deletions, "deletion", "-")].into_iter().flatten();
    format!("{files} file{} changed{}", if files == 1 { "" } else { "s" }, more.collect::<String>())
}

/// A patch on a terminal: coloured, and without control characters.
pub fn painted(patch: &[u8], screen: &Screen) -> String {
    let mut shown = String::new();
    let (mut old, mut new) = (0_u64, 0_u64);
    for text in patch.split_inclusive(|byte| *byte == b'\n') {
        let tone = match text {
            _ if (old > 0 || new > 0) && text.starts_with(b"+") => Tone::Good,
            _ if (old > 0 || new > 0) && text.starts_with(b"-") => Tone::Bad,
            _ if old > 0 || new > 0 => Tone::Plain,
            _ if text.starts_with(b"@@ ") => Tone::Busy,
            _ => Tone::Strong,
        };
        match (tone, text.strip_prefix(b"@@ -")) {
            (Tone::Busy, Some(hunk)) => (old, new) = hunk_lengths(hunk).unwrap_or_default(),
            (Tone::Good, _) => new = new.saturating_sub(1),
            (Tone::Bad, _) => old = old.saturating_sub(1),
            (Tone::Plain, _) if !text.starts_with(b"\\") => {
                (old, new) = (old.saturating_sub(1), new.saturating_sub(1));
            }
            _ => {}
        }
        let visible = |char: char| if char.is_control() && char != '\t' { char::REPLACEMENT_CHARACTER } else { char };
        let text = String::from_utf8_lossy(text.strip_suffix(b"\n").unwrap_or(text));
        let text: String = text.strip_suffix('\r').unwrap_or(&text).chars().map(visible).collect();
        shown.push_str(&screen.paint(tone, &text));
        shown.push('\n');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "\
diff --git a/src/main.rs b/src/main.rs
index 1..2 100644
--- a/src/main.rs
+++ b/src/main.rs
@@ -1,3 +1,4 @@ fn main() {
 context
--- a removed comment
+++ an added comment
+another
 context
@@ -10 +11 @@
-x
+y
\\ No newline at end of file
diff --git a/old name.txt b/new name.txt
similarity index 100%
rename from old name.txt
rename to new name.txt
diff --git \"a/tab\\there\" \"b/tab\\there\"
new file mode 100644
index 0..1
--- /dev/null
+++ \"b/\\303\\244\\t\"\t
@@ -0,0 +1 @@
+diff --git a/fake b/fake
diff --git a/x.png b/x.png
new file mode 100644
index 0..1
GIT binary patch
literal 3
Kc${NkU|;|M00aO5

literal 0
HcmV?d00001

diff --git a/gone b/gone
deleted file mode 100644
index 1..0
--- a/gone
+++ /dev/null
@@ -1,2 +0,0 @@
-1
-2
";

    #[test]
    fn files_and_lines_of_a_patch_are_counted_and_its_content_is_not_taken_for_headers() {
        let files = read(PATCH.as_bytes());
        let shown: Vec<_> = files
            .iter()
            .map(|file| {
                format!(
                    "{} {} +{} -{} {}",
                    file.path.escape_debug(),
                    file.existed,
                    file.insertions,
                    file.deletions,
                    file.binary
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                "src/main.rs true +3 -2 false",
                "new name.txt true +0 -0 false",
                "ä\\t false +1 -0 false",
                "x.png false +0 -0 true",
                "gone true +0 -2 false",
            ]
        );
        assert!(files.windows(2).all(|pair| pair[0].section.end == pair[1].section.start));
        assert_eq!((files[0].section.start, files[4].section.end), (0, PATCH.len()));
    }

    #[test]
    fn garbage_is_no_change() {
        for garbage in
            ["", "\n\n", "+x", "@@ -1,99999999999999999999 +1 @@\n+x\n", "diff --git\n", "--- a/x\n+++ b/x\n"]
        {
            assert_eq!(read(garbage.as_bytes()), [], "{garbage:?}");
        }
        let odd = read(b"diff --git x\n@@ -a +b @@\n+++ nothing\n");
        assert_eq!((odd.len(), odd[0].path.as_str(), odd[0].insertions), (1, "", 0));
        let odd = read(b"diff --git \"a/\\777\\\n\xff");
        assert_eq!(odd.len(), 1);
    }

    #[test]
    fn statistics_look_like_those_of_git() {
        let mut files = read(PATCH.as_bytes());
        files.push(FileChange {
            path: "large\u{1b}[2J".to_owned(),
            insertions: 900,
            deletions: 1,
            ..FileChange::default()
        });
        let screen = Screen { width: Some(60), ..Screen::default() };
        insta::assert_snapshot!(stat(&files, &screen), @"
         src/main.rs  |   5 +-
         new name.txt |   0
         ä            |   1 +
         x.png        | Bin
         gone         |   2 -
         large�[2J    | 901 +++++++++++++++++++++++++++++++++++++++-
         6 files changed, 904 insertions(+), 5 deletions(-)
        ");
        assert_eq!(totals(1, 1, 0), "1 file changed, 1 insertion(+)");
    }

    #[test]
    fn a_patch_on_a_terminal_has_colours_and_cannot_play_tricks() {
        let screen = Screen { colour: true, ..Screen::default() };
        let patch = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n-a\x1b[2J\r\n+\tb\n+--- c\n";
        let shown = painted(patch.as_bytes(), &screen);
        assert!(shown.contains("\x1b[31m-a\u{fffd}[2J\x1b[0m\n"), "{shown:?}");
        assert!(shown.contains("\x1b[32m+\tb\x1b[0m\n\x1b[32m+--- c\x1b[0m\n"), "{shown:?}");
        assert!(shown.contains("\x1b[1m--- a/x\x1b[0m"), "{shown:?}");
        assert_eq!(painted(b"+x\n", &Screen::default()), "+x\n");
    }
}
