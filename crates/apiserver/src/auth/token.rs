//! ServiceAccount tokens: JSON Web Tokens, signed with a key that never leaves the state directory.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use serde::{Deserialize, Serialize};

/// Issuer of tokens, and their default audience.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("the token is not a signed JSON Web Token")]
    Malformed,
    #[error("the token was not signed by this server")]
    Signature,
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet")]
    Early,
    #[error("the token is for another audience")]
    Audience,
    #[error("the key cannot sign")]
    Key,
}

/// The object that a token is bound to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bound {
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// The `kubernetes.io` claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) namespace: String,
    pub(crate) serviceaccount: Bound,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<Bound>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<Bound>,
}

/// Claims of a token. Times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claims {
    pub(crate) iss: String,
    pub(crate) sub: String,
    pub(crate) aud: Vec<String>,
    pub(crate) iat: i64,
    pub(crate) nbf: i64,
    pub(crate) exp: i64,
    pub(crate) jti: String,
    #[serde(rename = "kubernetes.io")]
    pub(crate) identity: Identity,
}

impl Claims {
    /// Claims for a ServiceAccount, valid from `now`.
    pub(crate) fn new(identity: Identity, audiences: Vec<String>, now: i64, seconds: i64, id: String) -> Self {
        Self {
            iss: ISSUER.to_owned(),
            sub: format!("system:serviceaccount:{}:{}", identity.namespace, identity.serviceaccount.name),
            aud: if audiences.is_empty() { vec![ISSUER.to_owned()] } else { audiences },
            iat: now,
            nbf: now,
            exp: now.saturating_add(seconds),
            jti: id,
            identity,
        }
    }
}

/// The signing key.
pub(crate) struct TokenKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl TokenKey {
    /// Parses a private key in PKCS#8.
    pub(crate) fn new(pkcs8: &[u8]) -> Result<Self, TokenError> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &random);
        Ok(Self { pair: pair.map_err(|_| TokenError::Key)?, random })
    }

    pub(crate) fn sign(&self, claims: &Claims) -> Result<String, TokenError> {
        let header = BASE64_URL_SAFE_NO_PAD.encode(br#"{"alg":"ES256","kid":"kubeopencode"}"#);
        let claims = serde_json::to_vec(claims).map_err(|_| TokenError::Malformed)?;
        let message = format!("{header}.{}", BASE64_URL_SAFE_NO_PAD.encode(claims));
        let signature = self.pair.sign(&self.random, message.as_bytes()).map_err(|_| TokenError::Key)?;
        Ok(format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
    }

    /// The claims of a token, if it is ours, valid at `now`, and for one of `audiences`.
    pub(crate) fn verify(&self, token: &str, audiences: &[String], now: i64) -> Result<Claims, TokenError> {
        let (message, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let (_, claims) = message.split_once('.').ok_or(TokenError::Malformed)?;
        let decode = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| TokenError::Malformed);
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key())
            .verify(message.as_bytes(), &decode(signature)?)
            .map_err(|_| TokenError::Signature)?;
        let claims: Claims = serde_json::from_slice(&decode(claims)?).map_err(|_| TokenError::Malformed)?;
        if claims.exp <= now {
            return Err(TokenError::Expired);
        }
        if claims.nbf > now {
            return Err(TokenError::Early);
        }
        if claims.iss != ISSUER || !claims.aud.iter().any(|audience| audiences.contains(audience)) {
            return Err(TokenError::Audience);
        }
        Ok(claims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> TokenKey {
        TokenKey::new(&rcgen::KeyPair::generate().unwrap().serialize_der()).unwrap()
    }

    fn claims() -> Claims {
        let identity = Identity {
            namespace: "a".to_owned(),
            serviceaccount: Bound { name: "b".to_owned(), uid: "u".to_owned() },
            pod: None,
            secret: None,
        };
        Claims::new(identity, Vec::new(), 1_000, 600, "id".to_owned())
    }

    #[test]
    fn a_token_is_valid_until_it_expires() {
        let (key, ours) = (key(), [ISSUER.to_owned()]);
        let token = key.sign(&claims()).unwrap();
        assert_eq!(key.verify(&token, &ours, 1_599).unwrap(), claims());
        assert_eq!(key.verify(&token, &ours, 1_600), Err(TokenError::Expired));
        assert_eq!(key.verify(&token, &ours, 999), Err(TokenError::Early));
        assert_eq!(key.verify(&token, &["other".to_owned()], 1_001), Err(TokenError::Audience));
    }

    #[test]
    fn a_token_with_another_key_or_content_is_rejected() {
        let (key, ours) = (key(), [ISSUER.to_owned()]);
        let token = key.sign(&claims()).unwrap();
        assert_eq!(self::key().verify(&token, &ours, 1_001), Err(TokenError::Signature));
        let mut forged = claims();
        forged.sub = "system:serviceaccount:kube-system:admin".to_owned();
        let parts: Vec<&str> = token.split('.').collect();
        let words = BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(&forged).unwrap());
        let token = [parts[0], &words, parts[2]].join(".");
        assert_eq!(key.verify(&token, &ours, 1_001), Err(TokenError::Signature));
        assert_eq!(key.verify("nonsense", &ours, 1_001), Err(TokenError::Malformed));
    }
}
