//! Stops: why an answer ended, and answers that end with nothing said.

use serde_json::{Value, json};

use super::{Behaviour, Provider, STREAM, behaviour, block, chat, messages, reply, sse, streams};

pub(super) fn rows() -> Vec<Behaviour> {
    let mut rows = Vec::new();
    for (reason, end) in [
        ("stop", ""),
        ("eos", ""),
        ("end_turn", ""),
        ("something_new", ""),
        ("length", " [OutputLimit]"),
        ("max_tokens", " [OutputLimit]"),
        ("MAX_TOKENS", " [OutputLimit]"),
        ("model_length", " [WindowFull]"),
        ("content_filter", " [Refusal]"),
        ("SAFETY", " [Refusal]"),
        ("RECITATION", " [Refusal]"),
        ("sensitive", " [Refusal]"),
    ] {
        let body = chat(&[json!({"content": "Hello."})], reason);
        let name = format!("finish reason {reason}");
        let reply = reply(STREAM, body.as_bytes());
        rows.push(behaviour(Provider::OpenAi, &name, vec![reply], &format!("Hello.{end}")));
    }
    for reason in ["error", "abort", "insufficient_system_resource", "network_error"] {
        let body = chat(&[json!({"content": "Hello."})], reason);
        let name = format!("finish reason {reason}");
        let expected = if reason == "error" { "!busy 500 x3" } else { "!broken x3" };
        rows.push(behaviour(
            Provider::OpenAi,
            &name,
            vec![reply(STREAM, body.as_bytes())],
            expected,
        ));
    }
    rows.extend(streams(Provider::OpenAi, &chat_rows()));
    rows.extend(streams(Provider::Anthropic, &messages_rows()));
    rows.extend(streams(Provider::Responses, &responses_rows()));
    rows.extend(asked_again());
    rows
}

fn chat_rows() -> Vec<(&'static str, String, &'static str)> {
    vec![
        ("an empty delta", chat(&[json!({})], "stop"), "!empty"),
        ("empty text", chat(&[json!({"content": ""})], "stop"), "!empty"),
        ("only white space", chat(&[json!({"content": " \n\t "})], "stop"), "!empty"),
        (
            "a refusal in its field",
            chat(&[json!({"refusal": "I will not."})], "stop"),
            "I will not.",
        ),
        ("a filter before any text", chat(&[json!({})], "content_filter"), "[Refusal]"),
        ("the limit before any text", chat(&[json!({})], "length"), "[OutputLimit]"),
    ]
}

fn messages_rows() -> Vec<(&'static str, String, &'static str)> {
    let text = block(0, json!({"type": "text", "text": "Hello."}), &[]);
    let refusal = messages(&text, "refusal").replace(
        "\"stop_reason\":\"refusal\"",
        "\"stop_reason\":\"refusal\",\"stop_details\":{\"explanation\":\"no\"}",
    );
    vec![
        ("max_tokens", messages(&text, "max_tokens"), "Hello. [OutputLimit]"),
        (
            "the window is full",
            messages(&text, "model_context_window_exceeded"),
            "Hello. [WindowFull]",
        ),
        ("stop_sequence", messages(&text, "stop_sequence"), "Hello."),
        ("pause_turn", messages(&text, "pause_turn"), "Hello. [Pause]"),
        ("refusal", messages(&text, "refusal"), "Hello. [Refusal]"),
        ("refusal with its reason", refusal, "Hello. [Refusal]"),
        ("tool_use without a call", messages(&text, "tool_use"), "Hello. [CutOff]"),
        ("nothing", messages(&[], "end_turn"), "!empty"),
        (
            "an empty block",
            messages(&block(0, json!({"type": "text", "text": ""}), &[]), "end_turn"),
            "!empty",
        ),
        (
            "only unknown blocks",
            messages(&block(0, json!({"type": "brand_new", "x": 1}), &[]), "end_turn"),
            "!empty",
        ),
        (
            "no stop reason",
            messages(&text, "").replace("\"stop_reason\":\"\"", "\"stop_reason\":null"),
            "Hello.",
        ),
    ]
}

fn responses_rows() -> Vec<(&'static str, String, &'static str)> {
    let delta = |text: &str| json!({"type": "response.output_text.delta", "output_index": 0, "delta": text});
    let end = |response: Value| json!({"type": "response.completed", "response": response});
    let message =
        json!({"type": "message", "content": [{"type": "output_text", "text": "Hello."}]});
    let completed = || end(json!({"status": "completed", "output": [message]}));
    let incomplete = |reason: &str| json!({"type": "response.incomplete", "response": {"status": "incomplete", "incomplete_details": {"reason": reason}}});
    vec![
        ("plain", sse(&[json!({"type": "response.created", "response": {"object": "response", "status": "in_progress"}}), delta("Hel"), delta("lo."), completed()]), "Hello."),
        ("with an end mark", sse(&[delta("Hello."), completed()]) + "data: [DONE]\n\n", "Hello."),
        ("the rest in the last event", sse(&[delta("Hel"), completed()]), "Hello."),
        ("all in the last event", sse(&[completed()]), "Hello."),
        ("the text again when it is done", sse(&[delta("Hel"), json!({"type": "response.output_text.done", "output_index": 0, "text": "Hello."}), completed()]), "Hello."),
        ("names of events alone", "event: response.output_text.delta\ndata: {\"output_index\":0,\"delta\":\"Hello.\"}\n\nevent: response.completed\ndata: {\"response\":{\"status\":\"completed\"}}\n\n".to_owned(), "Hello."),
        ("no last event", sse(&[delta("Hello.")]), "Hello. [CutOff]"),
        ("max_output_tokens", sse(&[delta("Hello."), incomplete("max_output_tokens")]), "Hello. [OutputLimit]"),
        ("content_filter", sse(&[delta("Hello."), incomplete("content_filter")]), "Hello. [Refusal]"),
        ("a refusal", sse(&[json!({"type": "response.refusal.delta", "output_index": 0, "delta": "No."}), end(json!({"status": "completed"}))]), "No. [Refusal]"),
        ("nothing", sse(&[end(json!({"status": "completed", "output": []}))]), "!empty"),
        ("failed", sse(&[json!({"type": "response.failed", "response": {"status": "failed", "error": {"code": "server_error", "message": "oops"}}})]), "!busy 500 x3"),
        ("cancelled", sse(&[delta("Hel"), end(json!({"status": "cancelled"}))]), "!broken x3"),
        ("an error event", sse(&[json!({"type": "error", "code": "rate_limit_exceeded", "message": "slow"})]), "!busy 429 x3"),
        ("output of another type", sse(&[delta("Hello."), end(json!({"status": "completed", "output": "x"}))]), "Hello."),
        ("completions instead", chat(&[json!({"content": "Hello."})], "stop"), "!not understood"),
    ]
}

/// fM5: asked once more, and then the run says so.
fn asked_again() -> Vec<Behaviour> {
    let empty = reply(STREAM, chat(&[json!({})], "stop").as_bytes());
    let good = reply(STREAM, chat(&[json!({"content": "Hello."})], "stop").as_bytes());
    vec![behaviour(Provider::OpenAi, "empty, then good", vec![empty, good], "Hello.")]
}
