//! Generated secrets.

use std::{fs::File, io::Read as _};

/// A password of 32 random bytes, as hexadecimal digits: it needs no quoting anywhere.
pub fn password() -> Result<String, kube::Error> {
    let mut bytes = [0_u8; 32];
    File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes)).map_err(kube::Error::ReadEvents)?;
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    Ok(digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect())
}
