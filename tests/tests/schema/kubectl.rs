//! kubectl as a person uses it: definitions are applied, explained, and objects listed.

use std::fs;

use blackbox::{ApiServer as _, Kind, Request, cases, install, server::Remote};
use serde_json::json;
use testenv::{Cluster, Options};

use crate::suite::run;

/// A cluster of its own: this test installs the definitions in its own way, and lists all objects there are.
#[tokio::test]
async fn definitions_and_objects_look_right_to_kubectl() -> anyhow::Result<()> {
    let cluster = testenv::start(Options::api_only()).await?;
    let server = Remote::new(cluster.client().await?);

    let directory = tempfile::tempdir()?;
    for crd in api::crds() {
        let file = directory.path().join(format!("{}.yaml", crd["spec"]["names"]["plural"].as_str().unwrap_or_default()));
        fs::write(file, serde_saphyr::to_string(&crd)?)?;
    }
    let apply = ["apply", "--filename", &directory.path().to_string_lossy()];
    let first = run(&mut cluster.kubectl_command(apply))?;
    assert_eq!(first.lines().filter(|line| line.ends_with(" created")).count(), Kind::all().len(), "{first}");
    let second = run(&mut cluster.kubectl_command(apply))?;
    assert!(second.lines().all(|line| line.ends_with(" unchanged")), "{second}");
    // Waits until they are served; changes nothing.
    install::install(&server).await?;

    for kind in Kind::all() {
        let object = cases::full(&kind)?.swap_remove(0);
        let path = format!("{}/{}", kind.path("default"), cases::object_name(&object));
        server.send(Request::create(&kind, "default", &object)).await?.granted()?;
        let status = json!({ "status": object["status"] });
        server.send(Request::merge(&format!("{path}/status"), &status)).await?.granted()?;
    }
    screen(&cluster, "get kubeopencode")?;
    screen(&cluster, "get tk,ag,agt,ct")?;
    screen(&cluster, "get tk,ag,agt,ct --output wide")?;
    screen(&cluster, "explain task")?;
    screen(&cluster, "explain task.spec --recursive")?;
    screen(&cluster, "explain agent.spec.quota")?;
    screen(&cluster, "scale mcpserver/github --replicas 3")?;
    Ok(())
}

/// What kubectl prints for a command, as a snapshot. Ages are left out.
fn screen(cluster: &Cluster, command: &str) -> anyhow::Result<()> {
    let printed = run(&mut cluster.kubectl_command(command.split(' ')))?;
    let name = command.replace([' ', ',', '.', '/'], "-");
    insta::with_settings!({ description => format!("kubectl {command}"), omit_expression => true, filters => vec![
        (r"(?m)[0-9]+[smhdy]([0-9]+[smhdy])?( *)$", "[age]"),
        (r"[0-9]+[dy][0-9]*[hd]?  ", "[age]  "),
        (r"(?m) +$", ""),
    ] }, {
        insta::assert_snapshot!(name, printed);
    });
    Ok(())
}
