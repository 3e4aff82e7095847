//! The OpenAI wire format: a response as one document or as server-sent events.

use serde_json::{Value, json};

use super::plan::{Answer, ChatRequest, tokens};

/// The response to a request that is not streamed.
pub fn document(request: &ChatRequest, answer: &Answer, serial: u64) -> Value {
    let (message, finish) = match answer {
        Answer::Call(call) => {
            let call = json!({
                "id": call_id(serial), "type": "function",
                "function": {"name": call.tool, "arguments": call.arguments.to_string()},
            });
            (json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls")
        }
        Answer::Text(text, ending) => (json!({"role": "assistant", "content": text}), ending.as_str()),
    };
    json!({
        "id": completion_id(serial), "object": "chat.completion", "created": 0, "model": request.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": usage(request, answer),
    })
}

/// The events of a streamed response, each without its `data: ` frame and without the final `[DONE]`.
pub fn chunks(request: &ChatRequest, answer: &Answer, serial: u64) -> Vec<Value> {
    let chunk = |delta: Value, finish: Option<&str>| {
        json!({
            "id": completion_id(serial), "object": "chat.completion.chunk", "created": 0, "model": request.model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        })
    };
    let mut chunks = vec![chunk(json!({"role": "assistant", "content": ""}), None)];
    let finish = match answer {
        Answer::Call(call) => {
            let call = json!({
                "index": 0, "id": call_id(serial), "type": "function",
                "function": {"name": call.tool, "arguments": call.arguments.to_string()},
            });
            chunks.push(chunk(json!({"tool_calls": [call]}), None));
            "tool_calls"
        }
        Answer::Text(text, ending) => {
            chunks.extend(pieces(text).map(|piece| chunk(json!({"content": piece}), None)));
            ending.as_str()
        }
    };
    chunks.push(chunk(json!({}), Some(finish)));
    chunks.push(json!({
        "id": completion_id(serial), "object": "chat.completion.chunk", "created": 0, "model": request.model,
        "choices": [], "usage": usage(request, answer),
    }));
    chunks
}

/// An error document of OpenAI.
pub fn refusal(status: u16, message: &str) -> Value {
    let kind = if status < 500 { "invalid_request_error" } else { "server_error" };
    json!({"error": {"message": message, "type": kind, "code": status.to_string()}})
}

/// The text in chunks of a few words, as a model streams it.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.char_indices().nth(16).map_or(rest.len(), |(at, _)| at);
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece)
    })
}

fn usage(request: &ChatRequest, answer: &Answer) -> Value {
    let prompt: u64 = request.messages.iter().map(|message| tokens(&message.text())).sum();
    let completion = match answer {
        Answer::Call(call) => tokens(&call.arguments.to_string()),
        Answer::Text(text, _) => tokens(text),
    };
    json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion})
}

fn completion_id(serial: u64) -> String {
    format!("chatcmpl-scripted-{serial}")
}

fn call_id(serial: u64) -> String {
    format!("call_scripted_{serial}")
}

#[cfg(test)]
mod tests {
    use super::super::script::{Ending, ToolCall};
    use super::*;

    #[test]
    fn the_pieces_of_a_stream_make_the_text_again() {
        let text = "Grüße, this is a text that is longer than one piece.";
        let chunks = chunks(&ChatRequest::default(), &Answer::Text(text.to_owned(), Ending::Length), 1);
        let joined: String =
            chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
        assert_eq!(joined, text);
        assert_eq!(chunks[chunks.len() - 2]["choices"][0]["finish_reason"], "length");
        assert!(chunks[chunks.len() - 1]["usage"]["total_tokens"].as_u64() > Some(0));
    }

    #[test]
    fn a_tool_call_looks_the_same_streamed_and_whole() {
        let call = Answer::Call(ToolCall { tool: "bash".to_owned(), arguments: json!({"command": "ls"}) });
        let whole = document(&ChatRequest::default(), &call, 7);
        let streamed = chunks(&ChatRequest::default(), &call, 7);
        assert_eq!(
            whole["choices"][0]["message"]["tool_calls"][0]["function"],
            streamed[1]["choices"][0]["delta"]["tool_calls"][0]["function"]
        );
    }
}
