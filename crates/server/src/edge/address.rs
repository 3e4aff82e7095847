//! The client address of a request, and address ranges.

use std::{
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

use http::HeaderMap;
use ipnet::Ipv6Net;

/// A range of addresses, such as `10.0.0.0/8`; a single address is a range too. IPv4 is stored as mapped IPv6, so
/// that both forms of an address are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range(Ipv6Net);

/// A text that is not a range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is neither an address nor a range such as 10.0.0.0/8")]
pub struct NoRange(String);

impl FromStr for Range {
    type Err = NoRange;

    fn from_str(text: &str) -> Result<Self, NoRange> {
        let parse = || {
            let (address, length) =
                text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
            let address: IpAddr = address.trim().parse().ok()?;
            // The prefix of mapped addresses has 96 bits.
            let (prefix, longest) = if address.is_ipv4() { (96, 32) } else { (0, 128) };
            let length = length.map_or(Some(longest), |length| length.trim().parse().ok())?;
            (length <= longest).then(|| Ipv6Net::new(mapped(address), prefix + length).ok())?
        };
        parse().map(Self).ok_or_else(|| NoRange(text.to_owned()))
    }
}

impl Range {
    /// Whether the range contains an address. An IPv4-mapped IPv6 address counts as its IPv4 address.
    pub fn holds(self, address: IpAddr) -> bool {
        self.0.contains(&mapped(address))
    }
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// The client address of a request: the peer or, behind trusted proxies, the last address in X-Forwarded-For that is
/// not a trusted proxy. Addresses before that one can be forged.
pub fn client(peer: IpAddr, headers: &HeaderMap, trusted: &[Range]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|range| range.holds(address));
    let forwarded = headers.get_all("x-forwarded-for").into_iter().filter_map(|value| value.to_str().ok());
    let hops: Vec<&str> = forwarded.flat_map(|value| value.split(',')).map(str::trim).collect();
    let mut seen = peer;
    for hop in hops.into_iter().rev() {
        if !is_trusted(seen) {
            break;
        }
        let Ok(address) = hop.parse() else { break };
        seen = address;
    }
    seen.to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(range: &str, address: &str, expected: bool) {
        assert_eq!(range.parse::<Range>().unwrap().holds(address.parse().unwrap()), expected, "{range} {address}");
    }

    #[test]
    fn ranges_hold_what_they_should() {
        check("10.0.0.0/8", "10.1.2.3", true);
        check("10.0.0.0/8", "11.1.2.3", false);
        check("10.9.9.9", "10.9.9.9", true);
        check("10.9.9.9/32", "10.9.9.8", false);
        check("0.0.0.0/0", "8.8.8.8", true);
        check("0.0.0.0/0", "2001:db8::1", false);
        check("::/0", "2001:db8::1", true);
        check("2001:db8::/32", "2001:db8:1::1", true);
        check("127.0.0.0/8", "::ffff:127.0.0.1", true);
        check("10.1.2.3/8", "10.9.9.9", true);
        check("::/0", "8.8.8.8", true);
        check("::ffff:10.0.0.0/104", "10.1.2.3", true);
        for text in ["", "10.0.0.0/33", "10.0.0/8", "a/8", "10.0.0.0/-1", "10.0.0.0/255", "::/129"] {
            assert!(text.parse::<Range>().is_err(), "{text}");
        }
    }

    #[track_caller]
    fn seen(peer: &str, forwarded: &[&str], expected: &str) {
        let headers =
            forwarded.iter().map(|value| (http::HeaderName::from_static("x-forwarded-for"), value.parse().unwrap()));
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        assert_eq!(client(peer.parse().unwrap(), &headers.collect(), &trusted), expected.parse::<IpAddr>().unwrap());
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        seen("192.0.2.1", &["10.9.9.9"], "192.0.2.1");
        seen("10.0.0.1", &["198.51.100.7"], "198.51.100.7");
        seen("10.0.0.1", &["1.1.1.1, 198.51.100.7, 10.0.0.2"], "198.51.100.7");
        seen("10.0.0.1", &["1.1.1.1", "198.51.100.7"], "198.51.100.7");
        seen("10.0.0.1", &["nonsense"], "10.0.0.1");
        seen("10.0.0.1", &[], "10.0.0.1");
        seen("::ffff:192.0.2.1", &[], "192.0.2.1");
    }
}
