use std::{convert::Infallible, sync::Mutex};

use futures::TryStreamExt as _;
use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use store::{ArchivedLog, Directory, End, Selection};

use super::*;

/// Timestamps of lines: `T1` in a test is this time, with the number as its second.
fn moments(text: &str) -> String {
    (1..10).fold(text.to_owned(), |text, second| {
        text.replace(&format!("T{second} "), &format!("2026-01-01T00:00:0{second}.5Z "))
    })
}

/// A node with a log, and an archive.
struct Case {
    _dir: tempfile::TempDir,
    archive: Arc<dyn Archive>,
    answers: Arc<Mutex<Vec<String>>>,
    asked: Arc<Mutex<Vec<String>>>,
    stage: watch::Sender<Stage>,
}

impl Case {
    /// A node that returns `answers` in order, and then the last one for every request.
    fn new(answers: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self {
            archive: Arc::new(Directory::open(dir.path()).unwrap()),
            _dir: dir,
            answers: Arc::new(Mutex::new(answers.iter().rev().map(|answer| moments(answer)).collect())),
            asked: Arc::default(),
            stage: watch::Sender::new(Stage::Ended),
        }
    }

    async fn holding(self, lines: &str) -> Self {
        self.archive.append(&run().log(), 0, moments(lines).into_bytes()).await.unwrap();
        self
    }

    fn client(&self) -> Client {
        let (answers, asked) = (Arc::clone(&self.answers), Arc::clone(&self.asked));
        let service = tower::service_fn(move |request: Request<Body>| {
            asked.lock().unwrap().push(request.uri().to_string());
            let mut answers = answers.lock().unwrap();
            let answer = if answers.len() > 1 { answers.pop() } else { answers.last().cloned() };
            std::future::ready(Ok::<_, Infallible>(Response::new(Body::from(answer.unwrap_or_default().into_bytes()))))
        });
        Client::new(service, "default")
    }

    fn follower(&self) -> Follower {
        let permits = Permits { followed: Arc::new(Semaphore::new(1)), closing: Arc::new(Semaphore::new(1)) };
        Follower {
            archive: Arc::clone(&self.archive),
            log: run().log(),
            container: TASK_CONTAINER,
            is_last: |_| false,
            pods: Api::namespaced(self.client(), "default"),
            pod: "fix-pod".to_owned(),
            permits,
            metrics: Arc::default(),
            stage: self.stage.subscribe(),
        }
    }

    async fn captured(&self) -> LogStatus {
        self.follower().follow().await.status(&run().log())
    }

    async fn kept(&self) -> Vec<String> {
        let lines = store::read(Arc::clone(&self.archive), run().log(), Selection::default());
        lines.map_ok(|(_, line)| line.lossy_text().into_owned()).try_collect().await.unwrap()
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn run() -> Run {
    Run { task: Owner::new("default", "uid-1").unwrap(), epoch: 1 }
}

fn status(lines: i64, complete: bool) -> (Option<i64>, Option<bool>, Option<i32>) {
    (Some(lines), Some(complete), None)
}

fn summary(status: &LogStatus) -> (Option<i64>, Option<bool>, Option<i32>) {
    (status.lines, status.complete, status.gaps)
}

#[tokio::test(start_paused = true)]
async fn a_log_that_breaks_off_is_kept_once_and_whole() {
    let case = Case::new(&["T1 a\nT1 b\nT2 hal", "T1 a\nT1 b\nT2 half\nT2 half\nT3 end"]);
    case.stage.send_replace(Stage::Running);
    let work = tokio::spawn({
        let follower = case.follower();
        async move { follower.follow().await }
    });
    while case.kept().await.len() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    case.stage.send_replace(Stage::Ended);
    assert_eq!(summary(&work.await.unwrap().status(&run().log())), status(5, true));
    assert_eq!(case.kept().await, ["a", "b", "half", "half", "end"]);
    assert!(case.archive.find(&run().log()).await.unwrap().unwrap().is_whole());
    let asked = case.asked();
    assert!(asked[0].contains("follow=true") && !asked[0].contains("sinceTime"), "{asked:?}");
    let last = asked.last().unwrap();
    assert!(!last.contains("follow=true") && last.contains("sinceTime=2026-01-01T00%3A00%3A01Z"), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn the_next_process_goes_on_after_the_last_line() {
    let case = Case::new(&["T1 a\nT1 b\nT1 b\nT2 c\n"]).holding("T1 a\nT1 b\n").await;
    assert_eq!(summary(&case.captured().await), status(4, true));
    assert_eq!(case.kept().await, ["a", "b", "b", "c"]);
}

/// A log that grows far beyond its limit while the controller is replaced.
#[tokio::test(start_paused = true)]
async fn of_an_endless_log_the_next_process_keeps_the_first_and_the_last_lines_too() {
    const LIMIT: u64 = 8 << 10;
    let dir = tempfile::tempdir().unwrap();
    let archive = Directory::open(dir.path()).unwrap().with_log_limit(LIMIT);
    let line = |number: u32| format!("2026-01-01T00:{:02}:{:02}Z yes {number}\n", number / 60, number % 60);
    let printed = |numbers: std::ops::Range<u32>| numbers.map(line).collect::<String>();
    let (before, all) = (printed(0..1500), printed(0..3000));
    let case = Case { archive: Arc::new(archive), _dir: dir, ..Case::new(&[&before, &all]) };
    case.stage.send_replace(Stage::Running);
    let first = tokio::spawn(case.follower().follow());
    while case.archive.find(&run().log()).await.unwrap().is_none_or(|kept| kept.bytes < before.len() as u64) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    first.abort();
    case.stage.send_replace(Stage::Ended);
    let captured = case.captured().await;
    let kept = case.kept().await;
    assert_eq!((kept[0].as_str(), kept[1].as_str()), ("yes 0", "yes 1"));
    assert_eq!(kept[kept.len() - 2..], ["yes 2998", "yes 2999"]);
    let gaps: Vec<&String> = kept.iter().filter(|line| line.starts_with("[log] ")).collect();
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    let lines = i64::try_from(kept.len()).unwrap() - 1;
    assert_eq!(summary(&captured), (Some(lines), Some(true), Some(1)));
    assert!(captured.bytes.unwrap() <= i64::try_from(LIMIT).unwrap(), "{captured:?}");
    let archived = case.archive.find(&run().log()).await.unwrap().unwrap();
    assert!(archived.is_complete() && !archived.is_whole());
    assert_eq!(archived.bytes, all.len() as u64);
    let used = case.archive.usage().await.unwrap();
    assert!(used[0].bytes <= LIMIT, "{used:?}");
}

/// The container for records still runs; the last record ends the log.
#[tokio::test(start_paused = true)]
async fn records_are_whole_when_the_last_one_is_read() {
    let case = Case::new(&["T1 {\"type\":\"text\"}\nT2 {\"type\":\"end\"}\n"]);
    case.stage.send_replace(Stage::Running);
    let log = Log { run: run(), stream: Stream::Records };
    let is_last = record::is_last;
    let follower = Follower { log: log.clone(), container: SESSION_CONTAINER, is_last, ..case.follower() };
    assert_eq!(summary(&follower.follow().await.status(&log)), status(2, true));
    assert!(case.archive.find(&log).await.unwrap().unwrap().is_whole());
    assert!(case.asked()[0].contains("container=session"), "{:?}", case.asked());
}

#[tokio::test(start_paused = true)]
async fn a_log_that_was_closed_before_is_not_read_again() {
    let case = Case::new(&["T1 a\nT2 late\n"]).holding("T1 a\n").await;
    let ArchivedLog { bytes, .. } = case.archive.find(&run().log()).await.unwrap().unwrap();
    case.archive.close(&run().log(), End { complete: true, lines: 1, bytes, gaps: 0 }).await.unwrap();
    assert_eq!(summary(&case.captured().await), status(1, true));
    assert!(case.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_log_that_the_node_lost_is_cut() {
    let case = Case::new(&[""]).holding("T1 a\n").await;
    assert_eq!(summary(&case.captured().await), status(1, false));
    assert!(!case.archive.find(&run().log()).await.unwrap().unwrap().is_complete());
}

#[tokio::test(start_paused = true)]
async fn words_of_the_node_are_no_lines_and_no_end() {
    let case = Case::new(&["unable to retrieve container logs"]).holding("T1 a\n").await;
    assert_eq!(summary(&case.captured().await), status(1, false));
    assert_eq!(case.kept().await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn lines_that_the_node_threw_away_are_a_gap() {
    let case = Case::new(&["T5 x\nT6 y\n"]).holding("T1 a\n").await;
    assert_eq!(summary(&case.captured().await), (Some(3), Some(true), Some(1)));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_is_not_asked() {
    let case = Case::new(&["T1 of somebody else\n"]);
    case.stage.send_replace(Stage::Gone);
    assert_eq!(summary(&case.captured().await), status(0, false));
    assert!(case.asked().is_empty());
    assert_eq!(case.archive.find(&run().log()).await.unwrap(), None);
    let case = case.holding("T1 a\n").await;
    assert_eq!(summary(&case.captured().await), status(1, false));
    assert_eq!(case.kept().await, ["a"]);
}

#[expect(clippy::needless_pass_by_value, reason = "reads better where it is called")]
fn pod(state: Value, phase: &str) -> Pod {
    let status =
        json!({"name": "agent", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state});
    serde_json::from_value(json!({"metadata": {}, "status": {"phase": phase, "containerStatuses": [status]}})).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_run_is_over_when_its_log_is_closed() {
    let case = Case::new(&["T1 a\n"]);
    let tasks = Queue::default();
    let logs = Logs::new(Some(Arc::clone(&case.archive)), case.client(), Arc::default(), tasks);
    let task: Task = serde_json::from_value(json!({
        "apiVersion": "kubeopencode.io/v1alpha1", "kind": "Task", "spec": {},
        "metadata": {"name": "fix", "namespace": "default", "uid": "uid-1"},
    }))
    .unwrap();
    let waiting = pod(json!({"waiting": {}}), "Pending");
    assert_eq!(logs.close(&task, 1, Some(&waiting), false).await, Closing::Over(None), "it never started");
    let times = json!({"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:09Z", "exitCode": 0});
    let ended = pod(json!({"terminated": times}), "Succeeded");
    assert!(matches!(logs.close(&task, 1, Some(&ended), false).await, Closing::Until(_)));
    let closed = loop {
        tokio::time::sleep(Duration::from_millis(10)).await;
        if let Closing::Over(closed) = logs.close(&task, 1, Some(&ended), false).await {
            break closed.unwrap();
        }
    };
    assert_eq!(summary(&closed), status(1, true));
    assert_eq!(closed.reference.as_deref(), Some("default/uid-1/k8s-1.log"));
    // The Task is deleted, and its log with it.
    logs.remove(&owner(&task).unwrap()).await.unwrap();
    assert_eq!(case.archive.find(&run().log()).await.unwrap(), None);
}
