//! Which addresses may be fetched from, judged after DNS: a name that points at the cloud's metadata service is refused
//! like the address itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Metadata services that are not link-local: Alibaba, Azure, Oracle.
const METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(192, 0, 0, 192)];
/// Amazon's metadata service over IPv6.
const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// Why an address is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// 169.254.0.0/16, fe80::/10 or a metadata service.
    #[error("is a link-local or metadata address, which contexts may not read")]
    LinkLocal,
    /// This machine.
    #[error("is this machine; contexts are fetched from other machines only")]
    Loopback,
    /// Not an address of one machine.
    #[error("is a multicast or broadcast address")]
    Many,
}

/// Judges one address.
pub fn check(address: IpAddr, allow_loopback: bool) -> Result<(), Refused> {
    match address {
        IpAddr::V4(v4) => check_v4(v4, allow_loopback),
        IpAddr::V6(v6) => match embedded(v6) {
            Some(v4) => check_v4(v4, allow_loopback),
            None if (v6.segments()[0] & 0xffc0) == 0xfe80 || v6 == METADATA_V6 => Err(Refused::LinkLocal),
            None if (v6.is_loopback() || v6.is_unspecified()) && !allow_loopback => Err(Refused::Loopback),
            None if v6.is_multicast() => Err(Refused::Many),
            None => Ok(()),
        },
    }
}

fn check_v4(address: Ipv4Addr, allow_loopback: bool) -> Result<(), Refused> {
    if address.is_link_local() || METADATA_V4.contains(&address) {
        Err(Refused::LinkLocal)
    } else if (address.is_loopback() || address.octets()[0] == 0) && !allow_loopback {
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

/// A resolver that gives only allowed addresses. If a name has any refused address, the whole name is refused:
/// otherwise a second look-up could bring the other one.
#[derive(Debug, Clone, Copy)]
pub struct CarefulResolver {
    /// Whether this machine is allowed.
    pub allow_loopback: bool,
}

/// The resolver's refusal.
#[derive(Debug, thiserror::Error)]
#[error("{name} resolves to {address}, which {refused}")]
pub struct RefusedName {
    name: String,
    address: IpAddr,
    refused: Refused,
}

impl Resolve for CarefulResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allow_loopback = self.allow_loopback;
        Box::pin(async move {
            let name = name.as_str().to_owned();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            for address in &found {
                if let Err(refused) = check(address.ip(), allow_loopback) {
                    return Err(RefusedName { name, address: address.ip(), refused }.into());
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
            assert_eq!(check(text.parse().unwrap(), false), expected, "{text}");
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
        assert_eq!(check(Ipv4Addr::LOCALHOST.into(), true), Ok(()));
        assert_eq!(check("169.254.1.1".parse().unwrap(), true), Err(Refused::LinkLocal));
    }
}
