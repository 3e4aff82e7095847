//! Flags of `kubeopencode server` about an OpenID Connect provider.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::Context as _;
use server::Oidc;

/// Users of an OpenID Connect provider may log in. Kubernetes decides their rights: bind roles to
/// `oidc:<name>` and `oidc:<group>`. The server's own account needs the right to impersonate users and groups.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_field_names, reason = "a field is called as its flag")]
pub struct OidcArgs {
    /// Address of an OpenID Connect provider whose users may log in, exactly as in its tokens.
    #[arg(long, value_name = "URL", env = "KUBEOPENCODE_OIDC_ISSUER", requires_all = ["oidc_client_id", "base_url"])]
    oidc_issuer: Option<String>,
    /// Client ID of this server at the provider. Register `<base URL>/login/oidc/callback` as its redirect URI.
    #[arg(long, value_name = "ID", env = "KUBEOPENCODE_OIDC_CLIENT_ID", requires = "oidc_issuer")]
    oidc_client_id: Option<String>,
    /// File with the client's secret; without one this server is a public client.
    #[arg(long, value_name = "FILE", env = "KUBEOPENCODE_OIDC_CLIENT_SECRET_FILE", requires = "oidc_issuer")]
    oidc_client_secret_file: Option<PathBuf>,
    /// Name on the button: Sign in with NAME.
    #[arg(long, value_name = "NAME", default_value = "OpenID Connect", env = "KUBEOPENCODE_OIDC_NAME")]
    oidc_name: String,
    /// Claim that names the user.
    #[arg(long, value_name = "CLAIM", default_value = "email", env = "KUBEOPENCODE_OIDC_USERNAME_CLAIM")]
    oidc_username_claim: String,
    /// Prefix of every user name; may be empty. Names that begin with `system:` are always refused.
    #[arg(long, value_name = "PREFIX", default_value = "oidc:", env = "KUBEOPENCODE_OIDC_USERNAME_PREFIX")]
    oidc_username_prefix: String,
    /// Claim that lists groups.
    #[arg(long, value_name = "CLAIM", default_value = "groups", env = "KUBEOPENCODE_OIDC_GROUPS_CLAIM")]
    oidc_groups_claim: String,
    /// Prefix of every group name; may be empty. Groups that begin with `system:` never count.
    #[arg(long, value_name = "PREFIX", default_value = "oidc:", env = "KUBEOPENCODE_OIDC_GROUPS_PREFIX")]
    oidc_groups_prefix: String,
    /// Scopes to ask for besides `openid`, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "profile,email", env = "KUBEOPENCODE_OIDC_SCOPES")]
    oidc_scopes: Vec<String>,
    /// How many minutes a browser stays logged in.
    #[arg(long, value_name = "MINUTES", default_value_t = 480, value_parser = clap::value_parser!(u64).range(1..=10080))]
    oidc_session_minutes: u64,
    /// File with authorities to trust besides the system's, as PEM.
    #[arg(long, value_name = "FILE", env = "KUBEOPENCODE_OIDC_CA_FILE")]
    oidc_ca_file: Option<PathBuf>,
}

impl OidcArgs {
    /// The provider, if one is configured.
    pub fn provider(self) -> anyhow::Result<Option<Oidc>> {
        let (Some(issuer), Some(client_id)) = (self.oidc_issuer, self.oidc_client_id) else { return Ok(None) };
        let read = |path: PathBuf| fs::read(&path).with_context(|| format!("cannot read {}", path.display()));
        let secret = self.oidc_client_secret_file.map(read).transpose()?;
        let secret = secret.map(String::from_utf8).transpose().context("the client's secret is no text")?;
        Ok(Some(Oidc {
            issuer,
            client_id,
            client_secret: secret.map(|secret| secret.trim().to_owned()),
            name: self.oidc_name,
            username_claim: self.oidc_username_claim,
            username_prefix: self.oidc_username_prefix,
            groups_claim: self.oidc_groups_claim,
            groups_prefix: self.oidc_groups_prefix,
            scopes: self.oidc_scopes.into_iter().filter(|scope| !scope.is_empty()).collect(),
            session: Duration::from_mins(self.oidc_session_minutes),
            authorities: self.oidc_ca_file.map(read).transpose()?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[arg(long)]
        base_url: Option<String>,
        #[command(flatten)]
        oidc: OidcArgs,
    }

    fn parse(words: &[&str]) -> Result<Option<Oidc>, String> {
        let command = Command::try_parse_from([&["server"], words].concat()).map_err(|error| error.to_string())?;
        assert!(command.base_url.is_some() || words.is_empty());
        command.oidc.provider().map_err(|error| error.to_string())
    }

    #[test]
    fn without_a_provider_there_is_none_and_a_provider_needs_to_know_the_way_back() {
        assert_eq!(parse(&[]).unwrap(), None);
        let issuer = ["--oidc-issuer", "https://id.example"];
        assert!(parse(&issuer).is_err());
        assert!(parse(&[&issuer[..], &["--oidc-client-id", "page"]].concat()).is_err());
    }

    #[test]
    fn the_secret_is_read_from_its_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "hunter2\n").unwrap();
        let words =
            ["--oidc-issuer", "https://id.example", "--oidc-client-id", "page", "--base-url", "https://a.example"];
        let secret = ["--oidc-client-secret-file", file.path().to_str().unwrap()];
        let oidc = parse(&[&words[..], &secret].concat()).unwrap().unwrap();
        let expected = Oidc { client_secret: Some("hunter2".to_owned()), ..Oidc::new("https://id.example", "page") };
        assert!(oidc == expected, "{oidc:?}");
    }
}
