//! Reasoning, in each field and form in which it comes; and that it goes back as it came (fM8).

use serde_json::{Value, json};

use super::super::{Block, Role, Turn};
use super::{
    Behaviour, Provider, STREAM, Server, behaviour, block, chat, messages, reply, request, sse,
    streams,
};

pub(super) fn rows() -> Vec<Behaviour> {
    let said = json!({ "content": "Hello." });
    let chat_rows = [
        (
            "reasoning_content",
            chat(
                &[
                    json!({"reasoning_content": "h"}),
                    json!({"reasoning_content": "m"}),
                    said.clone(),
                ],
                "stop",
            ),
            "~hm Hello.",
        ),
        ("reasoning", chat(&[json!({"reasoning": "hm"}), said.clone()], "stop"), "~hm Hello."),
        (
            "both fields with one text",
            chat(&[json!({"reasoning": "hm", "reasoning_content": "hm"}), said.clone()], "stop"),
            "~hm Hello.",
        ),
        (
            "reasoning_details",
            chat(
                &[
                    json!({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "h"}]}),
                    json!({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "m"}]}),
                    said.clone(),
                ],
                "stop",
            ),
            "~hm Hello.",
        ),
        (
            "thinking blocks",
            chat(
                &[
                    json!({"thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "s"}]}),
                    said.clone(),
                ],
                "stop",
            ),
            "~hm Hello.",
        ),
        (
            "thinking parts",
            chat(
                &[
                    json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}),
                    json!({"content": [{"type": "text", "text": "Hello."}]}),
                ],
                "stop",
            ),
            "~hm Hello.",
        ),
        (
            "reasoning as an object",
            chat(&[json!({"reasoning": {"text": "hm"}}), said.clone()], "stop"),
            "~hm Hello.",
        ),
        (
            "reasoning null",
            chat(&[json!({"reasoning_content": null}), said.clone()], "stop"),
            "Hello.",
        ),
        (
            "marks in the text",
            chat(
                &[json!({"content": "<think>\nhm</th"}), json!({"content": "ink>\n\nHello."})],
                "stop",
            ),
            "~\nhm Hello.",
        ),
        ("only reasoning", chat(&[json!({"reasoning_content": "hm"})], "stop"), "!empty"),
        (
            "only marks in the text",
            chat(&[json!({"content": "<think>hm</think>"})], "stop"),
            "!empty",
        ),
        (
            "reasoning up to the limit",
            chat(&[json!({"reasoning_content": "hm"})], "length"),
            "~hm [OutputLimit]",
        ),
    ];
    let thinking = |deltas: &[Value]| {
        let mut events =
            block(0, json!({"type": "thinking", "thinking": "", "signature": ""}), deltas);
        events.extend(block(
            1,
            json!({"type": "text", "text": ""}),
            &[json!({"type": "text_delta", "text": "Hello."})],
        ));
        messages(&events, "end_turn")
    };
    let messages_rows = [
        (
            "a thinking block",
            thinking(&[
                json!({"type": "thinking_delta", "thinking": "hm"}),
                json!({"type": "signature_delta", "signature": "sig"}),
            ]),
            "~hm Hello.",
        ),
        (
            "a signature alone",
            thinking(&[json!({"type": "signature_delta", "signature": "sig"})]),
            "~ Hello.",
        ),
        (
            "a block that is redacted",
            messages(
                &[
                    block(0, json!({"type": "redacted_thinking", "data": "xyz"}), &[]),
                    block(1, json!({"type": "text", "text": "Hello."}), &[]),
                ]
                .concat(),
                "end_turn",
            ),
            "~ Hello.",
        ),
        (
            "only a thinking block",
            messages(
                &block(
                    0,
                    json!({"type": "thinking", "thinking": ""}),
                    &[json!({"type": "thinking_delta", "thinking": "hm"})],
                ),
                "end_turn",
            ),
            "!empty",
        ),
    ];
    let item = json!({"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "e"});
    let message =
        json!({"type": "message", "content": [{"type": "output_text", "text": "Hello."}]});
    let responses_rows = [
        (
            "a reasoning item",
            sse(&[
                json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "hm"}),
                json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
                json!({"type": "response.output_text.delta", "output_index": 1, "delta": "Hello."}),
                json!({"type": "response.completed", "response": {"status": "completed", "output": [item, message]}}),
            ]),
            "~hm Hello.",
        ),
        (
            "a reasoning item that is not streamed",
            json!({"object": "response", "status": "completed", "output": [item, message]})
                .to_string(),
            "~hm Hello.",
        ),
        (
            "only a reasoning item",
            json!({"object": "response", "status": "completed", "output": [item]}).to_string(),
            "!empty",
        ),
    ];
    let mut rows = streams(Provider::OpenAi, &chat_rows);
    rows.extend(streams(Provider::Anthropic, &messages_rows));
    rows.extend(streams(Provider::Responses, &responses_rows));
    rows
}

/// What is sent after a call, to a server that answered so: the whole second request.
async fn second_request(provider: Provider, first: String) -> Value {
    let plain = reply(STREAM, first.as_bytes());
    let server = Server::start(&[behaviour(provider, "first", vec![plain], "")]).await;
    let client = server.client(0, provider);
    let answer = client.answer(&request(), &mut |_| {}).await.expect("an answer");
    let mut second = request();
    let call = answer.blocks.iter().find_map(|block| match block {
        Block::ToolUse { id, .. } => Some(id.clone()),
        Block::Text { .. } | Block::Reasoning { .. } | Block::ToolResult { .. } => None,
    });
    second.turns.push(Turn { role: Role::Assistant, blocks: answer.blocks });
    let id = call.expect("a call");
    let result = Block::ToolResult { id, text: "done".into(), is_error: false };
    second.turns.push(Turn { role: Role::User, blocks: vec![result] });
    client.answer(&second, &mut |_| {}).await.expect("an answer");
    server.asked(0).pop().expect("a request")
}

/// fM8: a server that refuses a history without what it sent gets it back, field by field.
#[tokio::test]
async fn fm8_reasoning_and_signatures_go_back_as_they_came() {
    let call = json!({"tool_calls": [{"index": 0, "id": "functions.Read:0", "type": "function",
        "function": {"name": "Read", "arguments": "{}"},
        "extra_content": {"google": {"thought_signature": "sig"}}}]});
    let details = json!([{"type": "reasoning.encrypted", "index": 0, "data": "abc", "id": "r"}]);
    for (field, value) in [
        ("reasoning_content", json!("hm")),
        ("reasoning", json!("hm")),
        ("reasoning_details", details),
    ] {
        let body = chat(&[json!({ field: value }), call.clone()], "tool_calls");
        let sent = second_request(Provider::OpenAi, body).await;
        let message = &sent["messages"][2];
        assert_eq!(message[field], value, "{message}");
        assert_eq!(message["tool_calls"][0]["id"], "functions.Read:0", "{message}");
        assert_eq!(message["tool_calls"][0]["extra_content"]["google"]["thought_signature"], "sig");
        assert_eq!(sent["messages"][3]["tool_call_id"], "functions.Read:0");
    }

    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "sig"});
    let events = [
        block(
            0,
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            &[
                json!({"type": "thinking_delta", "thinking": "hm"}),
                json!({"type": "signature_delta", "signature": "sig"}),
            ],
        ),
        block(1, json!({"type": "redacted_thinking", "data": "xyz"}), &[]),
        block(2, json!({"type": "tool_use", "id": "a", "name": "Read", "input": {}}), &[]),
    ];
    let body = messages(&events.concat(), "tool_use");
    let sent = second_request(Provider::Anthropic, body).await;
    let content = &sent["messages"][1]["content"];
    assert_eq!(content[0], thinking);
    assert_eq!(content[1], json!({"type": "redacted_thinking", "data": "xyz"}));
    assert_eq!(content[2]["id"], "a");

    let item = json!({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "e"});
    let output =
        json!([item, {"type": "function_call", "call_id": "a", "name": "Read", "arguments": "{}"}]);
    let body = json!({"object": "response", "status": "completed", "output": output}).to_string();
    let sent = second_request(Provider::Responses, body).await;
    assert_eq!(sent["input"][1], item);
    assert_eq!(sent["input"][3]["call_id"], "a");
}
