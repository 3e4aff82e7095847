//! An OpenID Connect provider on loopback: it speaks the real protocol, checks requests as a real provider does, and
//! misbehaves on request.

use std::{
    collections::HashMap,
    process::Command,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{Query, State},
    response::{IntoResponse, Redirect, Response},
    routing::{get, post},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, StatusCode};
use ring::{
    rand::SystemRandom,
    signature::{self, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RsaKeyPair},
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;

pub const CLIENT: &str = "page";
pub const SECRET: &str = "s3cret & more";

/// A key and the name that it is published under.
pub struct Key {
    id: String,
    pair: Pair,
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    P256(Box<EcdsaKeyPair>),
}

impl Key {
    /// A new RSA key. `ring` makes none itself.
    pub fn rsa(id: &str) -> Self {
        let output = Command::new("openssl")
            .args(["genpkey", "-quiet", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-outform", "DER"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let pair = RsaKeyPair::from_pkcs8(&output.stdout).or_else(|_| RsaKeyPair::from_der(&output.stdout)).unwrap();
        Self { id: id.to_owned(), pair: Pair::Rsa(Box::new(pair)) }
    }

    /// A new key on P-256.
    pub fn p256(id: &str) -> Self {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).unwrap();
        Self { id: id.to_owned(), pair: Pair::P256(Box::new(pair)) }
    }

    fn published(&self) -> Value {
        match &self.pair {
            Pair::Rsa(pair) => {
                let public = signature::RsaPublicKeyComponents::<Vec<u8>>::from(pair.public_key());
                json!({ "kty": "RSA", "use": "sig", "alg": "RS256", "kid": self.id,
                    "n": URL_SAFE_NO_PAD.encode(&public.n), "e": URL_SAFE_NO_PAD.encode(&public.e) })
            }
            Pair::P256(pair) => {
                let point = pair.public_key().as_ref();
                json!({ "kty": "EC", "crv": "P-256", "kid": self.id,
                    "x": URL_SAFE_NO_PAD.encode(&point[1..33]), "y": URL_SAFE_NO_PAD.encode(&point[33..]) })
            }
        }
    }

    /// A token with these claims, signed with this key.
    pub fn sign(&self, claims: &Value) -> String {
        let algorithm = match self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::P256(_) => "ES256",
        };
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", encode(&json!({ "alg": algorithm, "kid": self.id })), encode(claims));
        let random = SystemRandom::new();
        let signature = match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&signature::RSA_PKCS1_SHA256, &random, message.as_bytes(), &mut signature).unwrap();
                signature
            }
            Pair::P256(pair) => pair.sign(&random, message.as_bytes()).unwrap().as_ref().to_vec(),
        };
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// A deviation of the provider from the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manners {
    Good,
    /// The user denies consent.
    Denies,
    /// Its tokens are for another login.
    ForgetsNonce,
    /// The callback names the wrong issuer.
    NamesAnother,
}

struct Inner {
    issuer: String,
    key: Key,
    manners: Manners,
    /// Claims of the person who is at the browser.
    person: Value,
    /// Codes that were given out, with the query that they were asked for by.
    codes: HashMap<String, HashMap<String, String>>,
}

/// The provider.
#[derive(Clone)]
pub struct Provider(Arc<Mutex<Inner>>);

impl Provider {
    /// A provider at whose browser `person` sits.
    pub async fn start(key: Key, person: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}/realm", listener.local_addr().unwrap());
        let inner = Inner { issuer, key, manners: Manners::Good, person, codes: HashMap::new() };
        let provider = Self(Arc::new(Mutex::new(inner)));
        let router = Router::new()
            .route("/realm/.well-known/openid-configuration", get(offer))
            .route("/realm/keys", get(keys))
            .route("/realm/authorize", get(authorize))
            .route("/realm/token", post(token))
            .with_state(provider.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        provider
    }

    fn with<T>(&self, look: impl FnOnce(&mut Inner) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn issuer(&self) -> String {
        self.with(|inner| inner.issuer.clone())
    }

    /// Uses another key from now on, and no longer publishes the one before.
    pub fn rotate(&self, key: Key) {
        self.with(|inner| inner.key = key);
    }

    pub fn behave(&self, manners: Manners) {
        self.with(|inner| inner.manners = manners);
    }

    pub fn sit_down(&self, person: Value) {
        self.with(|inner| inner.person = person);
    }

    /// Claims of a token that is good now.
    pub fn claims(&self) -> Value {
        self.with(|inner| {
            let now = jiff::Timestamp::now().as_second();
            let mut claims = json!({ "iss": inner.issuer, "aud": CLIENT, "iat": now, "exp": now + 300 });
            claims.as_object_mut().unwrap().extend(inner.person.as_object().unwrap().clone());
            claims
        })
    }

    pub fn sign(&self, claims: &Value) -> String {
        self.with(|inner| inner.key.sign(claims))
    }
}

async fn offer(State(provider): State<Provider>) -> Json<Value> {
    let issuer = provider.issuer();
    Json(json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/keys"),
        "response_types_supported": ["code"],
        "id_token_signing_alg_values_supported": ["RS256", "ES256"],
    }))
}

async fn keys(State(provider): State<Provider>) -> Json<Value> {
    Json(provider.with(|inner| json!({ "keys": [inner.key.published()] })))
}

/// The person is logged in here already, so they are sent back at once.
async fn authorize(State(provider): State<Provider>, Query(query): Query<HashMap<String, String>>) -> Response {
    let is = |key: &str, wanted: &str| query.get(key).is_some_and(|value| value == wanted);
    let good = is("response_type", "code")
        && is("client_id", CLIENT)
        && is("code_challenge_method", "S256")
        && query.get("scope").is_some_and(|scope| scope.split(' ').any(|one| one == "openid"))
        && ["redirect_uri", "state", "nonce", "code_challenge"].iter().all(|key| query.contains_key(*key));
    if !good {
        return (StatusCode::BAD_REQUEST, format!("{query:?}")).into_response();
    }
    provider.with(|inner| {
        let code = format!("code-{}", inner.codes.len());
        let issuer =
            if inner.manners == Manners::NamesAnother { "http://127.0.0.1:1".to_owned() } else { inner.issuer.clone() };
        let answer = match inner.manners {
            Manners::Denies => ("error", "access_denied"),
            _ => ("code", code.as_str()),
        };
        let back = form_urlencoded::Serializer::new(format!("{}?", query["redirect_uri"]))
            .extend_pairs([answer, ("state", &query["state"]), ("iss", &issuer)])
            .finish();
        inner.codes.insert(code, query);
        Redirect::to(&back.replacen("?&", "?", 1)).into_response()
    })
}

async fn token(State(provider): State<Provider>, headers: HeaderMap, body: Bytes) -> Response {
    let form: HashMap<String, String> = form_urlencoded::parse(&body).into_owned().collect();
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("{}:{}", encoded(CLIENT), encoded(SECRET)));
    let proved = headers.get("authorization").is_some_and(|value| *value == format!("Basic {basic}"));
    let asked = provider.with(|inner| inner.codes.remove(form.get("code").map_or("", String::as_str)));
    let good = asked.as_ref().is_some_and(|asked| {
        let verifier = form.get("code_verifier").map_or("", String::as_str);
        asked["code_challenge"] == URL_SAFE_NO_PAD.encode(Sha256::digest(verifier))
            && form.get("redirect_uri") == asked.get("redirect_uri")
            && form.get("grant_type").is_some_and(|kind| kind == "authorization_code")
    });
    let Some(asked) = asked.filter(|_| proved && good) else {
        return (StatusCode::BAD_REQUEST, Json(json!({ "error": "invalid_grant" }))).into_response();
    };
    let mut claims = provider.claims();
    let forgets = provider.with(|inner| inner.manners == Manners::ForgetsNonce);
    claims["nonce"] = if forgets { json!("of another login") } else { json!(asked["nonce"]) };
    let token = provider.sign(&claims);
    Json(json!({ "access_token": "opaque", "token_type": "Bearer", "id_token": token })).into_response()
}
