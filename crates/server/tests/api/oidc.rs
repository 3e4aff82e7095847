//! People of an identity provider.

use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde_json::{Value, json};
use server::{Oidc, Options};

use crate::{
    harness::{self, Harness},
    provider::{CLIENT, Key, Manners, Provider, SECRET},
};

fn anna() -> Value {
    json!({ "sub": "1", "email": "anna@example.com", "email_verified": true, "groups": ["devs", "system:masters"] })
}

/// A server at which people of `provider` may log in. All of them have the same key.
async fn start(provider: Option<&Provider>) -> Harness {
    let oidc = provider.map(|provider| Oidc {
        client_secret: Some(SECRET.to_owned()),
        name: "Acme".to_owned(),
        ..Oidc::new(&provider.issuer(), CLIENT)
    });
    harness::start_for(Options { session_key: Some([7; 32]), ..harness::options() }, oidc).await
}

/// Lets a group read Tasks in the namespace of the test.
async fn allow(it: &Harness, group: &str, verbs: &[&str]) {
    let rules = json!([{ "apiGroups": ["kubeopencode.io"], "resources": ["tasks"], "verbs": verbs }]);
    it.create::<Role>(json!({ "metadata": { "name": "group" }, "rules": rules })).await;
    it.create::<RoleBinding>(json!({
        "metadata": { "name": "group" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "group" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group }],
    }))
    .await;
}

/// The cookies that an answer sets, without those that it takes away.
fn cookies(response: &reqwest::Response) -> String {
    let set = response.headers().get_all("set-cookie").iter().map(|value| value.to_str().unwrap());
    let kept = set.filter(|cookie| !cookie.contains("Max-Age=0"));
    kept.map(|cookie| cookie.split(';').next().unwrap()).collect::<Vec<_>>().join("; ")
}

fn location(response: &reqwest::Response) -> String {
    assert_eq!(response.status(), 303);
    response.headers()["location"].to_str().unwrap().to_owned()
}

/// Goes through the login at the provider; returns the callback URL of our server and the cookie of the login.
async fn to_the_provider_and_back(it: &Harness, next: &str) -> (String, String) {
    let begun = it.http.get(format!("{}/login/oidc", it.url)).query(&[("next", next)]).send().await.unwrap();
    let cookie = cookies(&begun);
    let at_provider = it.http.get(location(&begun)).send().await.unwrap();
    (location(&at_provider), cookie)
}

/// Where a login ends, and the cookie that it gives.
async fn sign_in(it: &Harness, next: &str) -> (String, String) {
    let (back, cookie) = to_the_provider_and_back(it, next).await;
    let done = it.http.get(back).header("cookie", cookie).send().await.unwrap();
    (location(&done), cookies(&done))
}

#[tokio::test]
async fn a_person_signs_in_and_has_their_own_rights_and_no_others() {
    let provider = Provider::start(Key::rsa("one"), anna()).await;
    let it = start(Some(&provider)).await;
    let (_, info) = harness::answer(it.http.get(it.path("/info")).send().await.unwrap()).await;
    assert_eq!(info["authentication"]["oidc"], json!({ "name": "Acme", "path": "/login/oidc" }));

    let (page, cookie) = sign_in(&it, "/tasks?phase=Running").await;
    assert_eq!(page, "/tasks?phase=Running");
    assert!(cookie.starts_with("kubeopencode-session=") && !cookie.contains("anna"), "{cookie}");
    let get =
        async |path: String| harness::answer(it.http.get(path).header("cookie", &cookie).send().await.unwrap()).await;
    let (_, who) = get(it.path("/whoami")).await;
    assert_eq!((who["user"].as_str(), who["via"].as_str()), (Some("oidc:anna@example.com"), Some("session")));
    // A provider cannot make anybody an administrator.
    assert_eq!(who["groups"], json!(["oidc:devs", "oidc:system:masters", "system:authenticated"]));
    assert_eq!(get(it.here("/tasks")).await.0, 403);

    allow(&it, "oidc:devs", &["get", "list", "create"]).await;
    it.until("the group may list", async || get(it.here("/tasks")).await.0 == 200).await;
    let task = json!({ "name": "hers", "description": "do it", "agentRef": { "name": "dev" } });
    let create = || it.http.post(it.here("/tasks")).header("cookie", &cookie).json(&task);
    assert_eq!(create().send().await.unwrap().status(), 403);
    let csrf = who["csrfToken"].as_str().unwrap();
    assert_eq!(create().header("x-kubeopencode-csrf", csrf).send().await.unwrap().status(), 201);
    assert_eq!(get(it.here("/tasks/hers")).await.0, 200);
    let delete = it.http.delete(it.here("/tasks/hers")).header("cookie", &cookie).header("x-kubeopencode-csrf", csrf);
    assert_eq!(delete.send().await.unwrap().status(), 403);
    assert_eq!(get(it.path("/agents")).await.0, 403);

    // The same cookie at a server that knows no provider, or another one.
    let without = start(None).await;
    let other = Provider::start(Key::p256("x"), anna()).await;
    let elsewhere = start(Some(&other)).await;
    for it in [&without, &elsewhere] {
        assert_eq!(it.http.get(it.path("/whoami")).header("cookie", &cookie).send().await.unwrap().status(), 401);
    }
    assert_eq!(without.http.get(format!("{}/login/oidc", without.url)).send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn a_way_back_that_does_not_fit_logs_in_nobody() {
    let provider = Provider::start(Key::p256("one"), anna()).await;
    let it = start(Some(&provider)).await;
    let finish = async |back: &str, cookie: &str| {
        let done = it.http.get(back).header("cookie", cookie).send().await.unwrap();
        assert!(!cookies(&done).contains("kubeopencode-session"), "{back}");
        location(&done)
    };
    let (back, cookie) = to_the_provider_and_back(&it, "/").await;
    assert_eq!(finish(&back, "").await, "/login?problem=expired");
    let (_, of_another) = to_the_provider_and_back(&it, "/").await;
    assert_eq!(finish(&back, &of_another).await, "/login?problem=expired");
    assert_eq!(finish(&back.replace("state=", "state=x"), &cookie).await, "/login?problem=expired");
    assert_eq!(finish(&back.replace("code=code", "code=forged"), &cookie).await, "/login?problem=failed");
    // The code is good for one login.
    assert_eq!(location(&it.http.get(&back).header("cookie", &cookie).send().await.unwrap()), "/");
    assert_eq!(finish(&back, &cookie).await, "/login?problem=failed");

    for (manners, page) in [
        (Manners::Denies, "/login?problem=denied"),
        (Manners::ForgetsNonce, "/login?problem=failed"),
        (Manners::NamesAnother, "/login?problem=failed"),
    ] {
        provider.behave(manners);
        let (end, cookie) = sign_in(&it, "/").await;
        assert_eq!((end.as_str(), cookie.as_str()), (page, ""), "{manners:?}");
    }
    provider.behave(Manners::Good);
    for person in [json!({ "sub": "1" }), json!({ "email": "anna@example.com", "email_verified": false })] {
        provider.sit_down(person);
        assert_eq!(sign_in(&it, "/").await.0, "/login?problem=refused");
    }
    provider.sit_down(anna());
    assert_eq!(sign_in(&it, "//evil.example/").await.0, "/");
}

#[tokio::test]
async fn an_id_token_is_a_bearer_token_if_it_is_real() {
    let provider = Provider::start(Key::rsa("one"), anna()).await;
    let it = start(Some(&provider)).await;
    let good = provider.claims();
    let (status, who) = it.get(&it.path("/whoami"), &provider.sign(&good)).await;
    assert_eq!(
        (status.as_u16(), who["user"].as_str(), who["via"].as_str()),
        (200, Some("oidc:anna@example.com"), Some("bearer"))
    );
    let with = |claim: &str, value: Value| {
        let mut claims = good.clone();
        claims[claim] = value;
        claims
    };
    let now = jiff::Timestamp::now().as_second();
    for claims in [
        with("aud", json!("another")),
        with("exp", json!(now - 3600)),
        with("nbf", json!(now + 3600)),
        with("azp", json!("another")),
        with("email", json!("")),
        with("email_verified", json!(false)),
        with("iss", json!("https://another.example")),
    ] {
        assert_eq!(it.get(&it.path("/whoami"), &provider.sign(&claims)).await.0, 401, "{claims}");
    }
    for forger in [Key::rsa("one"), Key::p256("one"), Key::rsa("two")] {
        assert_eq!(it.get(&it.path("/whoami"), &forger.sign(&good)).await.0, 401);
    }
    let token = provider.sign(&good);
    let claims = token.split('.').nth(1).unwrap();
    // {"alg":"none"}
    assert_eq!(it.get(&it.path("/whoami"), &format!("eyJhbGciOiJub25lIn0.{claims}.")).await.0, 401);

    // Its owner's token of the Kubernetes API works beside it.
    let owner = it.owner().await;
    assert_eq!(it.get(&it.here("/tasks"), &owner).await.0, 200);

    provider.rotate(Key::p256("three"));
    let renewed = provider.sign(&good);
    it.until("the new key is known", async || it.get(&it.path("/whoami"), &renewed).await.0 == 200).await;
    assert_eq!(it.get(&it.path("/whoami"), &token).await.0, 401);
}

#[tokio::test]
async fn a_provider_that_does_not_answer_keeps_people_out_and_nobody_else() {
    let nobody = Oidc::new("http://127.0.0.1:1/realm", CLIENT);
    let it = harness::start_for(harness::options(), Some(nobody)).await;
    let begun = it.http.get(format!("{}/login/oidc", it.url)).send().await.unwrap();
    assert_eq!(location(&begun), "/login?problem=failed");
    let claims = json!({ "iss": "http://127.0.0.1:1/realm", "aud": CLIENT, "exp": 9_999_999_999_i64 });
    assert_eq!(it.get(&it.path("/whoami"), &Key::p256("a").sign(&claims)).await.0, 503);
    let owner = it.owner().await;
    assert_eq!(it.get(&it.here("/tasks"), &owner).await.0, 200);
}
