//! The address of a repository: which are allowed, and which host the credentials belong to.

use crate::userinfo::percent_decode;

/// A git URL that was checked, without its credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Repository {
    /// The address for git. Holds no secret.
    pub url: String,
    /// Protocol and host.
    pub transport: Transport,
    /// User and password from the URL.
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
    Ssh {
        /// Name or address, without a port.
        host: String,
    },
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
                    if path.len() < 2 {
                        return refuse("it has no path");
                    }
                    let Some(name) = host_name(host) else { return refuse("its host or port is not valid") };
                    let user = user.map(|user| format!("{user}@")).unwrap_or_default();
                    let transport = Transport::Ssh { host: name.to_owned() };
                    Ok(Self { url: format!("ssh://{user}{host}{path}"), transport, userinfo: None })
                }
                "file" if allow_file => {
                    Ok(Self { url: address.to_owned(), transport: Transport::File, userinfo: None })
                }
                other => refuse(&format!("`{other}` is not an allowed protocol")),
            };
        }
        let scp_like = address.split_once(':').and_then(|(place, path)| Some((place.split_once('@')?, path)));
        match scp_like {
            Some(((user, host), path))
                if is_plain(user) && is_plain(host) && !path.is_empty() && !path.starts_with(':') =>
            {
                let transport = Transport::Ssh { host: host.to_owned() };
                Ok(Self { url: address.to_owned(), transport, userinfo: None })
            }
            _ => refuse("it is not a URL"),
        }
    }
}

/// The host of `host`, `host:port` or `[address]:port`, if ssh cannot take it for anything else.
fn host_name(authority: &str) -> Option<&str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (address, rest) = rest.split_once(']')?;
            address.parse::<std::net::Ipv6Addr>().ok()?;
            let port = if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) };
            return port.is_none_or(is_port).then_some(address);
        }
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    (is_plain(host) && port.is_none_or(is_port)).then_some(host)
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

/// Whether a user or host has only usual characters. With a leading dash it would be an option of ssh.
fn is_plain(text: &str) -> bool {
    let usual = |char: char| char.is_ascii_alphanumeric() || "._-".contains(char);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(usual)
}

/// Checks a ref: no option, no range, no refspec.
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
    fn the_host_of_an_ssh_address_is_found() {
        for (address, host) in [
            ("git@github.com:a/b.git", Some("github.com")),
            ("ssh://git@h:2222/a/b", Some("h")),
            ("ssh://h/a", Some("h")),
            ("ssh://git@[2001:db8::1]:22/a", Some("2001:db8::1")),
            ("ssh://[2001:db8::1]/a", Some("2001:db8::1")),
            ("https://h/a", None),
            ("host:path", None),
            ("git@h:", None),
            ("a@b::x", None),
            ("ssh://h", None),
            ("ssh://h/", None),
            ("ssh://h:port/a", None),
            ("ssh://[h]/a", None),
            ("ssh://[::1]x/a", None),
            ("git@h:a b", None),
        ] {
            let found = match Repository::parse(address, false).map(|repository| repository.transport) {
                Ok(Transport::Ssh { host }) => Some(host),
                _ => None,
            };
            assert_eq!(found.as_deref(), host, "{address}");
        }
    }
}
