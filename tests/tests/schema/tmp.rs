use blackbox::{ApiServer as _, Kind, Request, probe::{Change, Places}};
use serde_json::{Value, json};
use crate::suite::Suite;
#[tokio::test]
async fn timing() -> anyhow::Result<()> {
    let suite = Suite::start().await?;
    for kind in [Kind::named("Task")?] {
        let places = Places::of(&kind)?;
        for (path, node) in kind.nodes() {
            if !path.starts_with("spec") || node["type"] != "array" { continue; }
            let position = places.find(&path).first().unwrap();
            for n in [100usize, 1000, 10000] {
            for valid in [true, false] {
                let mut o = places.manifests()[position.manifest].clone();
                let item = blackbox::probe::at_mut(&mut o, &position.way).unwrap()[0].clone();
                let items = Value::Array(vec![if valid { item } else { json!({}) }; n]);
                let object = places.changed(position, &Change::Set(items));
                let t = std::time::Instant::now();
                let r = suite.server.send(Request::try_create(&kind, &suite.namespace, &object)).await?;
                println!("{path} {n} {valid} {:?} {} {}", t.elapsed(), r.code, r.message().len());
                if t.elapsed().as_secs() > 20 { break; }
            }}
        }
    }
    Ok(())
}
