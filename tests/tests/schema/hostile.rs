//! Hostile input: each gets a 4xx with a sentence, and the API server lives on.

use std::collections::HashSet;

use blackbox::{
    ApiServer as _, Kind, Request, Response,
    probe::{Change, Places},
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

use crate::suite::{Server, Suite, on_every_server};

on_every_server!(
    bodies_that_are_no_task_get_a_sentence,
    a_body_of_an_unknown_type_gets_a_sentence,
    ten_thousand_items_are_too_many_for_every_list,
    broken_characters_are_replaced_not_stored,
    a_deep_configuration_is_not_refused_by_the_schema_alone,
);

const MIB: usize = 1024 * 1024;

async fn bodies_that_are_no_task_get_a_sentence(server: Server) -> anyhow::Result<()> {
    let suite = Suite::start(server).await?;
    let kind = Kind::named("Task")?;
    let task = |spec: &str| {
        format!(
            r#"{{"apiVersion":"kubeopencode.io/v1alpha1","kind":"Task","metadata":{{"name":"hostile"}},"spec":{spec}}}"#
        )
    };
    let described = |description: &str| task(&format!(r#"{{"agentRef":{{"name":"a"}},"description":{description}}}"#));
    let bodies: Vec<(&str, Vec<u8>)> = vec![
        ("nothing", Vec::new()),
        ("an empty object", b"{}".into()),
        ("a list", b"[]".into()),
        ("a number", b"7".into()),
        ("null", b"null".into()),
        ("broken JSON", task(r#"{"agentRef":{"name":"a"}"#).into()),
        ("something after the object", format!("{}{{}}", described("\"\"")).into()),
        ("a program", b"\x7fELF\x02\x01\x01\x00".into()),
        ("the same key twice", task(r#"{"agentRef":{"name":"a"},"priority":1,"priority":2}"#).into()),
        ("another version", described("\"\"").replace("v1alpha1", "v9").into()),
        ("another group", described("\"\"").replace("kubeopencode.io", "example.com").into()),
        ("another kind", described("\"\"").replace("\"Task\"", "\"Agent\"").into()),
        ("no kind", described("\"\"").replace("\"kind\":\"Task\",", "").into()),
        ("no name", described("\"\"").replace("\"name\":\"hostile\"", "").into()),
        ("a name with a slash", described("\"\"").replace("hostile", "../hostile").into()),
        ("a name in capitals", described("\"\"").replace("hostile", "HOSTILE").into()),
        ("a name of 254 characters", described("\"\"").replace("hostile", &"x".repeat(254)).into()),
        (
            "another namespace",
            described("\"\"").replace("\"name\":\"hostile\"", "\"name\":\"a\",\"namespace\":\"b\"").into(),
        ),
        ("metadata that is a text", described("\"\"").replace("{\"name\":\"hostile\"}", "\"hostile\"").into()),
        ("a spec that is a list", task("[]").into()),
        ("a spec that is null", task("null").into()),
        ("a number beyond all floats", task(r#"{"agentRef":{"name":"a"},"priority":1e400}"#).into()),
        (
            "a number of 400 digits",
            task(&format!(r#"{{"agentRef":{{"name":"a"}},"priority":{}}}"#, "9".repeat(400))).into(),
        ),
        ("a number of 65 bits", task(r#"{"agentRef":{"name":"a"},"priority":36893488147419103232}"#).into()),
        ("half a number", task(r#"{"agentRef":{"name":"a"},"priority":0.5}"#).into()),
        ("a duration below zero", task(r#"{"agentRef":{"name":"a"},"timeout":"-1h"}"#).into()),
        ("a duration as a number", task(r#"{"agentRef":{"name":"a"},"timeout":3600}"#).into()),
        ("a NUL byte in a text", described("\"a\\u0000b\"").into()),
        ("a NUL byte in a name", described("\"\"").replace("hostile", "hos\\u0000tile").into()),
        ("a text of 1 MiB and one byte", described(&format!("\"{}\"", "x".repeat(MIB + 1))).into()),
        ("a body of 4 MiB", described(&format!("\"{}\"", "x".repeat(4 * MIB))).into()),
        ("lists twice as deep as is read", task(&lists(2 * server.deepest())).into()),
        ("lists half as deep as is read, in a text", described(&lists(server.deepest() / 2)).into()),
        ("10,000 labels", described("\"\"").replace("\"name\":\"hostile\"", &labels(10_000)).into()),
    ];
    let mut lines = Vec::new();
    for (name, body) in bodies {
        let response = suite.server.send(Request::try_create_text(kind, &suite.namespace, body)).await?;
        lines.push(format!("{name}\n    {}", refusal(name, &response)));
    }
    alive(&suite).await?;
    insta::with_settings!({ filters => vec![(suite.namespace.as_str(), "[namespace]")] }, {
        insta::assert_snapshot!("hostile", lines.join("\n"));
    });
    Ok(())
}

async fn a_body_of_an_unknown_type_gets_a_sentence(server: Server) -> anyhow::Result<()> {
    let suite = Suite::start(server).await?;
    let kind = Kind::named("Task")?;
    let mut lines = Vec::new();
    for content_type in ["text/html", "application/xml", "multipart/form-data"] {
        let request = Request::try_create(kind, &suite.namespace, &json!({}));
        let response = suite.server.send(Request { content_type, ..request }).await?;
        lines.push(format!("{content_type}\n    {}", refusal(content_type, &response)));
    }
    insta::assert_snapshot!("hostile-types", lines.join("\n"));
    Ok(())
}

async fn ten_thousand_items_are_too_many_for_every_list(server: Server) -> anyhow::Result<()> {
    let suite = Suite::start(server).await?;
    let mut seen = HashSet::new();
    for kind in Kind::all() {
        let places = Places::of(kind)?;
        let lists = kind.nodes().into_iter().filter(|(path, node)| {
            path.starts_with("spec") && node["type"] == "array" && seen.insert(node.to_string())
        });
        let requests = lists.filter_map(|(path, _)| {
            let position = places.find(&path).first()?;
            // Items that are good themselves: the server's list of errors takes half a minute for 10,000 bad ones.
            let item = places.value(position)[0].take();
            let object = places.changed(position, &Change::Set(Value::Array(vec![item; 10_000])));
            Some((path, Request::try_create(kind, &suite.namespace, &object)))
        });
        stream::iter(requests)
            .map(|(path, request)| {
                let suite = &suite;
                async move { Ok::<_, anyhow::Error>((path, suite.server.send(request).await?)) }
            })
            .buffer_unordered(4)
            .try_for_each(|(path, response)| async move {
                let message = response.message();
                let too_many = response.code == 422 && message.contains("Too many: 10000");
                // Ten thousand Tasks or volumes are more than the server reads at all.
                assert!(too_many || response.code == 413, "{path}: {} {message:.400}", response.code);
                Ok(())
            })
            .await?;
    }
    alive(&suite).await
}

async fn broken_characters_are_replaced_not_stored(server: Server) -> anyhow::Result<()> {
    let suite = Suite::start(server).await?;
    let kind = Kind::named("Instruction")?;
    let start =
        r#"{"apiVersion":"kubeopencode.io/v1alpha1","kind":"Instruction","metadata":{"name":"a"},"spec":{"text":""#;
    for text in [&b"a\xffb"[..], br"a\ud800b"] {
        let body = [start.as_bytes(), text, b"\"}}"].concat();
        let response = suite.server.send(Request::try_create_text(kind, &suite.namespace, body)).await?;
        assert_eq!(response.granted()?["spec"]["text"], "a\u{fffd}b");
    }
    Ok(())
}

/// A schema cannot limit the depth of a free-form field, and a reader with a limit cannot read a deeper object, nor
/// a list with it. The server of the API must refuse such objects in admission. This pins the behaviour of Kubernetes.
async fn a_deep_configuration_is_not_refused_by_the_schema_alone(server: Server) -> anyhow::Result<()> {
    let suite = Suite::start(server).await?;
    let kind = Kind::named("Agent")?;
    let half = server.deepest() / 2;
    for (levels, code) in [(50, 201), (half, 201), (4 * half, 400)] {
        let config = format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
        let body = format!(
            r#"{{"apiVersion":"kubeopencode.io/v1alpha1","kind":"Agent","metadata":{{"name":"deep"}},"spec":{{"config":{config}}}}}"#
        );
        let response = suite.server.send(Request::try_create_text(kind, &suite.namespace, body)).await?;
        assert_eq!(response.code, code, "{levels} levels");
        // A body that cannot be read as JSON is kept as a text.
        assert_eq!(response.body.is_string(), levels == half, "{levels} levels");
    }
    alive(&suite).await
}

/// The answer as a line, after a look at whether it is one: a client's mistake, explained, and without an end of pages.
fn refusal(name: &str, response: &Response) -> String {
    let message = response.message();
    assert!((400..500).contains(&response.code), "{name}: {} {message:.400}", response.code);
    assert!(message.len() > 10, "{name}: {} {message}", response.code);
    let short = message.chars().take(300).collect::<String>();
    format!("{} {}{}", response.code, short.replace('\n', " "), if short.len() < message.len() { "…" } else { "" })
}

fn lists(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

fn labels(count: usize) -> String {
    let labels = (0..count).map(|index| format!("\"label-{index}/{}\":\"a b\"", "x".repeat(30))).collect::<Vec<_>>();
    format!("\"name\":\"hostile\",\"labels\":{{{}}}", labels.join(","))
}

async fn alive(suite: &Suite) -> anyhow::Result<()> {
    suite.server.send(Request::get("/readyz")).await?.granted()?;
    Ok(())
}
