//! Credentials for a repository, from its Secret.

/// A token service ignores the user but refuses an empty one.
const TOKEN_USER: &str = "x-access-token";

/// Credentials for a repository. `Debug` shows none of them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// User for https.
    pub username: Option<String>,
    /// Password or token for https.
    pub password: Option<String>,
    /// Private key for ssh.
    pub ssh_key: Option<String>,
    /// Lines of known_hosts. Without them any host key is accepted.
    pub known_hosts: Option<String>,
}

impl Credentials {
    /// User and password for https. Many Secrets are created from files, with a line end that belongs to neither. A user
    /// name alone is a token.
    pub fn login(&self) -> Option<(&str, &str)> {
        match (self.username.as_deref().map(str::trim_end), self.password.as_deref().map(str::trim_end)) {
            (None, None) => None,
            (Some(token), None) => Some((token, "")),
            (user, Some(password)) => Some((user.unwrap_or(TOKEN_USER), password)),
        }
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Credentials")
            .field("username", &self.username.is_some())
            .field("password", &self.password.is_some())
            .field("ssh_key", &self.ssh_key.is_some())
            .field("known_hosts", &self.known_hosts.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_has_a_user_and_no_line_ends() {
        let login = |username: Option<&str>, password: Option<&str>| Credentials {
            username: username.map(str::to_owned),
            password: password.map(str::to_owned),
            ..Credentials::default()
        };
        assert_eq!(login(Some("me\n"), Some("pw\r\n")).login(), Some(("me", "pw")));
        assert_eq!(login(None, Some("token")).login(), Some(("x-access-token", "token")));
        assert_eq!(login(Some("token"), None).login(), Some(("token", "")));
        assert_eq!(login(None, None).login(), None);
        assert!(!format!("{:?}", login(Some("me"), Some("hunter2"))).contains("hunter2"));
    }
}
