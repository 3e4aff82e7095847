//! Validation rules (CEL): each has cases in `cases/rules.yaml`, tried wherever a definition carries the rule.

use anyhow::Context as _;
use blackbox::{
    ApiServer as _, Kind, Request, Response,
    cases::{self, RuleCases, object_name},
    probe::{Change, Places},
    typed,
};
use serde_json::Value;
use testenv::json::merge;

use crate::suite::{Server, Suite, on_every_server};

on_every_server!(every_rule_accepts_and_refuses_what_its_cases_say,);

#[test]
fn every_rule_has_cases_that_it_accepts_and_refuses() -> anyhow::Result<()> {
    let cases = cases::rules()?;
    let mut missing = Vec::new();
    for kind in Kind::all() {
        for (path, rule) in kind.rules() {
            let of_rule = || cases.iter().filter(|case| case.rule == *rule && is_for(case, kind));
            if of_rule().all(|case| case.accepted.is_empty()) || of_rule().all(|case| case.refused.is_empty()) {
                missing.push(format!("{} {path}: {rule}", kind.name));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "tests/cases/rules.yaml has no accepted or no refused case for:\n{}",
        missing.join("\n")
    );
    Ok(())
}

#[test]
fn every_case_has_a_rule() -> anyhow::Result<()> {
    let rules = Kind::all().iter().flat_map(Kind::rules).map(|(_, rule)| rule).collect::<Vec<_>>();
    for case in cases::rules()? {
        assert!(rules.contains(&&case.rule), "no definition has the rule: {}", case.rule);
    }
    Ok(())
}

async fn every_rule_accepts_and_refuses_what_its_cases_say(server: Server) -> anyhow::Result<()> {
    let suite = Suite::start(server).await?;
    let cases = cases::rules()?;
    let (mut count, mut wrong) = (0, Vec::new());
    for kind in Kind::all() {
        let places = Places::of(kind)?;
        let mut lines = Vec::new();
        for (path, rule) in kind.rules() {
            for case in cases.iter().filter(|case| case.rule == *rule && is_for(case, kind)) {
                for (accepted, (name, value)) in both(case) {
                    count += 1;
                    let place = if path.is_empty() { "the object" } else { path.as_str() };
                    let title = format!("{place}: {name}");
                    match check(&suite, kind, &places, path, case, value, accepted).await? {
                        Ok(Some(message)) => lines.push(format!("{title}\n    {message}")),
                        Ok(None) => {}
                        Err(complaint) => wrong.push(format!("{} {title}: {complaint}", kind.name)),
                    }
                }
            }
        }
        insta::assert_snapshot!(format!("rules-{}", kind.name), lines.join("\n"));
    }
    assert!(wrong.is_empty(), "{} of {count} cases:\n{}", wrong.len(), wrong.join("\n"));
    Ok(())
}

/// Tries one case where the rule is. Ok: the message, if it was refused. Err: the problem with the answer.
async fn check(
    suite: &Suite,
    kind: &Kind,
    places: &Places,
    path: &str,
    case: &RuleCases,
    value: &Value,
    accepted: bool,
) -> anyhow::Result<Result<Option<String>, String>> {
    let mut verdict = Err("no manifest sets this place".to_owned());
    for position in places.find(path) {
        let response = if let Some(before) = &case.before {
            change(suite, kind, &places.manifests()[0], before, value).await?
        } else if path.is_empty() {
            let mut object = places.manifests()[0].clone();
            merge(&mut object, value);
            suite.server.send(Request::try_create(kind, &suite.namespace, &object)).await?
        } else {
            let object = places.changed(position, &Change::Set(value.clone()));
            suite.server.send(Request::try_create(kind, &suite.namespace, &object)).await?
        };
        let place = position.to_string();
        verdict = if accepted { must_be_accepted(&response) } else { must_be_refused(&response, &place, &case.rule) };
        if verdict.is_ok() {
            break;
        }
    }
    Ok(verdict)
}

/// Stores `object` as it was before, then changes it.
async fn change(suite: &Suite, kind: &Kind, object: &Value, before: &Value, after: &Value) -> anyhow::Result<Response> {
    let path = format!("{}/{}", kind.path(&suite.namespace), object_name(object));
    suite.server.send(Request::create(kind, &suite.namespace, object)).await?.granted().context("create")?;
    suite.server.send(Request::merge(&format!("{path}/status"), before)).await?.granted().context("before")?;
    let response = suite.server.send(Request::merge(&path, after)).await?;
    suite.server.send(Request::delete(path)).await?.granted().context("delete")?;
    Ok(response)
}

fn must_be_accepted(response: &Response) -> Result<Option<String>, String> {
    if !response.is_success() {
        return Err(format!("refused: {} {}", response.code, response.message()));
    }
    typed::reread(&response.body).map(|_| None).map_err(|error| format!("{error:#}"))
}

fn must_be_refused(response: &Response, place: &str, rule: &str) -> Result<Option<String>, String> {
    if response.code != 422 {
        return Err(format!("not refused: {} {}", response.code, response.message()));
    }
    // The server calls the whole object "<nil>".
    let place = if place.is_empty() { "<nil>" } else { place };
    let mut causes = response.causes();
    causes.sort();
    // It writes a key of a map as `headers[Accept]` here and as `headers.Accept` elsewhere.
    let same = |field: &str| field == place || field.replace('[', ".").replace(']', "") == place;
    match causes.iter().find(|cause| same(&cause.field) && cause.message.ends_with(rule)) {
        Some(cause) => Ok(Some(format!("{}: {}", cause.field, cause.message))),
        None => Err(format!("refused for another reason: {causes:?}")),
    }
}

fn both(case: &RuleCases) -> impl Iterator<Item = (bool, (&String, &Value))> {
    case.accepted.iter().map(|each| (true, each)).chain(case.refused.iter().map(|each| (false, each)))
}

fn is_for(case: &RuleCases, kind: &Kind) -> bool {
    case.kinds.is_empty() || case.kinds.contains(&kind.name)
}
