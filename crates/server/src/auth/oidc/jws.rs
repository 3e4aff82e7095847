//! Signed tokens (JSON Web Signature, compact form): which key signed one, and whether it really did.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::Value;

/// Why a token is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It has another form.
    #[error("it is no signed token")]
    Malformed,
    /// It is signed in a way that is not accepted; `none` is one of them.
    #[error("it is signed with '{0}', and only RS256 and ES256 are accepted")]
    Algorithm(String),
    /// Nobody knows the key.
    #[error("the provider has no such key")]
    UnknownKey,
    /// Somebody else signed it, or it was changed.
    #[error("its signature is wrong")]
    Signature,
}

/// How a token is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Rs256,
    Es256,
}

/// A token that was taken apart. Nothing in it is believed before [`Signed::verify`].
#[derive(Debug)]
pub struct Signed<'a> {
    algorithm: Algorithm,
    key: Option<String>,
    message: &'a str,
    claims: Value,
    signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

impl<'a> Signed<'a> {
    /// Takes a token apart.
    pub fn read(token: &'a str) -> Result<Self, Error> {
        let (message, signature) = token.rsplit_once('.').ok_or(Error::Malformed)?;
        let (header, claims) = message.split_once('.').ok_or(Error::Malformed)?;
        let header: Header = json(header)?;
        let algorithm = match header.alg.as_str() {
            "RS256" => Algorithm::Rs256,
            "ES256" => Algorithm::Es256,
            other => return Err(Error::Algorithm(other.chars().take(16).collect())),
        };
        // Whatever must be understood is not understood here.
        if header.crit.is_some() {
            return Err(Error::Malformed);
        }
        Ok(Self { algorithm, key: header.kid, message, claims: json(claims)?, signature: bytes(signature)? })
    }

    /// Who it says that it comes from: good for choosing whom to ask, and for nothing else.
    pub fn claimed_issuer(&self) -> Option<&str> {
        self.claims["iss"].as_str()
    }

    /// What it says, if one of `keys` signed it.
    pub fn verify(self, keys: &Keys) -> Result<Value, Error> {
        let mut fitting = keys
            .0
            .iter()
            .filter(|key| key.algorithm() == self.algorithm && (self.key.is_none() || key.id == self.key))
            .peekable();
        if fitting.peek().is_none() {
            return Err(Error::UnknownKey);
        }
        if fitting.any(|key| key.signed(self.message.as_bytes(), &self.signature)) {
            return Ok(self.claims);
        }
        Err(Error::Signature)
    }
}

fn bytes(text: &str) -> Result<Vec<u8>, Error> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| Error::Malformed)
}

fn json<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, Error> {
    serde_json::from_slice(&bytes(text)?).map_err(|_| Error::Malformed)
}

/// The keys of a provider.
#[derive(Clone, Debug, Default)]
pub struct Keys(Vec<Key>);

#[derive(Clone, Debug)]
struct Key {
    id: Option<String>,
    material: Material,
}

#[derive(Clone, Debug)]
enum Material {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256 { point: Vec<u8> },
}

/// One key as providers publish it.
#[derive(Deserialize)]
struct Published {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    n: Option<String>,
    e: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl Keys {
    /// Reads a JSON Web Key Set. Keys of other kinds or for other uses are passed over.
    pub fn read(set: &Value) -> Self {
        let all = set["keys"].as_array().into_iter().flatten();
        Self(all.filter_map(|key| Key::of(Published::deserialize(key).ok()?)).collect())
    }
}

impl Key {
    fn of(published: Published) -> Option<Self> {
        if published.usage.is_some_and(|usage| usage != "sig") {
            return None;
        }
        let part = |text: Option<String>| bytes(&text?).ok();
        let (material, algorithm) = match (published.kty.as_str(), published.crv.as_deref()) {
            ("RSA", _) => (Material::Rsa { modulus: part(published.n)?, exponent: part(published.e)? }, "RS256"),
            ("EC", Some("P-256")) => {
                // An uncompressed point: 4, then both coordinates.
                (Material::P256 { point: [vec![4], part(published.x)?, part(published.y)?].concat() }, "ES256")
            }
            _ => return None,
        };
        if published.alg.is_some_and(|other| other != algorithm) {
            return None;
        }
        Some(Self { id: published.kid, material })
    }

    fn algorithm(&self) -> Algorithm {
        match self.material {
            Material::Rsa { .. } => Algorithm::Rs256,
            Material::P256 { .. } => Algorithm::Es256,
        }
    }

    fn signed(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            Material::Rsa { modulus, exponent } => RsaPublicKeyComponents { n: modulus, e: exponent }
                .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
                .is_ok(),
            Material::P256 { point } => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature).is_ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ring::{
        rand::SystemRandom,
        signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
    };
    use serde_json::json;

    use super::*;

    fn encode(value: &Value) -> String {
        URL_SAFE_NO_PAD.encode(value.to_string())
    }

    fn pair() -> EcdsaKeyPair {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).unwrap()
    }

    fn published(pair: &EcdsaKeyPair, id: &str) -> Value {
        let point = pair.public_key().as_ref();
        let (x, y) = (URL_SAFE_NO_PAD.encode(&point[1..33]), URL_SAFE_NO_PAD.encode(&point[33..]));
        json!({"kty": "EC", "crv": "P-256", "kid": id, "use": "sig", "x": x, "y": y})
    }

    fn token(pair: &EcdsaKeyPair, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", encode(header), encode(claims));
        let signature = pair.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    #[test]
    fn only_the_key_that_it_names_makes_a_token_true() {
        let (ours, theirs) = (pair(), pair());
        let keys = Keys::read(&json!({"keys": [published(&ours, "a"), published(&theirs, "b")]}));
        let claims = json!({"iss": "https://id.example", "sub": "anna"});
        let check = |token: &str| Signed::read(token).and_then(|signed| signed.verify(&keys));
        assert_eq!(check(&token(&ours, &json!({"alg": "ES256", "kid": "a"}), &claims)), Ok(claims.clone()));
        assert_eq!(check(&token(&ours, &json!({"alg": "ES256"}), &claims)), Ok(claims.clone()));
        assert_eq!(check(&token(&theirs, &json!({"alg": "ES256", "kid": "a"}), &claims)), Err(Error::Signature));
        assert_eq!(check(&token(&ours, &json!({"alg": "ES256", "kid": "c"}), &claims)), Err(Error::UnknownKey));
        assert_eq!(check(&token(&ours, &json!({"alg": "RS256", "kid": "a"}), &claims)), Err(Error::UnknownKey));
        let good = token(&ours, &json!({"alg": "ES256", "kid": "a"}), &claims);
        let mut parts: Vec<String> = good.split('.').map(str::to_owned).collect();
        parts[1] = encode(&json!({"iss": "https://id.example", "sub": "boss"}));
        assert_eq!(check(&parts.join(".")), Err(Error::Signature));
    }

    #[test]
    fn tricks_with_the_header_are_refused() {
        let ours = pair();
        let claims = json!({});
        let read = |header: Value| Signed::read(&token(&ours, &header, &claims)).map(|_| ());
        for algorithm in ["none", "None", "HS256", "RS512", ""] {
            assert_eq!(read(json!({"alg": algorithm})), Err(Error::Algorithm(algorithm.to_owned())));
        }
        assert_eq!(read(json!({"alg": "ES256", "crit": ["exp"]})), Err(Error::Malformed));
        for text in ["", ".", "..", "a.b.c", "e30.e30.", "e30.e30"] {
            assert_eq!(Signed::read(text).map(|_| ()), Err(Error::Malformed), "{text}");
        }
    }

    #[test]
    fn keys_for_other_things_are_passed_over() {
        let mut key = published(&pair(), "a");
        assert_eq!(Keys::read(&json!({"keys": [key]})).0.len(), 1);
        key["use"] = "enc".into();
        let other = json!({"keys": [key, {"kty": "oct", "k": "AA"}, {"kty": "EC", "crv": "P-384"}, {"kty": "RSA"}, 1]});
        assert_eq!(Keys::read(&other).0.len(), 0);
        assert_eq!(Keys::read(&Value::Null).0.len(), 0);
    }
}
