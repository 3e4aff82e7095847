//! Sessions of the page: what a person logged in with, sealed into their cookie.
//!
//! The server keeps nothing, so sessions survive a restart and any number of servers can share them, as long as they
//! have the same key. Only this server can read or make such a cookie.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderValue, header};
use jiff::{SignedDuration, Timestamp};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};

use crate::random;

/// Name of the cookie.
const COOKIE: &str = "kubeopencode-session";
/// How long a session lasts. Its token may end earlier.
const LIFE: SignedDuration = SignedDuration::from_hours(12);
/// Browsers keep no cookie larger than this.
const LARGEST: usize = 4000;

/// What a cookie holds.
#[derive(Clone, Serialize, Deserialize)]
pub struct Sealed {
    /// The token; none for the owner of the machine.
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// What the page must send with every change.
    #[serde(rename = "c")]
    pub csrf: String,
    /// It is worthless then.
    #[serde(rename = "e")]
    pub expires: Timestamp,
}

/// Makes and reads sessions.
pub struct Sessions {
    key: LessSafeKey,
    secure: bool,
}

/// Why no session can be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No randomness.
    #[error(transparent)]
    Random(#[from] random::NoRandomness),
    /// The key is not one.
    #[error("the session key must have 32 bytes")]
    Key,
    /// The token does not fit.
    #[error("the token is too long for a cookie; use it as a bearer token instead")]
    TooLong,
}

impl Sessions {
    /// Sessions under `key`. With `secure`, cookies travel by https only.
    pub fn new(key: &[u8; 32], secure: bool) -> Result<Self, Error> {
        let key = UnboundKey::new(&AES_256_GCM, key).map_err(|_| Error::Key)?;
        Ok(Self { key: LessSafeKey::new(key), secure })
    }

    /// A new session, and the header that gives it to the browser.
    pub fn start(&self, token: Option<String>, now: Timestamp) -> Result<(Sealed, HeaderValue), Error> {
        let expires = now.checked_add(LIFE).unwrap_or(now);
        let sealed = Sealed { token, csrf: random::text(24)?, expires };
        let mut bytes = serde_json::to_vec(&sealed).map_err(|_| Error::TooLong)?;
        let nonce = random::bytes::<NONCE_LEN>()?;
        self.key
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(COOKIE), &mut bytes)
            .map_err(|_| Error::TooLong)?;
        let value = URL_SAFE_NO_PAD.encode([nonce.as_slice(), &bytes].concat());
        if value.len() > LARGEST {
            return Err(Error::TooLong);
        }
        let header = self.header(&value, LIFE.as_secs());
        Ok((sealed, header))
    }

    /// The session in a cookie; `None` for one that is forged, damaged or over.
    pub fn open(&self, value: &str, now: Timestamp) -> Option<Sealed> {
        let mut bytes = URL_SAFE_NO_PAD.decode(value).ok()?;
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let plain = self.key.open_in_place(nonce, Aad::from(COOKIE), sealed).ok()?;
        let session: Sealed = serde_json::from_slice(plain).ok()?;
        (session.expires > now).then_some(session)
    }

    /// The header that takes a session away.
    pub fn end(&self) -> HeaderValue {
        self.header("", 0)
    }

    fn header(&self, value: &str, seconds: i64) -> HeaderValue {
        let secure = if self.secure { "; Secure" } else { "" };
        let text = format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
        HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""))
    }
}

/// The value of our cookie.
pub fn cookie(headers: &HeaderMap) -> Option<String> {
    let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, value)| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(key: u8) -> Sessions {
        Sessions::new(&[key; 32], false).unwrap()
    }

    fn value(header: &HeaderValue) -> String {
        let headers = HeaderMap::from_iter([(header::COOKIE, header.clone())]);
        cookie(&headers).unwrap()
    }

    #[test]
    fn a_session_comes_back_as_it_was_made() {
        let (made, header) = sessions(1).start(Some("token".to_owned()), Timestamp::UNIX_EPOCH).unwrap();
        let text = header.to_str().unwrap();
        assert!(text.contains("HttpOnly") && text.contains("SameSite=Strict") && !text.contains("token"), "{text}");
        let opened = sessions(1).open(&value(&header), Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!((opened.token.as_deref(), opened.csrf), (Some("token"), made.csrf));
    }

    #[test]
    fn what_another_made_what_was_changed_and_what_is_over_is_worthless() {
        let (made, header) = sessions(1).start(None, Timestamp::UNIX_EPOCH).unwrap();
        let good = value(&header);
        assert!(sessions(2).open(&good, Timestamp::UNIX_EPOCH).is_none());
        assert!(sessions(1).open(&good, made.expires).is_none());
        let mut bytes = URL_SAFE_NO_PAD.decode(&good).unwrap();
        for index in 0..bytes.len() {
            bytes[index] ^= 1;
            assert!(sessions(1).open(&URL_SAFE_NO_PAD.encode(&bytes), Timestamp::UNIX_EPOCH).is_none(), "{index}");
            bytes[index] ^= 1;
        }
        for text in ["", "AAAA", "not base64!"] {
            assert!(sessions(1).open(text, Timestamp::UNIX_EPOCH).is_none());
        }
    }

    #[test]
    fn a_token_that_no_browser_would_keep_is_refused() {
        assert!(matches!(sessions(1).start(Some("x".repeat(4000)), Timestamp::UNIX_EPOCH), Err(Error::TooLong)));
    }
}
