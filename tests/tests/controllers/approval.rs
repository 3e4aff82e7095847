//! Permission requests of an agent are shown by its Task.

use anyhow::ensure;
use api::TaskStatus;
use blackbox::{cases, runner::Case};
use serde_json::json;

use crate::{
    agent_server::AgentServer,
    events::until_event,
    world::{condition, shared},
};

pub const CASES: &[Case] = cases![a_task_says_what_its_agent_asks_a_person, a_task_that_never_asks_costs_no_look];

fn awaiting(status: &TaskStatus) -> String {
    condition(status.conditions.as_ref(), "AwaitingApproval")
}

async fn a_task_says_what_its_agent_asks_a_person() -> anyhow::Result<()> {
    shared(async |world| {
        let server = AgentServer::start().await?;
        let spec = json!({"port": server.port, "approval": {"mode": "Ask"}});
        world.ready_agent("a", spec).await?;
        server.stand_in(&world, "a").await?;
        let mut uids = Vec::new();
        for name in ["asks", "works"] {
            world.hold(name);
            let task = world.task(name, json!({"agentRef": {"name": "a"}})).await?;
            uids.extend(task.metadata.uid);
            world.works(name).await?;
        }
        server.session("ses_1", Some(&uids[0]), None);
        server.session("ses_child", None, Some("ses_1"));
        server.session("ses_2", Some(&uids[1]), None);
        server.session("ses_person", None, None);

        server.ask(&[("ses_1", "bash", "git push"), ("ses_person", "edit", "x"), ("ses_gone", "edit", "y")]);
        let status = world.until("asks", "a question", |status| awaiting(status) == "True Asked").await?;
        let asked = status.conditions.iter().flatten().find(|one| one.type_ == "AwaitingApproval").cloned();
        ensure!(asked.is_some_and(|asked| asked.message == "bash (git push)"), "{status:?}");

        // The requests of a subagent belong to the Task whose session started the subagent.
        server.ask(&[("ses_1", "bash", "git push"), ("ses_child", "edit", "b.rs")]);
        let both = |status: &TaskStatus| {
            status.conditions.iter().flatten().any(|one| one.message == "bash (git push) and 1 more")
        };
        world.until("asks", "two questions", both).await?;
        server.ask(&[]);
        world.until("asks", "an answer", |status| awaiting(status) == "False Answered").await?;

        server.ask(&[("ses_1", "bash", "rm")]);
        world.until("asks", "another question", |status| awaiting(status) == "True Asked").await?;
        world.finish("asks");
        let status = world.succeeds("asks").await?;
        ensure!(awaiting(&status) == "False Answered", "it asks although it ended: {status:?}");
        let other = world.runs("works").await?;
        ensure!(awaiting(&other).is_empty(), "{other:?}");
        let (_, note) = until_event(&world, "asks", "AwaitingApproval").await?;
        ensure!(note == "the agent asks a person: bash (git push)", "{note}");
        Ok(())
    })
    .await
}

async fn a_task_that_never_asks_costs_no_look() -> anyhow::Result<()> {
    shared(async |world| {
        let server = AgentServer::start().await?;
        world.ready_agent("a", json!({"port": server.port})).await?;
        server.stand_in(&world, "a").await?;
        world.hold("quiet");
        let quiet = world.task("quiet", json!({"agentRef": {"name": "a"}})).await?;
        world.works("quiet").await?;
        server.session("ses_1", quiet.metadata.uid.as_deref(), None);
        server.ask(&[("ses_1", "bash", "git push")]);
        // A Task may ask where its Agent does not. When its request is reported, the other would have been, too.
        world.hold("asks");
        let spec = json!({"agentRef": {"name": "a"}, "approval": {"mode": "Ask"}});
        let asks = world.task("asks", spec).await?;
        ensure!(!server.requests().contains(&"GET /permission".to_owned()), "{:?}", server.requests());
        server.session("ses_2", asks.metadata.uid.as_deref(), None);
        server.ask(&[("ses_1", "bash", "git push"), ("ses_2", "bash", "ls")]);
        world.until("asks", "a question", |status| awaiting(status) == "True Asked").await?;
        let status = world.runs("quiet").await?;
        ensure!(awaiting(&status).is_empty(), "{status:?}");
        Ok(())
    })
    .await
}
