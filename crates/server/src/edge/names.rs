//! Validation of names from paths, before they become part of another path.

use crate::error::ApiError;

/// Validates the name of an object. Other text could change the path that it is inserted into.
pub fn object(name: &str) -> Result<(), ApiError> {
    if is_subdomain(name, 253) {
        return Ok(());
    }
    Err(ApiError::bad_parameter(
        "name",
        "a name has only a-z, 0-9, '-' and '.', and starts and ends with a letter or digit",
    ))
}

/// Validates the name of a namespace.
pub fn namespace(name: &str) -> Result<(), ApiError> {
    if is_subdomain(name, 63) && !name.contains('.') {
        return Ok(());
    }
    Err(ApiError::bad_parameter(
        "namespace",
        "a namespace has only a-z, 0-9 and '-', and starts and ends with a letter or digit",
    ))
}

fn is_subdomain(name: &str, longest: usize) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let label = |label: &str| {
        let bytes = label.as_bytes();
        matches!((bytes.first(), bytes.last()), (Some(&first), Some(&last)) if inner(first) && inner(last))
            && bytes.iter().all(|&byte| inner(byte) || byte == b'-')
    };
    name.len() <= longest && name.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_path() {
        for name in ["a", "a-b.c", "0"] {
            assert!(object(name).is_ok(), "{name}");
        }
        for name in ["", ".", "..", "../x", "a/b", "a%2fb", "A", "a..b", "-a", "a\0", "a?x", "ä", &"a".repeat(254)] {
            assert!(object(name).is_err(), "{name}");
        }
        assert!(namespace("team-a").is_ok());
        for name in ["a.b", "", "..", &"a".repeat(64)] {
            assert!(namespace(name).is_err(), "{name}");
        }
    }
}
