use blackbox::{ApiServer as _, Kind, Request, typed};
use crate::suite::Suite;
#[tokio::test]
async fn timing() -> anyhow::Result<()> {
    let suite = Suite::start().await?;
    let kind = Kind::named("Agent")?;
    for n in [100usize, 200, 900, 5000, 9000, 20000] {
        let body = format!(r#"{{"apiVersion":"kubeopencode.io/v1alpha1","kind":"Agent","metadata":{{"name":"deep{n}"}},"spec":{{"config":{}1{}}}}}"#, "{\"a\":".repeat(n), "}".repeat(n));
        let t = std::time::Instant::now();
        let r = suite.server.send(Request::try_create_text(&kind, &suite.namespace, body.clone())).await?;
        println!("dry {n} {:?} {} {} {:.300}", t.elapsed(), r.code, r.body.is_string(), r.body["message"].to_string());
        let mut q = Request::try_create_text(&kind, &suite.namespace, body);
        q.path = kind.path(&suite.namespace);
        let r = suite.server.send(q).await?;
        println!("real {n} {} {} {:.300}", r.code, r.body.is_string(), r.message());
        let r = suite.server.send(Request::get(format!("{}/deep{n}", kind.path(&suite.namespace)))).await?;
        println!("get {n} {} {} {:.100}", r.code, r.body.is_string(), r.message());
        let _ = typed::reread(&r.body);
    }
    let r = suite.server.send(Request::get(kind.path(&suite.namespace))).await?;
    println!("list {} {} {:.100}", r.code, r.body.is_string(), r.message());
    Ok(())
}
