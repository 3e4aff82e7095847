//! Why a helper that prepares a Pod failed, left where the node looks for it: the status of the Task quotes it.

use std::io::Write as _;
use std::path::Path;

use crate::redact::Redactor;

/// All containers of a Pod share 12 KiB of messages, and a status quotes no more than this.
const LONGEST: usize = 1000;

/// Leaves a sentence. `/dev/termination-log` exists only inside of a Pod; elsewhere it is not created.
pub fn leave(sentence: &str, path: &Path, redactor: &Redactor) -> std::io::Result<()> {
    let in_dev = path.starts_with("/dev");
    if in_dev && !path.exists() {
        return Ok(());
    }
    let mut file = std::fs::OpenOptions::new().write(true).create(!in_dev).truncate(true).open(path)?;
    file.write_all(short(&redactor.clean(sentence)).as_bytes())
}

/// One line. What is wrong stands first and what to do about it last, so it is the middle that gives way.
fn short(sentence: &str) -> String {
    let line: Vec<char> = sentence.split_whitespace().collect::<Vec<_>>().join(" ").chars().collect();
    if line.len() <= LONGEST {
        return line.into_iter().collect();
    }
    let half = LONGEST / 2;
    line[..half].iter().chain(&['…']).chain(&line[line.len() - half..]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_is_one_short_line_without_secrets() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("message");
        let redactor = Redactor::new(["hunter2".to_owned()]);
        let left = |sentence: &str| {
            leave(sentence, &path, &redactor).unwrap();
            std::fs::read_to_string(&path).unwrap()
        };
        assert_eq!(left("git said:\n  no hunter2"), "git said: no [redacted]");
        let long = left(&format!("it failed: {} set it right", "é ".repeat(3000)));
        assert!(long.starts_with("it failed: ") && long.ends_with(" set it right"), "{long}");
        assert_eq!(long.chars().count(), LONGEST + 1);
    }

    #[test]
    fn nothing_is_left_outside_of_a_pod() {
        let nowhere = Path::new("/dev/kubeopencode-no-such-log");
        leave("no", nowhere, &Redactor::default()).unwrap();
        assert!(!nowhere.exists());
    }
}
