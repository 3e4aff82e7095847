//! Records: the answers and tool calls of a session, whole, as OpenCode reported them.
//!
//! The container `session` of a Pod prints the records of a run, one JSON object a line, so that its log is the
//! conversation. That log outlives its Pod. Earlier versions wrote each record into the log of the agent, as an escape
//! sequence in front of the line that people read; readers still understand those logs.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

/// `OSC`, and a number that terminals do not use.
const BEGIN: &str = "\u{1b}]5379;";
/// `BEL`. JSON has no raw control characters, so it cannot occur inside.
const END: u8 = 0x07;
/// Kind of the last record of a run.
pub const LAST: &str = "end";
/// Kind of a record with output that a running tool call printed since the record before.
pub const TOOL_OUTPUT: &str = "tool_output";
/// A record fits into one line of the log archive.
const LONGEST: usize = 256 << 10;
/// Texts are cut to the first of these limits that makes the record short enough.
const TEXT_LIMITS: [usize; 4] = [32 << 10, 4 << 10, 512, 64];

/// A record as a line, without the line end. Long texts are cut; `None` if the record is still too long.
pub fn line(record: &Value) -> Option<String> {
    TEXT_LIMITS.iter().map(|limit| shortened(record, *limit).to_string()).find(|json| json.len() <= LONGEST)
}

/// Whether a line is the last record of a run.
pub fn is_last(line: &[u8]) -> bool {
    serde_json::from_slice::<Value>(line).is_ok_and(|record| record["type"] == LAST)
}

/// A text without the escape sequences of earlier versions, which readers hide: a model must not hide its output.
pub fn plain(text: &str) -> String {
    text.replace(BEGIN, &BEGIN[1..])
}

/// The visible text of a line.
pub fn visible(line: &[u8]) -> Cow<'_, [u8]> {
    if find(line).is_none() {
        return Cow::Borrowed(line);
    }
    let mut text = Vec::with_capacity(line.len());
    for piece in Pieces(line) {
        if let Piece::Text(seen) = piece {
            text.extend_from_slice(seen);
        }
    }
    Cow::Owned(text)
}

/// The visible text of the end of a log, which may begin inside a record.
pub fn visible_end(log: &str) -> String {
    let begun = log.find("}\u{7}").filter(|end| find(&log.as_bytes()[..*end]).is_none());
    let whole = begun.map_or(log, |end| &log[end + 2..]);
    String::from_utf8_lossy(&visible(whole.as_bytes())).into_owned()
}

/// The records of a line: of the log of the container `session`, or of a line with escape sequences.
pub fn records(line: &[u8]) -> impl Iterator<Item = Value> {
    let own = serde_json::from_slice(line).ok().filter(Value::is_object);
    let carried = Pieces(if own.is_some() { &[] } else { line }).filter_map(|piece| match piece {
        Piece::Record(json) => serde_json::from_slice(json).ok(),
        Piece::Text(_) => None,
    });
    own.into_iter().chain(carried)
}

/// The conversation in records, in the form of OpenCode's API: the prompt, and the answers with their parts.
pub fn messages(asked: &str, records: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let mut messages: Vec<Value> = Vec::new();
    for mut record in records {
        if record["type"] == LAST {
            continue;
        }
        let (session, time) = (record["sessionID"].take(), record["timestamp"].take());
        let (part, error) = (record["part"].take(), record["error"].take());
        // Other records, such as those of the changes, are not part of the conversation.
        if part.is_null() && error.is_null() {
            continue;
        }
        let id = part["messageID"].as_str().map(str::to_owned);
        if let Some(running) = find_part(&mut messages, &part["id"]) {
            update(running, part);
            continue;
        }
        let known = messages.last().is_some_and(|last| id.as_deref().is_none_or(|id| last["info"]["id"] == *id));
        if !known {
            let id = id.unwrap_or_else(|| "error".to_owned());
            let info = json!({"id": id, "sessionID": session, "role": "assistant", "time": {"created": time}});
            messages.push(json!({"info": info, "parts": []}));
        }
        let Some(last) = messages.last_mut() else { continue };
        if !error.is_null() {
            last["info"]["error"] = error;
        }
        if part["type"] == "step-finish" {
            finish(&mut last["info"], &part, time);
        }
        if let (false, Value::Array(parts)) = (part.is_null(), &mut last["parts"]) {
            parts.push(part);
        }
    }
    let begun = messages.first().map(|first| first["info"]["time"].clone());
    if let Some(begun) = begun.filter(|_| !asked.is_empty()) {
        let part = json!({"id": "asked", "type": "text", "text": asked});
        messages.insert(0, json!({"info": {"id": "asked", "role": "user", "time": begun}, "parts": [part]}));
    }
    messages
}

/// The part with this id.
fn find_part<'a>(messages: &'a mut [Value], id: &Value) -> Option<&'a mut Value> {
    let mut parts = messages.iter_mut().rev().filter_map(|message| message["parts"].as_array_mut()).flatten();
    parts.find(|part| id.is_string() && part["id"] == *id)
}

/// Appends the output of a running tool call, or replaces the call by its result.
fn update(known: &mut Value, part: Value) {
    let is_running = |part: &Value| part["state"]["status"] == "running";
    if !(is_running(known) && is_running(&part)) {
        *known = part;
        return;
    }
    let output = known["state"]["metadata"]["output"].as_str().unwrap_or_default();
    let more = part["state"]["metadata"]["output"].as_str().unwrap_or_default();
    let output = format!("{output}{more}");
    if let Some(state) = known["state"].as_object_mut() {
        state.insert("metadata".to_owned(), json!({ "output": output }));
    }
}

/// Adds the usage of a finished step to its message.
fn finish(info: &mut Value, part: &Value, time: Value) {
    info["time"]["completed"] = time;
    info["finish"] = part["reason"].clone();
    info["tokens"] = part["tokens"].clone();
    info["cost"] = (info["cost"].as_f64().unwrap_or(0.0) + part["cost"].as_f64().unwrap_or(0.0)).into();
}

enum Piece<'a> {
    Text(&'a [u8]),
    Record(&'a [u8]),
}

/// Splits a line. A record without an end was cut with its line and is invisible.
struct Pieces<'a>(&'a [u8]);

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let line = self.0;
        match find(line) {
            _ if line.is_empty() => None,
            Some(0) => {
                let inside = &line[BEGIN.len()..];
                let end = inside.iter().position(|byte| *byte == END).unwrap_or(inside.len());
                self.0 = inside.get(end + 1..).unwrap_or_default();
                Some(Piece::Record(&inside[..end]))
            }
            begin => {
                let (text, rest) = line.split_at(begin.unwrap_or(line.len()));
                self.0 = rest;
                Some(Piece::Text(text))
            }
        }
    }
}

/// Start of the first record.
fn find(line: &[u8]) -> Option<usize> {
    line.windows(BEGIN.len()).position(|window| window == BEGIN.as_bytes())
}

/// The value with every text cut to `limit`.
fn shortened(value: &Value, limit: usize) -> Value {
    match value {
        Value::String(text) if text.len() > limit => {
            let end = (0..=limit).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            format!("{}\n… ({} bytes more)", &text[..end], text.len() - end).into()
        }
        Value::Array(items) => items.iter().map(|item| shortened(item, limit)).collect(),
        Value::Object(fields) => {
            let shorter = fields.iter().map(|(name, field)| (name.clone(), shortened(field, limit)));
            Value::Object(shorter.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(id: &str, text: &str) -> Value {
        json!({"type": "text", "timestamp": 5, "sessionID": "s", "part": {"messageID": id, "type": "text", "text": text}})
    }

    /// A record as earlier versions wrote it.
    fn carried(record: &Value) -> String {
        format!("{BEGIN}{record}\u{7}")
    }

    #[test]
    fn a_record_is_a_line() {
        let record = text("m", "Zoë \u{9c}\u{7} 🦀\n\"x\"");
        let line = line(&record).unwrap();
        assert!(!line.contains('\n') && !is_last(line.as_bytes()));
        assert_eq!(records(line.as_bytes()).collect::<Vec<_>>(), [record]);
        assert!(is_last(br#"{"type":"end","timestamp":1}"#));
    }

    #[test]
    fn a_line_of_an_earlier_version_is_taken_apart() {
        let (first, second) = (text("m", "Zoë"), text("m", "more"));
        let line = format!("{}{}[tool] write a\n", carried(&first), carried(&second));
        assert_eq!(visible(line.as_bytes()), b"[tool] write a\n".as_slice());
        assert_eq!(records(line.as_bytes()).collect::<Vec<_>>(), [first, second]);
    }

    #[test]
    fn other_lines_are_left_alone_and_cut_records_are_not_shown() {
        for line in [&b"plain"[..], b"", b"bell \x07 and \x1b[1mbold\x1b[0m", b"\xff\xfe", b"{\"cut", b"7"] {
            assert_eq!(visible(line), line);
            assert_eq!(records(line).count(), 0);
        }
        assert_eq!(visible(b"a\x1b]5379;{\"cut"), b"a".as_slice());
        assert_eq!(records(b"a\x1b]5379;{\"cut").count(), 0);
        assert_eq!(visible(b"\x1b]5379;no json\x07b"), b"b".as_slice());
    }

    #[test]
    fn a_text_cannot_pass_for_a_record() {
        let forged = carried(&text("m", "never said"));
        assert_eq!(records(plain(&forged).as_bytes()).count(), 0);
        assert!(visible(plain(&forged).as_bytes()).ends_with(b"}\x07"));
        assert_eq!(plain("\u{1b}[1mbold"), "\u{1b}[1mbold");
    }

    #[test]
    fn the_end_of_a_log_may_begin_inside_a_record() {
        let line = carried(&text("m", "long")) + "[tool] bash";
        assert_eq!(visible_end(&line[20..]), "[tool] bash");
        assert_eq!(visible_end(&format!("{}\n{line}", &line[20..])), "[tool] bash\n[tool] bash");
        assert_eq!(visible_end(&line), "[tool] bash");
        assert_eq!(visible_end("out of memory"), "out of memory");
    }

    #[test]
    fn long_texts_are_shortened_until_the_record_fits() {
        let long = line(&text("m", &"é".repeat(40 << 10))).unwrap();
        let kept = records(long.as_bytes()).next().unwrap();
        let kept = kept["part"]["text"].as_str().unwrap();
        assert!(kept.starts_with('é') && kept.ends_with("(49152 bytes more)"), "{}", kept.len());
        let many: Value = (0..100).map(|_| Value::from("x".repeat(8 << 10))).collect();
        assert!(line(&many).unwrap().len() <= LONGEST);
        let endless: Value = (0..LONGEST).map(Value::from).collect();
        assert_eq!(line(&endless), None);
    }

    #[test]
    fn the_output_of_a_running_call_grows_until_its_result_replaces_it() {
        let call = |state: Value| {
            json!({"type": TOOL_OUTPUT, "timestamp": 5, "sessionID": "s",
                "part": {"id": "p", "messageID": "m", "type": "tool", "tool": "bash", "state": state}})
        };
        let first = call(json!({"status": "running", "input": {"command": "make"}, "metadata": {"output": "a\n"}}));
        let more = call(json!({"status": "running", "metadata": {"output": "b\n"}}));
        let read = messages("", [first.clone(), text("m", "meanwhile"), more.clone()]);
        let state = &read[0]["parts"][0]["state"];
        assert_eq!((&state["metadata"]["output"], &state["input"]["command"]), (&json!("a\nb\n"), &json!("make")));
        let ended = call(json!({"status": "completed", "output": "a\nb\nc\n"}));
        let last = json!({"type": LAST, "timestamp": 6, "sessionID": "s", "outcome": {}});
        let read = messages("", [first, more, ended.clone(), last]);
        assert_eq!(read.len(), 1);
        assert_eq!(read[0]["parts"], json!([ended["part"]]));
    }

    #[test]
    fn records_become_a_conversation() {
        let finished = json!({"type": "step_finish", "timestamp": 7, "sessionID": "s",
            "part": {"messageID": "m1", "type": "step-finish", "reason": "tool-calls", "cost": 0.5, "tokens": {"input": 3}}});
        let error = json!({"type": "error", "timestamp": 9, "sessionID": "s", "error": {"name": "APIError"}});
        let read = messages("Fix it", [text("m1", "a"), finished, text("m2", "b"), error]);
        let roles: Vec<&str> = read.iter().filter_map(|message| message["info"]["role"].as_str()).collect();
        assert_eq!(roles, ["user", "assistant", "assistant"]);
        assert_eq!(read[0]["parts"][0]["text"], "Fix it");
        let first = &read[1]["info"];
        assert_eq!((&first["cost"], &first["finish"]), (&json!(0.5), &json!("tool-calls")));
        assert_eq!(first["time"], json!({"created": 5, "completed": 7}));
        assert_eq!(read[2]["info"]["error"]["name"], "APIError");
        assert_eq!(messages("Fix it", []), [json!(null); 0]);
        assert_eq!(messages("Fix it", [json!({"type": "changes", "changes": {}})]), [json!(null); 0]);
    }
}
