//! The server's event stream: framing, and a reader that reconnects. The stream has no replay, so a reader also polls
//! the state.

use std::time::Duration;

use futures::StreamExt as _;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::{Client, Error};

/// The server sends a heartbeat every 10 s; after three missed ones the connection counts as dead.
const SILENCE: Duration = Duration::from_secs(30);
/// Maximum length of a frame. A longer one is dropped; it could only be a huge tool output.
const MAX_FRAME: usize = 32 << 20;

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Event {
    /// `session.idle`, `message.part.updated`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// Depends on `kind`.
    pub properties: Value,
}

/// Output of [`follow`].
#[derive(Debug)]
pub enum Signal {
    /// The stream is open (again); events before this moment may be missing.
    Connected,
    /// An event.
    Event(Event),
    Lost(Error),
}

/// Splits a stream into server-sent events.
#[derive(Debug, Default)]
pub struct Frames {
    pending: Vec<u8>,
    /// Length of the part of `pending` without the end of a frame.
    scanned: usize,
    skipping: bool,
}

impl Frames {
    /// Adds bytes and returns the data of every complete frame.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        self.pending.extend(bytes.iter().filter(|byte| **byte != b'\r'));
        let mut frames = Vec::new();
        loop {
            let from = self.scanned.saturating_sub(1);
            let Some(end) = self.pending[from..].windows(2).position(|pair| pair == b"\n\n") else { break };
            let frame: Vec<u8> = self.pending.drain(..from + end + 2).collect();
            self.scanned = 0;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            let text = String::from_utf8_lossy(&frame);
            let data: Vec<&str> = text
                .lines()
                .filter_map(|line| line.strip_prefix("data:"))
                .map(|line| line.strip_prefix(' ').unwrap_or(line))
                .collect();
            if !data.is_empty() {
                frames.push(data.join("\n"));
            }
        }
        self.scanned = self.pending.len();
        if self.pending.len() > MAX_FRAME {
            self.pending.clear();
            self.scanned = 0;
            self.skipping = true;
        }
        frames
    }
}

/// Reads events until the receiver is dropped or the task is aborted.
pub fn follow(client: Client) -> (mpsc::Receiver<Signal>, JoinHandle<()>) {
    let (sender, receiver) = mpsc::channel(1024);
    let task = tokio::spawn(async move {
        let mut wait = Duration::from_millis(200);
        loop {
            let lost = match read(&client, &sender, &mut wait).await {
                Ok(()) => return,
                Err(lost) => lost,
            };
            if sender.send(Signal::Lost(lost)).await.is_err() {
                return;
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(Duration::from_secs(5));
        }
    });
    (receiver, task)
}

/// Reads one connection. `Ok` means that the receiver was dropped.
async fn read(client: &Client, sender: &mpsc::Sender<Signal>, wait: &mut Duration) -> Result<(), Error> {
    let mut body = client.events().await?.bytes_stream();
    let mut frames = Frames::default();
    if sender.send(Signal::Connected).await.is_err() {
        return Ok(());
    }
    loop {
        let piece = match tokio::time::timeout(SILENCE, body.next()).await {
            Err(_) => return Err(Error::NoAnswer("no heartbeat".to_owned())),
            Ok(None) => return Err(Error::NoAnswer("the event stream ended".to_owned())),
            Ok(Some(Err(error))) => return Err(Error::NoAnswer(error.to_string())),
            Ok(Some(Ok(piece))) => piece,
        };
        *wait = Duration::from_millis(200);
        for frame in frames.push(&piece) {
            // An event that is not JSON is skipped; the next poll of the state compensates for that.
            let Ok(event) = serde_json::from_str::<Event>(&frame) else { continue };
            if sender.send(Signal::Event(event)).await.is_err() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_however_the_bytes_arrive() {
        let stream = "data: {\"a\":1}\n\n: comment\n\nevent: x\r\ndata: one\r\ndata: two\r\n\r\ndata:tight\n\n";
        let expected = ["{\"a\":1}", "one\ntwo", "tight"];
        for size in [1, 3, 7, stream.len()] {
            let mut frames = Frames::default();
            let mut found = Vec::new();
            for piece in stream.as_bytes().chunks(size) {
                found.extend(frames.push(piece));
            }
            assert_eq!(found, expected, "pieces of {size}");
        }
    }

    #[test]
    fn a_frame_without_end_does_not_exhaust_the_memory() {
        let mut frames = Frames::default();
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..40 {
            assert!(frames.push(&piece).is_empty());
        }
        assert!(frames.pending.len() <= MAX_FRAME);
        assert_eq!(frames.push(b"\n\ndata: next\n\n"), ["next"]);
    }

    #[test]
    fn an_event_is_read() {
        let event: Event =
            serde_json::from_str(r#"{"id":"evt_1","type":"session.idle","properties":{"sessionID":"ses_1"}}"#).unwrap();
        assert_eq!((event.kind.as_str(), &event.properties["sessionID"]), ("session.idle", &Value::from("ses_1")));
    }
}
