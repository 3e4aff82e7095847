//! Random values from the system's generator.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom as _, SystemRandom};

/// The system provides no randomness.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the system gives no randomness")]
pub struct NoRandomness;

/// `N` random bytes.
pub fn bytes<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(bytes)
}

/// `length` random bytes as base64url text.
pub fn text(length: usize) -> Result<String, NoRandomness> {
    let mut bytes = vec![0; length];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
