//! Reads the log of one container to its end, across connection errors.

mod container;
pub mod kept;
mod position;

use std::{future::Future, time::Duration};

use domain::{
    contract::record,
    run::log_search::{self, NotSearchable, Wanted},
};
use futures::AsyncBufReadExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::LogParams,
    runtime::wait::{Condition, await_condition},
};
use tokio::sync::mpsc;

use super::{
    output::note,
    problem::{Answer, Problem},
};
pub use container::choose;
use container::{has_ended, has_started};
use position::Position;

/// Delay before a broken connection is opened again.
const PAUSE: Duration = Duration::from_secs(1);

/// Which part of a log.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct LogArgs {
    /// Container to read [default: the task container, or the one whose preparation failed].
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// Only lines newer than this, such as 5m.
    #[arg(long, value_name = "SPAN", value_parser = super::span::read)]
    pub since: Option<Duration>,
    /// Only this many lines from the end.
    #[arg(long, value_name = "LINES")]
    pub tail: Option<u32>,
    /// Put the time in front of each line.
    #[arg(long)]
    pub timestamps: bool,
    /// Only lines that contain this text, in upper or lower case.
    #[arg(long, value_name = "TEXT", value_parser = searchable)]
    pub grep: Option<String>,
    /// With --grep: distinguish upper and lower case.
    #[arg(long, requires = "grep")]
    pub match_case: bool,
}

fn searchable(text: &str) -> Result<String, NotSearchable> {
    Wanted::new(text, true).map(|_| text.to_owned())
}

/// The lines that the user wants to see.
#[derive(Debug)]
struct Filter {
    /// What they contain; `None` for all lines.
    wanted: Option<Wanted>,
    found: bool,
}

impl Filter {
    fn of(args: &LogArgs) -> Self {
        let wanted = args.grep.as_deref().and_then(|text| Wanted::new(text, args.match_case).ok());
        Self { wanted, found: false }
    }

    /// Whether to show a line, given without its time.
    fn shows(&mut self, text: &[u8]) -> bool {
        let shows = self.wanted.as_ref().is_none_or(|wanted| wanted.find(&log_search::shown(text)).is_some());
        self.found |= shows;
        shows
    }

    /// Says that no line contains the text.
    fn report(&self, args: &LogArgs) {
        if let Some(text) = args.grep.as_deref().filter(|_| !self.found) {
            note(&format!("no line of this log contains '{}'", super::screen::line(text)));
        }
    }
}

/// Sends the log of a Pod line by line; with `follow`, until its container has ended.
pub async fn pump(
    pods: &Api<Pod>,
    pod: &str,
    args: &LogArgs,
    follow: bool,
    lines: &mpsc::Sender<Vec<u8>>,
) -> Answer<()> {
    let found = if follow {
        await_condition(pods.clone(), pod, Started(args.container.clone())).await.ok().flatten()
    } else {
        pods.get_opt(pod).await?
    };
    let Some(found) = found else {
        return Err(Problem::not_found(format!("Pod '{pod}' is gone, and its log with it")));
    };
    let container = choose(&found, args.container.as_deref())?;
    let mut filter = Filter::of(args);
    let read = read(pods, pod, &container, args, follow, &mut filter, lines).await;
    if read.is_ok() && !lines.is_closed() {
        filter.report(args);
    }
    read
}

async fn read(
    pods: &Api<Pod>,
    pod: &str,
    container: &str,
    args: &LogArgs,
    follow: bool,
    filter: &mut Filter,
    lines: &mpsc::Sender<Vec<u8>>,
) -> Answer<()> {
    let mut position = Position::default();
    loop {
        let first = position.last().is_none();
        let params = LogParams {
            container: Some(container.to_owned()),
            follow,
            since_seconds: args.since.filter(|_| first).and_then(|span| i64::try_from(span.as_secs().max(1)).ok()),
            // Round down: kube would round up, past lines that are needed.
            since_time: position.last().and_then(|last| Timestamp::from_second(last.as_second()).ok()),
            tail_lines: args.tail.filter(|_| first).map(i64::from),
            // Timestamps mark the position to resume at after an interruption.
            timestamps: true,
            ..LogParams::default()
        };
        let read = copy(pods, pod, &params, args.timestamps, &mut position, filter, lines).await;
        if lines.is_closed() || !follow {
            return read;
        }
        match pods.get_opt(pod).await {
            Ok(Some(pod)) if !has_ended(&pod, container) => {}
            // A container that is gone or has ended writes nothing more.
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) => return Err(Problem::from_status(&status)),
            // The API server is temporarily unavailable.
            Err(_) => {}
        }
        tokio::time::sleep(PAUSE).await;
        position.resume();
    }
}

async fn copy(
    pods: &Api<Pod>,
    pod: &str,
    params: &LogParams,
    timestamps: bool,
    position: &mut Position,
    filter: &mut Filter,
    lines: &mpsc::Sender<Vec<u8>>,
) -> Answer<()> {
    let mut stream = pods.log_stream(pod, params).await?;
    loop {
        let mut line = Vec::new();
        if stream.read_until(b'\n', &mut line).await? == 0 {
            return Ok(());
        }
        let (stamp, text) = split(&line);
        if stamp.is_none_or(|stamp| position.is_new(stamp)) && filter.shows(text) {
            let shown = record::visible(if timestamps { &line } else { text });
            if lines.send(shown.into_owned()).await.is_err() {
                return Ok(());
            }
        }
    }
}

/// The time in front of a line, and the line.
fn split(line: &[u8]) -> (Option<Timestamp>, &[u8]) {
    let Some(end) = line.iter().take(64).position(|byte| *byte == b' ') else { return (None, line) };
    let stamp = str::from_utf8(&line[..end]).ok().and_then(|stamp| stamp.parse().ok());
    (stamp, if stamp.is_some() { &line[end + 1..] } else { line })
}

/// Holds when there is a log to read.
struct Started(Option<String>);

impl Condition<Pod> for Started {
    fn matches_object(&self, pod: Option<&Pod>) -> bool {
        pod.is_some_and(|pod| has_started(pod, self.0.as_deref()))
    }
}

/// Copies lines to standard output while `work` runs.
pub async fn show(work: impl Future<Output = Answer<()>>, lines: &mut mpsc::Receiver<Vec<u8>>) -> Answer<()> {
    tokio::pin!(work);
    let done = loop {
        tokio::select! {
            biased;
            Some(line) = lines.recv() => write(&line)?,
            done = &mut work => break done,
        }
    };
    while let Ok(line) = lines.try_recv() {
        write(&line)?;
    }
    done
}

/// Writes a line of a log to standard output, byte for byte.
pub fn write(line: &[u8]) -> Answer<()> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    out.write_all(line)?;
    if !line.ends_with(b"\n") {
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::{Client, client::Body};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_time_in_front_of_a_line_is_taken_off() {
        let (stamp, text) = split(b"2026-01-01T00:00:00.123456789Z hello world\n");
        assert_eq!(stamp, Some("2026-01-01T00:00:00.123456789Z".parse().unwrap()));
        assert_eq!(text, b"hello world\n");
        assert_eq!(split(b"no time here\n"), (None, b"no time here\n".as_slice()));
        assert_eq!(split(b"\xff\xfe x\n"), (None, b"\xff\xfe x\n".as_slice()));
    }

    fn pod(state: &Value) -> Value {
        let status =
            json!({"name": "agent", "state": state, "image": "", "imageID": "", "ready": true, "restartCount": 0});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "resourceVersion": "1"},
            "spec": {"containers": [{"name": "agent"}]}, "status": {"containerStatuses": [status]}})
    }

    /// Serves one Pod, whose log comes in two pieces: the first breaks off, the second begins at a whole second.
    fn cluster(asked: &Arc<Mutex<Vec<String>>>) -> Client {
        let asked = asked.clone();
        let answer = move |path: &str| -> String {
            let is_log = path.contains("/log");
            let mut asked = asked.lock().unwrap();
            if is_log {
                asked.push(path.to_owned());
            }
            match asked.len() {
                1 if is_log => "2026-01-01T00:00:01.1Z a\n2026-01-01T00:00:02.5Z b\n".to_owned(),
                _ if is_log => {
                    "2026-01-01T00:00:02.5Z b\n2026-01-01T00:00:02.5Z c\n2026-01-01T00:00:03Z \u{e4}\n".to_owned()
                }
                2.. => pod(&json!({"terminated": {"exitCode": 0}})).to_string(),
                _ if path.contains('?') => {
                    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"},
                        "items": [pod(&json!({"running": {}}))]})
                    .to_string()
                }
                _ => pod(&json!({"running": {}})).to_string(),
            }
        };
        let service = tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().to_string();
            let body = answer(&path).into_bytes();
            async move { Ok::<_, std::convert::Infallible>(Response::new(Body::from(body))) }
        });
        Client::new(service, "default")
    }

    #[test]
    fn only_lines_with_the_text_are_shown() {
        let shown = |text: &str, match_case| {
            let args = LogArgs { grep: Some(text.to_owned()), match_case, ..LogArgs::default() };
            let mut filter = Filter::of(&args);
            let log = ["an \u{1b}[31mErr\u{1b}[0mor\n", "fine\n", "no error\n"];
            log.map(|line| filter.shows(line.as_bytes()))
        };
        assert_eq!(shown("error", false), [true, false, true]);
        assert_eq!(shown("error", true), [false, false, true]);
        assert_eq!(shown("31m", false), [false; 3], "colours are not text");
        let mut all = Filter::of(&LogArgs::default());
        assert!(all.shows(b"anything"));
    }

    #[tokio::test]
    async fn a_log_is_read_to_its_end_across_a_broken_connection() {
        let asked = Arc::default();
        let pods: Api<Pod> = Api::default_namespaced(cluster(&asked));
        let (sender, mut lines) = mpsc::channel(100);
        let args = LogArgs { tail: Some(50), ..LogArgs::default() };
        tokio::time::timeout(Duration::from_secs(30), pump(&pods, "p", &args, true, &sender)).await.unwrap().unwrap();
        drop(sender);
        let mut read = String::new();
        while let Some(line) = lines.recv().await {
            read.push_str(&String::from_utf8(line).unwrap());
        }
        assert_eq!(read, "a\nb\nc\n\u{e4}\n");
        let asked = asked.lock().unwrap();
        assert!(asked[0].contains("tailLines=50") && !asked[0].contains("sinceTime"), "{asked:?}");
        assert!(asked[1].contains("sinceTime=2026-01-01T00%3A00%3A02") && !asked[1].contains("tailLines"), "{asked:?}");
    }
}
