//! Bounds, enums, patterns, defaults, types: the cases that are derived from the definitions.

use anyhow::Context as _;
use blackbox::{
    ApiServer as _, Kind, Request, Response,
    cases::object_name,
    probe::{Change, Expect, Places, Position, Probe, Seen, at_mut, probes},
    typed,
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use crate::suite::{Server, Suite, on_every_server};

on_every_server!(every_bound_enum_pattern_default_and_type_holds,);

/// Requests under way at once: the API server on the other core is busy, and nothing waits in line for long.
const CONCURRENCY: usize = 16;

/// A text here must be the name of another step, which no derived text is. Only the rule about that may refuse it.
const ONLY_BESIDE_OTHERS: &str = "spec.steps[].dependsOn[]";

async fn every_bound_enum_pattern_default_and_type_holds(server: Server) -> anyhow::Result<()> {
    let suite = Suite::start(server).await?;
    let mut wrong = Vec::new();
    let mut count = 0;
    let mut seen = Seen::default();
    for kind in Kind::all() {
        let places = Places::each_field_alone(kind)?;
        let stored = store(&suite, kind, &places).await?;
        let probes = probes(kind, &places, &mut seen)?;
        count += probes.len();
        let answers = stream::iter(&probes)
            .map(|probe| ask(&suite, kind, &places, &stored, probe))
            .buffered(CONCURRENCY)
            .try_collect::<Vec<_>>()
            .await?;
        wrong.extend(answers.iter().filter_map(|answer| answer.as_ref().err()).cloned());
        let lines = answers.into_iter().filter_map(Result::ok).flatten().collect::<Vec<_>>();
        insta::assert_snapshot!(format!("derived-{}", kind.name), lines.join("\n"));
    }
    assert!(wrong.is_empty(), "{} of {count} cases:\n{}", wrong.len(), wrong.join("\n"));
    Ok(())
}

/// Stores the manifests that have a status, so that it can be changed; returns the stored objects.
async fn store(suite: &Suite, kind: &Kind, places: &Places) -> anyhow::Result<Vec<Value>> {
    let _alone = if kind.namespaced { None } else { Some(suite.alone_with_the_config().await) };
    let mut stored = Vec::new();
    for object in places.manifests() {
        stored.push(if object["status"].is_null() || !kind.namespaced {
            Value::Null
        } else {
            let mut object = object.clone();
            object["metadata"]["name"] = format!("{}-stored", object_name(&object)).into();
            suite.server.send(Request::create(kind, &suite.namespace, &object)).await?.granted()?
        });
    }
    Ok(stored)
}

/// Tries a probe. Ok: the line for the snapshot, if it deserves one. Err: the problem with the answer.
async fn ask(
    suite: &Suite,
    kind: &Kind,
    places: &Places,
    stored: &[Value],
    probe: &Probe,
) -> anyhow::Result<Result<Option<String>, String>> {
    if probe.path.starts_with("status") && !kind.namespaced {
        return Ok(Ok(None));
    }
    let title = format!("{} {}: {}", kind.name, probe.path, probe.what);
    let mut verdict = Err(format!("{title}: no manifest sets it"));
    for position in places.find(&probe.path) {
        let object = places.changed(position, &probe.change);
        let response = suite.server.send(request(suite, kind, stored, position, object)).await?;
        verdict =
            judge(kind, probe, position, &response).map_err(|complaint| format!("{title} ({position}): {complaint}"));
        // An answer may need a place where no rule about other fields is broken; but what must be refused is refused
        // everywhere.
        let refused = matches!(probe.expect, Expect::Refused | Expect::RefusedAsUsual);
        if verdict.is_ok() || (refused && response.is_success()) {
            break;
        }
    }
    Ok(verdict)
}

fn request(suite: &Suite, kind: &Kind, stored: &[Value], position: &Position, mut object: Value) -> Request {
    let stored = &stored[position.manifest];
    if stored.is_null() || !position.to_string().starts_with("status") {
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        return Request::try_create(kind, &suite.namespace, &object);
    }
    object["metadata"] = stored["metadata"].clone();
    Request::try_replace_status(kind, &suite.namespace, object_name(stored), &object)
}

fn judge(kind: &Kind, probe: &Probe, position: &Position, response: &Response) -> Result<Option<String>, String> {
    let answer = || format!("{} {}", response.code, shortened(response.message()));
    match &probe.expect {
        Expect::Accepted | Expect::Unset
            if !response.is_success() && (probe.expect == Expect::Unset || probe.path == ONLY_BESIDE_OTHERS) =>
        {
            let rules = kind.rules();
            let misses = |message: &str| rules.iter().any(|(_, rule)| message.ends_with(rule));
            let by_rules = !response.causes().is_empty() && response.causes().iter().all(|c| misses(&c.message));
            if by_rules { Ok(None) } else { Err(format!("refused: {}", answer())) }
        }
        Expect::Accepted | Expect::Default(_) if !response.is_success() => Err(format!("refused: {}", answer())),
        Expect::Accepted | Expect::Unset => readable(&response.body).map(|()| None),
        Expect::Default(default) => {
            let found = at_mut(&mut response.body.clone(), &position.path).map(Value::take).unwrap_or_default();
            if found != *default {
                return Err(format!("the default is {default}, but {found} is there"));
            }
            readable(&response.body)?;
            Ok(Some(format!("{}: {} becomes {default}", probe.path, probe.what)))
        }
        Expect::Refused | Expect::RefusedAsUsual if response.is_success() => Err("accepted".to_owned()),
        Expect::Refused | Expect::RefusedAsUsual => {
            let field = match probe.change {
                Change::AddUnknownField => format!("{position}.surprise"),
                _ => position.to_string(),
            };
            let expected = if matches!(probe.change, Change::AddUnknownField) { 400 } else { 422 };
            if response.code != expected || !response.message().contains(&field) {
                return Err(format!("{expected} and the name of the field is expected, not {}", answer()));
            }
            let about = response.causes().into_iter().filter(|cause| cause.field.starts_with(&field));
            let messages = about.map(|cause| shortened(&cause.message)).collect::<Vec<_>>().join("; ");
            Ok((probe.expect == Expect::Refused).then(|| format!("{}: {}: {messages}", probe.path, probe.what)))
        }
    }
}

fn readable(object: &Value) -> Result<(), String> {
    typed::reread(object).map(|_| ()).context("accepted").map_err(|error| format!("{error:#}"))
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= 400 { text.to_owned() } else { text.chars().take(400).chain("…".chars()).collect() }
}
