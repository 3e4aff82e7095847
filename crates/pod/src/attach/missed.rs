//! Counts steps whose events were lost: the stream has no replay, but their usage counts.

use domain::opencode::message::Message;
use opencode::{Client, Error};

use crate::budget::Meter;

/// Counts the steps of a run and its subagents on the server, without messages from before our prompt.
pub async fn count(
    client: &Client,
    session: &str,
    is_ours: impl Fn(&Message) -> bool,
    meter: &mut Meter,
) -> Result<(), Error> {
    let children = client.descendants(session).await?.into_iter().map(|child| child.id);
    for id in std::iter::once(session.to_owned()).chain(children) {
        for message in client.messages(&id).await?.iter().filter(|message| is_ours(message)) {
            for part in &message.parts {
                meter.take(part, id == session);
            }
        }
    }
    Ok(())
}
