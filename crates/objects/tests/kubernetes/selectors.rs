//! Valid and invalid selectors: the same objects, the same error messages.

use http::Method;
use kubeopencode_objects::selector::{FieldSelector, LabelSelector};
use serde_json::{Value, json};

use crate::oracle::Oracle;

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn selectors_choose_the_same_and_are_refused_in_the_same_words_as_by_a_real_api_server() -> anyhow::Result<()> {
    let oracle = Oracle::start().await?;
    let path = format!("/api/v1/namespaces/{}/configmaps", oracle.namespace);
    for (name, labels) in [
        ("one", json!({"a": "b", "n": "2"})),
        ("two", json!({"a": "c", "n": "many"})),
        ("three", json!({"a": "", "x.io/b": "d", "n": "20"})),
        ("four", json!({})),
    ] {
        let object = json!({"metadata": {"name": name, "labels": labels}});
        oracle.ask(Method::POST, &path, &object).await?.granted()?;
    }
    let everything = oracle.ask(Method::GET, &path, &Value::Null).await?.granted()?;
    let all = items(&everything);
    for text in LABELS {
        let ours = LabelSelector::parse(text).map(|selector| chosen(all, |object| selector.matches(object)));
        compare(&oracle, &path, "labelSelector", text, ours.map_err(|error| error.to_string())).await?;
    }
    for text in FIELDS {
        let ours = FieldSelector::parse(text).and_then(|selector| {
            selector.check("v1", "ConfigMap", None)?;
            Ok(chosen(all, |object| selector.matches(object)))
        });
        compare(&oracle, &path, "fieldSelector", text, ours.map_err(|error| error.to_string())).await?;
    }
    Ok(())
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn chosen(objects: &[Value], choose: impl Fn(&Value) -> bool) -> Vec<String> {
    let chosen = objects.iter().filter(|object| choose(object));
    chosen.map(|object| object["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn compare(
    oracle: &Oracle,
    path: &str,
    parameter: &str,
    text: &str,
    ours: Result<Vec<String>, String>,
) -> anyhow::Result<()> {
    let encoded = text.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat();
    let answer = oracle.ask(Method::GET, &format!("{path}?{parameter}={encoded}"), &Value::Null).await?;
    let theirs = match answer.code {
        200 => Ok(chosen(items(&answer.body), |_| true)),
        400 => Err(answer.body["message"].as_str().unwrap_or_default().to_owned()),
        other => anyhow::bail!("{other}: {}", answer.body),
    };
    assert_eq!(ours, theirs, "{parameter}={text}");
    Ok(())
}
