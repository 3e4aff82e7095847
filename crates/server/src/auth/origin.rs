//! Whether a browser's request comes from our own page.

use std::net::IpAddr;

use http::{HeaderMap, Uri, header};

/// Whether the request comes from a page of this server, or from no page at all.
///
/// Browsers send `Origin` with every change and every WebSocket; a request without one comes from a program.
pub fn is_same_origin(headers: &HeaderMap, base_url: Option<&str>) -> bool {
    if let Some(site) = headers.get("sec-fetch-site").and_then(|value| value.to_str().ok())
        && !matches!(site, "same-origin" | "none")
    {
        return false;
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let Some(origin) = origin.to_str().ok().and_then(authority) else { return false };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).map(str::to_ascii_lowercase);
    host.as_ref() == Some(&origin) || base_url.and_then(authority).is_some_and(|ours| ours == origin)
}

/// What the Host header of a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// The host of the page: sessions are valid here.
    Page,
    /// This machine by an address or by `localhost`: for programs with tokens.
    Machine,
    /// Another name that was made to resolve to this machine (DNS rebinding).
    Other,
}

impl Host {
    /// The host of a request to a server whose page is at `page`. Without such a name, every host is that of the page.
    /// The port does not matter: it may be forwarded from another machine.
    pub fn of(headers: &HeaderMap, page: Option<&str>) -> Self {
        let Some(page) = page else { return Self::Page };
        let Some(named) = headers.get(header::HOST) else { return Self::Machine };
        let Some(named) = named.to_str().ok().map(str::to_ascii_lowercase) else { return Self::Other };
        match without_port(&named) {
            host if host == page => Self::Page,
            host if is_this_machine(host) => Self::Machine,
            _ => Self::Other,
        }
    }
}

fn without_port(host: &str) -> &str {
    host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(host, |(host, _)| host)
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether the Host header names this machine, for a server that listens on loopback only. This prevents DNS rebinding:
/// a foreign page whose host name resolves to this machine counts as same-origin in its browser, but sends its own host
/// name.
pub fn is_expected_host(headers: &HeaderMap, listens_on: IpAddr, base_url: Option<&str>) -> bool {
    if !listens_on.is_loopback() {
        return true;
    }
    let Some(named) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return true };
    let named = named.to_ascii_lowercase();
    is_this_machine(without_port(&named)) || base_url.and_then(authority).is_some_and(|ours| ours == named)
}

/// Host and port of a URL.
fn authority(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    uri.scheme()?;
    Some(uri.authority()?.as_str().to_ascii_lowercase())
}

/// Whether browsers reach this server by https only, so that cookies can be marked `Secure`.
pub fn is_secure(base_url: Option<&str>) -> bool {
    base_url.is_some_and(|url| url.starts_with("https://"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(headers: &[(&'static str, &str)], expected: bool) {
        let headers =
            headers.iter().map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap())).collect();
        assert_eq!(is_same_origin(&headers, Some("https://agents.example.com/")), expected, "{headers:?}");
    }

    #[test]
    fn a_name_that_was_made_to_point_here_is_not_ours() {
        let check = |host: &str, listens_on: [u8; 4]| {
            let headers = HeaderMap::from_iter([(header::HOST, host.parse().unwrap())]);
            is_expected_host(&headers, listens_on.into(), Some("https://agents.example.com"))
        };
        for host in ["127.0.0.1:2746", "localhost:2746", "[::1]:80", "localhost", "agents.example.com"] {
            assert!(check(host, [127, 0, 0, 1]), "{host}");
        }
        assert!(!check("evil.example:2746", [127, 0, 0, 1]));
        assert!(check("evil.example:2746", [0, 0, 0, 0]));
    }

    #[test]
    fn a_session_is_bound_to_the_host_of_the_page() {
        let of = |host: &str, page| Host::of(&HeaderMap::from_iter([(header::HOST, host.parse().unwrap())]), page);
        let page = Some("0123abcd.localhost");
        for (host, expected) in [
            ("0123abcd.localhost:2746", Host::Page),
            ("0123ABCD.localhost", Host::Page),
            ("0123abcd.localhost:8080", Host::Page),
            ("127.0.0.1:2746", Host::Machine),
            ("localhost:2746", Host::Machine),
            ("[::1]:2746", Host::Machine),
            ("other.localhost:2746", Host::Other),
            ("0123abcd.localhost.evil.example", Host::Other),
            ("evil.example:2746", Host::Other),
            ("10.0.0.1:2746", Host::Other),
            ("", Host::Other),
        ] {
            assert_eq!(of(host, page), expected, "{host}");
            assert_eq!(of(host, None), Host::Page, "{host}");
        }
        assert_eq!(Host::of(&HeaderMap::new(), page), Host::Machine);
    }

    #[test]
    fn only_our_own_page_and_programs_pass() {
        check(&[("host", "localhost:2746")], true);
        check(&[("host", "localhost:2746"), ("origin", "http://localhost:2746")], true);
        check(&[("host", "10.0.0.1"), ("origin", "https://agents.example.com")], true);
        check(&[("host", "localhost:2746"), ("origin", "http://localhost:2747")], false);
        check(&[("host", "localhost:2746"), ("origin", "http://evil.example")], false);
        check(&[("host", "localhost:2746"), ("origin", "null")], false);
        check(&[("host", "a"), ("origin", "http://a"), ("sec-fetch-site", "cross-site")], false);
        check(&[("host", "a"), ("sec-fetch-site", "same-site")], false);
    }
}
