//! One-time login codes, which `kubeopencode up` prints on its terminal.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use sha2::{Digest as _, Sha256};

use crate::auth::random;

/// Lifetime of an unused code.
const LIFE: Duration = Duration::from_mins(15);
/// Maximum number of unused codes; the oldest is dropped.
const MOST: usize = 32;

/// Issued codes that are not used yet.
#[derive(Debug, Default)]
pub struct Codes(Mutex<Vec<(Instant, [u8; 32])>>);

impl Codes {
    pub fn issue(&self) -> Result<String, random::NoRandomness> {
        let code = random::text(24)?;
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if codes.len() == MOST {
            codes.remove(0);
        }
        codes.push((Instant::now(), Sha256::digest(&code).into()));
        Ok(code)
    }

    /// Whether a code is valid. Each code is valid once.
    pub fn redeem(&self, code: &str) -> bool {
        let digest: [u8; 32] = Sha256::digest(code).into();
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|(issued, _)| issued.elapsed() < LIFE);
        let before = codes.len();
        codes.retain(|(_, known)| !bool::from(subtle::ConstantTimeEq::ct_eq(&known[..], &digest[..])));
        codes.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_works_once() {
        let codes = Codes::default();
        let code = codes.issue().unwrap();
        assert!(!codes.redeem("guess"));
        assert!(codes.redeem(&code));
        assert!(!codes.redeem(&code));
    }
}
