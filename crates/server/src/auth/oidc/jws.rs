//! ID tokens: `jsonwebtoken` parses and validates them, `ring` verifies their signatures.
//!
//! `ring` is part of the TLS stack. The crypto features of `jsonwebtoken` would add a second implementation of RSA and
//! of elliptic curves, so the crate is used without them, with [`RING`] as its crypto provider.

use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind, Header, Validation,
    crypto::{CryptoProvider, JwtVerifier, KeyUtils},
    dangerous::insecure_decode_claims,
    decode, decode_header,
    errors::{ErrorKind, new_error},
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse},
    signature::{self, Verifier},
};
use ring::signature::{ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

/// Why a token is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not a token, a wrong signature, or a claim that fails validation.
    #[error(transparent)]
    Invalid(#[from] jsonwebtoken::errors::Error),
    /// The header lists extensions that must be understood. None is.
    #[error("the header has critical extensions")]
    Critical,
    /// The provider publishes no key that fits the header.
    #[error("the provider has no such key")]
    UnknownKey,
}

/// Verifies signatures with `ring`. Tokens are never signed here.
static RING: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(new_error(ErrorKind::UnsupportedAlgorithm)),
    verifier_factory: |algorithm, key| Ok(Box::new(RingVerifier { algorithm: *algorithm, key: key.clone() })),
    key_utils: KeyUtils::new_unimplemented(),
};

struct RingVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let verified = match (self.algorithm, self.key.kind()) {
            (Algorithm::RS256, DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            (Algorithm::ES256, DecodingKeyKind::SecretOrDer(point)) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            _ => return Err(signature::Error::new()),
        };
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

/// The issuer that a token names, if its algorithm is supported here. Not verified: only for choosing a provider.
pub fn claimed_issuer(token: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Claims {
        iss: String,
    }
    decode_header(token).ok().filter(|header| is_supported(header.alg) && header.crit.is_none())?;
    insecure_decode_claims::<Claims>(token).ok().map(|claims| claims.iss)
}

fn is_supported(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::RS256 | Algorithm::ES256)
}

/// The signing keys of a provider, by key ID.
#[derive(Clone, Debug, Default)]
pub struct Keys(Vec<Key>);

#[derive(Clone, Debug)]
struct Key {
    id: Option<String>,
    algorithm: Algorithm,
    public: DecodingKey,
}

impl Keys {
    /// Reads a JSON Web Key Set. Keys of other types or for other uses are skipped.
    pub fn from_set(set: &Value) -> Self {
        // The second call fails: the provider is installed already.
        let _ = RING.install_default();
        let published = set["keys"].as_array().into_iter().flatten();
        Self(published.filter_map(|key| Key::from_jwk(&Jwk::deserialize(key).ok()?)).collect())
    }

    /// The claims of a token that one of the keys signed and `validation` accepts. `validation` does not restrict
    /// algorithms: RS256 and ES256 are accepted.
    pub fn decode<T: DeserializeOwned>(&self, token: &str, validation: &Validation) -> Result<T, Error> {
        let header = decode_header(token)?;
        if header.crit.is_some() {
            return Err(Error::Critical);
        }
        if !is_supported(header.alg) {
            return Err(new_error(ErrorKind::InvalidAlgorithm).into());
        }
        let validation = Validation { algorithms: vec![header.alg], ..validation.clone() };
        let mut refused = Error::UnknownKey;
        for key in self.0.iter().filter(|key| key.fits(&header)) {
            match decode(token, &key.public, &validation) {
                Ok(token) => return Ok(token.claims),
                Err(error) => refused = error.into(),
            }
        }
        Err(refused)
    }
}

impl Key {
    fn from_jwk(jwk: &Jwk) -> Option<Self> {
        if jwk.common.public_key_use.as_ref().is_some_and(|usage| *usage != PublicKeyUse::Signature) {
            return None;
        }
        let (algorithm, name) = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => (Algorithm::RS256, KeyAlgorithm::RS256),
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => {
                (Algorithm::ES256, KeyAlgorithm::ES256)
            }
            _ => return None,
        };
        if jwk.common.key_algorithm.is_some_and(|other| other != name) {
            return None;
        }
        Some(Self { id: jwk.common.key_id.clone(), algorithm, public: DecodingKey::from_jwk(jwk).ok()? })
    }

    fn fits(&self, header: &Header) -> bool {
        self.algorithm == header.alg && (header.kid.is_none() || header.kid == self.id)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    use ring::{
        rand::SystemRandom,
        signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
    };
    use serde_json::json;

    use super::*;

    fn encode(value: &Value) -> String {
        URL_SAFE_NO_PAD.encode(value.to_string())
    }

    pub(in super::super) fn pair() -> EcdsaKeyPair {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).unwrap()
    }

    pub(in super::super) fn published(pair: &EcdsaKeyPair, id: &str) -> Value {
        let point = pair.public_key().as_ref();
        let (x, y) = (URL_SAFE_NO_PAD.encode(&point[1..33]), URL_SAFE_NO_PAD.encode(&point[33..]));
        json!({"kty": "EC", "crv": "P-256", "kid": id, "use": "sig", "x": x, "y": y})
    }

    pub(in super::super) fn token(pair: &EcdsaKeyPair, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", encode(header), encode(claims));
        let signature = pair.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// Accepts all claims.
    fn lax() -> Validation {
        let mut validation = Validation::default();
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_aud = false;
        validation
    }

    fn invalid(kind: ErrorKind) -> Result<Value, Error> {
        Err(new_error(kind).into())
    }

    #[test]
    fn only_the_key_that_a_token_names_verifies_it() {
        let (ours, theirs) = (pair(), pair());
        let keys = Keys::from_set(&json!({"keys": [published(&ours, "a"), published(&theirs, "b")]}));
        let claims = json!({"iss": "https://id.example", "sub": "anna"});
        let check = |token: &str| keys.decode::<Value>(token, &lax());
        assert_eq!(check(&token(&ours, &json!({"alg": "ES256", "kid": "a"}), &claims)), Ok(claims.clone()));
        assert_eq!(check(&token(&ours, &json!({"alg": "ES256"}), &claims)), Ok(claims.clone()));
        let forged = token(&theirs, &json!({"alg": "ES256", "kid": "a"}), &claims);
        assert_eq!(check(&forged), invalid(ErrorKind::InvalidSignature));
        assert_eq!(check(&token(&ours, &json!({"alg": "ES256", "kid": "c"}), &claims)), Err(Error::UnknownKey));
        assert_eq!(check(&token(&ours, &json!({"alg": "RS256", "kid": "a"}), &claims)), Err(Error::UnknownKey));
        let good = token(&ours, &json!({"alg": "ES256", "kid": "a"}), &claims);
        let mut parts: Vec<String> = good.split('.').map(str::to_owned).collect();
        parts[1] = encode(&json!({"iss": "https://id.example", "sub": "boss"}));
        assert_eq!(check(&parts.join(".")), invalid(ErrorKind::InvalidSignature));
    }

    #[test]
    fn tricks_with_the_header_are_refused() {
        let ours = pair();
        let keys = Keys::from_set(&json!({"keys": [published(&ours, "a")]}));
        let check = |header: Value| keys.decode::<Value>(&token(&ours, &header, &json!({})), &lax());
        assert_eq!(check(json!({"alg": "ES256"})), Ok(json!({})));
        for algorithm in ["none", "None", "HS256", "RS512", "PS256", ""] {
            assert!(check(json!({"alg": algorithm})).is_err(), "{algorithm}");
        }
        assert_eq!(check(json!({"alg": "ES256", "crit": ["exp"]})), Err(Error::Critical));
        assert!(check(json!({"alg": "ES256", "crit": "exp"})).is_err());
        for text in ["", ".", "..", "a.b.c", "e30.e30.", "e30.e30"] {
            assert!(keys.decode::<Value>(text, &lax()).is_err(), "{text}");
            assert_eq!(claimed_issuer(text), None, "{text}");
        }
    }

    #[test]
    fn keys_for_other_uses_are_skipped() {
        let mut key = published(&pair(), "a");
        assert_eq!(Keys::from_set(&json!({"keys": [key]})).0.len(), 1);
        key["use"] = "enc".into();
        let other = json!({"keys": [key, {"kty": "oct", "k": "AA"}, {"kty": "EC", "crv": "P-384"}, {"kty": "RSA"}, 1]});
        assert_eq!(Keys::from_set(&other).0.len(), 0);
        assert_eq!(Keys::from_set(&Value::Null).0.len(), 0);
    }
}
