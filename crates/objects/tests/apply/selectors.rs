//! Selectors that are right and selectors that are wrong: the same objects, the same words.

use kubeopencode_objects::selector::{FieldSelector, LabelSelector};
use serde_json::{Value, json};

use crate::real::Real;

const LABELS: [&str; 32] = [
    "",
    "a=b",
    "a==b",
    "a!=b",
    "a",
    "!a",
    "a in (b,c)",
    "a notin (b)",
    "n>1",
    "n<10",
    "n>x",
    "a=b,n",
    "a=b,",
    ",a=b",
    "a=b,,c",
    "=b",
    "a b",
    "a in b",
    "a in (b",
    "a in (b c)",
    "a in ()",
    "a in (,b)",
    "a=(b)",
    "a@b=c",
    "a=b@c",
    "a/b/c=d",
    "/b=d",
    "A.io/b=d",
    "x.io/=d",
    "-a=b",
    "a=-b",
    "!a=b",
];

const FIELDS: [&str; 10] = [
    "metadata.name=one",
    "metadata.name!=one",
    "metadata.name==one,metadata.namespace!=x",
    "nonsense",
    "metadata.name=a=b",
    "metadata.name=\\x",
    "metadata.name=\\",
    "spec.color=red",
    ",metadata.name=one",
    "",
];

#[tokio::test]
async fn selectors_choose_the_same_and_are_refused_in_the_same_words_as_by_a_real_api_server() {
    let real = Real::start().await;
    let path = format!("/api/v1/namespaces/{}/configmaps", real.namespace);
    for (name, labels) in [
        ("one", json!({"a": "b", "n": "2"})),
        ("two", json!({"a": "c", "n": "many"})),
        ("three", json!({"a": "", "x.io/b": "d", "n": "20"})),
        ("four", json!({})),
    ] {
        let object = json!({"metadata": {"name": name, "labels": labels}});
        let (code, answer) = real.send("POST", &path, "application/json", Some(&object)).await;
        assert_eq!(code, 201, "{answer}");
    }
    let (_, everything) = real.send("GET", &path, "application/json", None).await;
    let all = everything["items"].as_array().unwrap();
    for text in LABELS {
        let ours = LabelSelector::parse(text).map(|selector| chosen(all, |object| selector.matches(object)));
        compare(&real, &path, "labelSelector", text, ours.map_err(|error| error.to_string())).await;
    }
    for text in FIELDS {
        let ours = FieldSelector::parse(text).and_then(|selector| {
            selector.check("v1", "ConfigMap", None)?;
            Ok(chosen(all, |object| selector.matches(object)))
        });
        compare(&real, &path, "fieldSelector", text, ours.map_err(|error| error.to_string())).await;
    }
}

fn chosen(objects: &[Value], choose: impl Fn(&Value) -> bool) -> Vec<String> {
    let chosen = objects.iter().filter(|object| choose(object));
    chosen.map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

async fn compare(real: &Real, path: &str, parameter: &str, text: &str, ours: Result<Vec<String>, String>) {
    let encoded: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let (code, answer) = real.send("GET", &format!("{path}?{parameter}={encoded}"), "application/json", None).await;
    let theirs = match code {
        200 => Ok(chosen(answer["items"].as_array().unwrap(), |_| true)),
        400 => Err(answer["message"].as_str().unwrap_or_default().to_owned()),
        other => panic!("{other}: {answer}"),
    };
    assert_eq!(ours, theirs, "{parameter}={text}");
}
