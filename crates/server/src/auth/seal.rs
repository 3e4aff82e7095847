//! Authenticated encryption of cookie values.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Serialize, de::DeserializeOwned};

use crate::auth::random;

/// Largest cookie that browsers keep, in bytes.
const LARGEST: usize = 4000;

/// Why a value cannot be encrypted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system provides no randomness.
    #[error(transparent)]
    Random(#[from] random::NoRandomness),
    /// The key has the wrong length.
    #[error("the session key must have 32 bytes")]
    Key,
    /// The value is too long for a cookie.
    #[error("it is too long for a cookie; use a bearer token instead")]
    TooLong,
}

/// Encrypts and decrypts values with one key.
pub struct Seal(LessSafeKey);

impl Seal {
    /// A seal with this key.
    pub fn new(key: &[u8; 32]) -> Result<Self, Error> {
        Ok(Self(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).map_err(|_| Error::Key)?)))
    }

    /// Encrypts a value. It can be decrypted for the same `purpose` only.
    pub fn close(&self, purpose: &str, value: &impl Serialize) -> Result<String, Error> {
        let mut bytes = serde_json::to_vec(value).map_err(|_| Error::TooLong)?;
        let nonce = random::bytes::<NONCE_LEN>()?;
        self.0
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(purpose), &mut bytes)
            .map_err(|_| Error::TooLong)?;
        let text = URL_SAFE_NO_PAD.encode([nonce.as_slice(), &bytes].concat());
        if text.len() > LARGEST { Err(Error::TooLong) } else { Ok(text) }
    }

    /// Decrypts a value of [`Self::close`]; `None` if it is forged or damaged.
    pub fn open<T: DeserializeOwned>(&self, purpose: &str, text: &str) -> Option<T> {
        let mut bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let plain = self.0.open_in_place(nonce, Aad::from(purpose), sealed).ok()?;
        serde_json::from_slice(plain).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal(key: u8) -> Seal {
        Seal::new(&[key; 32]).unwrap()
    }

    #[test]
    fn what_another_made_what_was_changed_and_what_was_made_for_something_else_is_worthless() {
        let good = seal(1).close("a", &"value").unwrap();
        assert_eq!(seal(1).open::<String>("a", &good).as_deref(), Some("value"));
        assert_eq!(seal(2).open::<String>("a", &good), None);
        assert_eq!(seal(1).open::<String>("b", &good), None);
        let mut bytes = URL_SAFE_NO_PAD.decode(&good).unwrap();
        for index in 0..bytes.len() {
            bytes[index] ^= 1;
            assert_eq!(seal(1).open::<String>("a", &URL_SAFE_NO_PAD.encode(&bytes)), None, "{index}");
            bytes[index] ^= 1;
        }
        for text in ["", "AAAA", "not base64!"] {
            assert_eq!(seal(1).open::<String>("a", text), None);
        }
    }

    #[test]
    fn what_no_browser_would_keep_is_refused() {
        assert!(matches!(seal(1).close("a", &"x".repeat(LARGEST)), Err(Error::TooLong)));
    }
}
