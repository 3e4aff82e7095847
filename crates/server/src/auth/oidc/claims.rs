//! The claims of an ID token: whether they are meant for this server and valid now, and the Kubernetes user they name.

use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::{Algorithm, Validation};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Oidc, jws};
use crate::auth::User;

/// How far the clocks of the provider and of this server may differ.
const SKEW: SignedDuration = SignedDuration::from_secs(60);
/// Maximum length of a name, in bytes.
const LONGEST_NAME: usize = 256;
/// Maximum number of groups; more are omitted, because each is a header of every impersonated request.
const MOST_GROUPS: usize = 200;
/// Prefix of the names that Kubernetes reserves; a provider must not assign them.
const RESERVED: &str = "system:";
/// The group of every authenticated user. Kubernetes adds it itself to an impersonated user.
pub const AUTHENTICATED: &str = "system:authenticated";

/// Why the claims of a token are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The token is malformed, not signed by the provider, or not valid here and now.
    #[error(transparent)]
    Token(#[from] jws::Error),
    /// The token is for another client or another login.
    #[error("the claim '{0}' has an unexpected value")]
    Foreign(&'static str),
    /// The token was issued in the future, or its expiry is no time.
    #[error("the token is not valid at this time")]
    Time,
    /// The claim that names the user holds no usable name.
    #[error("the claim '{0}' holds no usable name")]
    NoName(String),
    /// The provider did not verify the address that names the user.
    #[error("the email address is not verified")]
    UnverifiedMail,
}

/// The claims of a verified token.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub struct Claims(Map<String, Value>);

impl Claims {
    /// Verifies a token: signature, issuer, audience and times. With `nonce`, only a token of that login is accepted.
    pub fn verify(oidc: &Oidc, keys: &jws::Keys, token: &str, nonce: Option<&str>) -> Result<Self, Error> {
        let claims: Self = keys.decode(token, &validation(oidc))?;
        claims.check(oidc, nonce, Timestamp::now())?;
        Ok(claims)
    }

    /// Checks what `jsonwebtoken` does not.
    fn check(&self, oidc: &Oidc, nonce: Option<&str>, now: Timestamp) -> Result<(), Error> {
        // The crate accepts a list of issuers, which OpenID Connect does not allow.
        if self.text("iss").is_none() {
            return Err(Error::Foreign("iss"));
        }
        if self.0.contains_key("azp") && self.text("azp") != Some(&oidc.client_id) {
            return Err(Error::Foreign("azp"));
        }
        if nonce.is_some() && self.text("nonce") != nonce {
            return Err(Error::Foreign("nonce"));
        }
        let earliest = now.checked_add(SKEW).unwrap_or(Timestamp::MAX);
        if self.0.contains_key("iat") && self.time("iat").is_none_or(|issued| issued > earliest) {
            return Err(Error::Time);
        }
        self.until().map(|_| ())
    }

    fn text(&self, claim: &str) -> Option<&str> {
        self.0.get(claim)?.as_str()
    }

    fn time(&self, claim: &str) -> Option<Timestamp> {
        #[expect(clippy::cast_possible_truncation, reason = "fractions of a second do not matter; the cast saturates")]
        let second = self.0.get(claim)?.as_f64()? as i64;
        Timestamp::from_second(second).ok()
    }

    /// The end of the token's validity, the skew of clocks included.
    pub fn until(&self) -> Result<Timestamp, Error> {
        let expiry = self.time("exp").ok_or(Error::Time)?;
        Ok(expiry.checked_add(SKEW).unwrap_or(Timestamp::MAX))
    }

    /// The Kubernetes user that the claims name.
    pub fn user(&self, oidc: &Oidc) -> Result<User, Error> {
        let claims = &self.0;
        if oidc.username_claim == "email" && claims.get("email_verified").is_some_and(|verified| verified != true) {
            return Err(Error::UnverifiedMail);
        }
        let name = self.text(&oidc.username_claim).filter(|name| !name.is_empty());
        let name = name.map(|name| format!("{}{name}", oidc.username_prefix)).filter(|name| is_usable(name));
        let name = name.ok_or_else(|| Error::NoName(oidc.username_claim.clone()))?;
        let listed: Vec<&str> = match claims.get(&oidc.groups_claim) {
            Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
            Some(Value::String(one)) => vec![one],
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
}

/// The checks of `jsonwebtoken` on the claims.
fn validation(oidc: &Oidc) -> Validation {
    let mut validation = Validation::new(Algorithm::RS256);
    validation.leeway = SKEW.as_secs().unsigned_abs();
    validation.validate_nbf = true;
    validation.set_required_spec_claims(&["exp", "iss", "aud"]);
    validation.set_issuer(&[&oidc.issuer]);
    validation.set_audience(&[&oidc.client_id]);
    validation
}

/// Whether a name can be sent in a header unchanged, and is not reserved by Kubernetes.
fn is_usable(name: &str) -> bool {
    name.len() <= LONGEST_NAME
        && !name.starts_with(RESERVED)
        && name.trim() == name
        && name.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::errors::ErrorKind;
    use serde_json::json;

    use super::{
        super::jws::tests::{pair, published, token},
        *,
    };

    fn oidc() -> Oidc {
        Oidc { username_claim: "sub".to_owned(), ..Oidc::new("https://id.example", "page") }
    }

    /// Claims of a token that expires in `left` seconds.
    fn claims(left: i64) -> Value {
        let now = Timestamp::now().as_second();
        json!({"iss": "https://id.example", "aud": "page", "sub": "anna", "exp": now + left, "iat": now, "nonce": "n"})
    }

    fn verify(claims: &Value) -> Result<Claims, Error> {
        let pair = pair();
        let keys = jws::Keys::from_set(&json!({"keys": [published(&pair, "a")]}));
        Claims::verify(&oidc(), &keys, &token(&pair, &json!({"alg": "ES256", "kid": "a"}), claims), Some("n"))
    }

    fn read(claims: &Value) -> Claims {
        serde_json::from_value(claims.clone()).unwrap()
    }

    #[test]
    fn a_token_of_another_issuer_client_or_login_is_refused() {
        let with = |claim: &str, value: Value| {
            let mut claims = claims(100);
            claims[claim] = value;
            verify(&claims)
        };
        assert!(verify(&claims(100)).is_ok());
        assert!(with("aud", json!(["other", "page"])).is_ok());
        assert!(with("azp", json!("page")).is_ok());
        let invalid = |kind: ErrorKind| Error::Token(jsonwebtoken::errors::new_error(kind).into());
        let missing = |claim: &str| invalid(ErrorKind::MissingRequiredClaim(claim.to_owned()));
        for (claim, value, expected) in [
            ("iss", json!("https://evil.example"), invalid(ErrorKind::InvalidIssuer)),
            ("iss", json!(["https://id.example"]), Error::Foreign("iss")),
            ("iss", Value::Null, missing("iss")),
            ("aud", json!("other"), invalid(ErrorKind::InvalidAudience)),
            ("aud", json!(["other"]), invalid(ErrorKind::InvalidAudience)),
            ("aud", json!([]), invalid(ErrorKind::InvalidAudience)),
            ("aud", Value::Null, missing("aud")),
            ("azp", json!("other"), Error::Foreign("azp")),
            ("nonce", json!("m"), Error::Foreign("nonce")),
            ("nonce", Value::Null, Error::Foreign("nonce")),
        ] {
            assert_eq!(with(claim, value.clone()).unwrap_err(), expected, "{claim} {value}");
        }
    }

    #[test]
    fn a_token_is_valid_until_it_expires() {
        let soon = verify(&claims(-30)).unwrap();
        assert!(soon.until().unwrap() > Timestamp::now());
        let expired = jsonwebtoken::errors::new_error(ErrorKind::ExpiredSignature);
        assert_eq!(verify(&claims(-90)).unwrap_err(), Error::Token(expired.into()));
        let with = |claim: &str, value: Value| {
            let mut claims = claims(100);
            claims[claim] = value;
            verify(&claims)
        };
        let now = Timestamp::now().as_second();
        assert!(with("nbf", json!(now + 30)).is_ok());
        assert!(with("nbf", json!(now + 90)).is_err());
        assert!(with("nbf", json!("soon")).is_err());
        assert!(with("iat", json!(now + 30)).is_ok());
        assert_eq!(with("iat", json!(now + 90)).unwrap_err(), Error::Time);
        assert!(with("exp", Value::Null).is_err());
        assert!(with("exp", json!(format!("{now}"))).is_err());
        assert!(with("exp", json!(1e300)).is_err());
        let later = with("exp", json!(4_000_000_000.7)).unwrap();
        assert_eq!(later.until().unwrap().as_second(), 4_000_000_060);
    }

    #[test]
    fn names_and_groups_carry_their_prefix() {
        let mut claims = claims(100);
        claims["groups"] = json!(["dev", "", 3, "team lead"]);
        let known = read(&claims).user(&oidc()).unwrap();
        assert_eq!(known.name, "oidc:anna");
        assert_eq!(known.groups, ["oidc:dev", "oidc:team lead", "system:authenticated"]);
        claims["groups"] = "dev".into();
        assert_eq!(read(&claims).user(&oidc()).unwrap().groups, ["oidc:dev", "system:authenticated"]);
    }

    #[test]
    fn reserved_names_are_refused() {
        let bare = Oidc { username_prefix: String::new(), groups_prefix: String::new(), ..oidc() };
        let mut claims = claims(100);
        claims["groups"] = json!(["system:masters", "dev", "a\nb", " dev", "dévs"]);
        assert_eq!(read(&claims).user(&bare).unwrap().groups, ["dev", "system:authenticated"]);
        for name in ["system:admin", "", " anna", "an\r\nna", "änna", &"a".repeat(257)] {
            claims["sub"] = name.into();
            assert_eq!(read(&claims).user(&bare), Err(Error::NoName("sub".to_owned())), "{name}");
        }
    }

    #[test]
    fn an_unverified_email_address_names_no_user() {
        let oidc = Oidc { username_claim: "email".to_owned(), ..oidc() };
        let with = |email: Value| {
            let mut claims = claims(100);
            claims.as_object_mut().unwrap().extend(email.as_object().unwrap().clone());
            read(&claims).user(&oidc)
        };
        let verified = |verified: Value| with(json!({"email": "anna@example.com", "email_verified": verified}));
        assert_eq!(verified(json!(true)).unwrap().name, "oidc:anna@example.com");
        for unverified in [json!(false), json!("true"), Value::Null] {
            assert_eq!(verified(unverified), Err(Error::UnverifiedMail));
        }
        assert!(with(json!({"email": "anna@example.com"})).is_ok());
    }
}
