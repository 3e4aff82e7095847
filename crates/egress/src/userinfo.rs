//! Credentials in URLs: taken out, escaped, or hidden.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use reqwest::Url;

/// Replaces a secret in a text.
pub(crate) const HIDDEN: &str = "[redacted]";

/// Characters with a meaning in a URL's userinfo.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Escapes everything that has a meaning in a URL's userinfo.
pub fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// The reverse of [`percent_encode`].
pub fn percent_decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Removes user and password from a URL and returns them, if there were any.
pub fn take_userinfo(url: &mut Url) -> Option<(String, String)> {
    let (user, password) = (percent_decode(url.username()), percent_decode(url.password().unwrap_or_default()));
    // Both fail only for URLs that cannot have credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    (!user.is_empty() || !password.is_empty()).then_some((user, password))
}

/// A URL that may be shown: without credentials and without the query, which often contains a signature.
pub fn printable(url: &Url) -> String {
    let mut url = url.clone();
    take_userinfo(&mut url);
    if url.query().is_some() {
        url.set_query(Some("…"));
    }
    url.set_fragment(None);
    url.to_string().replace("%E2%80%A6", "…")
}

/// Replaces the `user:password@` of every URL in a text.
pub fn hide_userinfo(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (head, tail) = rest.split_at(at + 3);
        clean.push_str(head);
        let end = tail
            .find(|char: char| char.is_whitespace() || matches!(char, '/' | '?' | '#' | '\'' | '"' | '<' | '>'))
            .unwrap_or(tail.len());
        let authority = &tail[..end];
        match authority.rfind('@') {
            Some(mark) => {
                clean.push_str(HIDDEN);
                clean.push_str(&authority[mark..]);
            }
            None => clean.push_str(authority),
        }
        rest = &tail[end..];
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn userinfo_disappears_from_every_url() {
        let check = |text: &str, expected: &str| assert_eq!(hide_userinfo(text), expected);
        check("no url", "no url");
        check("https://example.com/x@y", "https://example.com/x@y");
        check("https://me:pw@example.com/x", "https://[redacted]@example.com/x");
        check("a 'https://t@h/x' and http://u:p%40@h2", "a 'https://[redacted]@h/x' and http://[redacted]@h2");
        check("https://me:p@ss@h/x", "https://[redacted]@h/x");
    }

    #[test]
    fn a_url_is_shown_without_secrets() {
        let url = Url::parse("https://me:pw@example.com/a?X-Signature=secret#f").unwrap();
        assert_eq!(printable(&url), "https://example.com/a?…");
    }

    #[test]
    fn escaping_is_complete_and_reversible() {
        let hostile = "p@ss:w/o\nrd%#é";
        let encoded = percent_encode(hostile);
        assert!(encoded.chars().all(|char| char.is_ascii_alphanumeric() || "-._~%".contains(char)));
        assert_eq!(percent_decode(&encoded), hostile);
    }
}
