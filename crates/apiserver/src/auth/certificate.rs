//! The subject of a client certificate.
//!
//! TLS has verified the certificate; this walks its DER to the subject, in which the common name is the user and every
//! organization a group.

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const VERSION: u8 = 0xa0;
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

/// One DER value and the bytes after it.
struct Item<'a> {
    tag: u8,
    content: &'a [u8],
    rest: &'a [u8],
}

fn item(bytes: &[u8]) -> Option<Item<'_>> {
    let (&tag, bytes) = bytes.split_first()?;
    let (&first, mut bytes) = bytes.split_first()?;
    let length = if first < 0x80 {
        usize::from(first)
    } else {
        let (number, rest) = bytes.split_at_checked(usize::from(first & 0x7f))?;
        bytes = rest;
        number.iter().try_fold(0usize, |sum, &byte| sum.checked_mul(256)?.checked_add(usize::from(byte)))?
    };
    let (content, rest) = bytes.split_at_checked(length)?;
    Some(Item { tag, content, rest })
}

fn of(tag: u8, bytes: &[u8]) -> Option<Item<'_>> {
    item(bytes).filter(|item| item.tag == tag)
}

/// The common name and the organizations of a certificate.
pub(crate) fn subject(der: &[u8]) -> Option<(String, Vec<String>)> {
    let certificate = of(SEQUENCE, der)?;
    let mut rest = of(SEQUENCE, certificate.content)?.content;
    let first = item(rest)?;
    if first.tag == VERSION {
        rest = first.rest;
    }
    // Skip serial number, signature algorithm, issuer and validity.
    for _ in 0..4 {
        rest = item(rest)?.rest;
    }
    let mut names = of(SEQUENCE, rest)?.content;
    let mut user = None;
    let mut groups = Vec::new();
    while let Some(set) = of(SET, names) {
        names = set.rest;
        let attribute = of(SEQUENCE, set.content)?;
        let identifier = of(OBJECT_IDENTIFIER, attribute.content)?;
        let value = String::from_utf8(item(identifier.rest)?.content.to_vec()).ok()?;
        match identifier.content {
            COMMON_NAME => user = Some(value),
            ORGANIZATION => groups.push(value),
            _ => {}
        }
    }
    Some((user?, groups))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    #[test]
    fn user_and_groups_are_found_in_a_certificate() {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "system:masters");
        params.distinguished_name.push(DnType::CommonName, "adminü");
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        assert_eq!(subject(certificate.der()), Some(("adminü".to_owned(), vec!["system:masters".to_owned()])));
    }

    #[test]
    fn damaged_bytes_have_no_subject() {
        let certificate = CertificateParams::new(vec![]).unwrap().self_signed(&KeyPair::generate().unwrap()).unwrap();
        for length in 0..60 {
            assert_eq!(subject(&certificate.der()[..length]), None);
        }
    }
}
