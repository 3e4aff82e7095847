//! Patches that ask for too much.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::world::{in_process, refusal};

#[tokio::test]
async fn a_small_patch_cannot_make_gigabytes() {
    let (_server, client) = in_process().await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let map = json!({"metadata": {"name": "m"}, "data": {"a": "x".repeat(20_000)}});
    maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    // Each copy of the data into itself doubles the object.
    let copies = |count: usize| -> Value {
        (0..count).map(|n| json!({"op": "copy", "from": "/data", "path": format!("/data/c{n}")})).collect()
    };
    let patch = |body: &Value| {
        let request = http::Request::patch("/api/v1/namespaces/default/configmaps/m");
        let request = request.header("content-type", "application/json-patch+json");
        client.request::<Value>(request.body(body.to_string().into_bytes()).unwrap())
    };
    let message = "the server rejected our request due to an error in our request";
    assert_eq!(refusal(patch(&copies(17)).await), (422, message.to_owned()));
    let many = Value::Array(vec![json!({"op": "test", "path": "/data/b", "value": null}); 10_001]);
    let message = "The allowed maximum operations in a JSON patch is 10000, got 10001";
    assert_eq!(refusal(patch(&many).await), (413, message.to_owned()));
    assert_eq!(maps.get("m").await.unwrap().data.unwrap().len(), 1);
}
