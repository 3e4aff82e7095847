//! Sessions of the page: the user or the token of a login, in an encrypted cookie.
//!
//! The server stores nothing, so sessions survive a restart and replicas share them, as long as they
//! have the same key. Only this server can read or make such a cookie.

use http::{HeaderMap, HeaderValue, header};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    User,
    seal::{Error, Seal},
};
use crate::auth::random;

/// Name of the cookie.
const COOKIE: &str = "kubeopencode-session";
/// Lifetime of a session. The token inside may expire earlier.
pub const LIFE: SignedDuration = SignedDuration::from_hours(12);

/// The owner of a session.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Holder {
    /// The user of this token, which is reviewed for every request.
    #[serde(rename = "t")]
    Token(String),
    /// A user whom an identity provider authenticated.
    #[serde(rename = "p")]
    Person {
        /// The provider. Sessions of another provider are refused.
        issuer: String,
        /// The authenticated user.
        user: User,
    },
    /// The owner of the machine, by a one-time code.
    #[serde(rename = "o")]
    Owner,
}

/// The content of a session cookie.
#[derive(Clone, Serialize, Deserialize)]
pub struct Session {
    /// The owner of the session.
    #[serde(rename = "h")]
    pub holder: Holder,
    /// CSRF token that changes must carry.
    #[serde(rename = "c")]
    pub csrf: String,
    /// End of the session.
    #[serde(rename = "e")]
    pub expires: Timestamp,
}

/// Creates and reads sessions and other encrypted cookies.
pub struct Sessions {
    seal: Seal,
    secure: bool,
}

impl Sessions {
    /// Sessions encrypted with `key`. With `secure`, cookies are marked `Secure`.
    pub fn new(key: &[u8; 32], secure: bool) -> Result<Self, Error> {
        Ok(Self { seal: Seal::new(key)?, secure })
    }

    /// A new session, and the `Set-Cookie` header for the browser.
    pub fn start(&self, holder: Holder, life: SignedDuration, now: Timestamp) -> Result<(Session, HeaderValue), Error> {
        let expires = now.checked_add(life).unwrap_or(now);
        let session = Session { holder, csrf: random::text(24)?, expires };
        let value = self.seal.close(COOKIE, &session)?;
        Ok((session, self.header(COOKIE, "/", "Strict", &value, life.as_secs())))
    }

    /// The session in the cookie of a request; `None` if it is forged, damaged or expired.
    pub fn of(&self, headers: &HeaderMap, now: Timestamp) -> Option<Session> {
        let session: Session = self.seal.open(COOKIE, &cookie(headers, COOKIE)?)?;
        (session.expires > now).then_some(session)
    }

    /// The `Set-Cookie` header that removes a session.
    pub fn end(&self) -> HeaderValue {
        self.header(COOKIE, "/", "Strict", "", 0)
    }

    /// A `Set-Cookie` header with an encrypted `value` that the browser sends below `path`, also when another site
    /// redirects there.
    pub fn keep(
        &self,
        name: &str,
        path: &str,
        value: &impl Serialize,
        life: SignedDuration,
    ) -> Result<HeaderValue, Error> {
        Ok(self.header(name, path, "Lax", &self.seal.close(name, value)?, life.as_secs()))
    }

    /// The value that [`Self::keep`] encrypted.
    pub fn kept<T: DeserializeOwned>(&self, headers: &HeaderMap, name: &str) -> Option<T> {
        self.seal.open(name, &cookie(headers, name)?)
    }

    /// The `Set-Cookie` header that removes the value of [`Self::keep`].
    pub fn forget(&self, name: &str, path: &str) -> HeaderValue {
        self.header(name, path, "Lax", "", 0)
    }

    fn header(&self, name: &str, path: &str, same_site: &str, value: &str, seconds: i64) -> HeaderValue {
        let secure = if self.secure { "; Secure" } else { "" };
        let text = format!("{name}={value}; Path={path}; HttpOnly; SameSite={same_site}; Max-Age={seconds}{secure}");
        HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""))
    }
}

/// The value of a cookie.
fn cookie(headers: &HeaderMap, wanted: &str) -> Option<String> {
    let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(key: u8) -> Sessions {
        Sessions::new(&[key; 32], false).unwrap()
    }

    /// A request of the browser that got this header.
    fn brought(header: &HeaderValue) -> HeaderMap {
        HeaderMap::from_iter([(header::COOKIE, header.clone())])
    }

    #[test]
    fn a_session_comes_back_as_it_was_made() {
        let holder = Holder::Token("token".to_owned());
        let (made, header) = sessions(1).start(holder.clone(), LIFE, Timestamp::UNIX_EPOCH).unwrap();
        let text = header.to_str().unwrap();
        assert!(text.contains("HttpOnly") && text.contains("SameSite=Strict") && !text.contains("token"), "{text}");
        let opened = sessions(1).of(&brought(&header), Timestamp::UNIX_EPOCH).unwrap();
        assert!(opened.holder == holder && opened.csrf == made.csrf);
    }

    #[test]
    fn what_another_made_and_what_is_over_is_worthless() {
        let (made, header) = sessions(1).start(Holder::Owner, LIFE, Timestamp::UNIX_EPOCH).unwrap();
        assert!(sessions(2).of(&brought(&header), Timestamp::UNIX_EPOCH).is_none());
        assert!(sessions(1).of(&brought(&header), made.expires).is_none());
    }

    #[test]
    fn what_is_kept_for_a_login_is_no_session() {
        let kept = sessions(1).keep("login", "/login", &"state", LIFE).unwrap();
        assert!(kept.to_str().unwrap().contains("SameSite=Lax"));
        assert_eq!(sessions(1).kept::<String>(&brought(&kept), "login").as_deref(), Some("state"));
        let renamed = kept.to_str().unwrap().replacen("login=", "kubeopencode-session=", 1);
        assert!(sessions(1).of(&brought(&renamed.parse().unwrap()), Timestamp::UNIX_EPOCH).is_none());
    }
}
