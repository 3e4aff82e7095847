//! Parses responses of Git servers.

/// The commit that `wanted` names in a response to `GET …/info/refs?service=git-upload-pack`.
///
/// A branch wins over a tag of the same name, as in git; an annotated tag is followed to its commit.
pub fn commit_of(advertised: &[u8], wanted: &str) -> Option<String> {
    commit_among(&packet_lines(advertised).filter_map(advertised_ref).collect::<Vec<_>>(), wanted)
}

/// The same in the output of `git ls-remote`.
pub fn commit_listed(listing: &str, wanted: &str) -> Option<String> {
    let refs = listing.lines().filter_map(|line| line.split_once('\t'));
    let refs = refs.filter(|(commit, _)| is_commit(commit)).map(|(commit, name)| (commit.to_owned(), name.to_owned()));
    commit_among(&refs.collect::<Vec<_>>(), wanted)
}

fn commit_among(refs: &[(String, String)], wanted: &str) -> Option<String> {
    let find = |name: &str| refs.iter().find(|(_, known)| known == name).map(|(commit, _)| commit.clone());
    if wanted == "HEAD" {
        return find("HEAD");
    }
    find(&format!("refs/heads/{wanted}"))
        .or_else(|| find(&format!("refs/tags/{wanted}^{{}}")))
        .or_else(|| find(&format!("refs/tags/{wanted}")))
        .or_else(|| find(wanted))
        .or_else(|| is_commit(wanted).then(|| wanted.to_ascii_lowercase()))
}

fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Lines of git's wire format: four hexadecimal digits of length, then the text.
fn packet_lines(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        loop {
            let length = usize::from_str_radix(std::str::from_utf8(bytes.get(..4)?).ok()?, 16).ok()?;
            if length < 4 {
                // A flush packet between two sections.
                bytes = &bytes[4..];
                continue;
            }
            let line = bytes.get(4..length)?;
            bytes = &bytes[length..];
            return Some(line);
        }
    })
}

fn advertised_ref(line: &[u8]) -> Option<(String, String)> {
    let text = std::str::from_utf8(line.split(|byte| *byte == 0).next()?).ok()?.trim_end();
    let (commit, name) = text.split_once(' ')?;
    is_commit(commit).then(|| (commit.to_owned(), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refs_are_found_in_what_git_lists() {
        let (a, b, c) = ("a".repeat(40), "b".repeat(40), "c".repeat(40));
        let listing = format!("{a}\tHEAD\n{a}\trefs/heads/main\n{b}\trefs/tags/v1\n{c}\trefs/tags/v1^{{}}\nnoise\n");
        for (wanted, commit) in [("HEAD", Some(&a)), ("main", Some(&a)), ("v1", Some(&c)), ("gone", None)] {
            assert_eq!(commit_listed(&listing, wanted).as_ref(), commit, "{wanted}");
        }
    }

    #[test]
    fn refs_are_found_in_what_git_advertises() {
        let line = |text: &str| format!("{:04x}{text}", text.len() + 4);
        let (a, b, c) = ("a".repeat(40), "b".repeat(40), "c".repeat(40));
        let all = [
            line("# service=git-upload-pack\n"),
            "0000".into(),
            line(&format!("{a} HEAD\0multi_ack symref=HEAD:refs/heads/main\n")),
            line(&format!("{a} refs/heads/main\n")),
            line(&format!("{b} refs/tags/v1\n")),
            line(&format!("{c} refs/tags/v1^{{}}\n")),
            "0000".into(),
        ]
        .concat();
        for (wanted, commit) in [("HEAD", Some(&a)), ("main", Some(&a)), ("v1", Some(&c)), ("gone", None)] {
            assert_eq!(commit_of(all.as_bytes(), wanted).as_ref(), commit, "{wanted}");
        }
        assert_eq!(commit_of(all.as_bytes(), &"D".repeat(40)), Some("d".repeat(40)));
        assert_eq!(commit_of(b"<html>not git</html>", "main"), None);
    }
}
