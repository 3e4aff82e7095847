//! # Which addresses may be reached for a user
//!
//! Users name URLs, and we ask those servers in their place: contexts, Git repositories, image and npm registries. What
//! answers at a link-local address, such as the metadata service of a cloud with its credentials, is never meant.
//!
//! [`check_url`] judges addresses that are written in a URL, [`CarefulResolver`] what names stand for, so that a name
//! that points at such an address is refused like the address itself, and [`careful_redirects`] where an answer leads.

use std::{
    error::Error,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use reqwest::{
    Url,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect,
};

/// More hops than this are a loop or a mistake.
const MOST_REDIRECTS: usize = 10;

/// Metadata services that are not link-local: Alibaba, Azure, Oracle.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(192, 0, 0, 192)];
/// Amazon's metadata service over IPv6.
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// Whether this machine itself may be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loopback {
    /// On one machine every server, ours too, is on a loopback address.
    Allowed,
    /// Only other machines.
    Refused,
}

/// Why an address is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// 169.254.0.0/16, fe80::/10 or a metadata service.
    #[error("is a link-local or metadata address and may not be read")]
    LinkLocal,
    /// This machine.
    #[error("is this machine; only other machines may be read")]
    Loopback,
    /// Not an address of one machine.
    #[error("is a multicast or broadcast address")]
    Many,
}

/// Judges one address.
pub fn check(address: IpAddr, loopback: Loopback) -> Result<(), Refused> {
    match address {
        IpAddr::V4(v4) => check_v4(v4, loopback),
        IpAddr::V6(v6) => match embedded(v6) {
            Some(v4) => check_v4(v4, loopback),
            None if (v6.segments()[0] & 0xffc0) == 0xfe80 || v6 == METADATA_V6 => Err(Refused::LinkLocal),
            None if (v6.is_loopback() || v6.is_unspecified()) && loopback == Loopback::Refused => {
                Err(Refused::Loopback)
            }
            None if v6.is_multicast() => Err(Refused::Many),
            None => Ok(()),
        },
    }
}

fn check_v4(address: Ipv4Addr, loopback: Loopback) -> Result<(), Refused> {
    if address.is_link_local() || METADATA_V4.contains(&address) {
        Err(Refused::LinkLocal)
    } else if (address.is_loopback() || address.octets()[0] == 0) && loopback == Loopback::Refused {
        Err(Refused::Loopback)
    } else if address.is_multicast() || address.is_broadcast() {
        Err(Refused::Many)
    } else {
        Ok(())
    }
}

/// The IPv4 address inside of a mapped, translated (NAT64) or 6to4 address.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let join = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            Some(join(high, low))
        }
        _ => None,
    }
}

/// Judges the address in a URL, if there is one: it never reaches a resolver.
pub fn check_url(url: &Url, loopback: Loopback) -> Result<(), Refused> {
    let host = url.host_str().unwrap_or_default();
    match host.trim_start_matches('[').trim_end_matches(']').parse() {
        Ok(address) => check(address, loopback),
        Err(_) => Ok(()),
    }
}

/// A resolver that gives only allowed addresses. If a name has any refused address, the whole name is refused:
/// otherwise a second look-up could bring the other one.
#[derive(Debug, Clone, Copy)]
pub struct CarefulResolver(pub Loopback);

/// A target that is refused: a name, or an address that a redirect leads to.
#[derive(Debug, thiserror::Error)]
pub enum RefusedTarget {
    /// A name with a refused address.
    #[error("{name} resolves to {address}, which {refused}")]
    Name {
        /// The name.
        name: String,
        /// What it stands for.
        address: IpAddr,
        /// Why that is refused.
        refused: Refused,
    },
    /// A redirect to a refused address.
    #[error("it redirects to {host}, which {refused}")]
    Redirect {
        /// The address.
        host: String,
        /// Why it is refused.
        refused: Refused,
    },
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
pub fn careful_redirects(loopback: Loopback) -> redirect::Policy {
    redirect::Policy::custom(move |attempt| {
        if let Err(refused) = check_url(attempt.url(), loopback) {
            let host = attempt.url().host_str().unwrap_or_default().to_owned();
            return attempt.error(RefusedTarget::Redirect { host, refused });
        }
        if attempt.previous().len() > MOST_REDIRECTS { attempt.stop() } else { attempt.follow() }
    })
}

impl Resolve for CarefulResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let loopback = self.0;
        Box::pin(async move {
            let name = name.as_str().to_owned();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            for address in &found {
                if let Err(refused) = check(address.ip(), loopback) {
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
            assert_eq!(check(text.parse().unwrap(), Loopback::Refused), expected, "{text}");
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
        check("127.0.0.1", loopback);
        check("0.0.0.0", loopback);
        check("::1", loopback);
        check("::", loopback);
        check("::ffff:127.0.0.1", loopback);
        check("224.0.0.1", Err(Refused::Many));
        check("ff02::1", Err(Refused::Many));
        check("10.0.0.1", Ok(()));
        check("93.184.216.34", Ok(()));
        check("2606:2800:220:1::1", Ok(()));
        check("fec0::1", Ok(()));
    }

    #[test]
    fn loopback_is_allowed_only_on_request_and_link_local_never() {
        assert_eq!(check(Ipv4Addr::LOCALHOST.into(), Loopback::Allowed), Ok(()));
        assert_eq!(check("169.254.1.1".parse().unwrap(), Loopback::Allowed), Err(Refused::LinkLocal));
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
            assert_eq!(check_url(&Url::parse(url).unwrap(), Loopback::Allowed), Err(Refused::LinkLocal), "{url}");
        }
        assert_eq!(check_url(&Url::parse("https://example.com/").unwrap(), Loopback::Refused), Ok(()));
    }
}
