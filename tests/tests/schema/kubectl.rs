//! kubectl as a person uses it: definitions are applied, explained, and objects listed.

use blackbox::{ApiServer as _, Kind, Request, cases, install};
use serde_json::json;

use crate::suite::{Server, Suite, kubectl, on_every_server};

on_every_server!(definitions_and_objects_look_right_to_kubectl,);

/// A server of its own: this test installs the definitions in its own way, and lists all objects there are.
async fn definitions_and_objects_look_right_to_kubectl(which: Server) -> anyhow::Result<()> {
    let suite = Suite::alone(which).await?;
    let server = &suite.server;
    let kubectl = |args: &[&str]| kubectl(&suite, args);

    let definitions = cases::repository("deploy/crds");
    let apply = ["apply", "--filename", &definitions.to_string_lossy()];
    let first = kubectl(&apply)?;
    assert_eq!(first.lines().filter(|line| line.ends_with(" created")).count(), Kind::all().len(), "{first}");
    let second = kubectl(&apply)?;
    assert!(second.lines().all(|line| line.ends_with(" unchanged")), "{second}");
    // Waits until they are served; changes nothing.
    install::install(server).await?;

    for kind in Kind::all() {
        let object = cases::full(kind)?.swap_remove(0);
        let path = format!("{}/{}", kind.path("default"), cases::object_name(&object));
        server.send(Request::create(kind, "default", &object)).await?.granted()?;
        let status = json!({ "status": object["status"] });
        server.send(Request::merge(&format!("{path}/status"), &status)).await?.granted()?;
    }
    // The list of kinds comes first: kubectl remembers for hours that there was no category of this name.
    for command in [
        "api-resources --api-group kubeopencode.io",
        "get kubeopencode",
        "get tk,ag,agt,ct",
        "get tk,ag,agt,ct --output wide",
        "explain task",
        "explain task.spec --recursive",
        "explain agent.spec.quota",
        "scale mcpserver/github --replicas 3",
    ] {
        let printed = kubectl(&command.split(' ').collect::<Vec<_>>())?;
        let mut name = command.replace([' ', ',', '.', '/'], "-");
        if which == Server::Embedded && command == OTHER_TEXTS {
            name += "-embedded";
        }
        insta::with_settings!({ description => format!("kubectl {command}"), omit_expression => true, filters => AGES.to_vec() }, {
            insta::assert_snapshot!(name, printed);
        });
    }
    Ok(())
}

/// A command whose output differs on the embedded server: "Texts of `kubectl explain`" in docs/local-differences.md.
const OTHER_TEXTS: &str = "explain task";

/// Ages, at the end of a line and in a column of dates.
const AGES: [(&str, &str); 3] =
    [(r"(?m)\b([0-9]+[smhdy]){1,2} *$", "[age]"), (r"\b([0-9]+[dyh]){1,2} {2,}", "[age]  "), (r"(?m) +$", "")];
