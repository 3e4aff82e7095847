//! Steps that the events did not bring: the stream has no replay, and what they used counts all the same.

use super::follow::descendants;
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
    let children = descendants(client, session).await?.into_iter().map(|child| child.id);
    for id in std::iter::once(session.to_owned()).chain(children) {
        for message in client.messages(&id).await?.iter().filter(|message| is_ours(message)) {
            for part in &message.parts {
                meter.take(part, id == session);
            }
        }
    }
    Ok(())
}
