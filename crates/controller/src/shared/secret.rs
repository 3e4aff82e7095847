//! Generated secrets.

use std::{fs::File, io::Read as _};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

/// A password of 32 random bytes, as hexadecimal digits: it needs no quoting anywhere.
pub fn password() -> Result<String, kube::Error> {
    let digits = random()?.into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
    Ok(digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect())
}

/// A token for a URL: 32 random bytes as base64url without padding, in the form of upstream's tokens.
pub fn token() -> Result<String, kube::Error> {
    Ok(URL_SAFE_NO_PAD.encode(random()?))
}

fn random() -> Result<[u8; 32], kube::Error> {
    let mut bytes = [0_u8; 32];
    File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes)).map_err(kube::Error::ReadEvents)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_32_bytes_as_unpadded_base64url() {
        let tokens = [token().unwrap(), token().unwrap()];
        for token in &tokens {
            assert_eq!((token.len(), URL_SAFE_NO_PAD.decode(token).unwrap().len()), (43, 32));
        }
        assert_ne!(tokens[0], tokens[1]);
        assert_eq!(password().unwrap().len(), 64);
    }
}
