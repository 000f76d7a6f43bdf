//! Errors: by status, in a success, in the middle of a stream; and what a server does after one.

use serde_json::{Value, json};

use super::{Behaviour, Provider, STREAM, behaviour, block, chat, messages, reply, sse, streams};

const JSON: &str = "content-type: application/json";

fn status(line: &str, body: &Value) -> Vec<u8> {
    reply(&format!("{line}\r\n{JSON}"), body.to_string().as_bytes())
}

pub(super) fn rows() -> Vec<Behaviour> {
    let mut rows = in_a_success();
    rows.extend(in_a_stream());
    rows.extend(and_then());
    rows
}

fn in_a_success() -> Vec<Behaviour> {
    let error = |error: Value| json!({ "error": error });
    let rows = [
        (
            "an error with a code in a success",
            error(json!({"code": 429, "message": "slow"})),
            "!busy 429 x3",
        ),
        ("a code as text", error(json!({"code": "503", "message": "slow"})), "!busy 503 x3"),
        ("a type", error(json!({"type": "overloaded_error", "message": "slow"})), "!busy 529 x3"),
        (
            "a status as a word",
            error(json!({"status": "RESOURCE_EXHAUSTED", "message": "slow"})),
            "!busy 429 x3",
        ),
        ("an error as text", error(json!("oops")), "!busy 500 x3"),
        (
            "an error in a list",
            json!([{"error": {"code": 429, "message": "slow"}}]),
            "!busy 429 x3",
        ),
        (
            "an error that is its own object",
            json!({"object": "error", "message": "no such model", "code": 404}),
            "!unknown model",
        ),
        ("a detail", json!({"detail": "oops"}), "!busy 500 x3"),
        ("a wrong key", error(json!({"code": "invalid_api_key", "message": "no"})), "!key"),
        (
            "an unknown model",
            error(json!({"code": "model_not_found", "message": "no"})),
            "!unknown model",
        ),
        (
            "too long",
            error(json!({"code": "context_length_exceeded", "message": "no"})),
            "!too long",
        ),
        (
            "too long in words",
            error(json!({"code": 400, "message": "prompt is too long: 9 > 8"})),
            "!too long",
        ),
        ("no money", error(json!({"code": "insufficient_quota", "message": "no"})), "!refused"),
        (
            "an error in an error",
            error(
                json!({"message": "provider returned an error", "code": 429, "metadata": {"raw": "{\"error\":\"slow\"}"}}),
            ),
            "!busy 429 x3",
        ),
    ];
    let mut all: Vec<_> = rows
        .iter()
        .map(|(name, body, expected)| {
            behaviour(Provider::OpenAi, name, vec![status("200 OK", body)], expected)
        })
        .collect();
    let messages =
        json!({"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}});
    all.push(behaviour(
        Provider::Anthropic,
        "an error in a success",
        vec![status("200 OK", &messages)],
        "!busy 429 x3",
    ));
    all
}

fn in_a_stream() -> Vec<Behaviour> {
    let said = json!({"choices": [{"delta": {"content": "Hel"}}]});
    let slow = json!({"error": {"code": 429, "message": "slow"}});
    let chat_rows = [
        ("an error event first", sse(&[slow.clone()]), "!busy 429 x3"),
        (
            "an error event with a name",
            "event: error\ndata: {\"message\":\"oops\"}\n\n".to_owned(),
            "!busy 500 x3",
        ),
        (
            "an error event of a word",
            "event: error\ndata: overloaded\n\n".to_owned(),
            "!busy 500 x3",
        ),
        ("an error after some text", sse(&[said.clone(), slow]), "!busy 429 x3"),
        (
            "a raw error after some text",
            sse(&[said.clone()]) + "{\"error\":{\"code\":503,\"message\":\"slow\"}}\n",
            "!busy 503 x3",
        ),
        (
            "an error in the choice",
            sse(&[
                json!({"choices": [{"error": {"code": 502, "message": "oops"}, "delta": {"content": ""}, "finish_reason": "error"}]}),
            ]),
            "!busy 502 x3",
        ),
        (
            "a wrong key after some text",
            sse(&[said, json!({"error": {"code": "invalid_api_key", "message": "no"}})]),
            "!key",
        ),
    ];
    let overloaded =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "slow"}});
    let start = json!({"type": "message_start", "message": {}});
    let text = |end: &Value| {
        let mut events = vec![start.clone()];
        events.extend(block(0, json!({"type": "text", "text": "Hel"}), &[]));
        events.push(end.clone());
        sse(&events)
    };
    let call = {
        let mut events = vec![start.clone()];
        events.extend(block(
            0,
            json!({"type": "tool_use", "id": "a", "name": "Read", "input": {}}),
            &[],
        ));
        events.push(overloaded.clone());
        sse(&events)
    };
    let messages_rows = [
        ("an error event first", sse(&[overloaded.clone()]), "!busy 529 x3"),
        ("an error after some text", text(&overloaded), "!busy 529 x3"),
        ("an error after a whole call", call, "Read{} [CutOff]"),
        (
            "an unknown error",
            text(&json!({"type": "error", "error": {"type": "brand_new"}})),
            "!busy 500 x3",
        ),
        (
            "an error without an error",
            text(&json!({"type": "error", "message": "oops"})),
            "!busy 500 x3",
        ),
        (
            "the prompt is too long",
            sse(&[
                json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}}),
            ]),
            "!too long",
        ),
    ];
    let mut rows = streams(Provider::OpenAi, &chat_rows);
    rows.extend(streams(Provider::Anthropic, &messages_rows));
    rows
}

/// fM26: who names a model that is not there reads what there is.
#[tokio::test]
async fn fm26_an_unknown_models_error_lists_what_the_key_offers() {
    let unknown = status("404 Not Found", &json!({"error": {"message": "no"}}));
    let behaviour = behaviour(Provider::OpenAi, "unknown", vec![unknown], "");
    let server = super::Server::start(&[behaviour]).await;
    let client = server.client(0, Provider::OpenAi);
    let error = client.answer(&super::request(), &mut |_| {}).await.unwrap_err();
    let message = error.to_string();
    assert!(message.ends_with("OPENAI_BASE_URL. It offers m-1, m-2"), "{message}");
}

/// What a server does at the second and third request.
fn and_then() -> Vec<Behaviour> {
    let good = reply(STREAM, chat(&[json!({"content": "Hello."})], "stop").as_bytes());
    let good_message = {
        let text = block(0, json!({"type": "text", "text": "Hello."}), &[]);
        reply(STREAM, messages(&text, "end_turn").as_bytes())
    };
    let words_then_error = {
        let mut events = vec![json!({"type": "message_start", "message": {}})];
        events.extend(block(0, json!({"type": "text", "text": "Some words"}), &[]));
        events
            .push(json!({"type": "error", "error": {"type": "overloaded_error", "message": "o"}}));
        reply(STREAM, sse(&events).as_bytes())
    };
    let bad = |message: &str| status("400 Bad Request", &json!({"error": {"message": message}}));
    let too_high =
        bad("max_tokens: 16000 > 8192, which is the maximum allowed number of output tokens");
    let event_body = "event: error\ndata: {\"error\":{\"message\":\"slow\"}}\n\n";
    vec![
        behaviour(
            Provider::Anthropic,
            "words, then an error, twice, then good",
            vec![words_then_error.clone(), words_then_error, good_message],
            "Hello.",
        ),
        behaviour(
            Provider::OpenAi,
            "busy, then good",
            vec![status("429 Too Many Requests\r\nretry-after: 0", &json!({})), good.clone()],
            "Hello.",
        ),
        behaviour(
            Provider::OpenAi,
            "an error status with an event",
            vec![reply(
                "503 Service Unavailable\r\ncontent-type: text/event-stream",
                event_body.as_bytes(),
            )],
            "!busy 503 x3",
        ),
        behaviour(
            Provider::OpenAi,
            "an output limit that is too high, then good",
            vec![too_high.clone(), good.clone()],
            "Hello.",
        ),
        behaviour(
            Provider::OpenAi,
            "an output limit that stays too high",
            vec![too_high],
            "!refused",
        ),
        behaviour(
            Provider::OpenAi,
            "stream_options is not known, then good",
            vec![bad("Unrecognized request argument supplied: stream_options"), good.clone()],
            "Hello.",
        ),
        behaviour(
            Provider::OpenAi,
            "the old name of the limit, then good",
            vec![
                bad(
                    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                ),
                good.clone(),
            ],
            "Hello.",
        ),
        behaviour(
            Provider::OpenAi,
            "a window that is too small for both, then good",
            vec![bad("This model's maximum context length is 16384 tokens."), good],
            "Hello.",
        ),
        behaviour(
            Provider::OpenAi,
            "a wait that is too long",
            vec![status("429 Too Many Requests\r\nretry-after: 3600", &json!({}))],
            "!busy 429 x1",
        ),
        behaviour(
            Provider::OpenAi,
            "a redirect",
            vec![reply("302 Found\r\nlocation: http://elsewhere/", b"")],
            "!not understood",
        ),
        behaviour(
            Provider::OpenAi,
            "unknown model",
            vec![status("404 Not Found", &json!({"error": {"message": "no"}}))],
            "!unknown model",
        ),
    ]
}
