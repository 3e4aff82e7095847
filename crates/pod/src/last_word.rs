//! The reason why an init container failed, written as its termination message: the status of the Task quotes it.

use std::path::Path;

use crate::outcome::write_termination_message;
use crate::redact::Redactor;

/// Limit in characters. All containers of a Pod share 12 KiB of messages, and a status quotes no more than this.
const MAX_CHARS: usize = 1000;

/// Writes a message, with secrets redacted.
pub fn leave(sentence: &str, path: &Path, redactor: &Redactor) -> std::io::Result<()> {
    write_termination_message(path, &short(&redactor.clean(sentence)))
}

/// One line. The middle is cut, because the problem comes first and the advice last.
fn short(sentence: &str) -> String {
    let line: Vec<char> = sentence.split_whitespace().collect::<Vec<_>>().join(" ").chars().collect();
    if line.len() <= MAX_CHARS {
        return line.into_iter().collect();
    }
    let half = MAX_CHARS / 2;
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
        assert_eq!(long.chars().count(), MAX_CHARS + 1);
    }

    #[test]
    fn nothing_is_left_outside_of_a_pod() {
        let nowhere = Path::new("/dev/kubeopencode-no-such-log");
        leave("no", nowhere, &Redactor::default()).unwrap();
        assert!(!nowhere.exists());
    }
}
