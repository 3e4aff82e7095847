//! Address policy: which addresses may be reached for a user.
//!
//! A link-local address, such as the metadata service of a cloud with its credentials, is never what a user means.
//! [`check_url`] checks addresses that are written in a URL, [`PolicyResolver`] the addresses that a name resolves to,
//! and [`redirects`] the targets of redirects.

use std::{
    error::Error,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use reqwest::{
    Url,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect,
};

/// More redirects than this are a loop or a mistake.
const MAX_REDIRECTS: usize = 10;

/// Link-local addresses, and the metadata services of clouds that are not link-local.
const LINK_LOCAL: [IpNet; 6] = [
    v4([169, 254, 0, 0], 16),
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
    // Alibaba, Azure, Oracle, and Amazon over IPv6.
    v4([100, 100, 100, 200], 32),
    v4([168, 63, 129, 16], 32),
    v4([192, 0, 0, 192], 32),
    v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128),
];
/// Addresses that Linux connects to this machine.
const LOOPBACK: [IpNet; 4] =
    [v4([127, 0, 0, 0], 8), v4([0, 0, 0, 0], 8), v6([0, 0, 0, 0, 0, 0, 0, 1], 128), v6([0, 0, 0, 0, 0, 0, 0, 0], 128)];
/// Addresses of networks that are not the internet.
const PRIVATE: [IpNet; 5] = [
    v4([10, 0, 0, 0], 8),
    v4([172, 16, 0, 0], 12),
    v4([192, 168, 0, 0], 16),
    // Shared by the customers of a provider (RFC 6598).
    v4([100, 64, 0, 0], 10),
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7),
];
/// Multicast and broadcast.
const MANY: [IpNet; 3] = [v4([224, 0, 0, 0], 4), v4([255, 255, 255, 255], 32), v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8)];

/// Mapped addresses and NAT64: the last 32 bits are an IPv4 address.
const EMBEDDED_LAST: [Ipv6Net; 2] = [
    Ipv6Net::new_assert(Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96),
    Ipv6Net::new_assert(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96),
];
/// 6to4: the 32 bits after the prefix are an IPv4 address.
const SIX_TO_FOUR: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16);

const fn v4(octets: [u8; 4], length: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::from_octets(octets), length))
}

const fn v6(segments: [u16; 8], length: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::from_segments(segments), length))
}

/// Whether this machine itself may be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loopback {
    /// On one machine every server, ours too, is on a loopback address.
    Allowed,
    /// Only other machines may be reached.
    Refused,
}

/// Which addresses may be reached. Link-local and multicast addresses never may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub loopback: Loopback,
    /// Ranges that the operator refuses.
    denied: Arc<[IpNet]>,
}

impl From<Loopback> for Policy {
    fn from(loopback: Loopback) -> Self {
        Self { loopback, denied: Arc::default() }
    }
}

/// A text that is not a list of ranges.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is neither `private` nor a range of addresses such as 10.0.0.0/8")]
pub struct BadRange(String);

impl Policy {
    /// The policy that also refuses these ranges, separated by commas: `private`, a range or an address.
    pub fn deny(self, ranges: &str) -> Result<Self, BadRange> {
        let mut denied = self.denied.to_vec();
        for item in ranges.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let range = || item.parse().ok().or_else(|| item.parse().ok().map(|address: IpAddr| address.into()));
            match item {
                "private" => denied.extend(PRIVATE),
                _ => denied.push(range().ok_or_else(|| BadRange(item.to_owned()))?),
            }
        }
        Ok(Self { denied: denied.into(), ..self })
    }
}

/// Why an address is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// 169.254.0.0/16, fe80::/10 or a metadata service.
    #[error("is a link-local or metadata address and may not be read")]
    LinkLocal,
    /// A loopback or unspecified address.
    #[error("is this machine; only other machines may be read")]
    Loopback,
    /// Multicast or broadcast.
    #[error("is a multicast or broadcast address")]
    Many,
    /// A range of [`Policy::deny`].
    #[error("is in a range of addresses that the operator refuses")]
    Denied,
}

/// Checks one address.
pub fn check(address: IpAddr, policy: &Policy) -> Result<(), Refused> {
    let address = embedded(address);
    let within = |ranges: &[IpNet]| ranges.iter().any(|range| range.contains(&address));
    if within(&LINK_LOCAL) {
        Err(Refused::LinkLocal)
    } else if policy.loopback == Loopback::Refused && within(&LOOPBACK) {
        Err(Refused::Loopback)
    } else if within(&MANY) {
        Err(Refused::Many)
    } else if within(&policy.denied) {
        Err(Refused::Denied)
    } else {
        Ok(())
    }
}

/// The IPv4 address inside an IPv6 address, or the address itself.
fn embedded(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let octets = v6.octets();
    let v4 = |at: usize| Ipv4Addr::new(octets[at], octets[at + 1], octets[at + 2], octets[at + 3]).into();
    if EMBEDDED_LAST.iter().any(|range| range.contains(&v6)) {
        v4(12)
    } else if SIX_TO_FOUR.contains(&v6) {
        v4(2)
    } else {
        address
    }
}

/// Checks the address in a URL, if the host is one: it never reaches a resolver.
pub fn check_url(url: &Url, policy: &Policy) -> Result<(), Refused> {
    let host = url.host_str().unwrap_or_default();
    match host.trim_start_matches('[').trim_end_matches(']').parse() {
        Ok(address) => check(address, policy),
        Err(_) => Ok(()),
    }
}

/// Resolves a host that another program will connect to, and checks its addresses. A name that does not resolve is left
/// to that program, which reports it.
pub async fn check_host(host: &str, policy: &Policy) -> Result<(), Refused> {
    // The port is not used: only the addresses count.
    let Ok(addresses) = tokio::net::lookup_host((host, 0)).await else { return Ok(()) };
    addresses.into_iter().try_for_each(|address| check(address.ip(), policy))
}

/// A target that is refused: a name, or an address that a redirect leads to.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RefusedTarget {
    /// A name with a refused address.
    #[error("{name} resolves to {address}, which {refused}")]
    Name { name: String, address: IpAddr, refused: Refused },
    /// A redirect to a refused address.
    #[error("it redirects to {host}, which {refused}")]
    Redirect { host: String, refused: Refused },
}

impl RefusedTarget {
    /// The refusal that made a request fail, if one did.
    pub fn behind(error: &reqwest::Error) -> Option<&Self> {
        let mut cause = error.source();
        while let Some(inner) = cause {
            if let Some(refused) = inner.downcast_ref() {
                return Some(refused);
            }
            cause = inner.source();
        }
        None
    }
}

/// Follows redirects, but not to a refused address.
pub(crate) fn redirects(policy: Policy) -> redirect::Policy {
    redirect::Policy::custom(move |attempt| {
        if let Err(refused) = check_url(attempt.url(), &policy) {
            let host = attempt.url().host_str().unwrap_or_default().to_owned();
            return attempt.error(RefusedTarget::Redirect { host, refused });
        }
        if attempt.previous().len() > MAX_REDIRECTS { attempt.stop() } else { attempt.follow() }
    })
}

/// A resolver that returns only allowed addresses. A name with one refused address is refused: a second look-up could
/// return another of its addresses.
#[derive(Debug, Clone)]
pub(crate) struct PolicyResolver(pub(crate) Policy);

impl Resolve for PolicyResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.0.clone();
        Box::pin(async move {
            let name = name.as_str().to_owned();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            for address in &found {
                if let Err(refused) = check(address.ip(), &policy) {
                    return Err(RefusedTarget::Name { name, address: address.ip(), refused }.into());
                }
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_local_is_refused_in_every_spelling() {
        let check = |text: &str, expected: Result<(), Refused>| {
            assert_eq!(check(text.parse().unwrap(), &Loopback::Refused.into()), expected, "{text}");
        };
        let (local, loopback) = (Err(Refused::LinkLocal), Err(Refused::Loopback));
        check("169.254.169.254", local);
        check("::ffff:169.254.169.254", local);
        check("64:ff9b::a9fe:a9fe", local);
        check("2002:a9fe:a9fe::1", local);
        check("fe80::1", local);
        check("febf::1", local);
        check("fd00:ec2::254", local);
        check("100.100.100.200", local);
        check("168.63.129.16", local);
        check("192.0.0.192", local);
        check("127.0.0.1", loopback);
        check("0.0.0.0", loopback);
        check("::1", loopback);
        check("::", loopback);
        check("::ffff:127.0.0.1", loopback);
        check("224.0.0.1", Err(Refused::Many));
        check("ff02::1", Err(Refused::Many));
        check("255.255.255.255", Err(Refused::Many));
        check("::ffff:224.0.0.1", Err(Refused::Many));
        check("10.0.0.1", Ok(()));
        check("93.184.216.34", Ok(()));
        check("2606:2800:220:1::1", Ok(()));
        check("fec0::1", Ok(()));
    }

    #[test]
    fn loopback_is_allowed_only_on_request_and_link_local_never() {
        let allowed = Policy::from(Loopback::Allowed);
        assert_eq!(check(Ipv4Addr::LOCALHOST.into(), &allowed), Ok(()));
        assert_eq!(check("169.254.1.1".parse().unwrap(), &allowed), Err(Refused::LinkLocal));
    }

    #[test]
    fn an_operator_refuses_private_addresses_and_ranges() {
        let policy = |ranges: &str| Policy::from(Loopback::Refused).deny(ranges);
        let refused = |ranges: &str, address: &str| check(address.parse().unwrap(), &policy(ranges).unwrap()).err();
        for address in ["10.1.2.3", "172.31.0.1", "192.168.1.1", "100.64.0.1", "fd00::1", "::ffff:10.1.2.3"] {
            assert_eq!(refused("", address), None, "{address}");
            assert_eq!(refused("private", address), Some(Refused::Denied), "{address}");
        }
        assert_eq!(refused("private, 203.0.113.0/24,198.51.100.7", "203.0.113.9"), Some(Refused::Denied));
        assert_eq!(refused("203.0.113.0/24,198.51.100.7", "198.51.100.7"), Some(Refused::Denied));
        assert_eq!(refused("203.0.113.0/24,198.51.100.7", "198.51.100.8"), None);
        assert_eq!(refused("203.0.113.0/24", "127.0.0.1"), Some(Refused::Loopback));
        for text in ["10.0.0.0/33", "10.0.0", "everything"] {
            assert_eq!(
                policy(text).unwrap_err().to_string(),
                format!("'{text}' is neither `private` nor a range of addresses such as 10.0.0.0/8")
            );
        }
    }

    #[test]
    fn an_address_is_recognised_in_every_spelling_of_a_url() {
        for url in [
            "http://169.254.169.254/latest/meta-data",
            "http://2852039166/",
            "http://0xa9fea9fe/",
            "http://169.254.43518/",
            "http://[fe80::1]/",
            "http://[::ffff:a9fe:a9fe]/",
        ] {
            let checked = check_url(&Url::parse(url).unwrap(), &Loopback::Allowed.into());
            assert_eq!(checked, Err(Refused::LinkLocal), "{url}");
        }
        assert_eq!(check_url(&Url::parse("https://example.com/").unwrap(), &Loopback::Refused.into()), Ok(()));
    }

    #[tokio::test]
    async fn a_host_is_checked_by_its_addresses() {
        let (allowed, refused) = (Policy::from(Loopback::Allowed), Policy::from(Loopback::Refused));
        assert_eq!(check_host("169.254.169.254", &allowed).await, Err(Refused::LinkLocal));
        assert_eq!(check_host("127.0.0.1", &refused).await, Err(Refused::Loopback));
        assert_eq!(check_host("127.0.0.1", &allowed).await, Ok(()));
    }
}
