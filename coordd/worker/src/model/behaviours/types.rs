//! Types: fields that are missing, or of another type than the one that was agreed on.

use serde_json::{Value, json};

use super::{Behaviour, Provider, block, chat, messages, sse, streams};

fn one(choice: &Value) -> String {
    sse(&[json!({ "choices": [choice] })]) + "data: [DONE]\n\n"
}

pub(super) fn rows() -> Vec<Behaviour> {
    let stop = |mut choice: Value| {
        choice["finish_reason"] = "stop".into();
        one(&choice)
    };
    let chat_rows = [
        ("content as parts", chat(&[json!({"content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo."}]})], "stop"), "Hello."),
        ("content as one part", chat(&[json!({"content": {"type": "text", "text": "Hello."}})], "stop"), "Hello."),
        ("content as texts", chat(&[json!({"content": ["Hel", "lo."]})], "stop"), "Hello."),
        ("content with a value", chat(&[json!({"content": [{"type": "output_text", "text": {"value": "Hello."}}]})], "stop"), "Hello."),
        ("content as a number", chat(&[json!({"content": 42})], "stop"), "42"),
        ("content null, then text", chat(&[json!({"content": null}), json!({"content": "Hello."})], "stop"), "Hello."),
        ("parts of unknown kinds", chat(&[json!({"content": [{"type": "image", "url": "x"}, {"type": "text", "text": "Hello."}]})], "stop"), "Hello."),
        ("role of another type", chat(&[json!({"role": 7, "content": "Hello."})], "stop"), "Hello."),
        ("tool_calls null", chat(&[json!({"content": "Hello.", "tool_calls": null})], "stop"), "Hello."),
        ("tool_calls of another type", chat(&[json!({"content": "Hello.", "tool_calls": "none"})], "stop"), "Hello."),
        ("delta as text", stop(json!({"delta": "Hello."})), "Hello."),
        ("message instead of delta", stop(json!({"message": {"content": "Hello."}})), "Hello."),
        ("text instead of delta", stop(json!({"text": "Hello."})), "Hello."),
        ("message beside a null delta", stop(json!({"delta": null, "message": {"content": "Hello."}})), "Hello."),
        ("choices as an object", sse(&[json!({"choices": {"delta": {"content": "Hello."}, "finish_reason": "stop"}})]), "Hello."),
        ("choices null, then good ones", sse(&[json!({"choices": null}), json!({"choices": [{"delta": {"content": "Hello."}, "finish_reason": "stop"}]})]), "Hello."),
        ("choices of another type", sse(&[json!({"choices": "x"})]), "!not understood"),
        ("a second choice", sse(&[json!({"choices": [{"index": 0, "delta": {"content": "Hello."}, "finish_reason": "stop"}, {"index": 1, "delta": {"content": "Bye."}}]})]), "Hello."),
        ("index as text", stop(json!({"index": "0", "delta": {"content": "Hello."}})), "Hello."),
        ("index negative", stop(json!({"index": -1, "delta": {"content": "Hello."}})), "Hello."),
        ("finish reason of another type", sse(&[json!({"choices": [{"delta": {"content": "Hello."}, "finish_reason": 1}]})]) + "data: [DONE]\n\n", "Hello."),
        ("finish reason empty", sse(&[json!({"choices": [{"delta": {"content": "Hello."}, "finish_reason": ""}]})]) + "data: [DONE]\n\n", "Hello."),
        ("usage as text", sse(&[json!({"choices": [{"delta": {"content": "Hello."}, "finish_reason": "stop"}], "usage": {"prompt_tokens": "12", "completion_tokens": "3.0"}})]), "Hello."),
        ("usage of another type", sse(&[json!({"choices": [{"delta": {"content": "Hello."}, "finish_reason": "stop"}], "usage": "many"})]), "Hello."),
        ("usage negative", sse(&[json!({"choices": [{"delta": {"content": "Hello."}, "finish_reason": "stop"}], "usage": {"prompt_tokens": -1, "completion_tokens": -1}})]), "Hello."),
        ("usage in an event of its own", chat(&[json!({"content": "Hello."})], "stop").replace("data: [DONE]", "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1.0,\"completion_tokens\":2}}\n\ndata: [DONE]"), "Hello."),
        ("created as a float, id a number", sse(&[json!({"id": 7, "created": 1.5, "object": null, "choices": [{"delta": {"content": "Hello."}, "finish_reason": "stop"}]})]), "Hello."),
        ("error null beside choices", sse(&[json!({"error": null, "choices": [{"delta": {"content": "Hello."}, "finish_reason": "stop"}]})]), "Hello."),
        ("a whole message after its deltas", chat(&[json!({"content": "Hel"}), json!({"content": "lo."})], "stop").replace("data: [DONE]", "data: {\"choices\":[{\"message\":{\"content\":\"Hello.\"}}]}\n\ndata: [DONE]"), "Hello."),
        ("a whole message with the rest", chat(&[json!({"content": "Hel"})], "stop").replace("data: [DONE]", "data: {\"choices\":[{\"message\":{\"content\":\"Hello.\"}}]}\n\ndata: [DONE]"), "Hello."),
        ("halves of a letter in two events", "data: {\"choices\":[{\"delta\":{\"content\":\"a\\ud83d\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"\\ude00b\"},\"finish_reason\":\"stop\"}]}\n\n".to_owned(), "a\u{1F600}b"),
        ("half a letter alone", "data: {\"choices\":[{\"delta\":{\"content\":\"a\\ud83d\"},\"finish_reason\":\"stop\"}]}\n\n".to_owned(), "a\u{FFFD}"),
    ];
    let text = |delta: Value| {
        messages(&block(0, json!({"type": "text", "text": ""}), &[delta]), "end_turn")
    };
    let messages_rows = [
        (
            "text in the start of the block",
            messages(
                &block(
                    0,
                    json!({"type": "text", "text": "Hel"}),
                    &[json!({"type": "text_delta", "text": "lo."})],
                ),
                "end_turn",
            ),
            "Hello.",
        ),
        ("delta without a type", text(json!({"text": "Hello."})), "Hello."),
        ("delta as text", text(json!("Hello.")), "Hello."),
        (
            "delta with parts",
            text(json!({"type": "text_delta", "text": [{"type": "text", "text": "Hello."}]})),
            "Hello.",
        ),
        (
            "delta null",
            messages(
                &block(
                    0,
                    json!({"type": "text"}),
                    &[json!(null), json!({"type": "text_delta", "text": "Hello."})],
                ),
                "end_turn",
            ),
            "Hello.",
        ),
        (
            "index as text",
            text(json!({"type": "text_delta", "text": "Hello."}))
                .replace("\"index\":0", "\"index\":\"0\""),
            "Hello.",
        ),
        (
            "index with a point",
            text(json!({"type": "text_delta", "text": "Hello."}))
                .replace("\"index\":0", "\"index\":0.0"),
            "Hello.",
        ),
        (
            "usage of another type",
            text(json!({"type": "text_delta", "text": "Hello."}))
                .replace("{\"input_tokens\":1}", "\"none\""),
            "Hello.",
        ),
        (
            "usage as text",
            text(json!({"type": "text_delta", "text": "Hello."}))
                .replace("{\"input_tokens\":1}", "{\"input_tokens\":\"1\"}"),
            "Hello.",
        ),
        (
            "message null",
            text(json!({"type": "text_delta", "text": "Hello."}))
                .replace("{\"usage\":{\"input_tokens\":1}}", "null"),
            "Hello.",
        ),
        (
            "unknown blocks",
            messages(
                &[
                    block(
                        0,
                        json!({"type": "server_tool_use", "id": "s"}),
                        &[json!({"type": "input_json_delta", "partial_json": "{}"})],
                    ),
                    block(1, json!({"type": "text", "text": "Hello."}), &[]),
                ]
                .concat(),
                "end_turn",
            ),
            "Hello.",
        ),
        (
            "citations",
            messages(
                &block(
                    0,
                    json!({"type": "text", "text": ""}),
                    &[
                        json!({"type": "citations_delta", "citation": {}}),
                        json!({"type": "text_delta", "text": "Hello."}),
                    ],
                ),
                "end_turn",
            ),
            "Hello.",
        ),
        (
            "the content in the start of the message",
            sse(&[
                json!({"type": "message_start", "message": {"content": [{"type": "text", "text": "Hello."}]}}),
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
                json!({"type": "message_stop"}),
            ]),
            "Hello.",
        ),
        (
            "content as text in a whole message",
            json!({"type": "message", "content": "Hello.", "stop_reason": "end_turn"}).to_string(),
            "Hello.",
        ),
        (
            "a whole message without a type",
            json!({"content": [{"text": "Hello."}], "stop_reason": "end_turn"}).to_string(),
            "Hello.",
        ),
    ];
    let mut rows = streams(Provider::OpenAi, &chat_rows);
    rows.extend(streams(Provider::Anthropic, &messages_rows));
    rows
}
