//! What a provider says of somebody: whether it is meant for us and still true, and who that is for Kubernetes.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Oidc;
use crate::auth::User;

/// Clocks differ by this much.
const SKEW: SignedDuration = SignedDuration::from_secs(60);
/// Longer names are no names.
const LONGEST_NAME: usize = 256;
/// Nobody is in more groups, and each is a header of every request.
const MOST_GROUPS: usize = 200;
/// Kubernetes' own names. No provider may hand them out.
const RESERVED: &str = "system:";
/// The group of everybody whom Kubernetes knows. It adds it itself when somebody is impersonated.
pub const AUTHENTICATED: &str = "system:authenticated";

/// Why what a provider says does not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is for or from somebody else.
    #[error("its claim '{0}' is not what it must be")]
    Foreign(&'static str),
    /// It is over, or not true yet.
    #[error("it is not valid at this time")]
    Time,
    /// It does not name anybody.
    #[error("its claim '{0}' holds no name that can be used here")]
    NoName(String),
    /// The address of the mail was never confirmed.
    #[error("the mail address is not verified")]
    UnverifiedMail,
}

/// Checks that `claims` are of this provider, for this client, and true now; answers until when.
pub fn check(oidc: &Oidc, claims: &Value, nonce: Option<&str>, now: Timestamp) -> Result<Timestamp, Error> {
    if claims["iss"].as_str() != Some(oidc.issuer.as_str()) {
        return Err(Error::Foreign("iss"));
    }
    let client = Some(oidc.client_id.as_str());
    let for_us = match &claims["aud"] {
        Value::Array(all) => all.iter().any(|one| one.as_str() == client),
        one => one.as_str() == client,
    };
    if !for_us {
        return Err(Error::Foreign("aud"));
    }
    if claims.get("azp").is_some_and(|party| party.as_str() != client) {
        return Err(Error::Foreign("azp"));
    }
    if let Some(nonce) = nonce
        && claims["nonce"].as_str() != Some(nonce)
    {
        return Err(Error::Foreign("nonce"));
    }
    let moment = |claim: &str| {
        #[expect(clippy::cast_possible_truncation, reason = "parts of seconds do not matter")]
        let second = |value: &Value| value.as_i64().or_else(|| value.as_f64().map(|second| second as i64));
        claims.get(claim).map(|value| second(value).and_then(|second| Timestamp::from_second(second).ok()))
    };
    let until = moment("exp").flatten().ok_or(Error::Time)?;
    let latest = until.checked_add(SKEW).unwrap_or(Timestamp::MAX);
    let earliest = now.checked_add(SKEW).unwrap_or(Timestamp::MAX);
    let begun = |claim: &str| moment(claim).is_none_or(|at| at.is_some_and(|at| at <= earliest));
    if latest <= now || !begun("nbf") || !begun("iat") {
        return Err(Error::Time);
    }
    Ok(latest)
}

/// Who somebody is for Kubernetes.
pub fn user(oidc: &Oidc, claims: &Value) -> Result<User, Error> {
    if oidc.username_claim == "email" && claims.get("email_verified").is_some_and(|verified| verified != true) {
        return Err(Error::UnverifiedMail);
    }
    let name = claims[&oidc.username_claim].as_str().filter(|name| !name.is_empty());
    let name = name.map(|name| format!("{}{name}", oidc.username_prefix)).filter(|name| is_usable(name));
    let name = name.ok_or_else(|| Error::NoName(oidc.username_claim.clone()))?;
    let listed: Vec<&str> = match &claims[&oidc.groups_claim] {
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        Value::String(one) => vec![one],
        _ => Vec::new(),
    };
    let mut groups: Vec<String> = listed
        .into_iter()
        .filter(|group| !group.is_empty())
        .map(|group| format!("{}{group}", oidc.groups_prefix))
        .filter(|group| is_usable(group))
        .take(MOST_GROUPS)
        .collect();
    groups.push(AUTHENTICATED.to_owned());
    Ok(User { name, groups, ..User::default() })
}

/// Whether a name means the same in a header, and none of Kubernetes' own.
fn is_usable(name: &str) -> bool {
    name.len() <= LONGEST_NAME
        && !name.starts_with(RESERVED)
        && name.trim() == name
        && name.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn oidc() -> Oidc {
        Oidc { username_claim: "sub".to_owned(), ..Oidc::new("https://id.example", "page") }
    }

    fn claims() -> Value {
        json!({"iss": "https://id.example", "aud": "page", "sub": "anna", "exp": 1000, "iat": 500, "nonce": "n"})
    }

    #[track_caller]
    fn checked(change: impl Fn(&mut Value), at: i64, expected: &Result<i64, Error>) {
        let mut claims = claims();
        change(&mut claims);
        let found = check(&oidc(), &claims, Some("n"), Timestamp::from_second(at).unwrap());
        assert_eq!(&found.map(Timestamp::as_second), expected, "{claims}");
    }

    #[test]
    fn what_is_for_or_from_somebody_else_is_refused() {
        checked(|_| (), 600, &Ok(1060));
        checked(|claims| claims["aud"] = json!(["other", "page"]), 600, &Ok(1060));
        checked(|claims| claims["azp"] = "page".into(), 600, &Ok(1060));
        for (claim, value) in [
            ("iss", json!("https://evil.example")),
            ("iss", Value::Null),
            ("aud", json!("other")),
            ("aud", json!(["other"])),
            ("aud", Value::Null),
            ("azp", json!("other")),
            ("nonce", json!("m")),
            ("nonce", Value::Null),
        ] {
            checked(|claims| claims[claim] = value.clone(), 600, &Err(Error::Foreign(claim)));
        }
    }

    #[test]
    fn a_token_is_true_for_its_time_only() {
        checked(|_| (), 1059, &Ok(1060));
        checked(|_| (), 1060, &Err(Error::Time));
        checked(|_| (), 439, &Err(Error::Time));
        checked(|claims| claims["nbf"] = 700.into(), 600, &Err(Error::Time));
        checked(|claims| claims["exp"] = Value::Null, 600, &Err(Error::Time));
        checked(|claims| claims["exp"] = "1000".into(), 600, &Err(Error::Time));
        checked(|claims| claims["exp"] = json!(1000.7), 600, &Ok(1060));
    }

    #[test]
    fn names_and_groups_carry_their_prefix() {
        let mut claims = claims();
        claims["groups"] = json!(["dev", "", 3, "team lead"]);
        let known = user(&oidc(), &claims).unwrap();
        assert_eq!(known.name, "oidc:anna");
        assert_eq!(known.groups, ["oidc:dev", "oidc:team lead", "system:authenticated"]);
        claims["groups"] = "dev".into();
        assert_eq!(user(&oidc(), &claims).unwrap().groups, ["oidc:dev", "system:authenticated"]);
    }

    #[test]
    fn nobody_becomes_one_of_kubernetes_own() {
        let bare = Oidc { username_prefix: String::new(), groups_prefix: String::new(), ..oidc() };
        let mut claims = claims();
        claims["groups"] = json!(["system:masters", "dev", "a\nb", " dev", "dévs"]);
        assert_eq!(user(&bare, &claims).unwrap().groups, ["dev", "system:authenticated"]);
        for name in ["system:admin", "", " anna", "an\r\nna", "änna", &"a".repeat(257)] {
            claims["sub"] = name.into();
            assert_eq!(user(&bare, &claims), Err(Error::NoName("sub".to_owned())), "{name}");
        }
    }

    #[test]
    fn an_unconfirmed_mail_address_is_nobodys_name() {
        let oidc = Oidc { username_claim: "email".to_owned(), ..oidc() };
        let with = |verified: Value| json!({"email": "anna@example.com", "email_verified": verified});
        assert_eq!(user(&oidc, &with(json!(true))).unwrap().name, "oidc:anna@example.com");
        for unverified in [json!(false), json!("true"), Value::Null] {
            assert_eq!(user(&oidc, &with(unverified)), Err(Error::UnverifiedMail));
        }
        assert!(user(&oidc, &json!({"email": "anna@example.com"})).is_ok());
    }
}
