//! Steps that the events did not bring: the stream has no replay, and what they used counts all the same.

use std::collections::HashSet;

use crate::budget::Meter;
use crate::opencode::client::{CallError, Client};
use crate::opencode::message::Message;

/// Counts what the server knows of a run and its subagents, without messages from before our prompt.
pub async fn count(
    client: &Client,
    session: &str,
    is_ours: impl Fn(&Message) -> bool,
    meter: &mut Meter,
) -> Result<(), CallError> {
    let (mut known, mut next) = (HashSet::from([session.to_owned()]), vec![session.to_owned()]);
    while let Some(id) = next.pop() {
        for message in client.messages(&id).await?.iter().filter(|message| is_ours(message)) {
            for part in &message.parts {
                meter.take(part, id == session);
            }
        }
        let children = client.children(&id).await?.into_iter().map(|child| child.id);
        next.extend(children.filter(|child| known.insert(child.clone())));
    }
    Ok(())
}
