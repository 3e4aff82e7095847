//! A repository's address: what is allowed, how it is printed, which host its credentials belong to.

/// A git URL that was checked, with its credentials taken out.
#[derive(Clone, PartialEq, Eq)]
pub struct Repository {
    /// What git is given. Holds no secret.
    pub url: String,
    /// How it is reached.
    pub transport: Transport,
    /// User and password that were written into the URL.
    pub userinfo: Option<(String, String)>,
}

impl std::fmt::Debug for Repository {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Repository").field("url", &self.url).finish_non_exhaustive()
    }
}

/// How a repository is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// `http` or `https`; the origin is `scheme://host[:port]`.
    Http {
        /// `http` or `https`.
        scheme: String,
        /// Host, and the port if one is given.
        authority: String,
    },
    /// `ssh://…` or `user@host:path`.
    Ssh,
    /// A directory on this machine; for tests.
    File,
}

/// Why an address is refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the repository address is refused: {problem}; use https://, http://, ssh:// or git@host:path")]
pub struct BadRepository {
    problem: String,
}

impl Repository {
    /// Checks an address. `allow_file` is for tests.
    pub fn parse(address: &str, allow_file: bool) -> Result<Self, BadRepository> {
        let refuse = |problem: &str| Err(BadRepository { problem: problem.to_owned() });
        let address = address.trim();
        if address.is_empty() {
            return refuse("it is empty");
        }
        if address.starts_with('-') {
            return refuse("it starts with `-`, which git would take for an option");
        }
        if address.chars().any(|char| char.is_control() || char.is_whitespace()) {
            return refuse("it contains white space or control characters");
        }
        if let Some((scheme, rest)) = address.split_once("://") {
            let scheme = scheme.to_ascii_lowercase();
            let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
            let (userinfo, host) = match authority.rsplit_once('@') {
                Some((userinfo, host)) => (Some(userinfo), host),
                None => (None, authority),
            };
            if scheme != "file" && (host.is_empty() || host.starts_with('-')) {
                return refuse("it names no host");
            }
            return match scheme.as_str() {
                "http" | "https" => Ok(Self {
                    url: format!("{scheme}://{host}{path}"),
                    transport: Transport::Http { scheme, authority: host.to_owned() },
                    userinfo: userinfo.map(|userinfo| {
                        let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
                        (percent_decode(user), percent_decode(password))
                    }),
                }),
                "ssh" => {
                    // A password in an ssh URL is never used by ssh; the user is part of the address.
                    let user = userinfo.map(|userinfo| userinfo.split(':').next().unwrap_or_default());
                    if user.is_some_and(|user| user.starts_with('-')) {
                        return refuse("its user starts with `-`");
                    }
                    let user = user.map(|user| format!("{user}@")).unwrap_or_default();
                    Ok(Self { url: format!("ssh://{user}{host}{path}"), transport: Transport::Ssh, userinfo: None })
                }
                "file" if allow_file => {
                    Ok(Self { url: address.to_owned(), transport: Transport::File, userinfo: None })
                }
                other => refuse(&format!("`{other}` is not an allowed protocol")),
            };
        }
        match address.split_once(':') {
            Some((user_host, path))
                if user_host.split_once('@').is_some_and(|(user, host)| {
                    let plain = |text: &str| {
                        !text.is_empty()
                            && !text.starts_with('-')
                            && text.chars().all(|char| char.is_ascii_alphanumeric() || "._-".contains(char))
                    };
                    plain(user) && plain(host)
                }) && !path.is_empty()
                    && !path.starts_with(':') =>
            {
                Ok(Self { url: address.to_owned(), transport: Transport::Ssh, userinfo: None })
            }
            _ => refuse("it is not a URL"),
        }
    }
}

/// Checks a ref: no option, nothing that git reads as a range or a refspec.
pub fn check_ref(name: &str) -> Result<(), String> {
    let bad = name.is_empty()
        || name.starts_with(['-', '/', '+'])
        || name.ends_with(['/', '.'])
        || name.contains("..")
        || name.contains("@{")
        || name.contains("//")
        || name.split('/').any(|part| part.strip_suffix(".lock").is_some())
        || name.chars().any(|char| char.is_control() || char.is_whitespace() || "~^:?*[\\".contains(char));
    if bad { Err(format!("`{name}` is not a branch, tag or commit name")) } else { Ok(()) }
}

/// Escapes everything that has a meaning in a URL's userinfo.
pub fn percent_encode(text: &str) -> String {
    use std::fmt::Write as _;
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// What [`percent_encode`] escaped.
pub fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match (bytes[at], hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                at += 3;
            }
            (byte, _) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_transports_are_allowed() {
        let allowed = |address: &str, url: &str| {
            assert_eq!(Repository::parse(address, false).map(|repository| repository.url), Ok(url.to_owned()));
        };
        allowed("https://example.com/a/b.git", "https://example.com/a/b.git");
        allowed("HTTP://example.com:8080/a", "http://example.com:8080/a");
        allowed("git@github.com:a/b.git", "git@github.com:a/b.git");
        allowed("ssh://git:unused@h:22/a", "ssh://git@h:22/a");
        for bad in [
            "",
            "-oProxyCommand=x",
            "--upload-pack=x",
            "file:///etc",
            "ext::sh -c x",
            "ext::sh",
            "git://h/a",
            "/etc/repo",
            "../repo",
            "ssh://-oProxyCommand=x/a",
            "ssh://-o@h/a",
            "git@-oProxyCommand=x:a",
            "https:///a",
            "https://h/a b",
            "host:path",
            "a@b::x",
        ] {
            assert!(Repository::parse(bad, false).is_err(), "{bad}");
        }
        assert!(Repository::parse("file:///x", true).is_ok());
    }

    #[test]
    fn credentials_in_the_url_are_taken_out() {
        let repository = Repository::parse("https://me:p%40ss@example.com:1/x", false).unwrap();
        assert_eq!(repository.url, "https://example.com:1/x");
        assert_eq!(repository.userinfo, Some(("me".to_owned(), "p@ss".to_owned())));
        assert!(!format!("{repository:?}").contains("p@ss"));
    }

    #[test]
    fn refs_cannot_be_options_or_ranges() {
        for good in ["HEAD", "main", "feature/x-1", "v1.2.3", "a94a8fe5ccb19ba61c4c0873d391e987982fbbd3"] {
            assert!(check_ref(good).is_ok(), "{good}");
        }
        for bad in ["", "-x", "--upload-pack=x", "a..b", "a:b", "+a", "a b", "a~1", "a^", "@{u}", "a\n", "refs/*"] {
            assert!(check_ref(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn escaping_is_complete_and_reversible() {
        let hostile = "p@ss:w/o\nrd%#é";
        let encoded = percent_encode(hostile);
        assert!(encoded.chars().all(|char| char.is_ascii_alphanumeric() || "-._~%".contains(char)));
        assert_eq!(percent_decode(&encoded), hostile);
    }
}
