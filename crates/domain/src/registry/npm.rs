//! Which version of a package npm would install.

use semver::{Version, VersionReq};
use serde_json::Value;

/// A package and the requested version: `@scope/name@1.2.3` is (`@scope/name`, `1.2.3`).
pub fn package(spec: &str) -> (&str, Option<&str>) {
    match spec.char_indices().skip(1).find(|(_, char)| *char == '@') {
        Some((at, _)) => (&spec[..at], Some(&spec[at + 1..]).filter(|version| !version.is_empty())),
        None => (spec, None),
    }
}

/// The version that npm would install, from the registry's package document.
///
/// A word is a tag. In a range, the version tagged `latest` is preferred, then the highest version that is not
/// deprecated.
pub fn npm_version(about: &Value, wanted: Option<&str>) -> Option<String> {
    let wanted = wanted.unwrap_or("latest").trim();
    if let Some(version) = about["dist-tags"][wanted].as_str() {
        return Some(version.to_owned());
    }
    if about["versions"][wanted].is_object() {
        return Some(wanted.to_owned());
    }
    let range = Range::parse(wanted)?;
    let fits = |text: &str| Version::parse(text).is_ok_and(|version| range.has(&version));
    if let Some(latest) = about["dist-tags"]["latest"].as_str().filter(|latest| fits(latest)) {
        return Some(latest.to_owned());
    }
    let known = about["versions"].as_object()?.iter();
    let fitting = known.filter_map(|(text, about)| {
        let version = Version::parse(text).ok().filter(|version| range.has(version))?;
        Some((about["deprecated"].is_null(), version, text))
    });
    fitting.max_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1))).map(|(_, _, text)| text.clone())
}

/// A version range in npm's syntax: alternatives, of which one has to match.
///
/// Single comparisons mean the same in Cargo, prereleases included. Only the syntax differs.
struct Range(Vec<VersionReq>);

impl Range {
    fn parse(text: &str) -> Option<Self> {
        text.split("||").map(alternative).collect::<Option<_>>().map(Self)
    }

    fn has(&self, version: &Version) -> bool {
        self.0.iter().any(|alternative| alternative.matches(version))
    }
}

fn alternative(text: &str) -> Option<VersionReq> {
    let mut comparisons = Vec::new();
    if let Some((from, to)) = text.split_once(" - ") {
        comparisons.push(comparison(&format!(">={}", from.trim()))?);
        comparisons.push(comparison(&format!("<={}", to.trim()))?);
    } else {
        let mut open = String::new();
        for word in text.split_whitespace() {
            // An operator may be separated from its version by a space.
            open.push_str(word);
            if !word.ends_with(['<', '>', '=', '~', '^']) {
                comparisons.push(comparison(&std::mem::take(&mut open))?);
            }
        }
        if !open.is_empty() {
            return None;
        }
    }
    comparisons.retain(|comparison| comparison != ANY);
    if comparisons.is_empty() {
        return Some(VersionReq::STAR);
    }
    VersionReq::parse(&comparisons.join(", ")).ok()
}

/// Matches every version except prereleases.
const ANY: &str = "*";

/// One comparison in Cargo's notation.
fn comparison(text: &str) -> Option<String> {
    let start = text.find(|char: char| !"<>=~^".contains(char)).unwrap_or(text.len());
    let (operator, version) = text.split_at(start);
    let version = version.strip_prefix('v').unwrap_or(version);
    let mut parts: Vec<&str> = version.splitn(3, '.').collect();
    if let Some(any) = parts.iter().position(|part| part.is_empty() || matches!(*part, "x" | "X" | "*")) {
        parts.truncate(any);
    }
    if parts.is_empty() {
        return matches!(operator, "" | "=" | "~" | "^" | ">=" | "<=").then(|| ANY.to_owned());
    }
    let operator = match (operator, parts.len()) {
        ("" | "=", 3) => "=",
        // 1.2 is every 1.2.x, and 1 every 1.x.
        ("" | "=" | "~>", _) => "~",
        (operator, _) => operator,
    };
    Some(format!("{operator}{}", parts.join(".")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_package_is_told_from_its_version() {
        for (spec, expected) in [
            ("name", ("name", None)),
            ("name@", ("name", None)),
            ("name@1", ("name", Some("1"))),
            ("@scope/name", ("@scope/name", None)),
            ("@scope/name@1.2.3", ("@scope/name", Some("1.2.3"))),
        ] {
            assert_eq!(package(spec), expected, "{spec}");
        }
    }

    #[test]
    fn the_version_is_the_one_that_npm_would_install() {
        let about = json!({
            "dist-tags": {"latest": "2.1.0", "next": "3.0.0-rc.2"},
            "versions": {
                "0.1.2": {}, "0.2.0": {}, "1.0.0": {}, "1.2.0": {}, "1.2.9": {}, "1.10.0": {},
                "1.11.0": {"deprecated": "broken"}, "1.12.0-beta.1": {}, "2.0.0": {}, "2.1.0": {}, "2.2.0": {},
                "3.0.0-rc.1": {}, "3.0.0-rc.2": {}, "not a version": {},
            },
        });
        for (wanted, version) in [
            (None, Some("2.1.0")),
            (Some("latest"), Some("2.1.0")),
            (Some("next"), Some("3.0.0-rc.2")),
            (Some("1.0.0"), Some("1.0.0")),
            (Some("v1.0.0"), Some("1.0.0")),
            (Some("=1.0.0"), Some("1.0.0")),
            (Some("1"), Some("1.10.0")),
            (Some("1.x"), Some("1.10.0")),
            (Some("1.2"), Some("1.2.9")),
            (Some("1.2.x"), Some("1.2.9")),
            (Some("0"), Some("0.2.0")),
            (Some("^1.0.0"), Some("1.10.0")),
            (Some("^1.x"), Some("1.10.0")),
            (Some("^0.1.0"), Some("0.1.2")),
            (Some("~1.2"), Some("1.2.9")),
            (Some("~1.2.0"), Some("1.2.9")),
            (Some("~>1.2.0"), Some("1.2.9")),
            (Some("~1"), Some("1.10.0")),
            // The latest version is preferred to a higher one.
            (Some("^2.0.0"), Some("2.1.0")),
            (Some(">2.1.0"), Some("2.2.0")),
            (Some("*"), Some("2.1.0")),
            (Some("x"), Some("2.1.0")),
            (Some(">=1.0.0 <1.10.0"), Some("1.2.9")),
            (Some(">= 1.0.0 < 1.10.0"), Some("1.2.9")),
            (Some("1.0.0 - 1.2"), Some("1.2.9")),
            (Some("1.0.0 - 1.2.0"), Some("1.2.0")),
            (Some("^9 || 0.1.x"), Some("0.1.2")),
            // A deprecated version only if there is no other.
            (Some(">=1.11.0 <2.0.0"), Some("1.11.0")),
            // Prereleases only if the range names one of the same version.
            (Some("^3.0.0"), None),
            (Some("^3.0.0-rc.1"), Some("3.0.0-rc.2")),
            (Some(">=1.12.0-beta.1 <2.0.0"), Some("1.12.0-beta.1")),
            (Some("^9"), None),
            (Some("9.9.9"), None),
            (Some("beta"), None),
            (Some(">="), None),
            (Some("<*"), None),
        ] {
            assert_eq!(npm_version(&about, wanted).as_deref(), version, "{wanted:?}");
        }
    }

    #[test]
    fn a_package_without_versions_has_none() {
        for about in [json!({}), json!({"versions": []}), json!(null)] {
            assert_eq!(npm_version(&about, Some("^1")), None, "{about}");
            assert_eq!(npm_version(&about, None), None, "{about}");
        }
    }
}
