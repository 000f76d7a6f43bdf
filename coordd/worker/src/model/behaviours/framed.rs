//! Framing: line ends, marks, blank lines that are missing, signs of life of odd shape, bodies under
//! another header than their own.

use serde_json::json;

use super::{Behaviour, Provider, STREAM, behaviour, reply};

const ONE: &str = r#"{"choices":[{"delta":{"content":"Hel"}}]}"#;
const TWO: &str = r#"{"choices":[{"delta":{"content":"lo."},"finish_reason":"stop"}]}"#;
const WHOLE: &str =
    r#"{"choices":[{"message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}]}"#;

fn chat_bodies() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let text = |text: String| text.into_bytes();
    let plain = format!("data: {ONE}\n\ndata: {TWO}\n\ndata: [DONE]\n\n");
    vec![
        ("plain", text(plain.clone()), "Hello."),
        ("carriage returns and line feeds", text(plain.replace('\n', "\r\n")), "Hello."),
        ("carriage returns alone", text(plain.replace('\n', "\r")), "Hello."),
        ("byte order mark", text(format!("\u{feff}{plain}")), "Hello."),
        ("blank lines before", text(format!("\n\n\r\n{plain}")), "Hello."),
        ("no space after the colon", text(plain.replace("data: ", "data:")), "Hello."),
        ("spaces before the field", text(plain.replace("data:", "  data:")), "Hello."),
        ("fields in capitals", text(plain.replace("data:", "DATA:")), "Hello."),
        ("no blank lines", text(plain.replace("\n\n", "\n")), "Hello."),
        ("no newline at the end", text(plain.trim_end().to_owned()), "Hello."),
        ("no end mark", text(plain.replace("data: [DONE]\n\n", "")), "Hello."),
        ("no end mark, no newline", text(format!("data: {ONE}\n\ndata: {TWO}")), "Hello."),
        ("end mark in small letters", text(plain.replace("[DONE]", "[done]")), "Hello."),
        ("end mark twice", text(format!("{plain}data: [DONE]\n\n")), "Hello."),
        ("events after the end mark", text(format!("{plain}data: {ONE}\n\n")), "Hello."),
        ("comments", text(format!(": keepalive\n\n:\n\n{plain}")), "Hello."),
        ("comments without a colon's space", text(format!(":ok\n{plain}")), "Hello."),
        ("empty data", text(format!("data:\n\ndata: \n\n{plain}")), "Hello."),
        ("a ping with a name", text(format!("event: ping\ndata: {{}}\n\n{plain}")), "Hello."),
        ("a ping without data", text(format!("event: ping\n\n{plain}")), "Hello."),
        ("a ping of a word", text(format!("data: ping\n\n{plain}")), "Hello."),
        ("a ping that is null", text(format!("data: null\n\n{plain}")), "Hello."),
        ("a ping that is a number", text(format!("data: 17\n\n{plain}")), "Hello."),
        ("a ping with a type", text(format!("data: {{\"type\":\"ping\"}}\n\n{plain}")), "Hello."),
        ("a word in capitals", text(format!("data: HEARTBEAT\n\n{plain}")), "Hello."),
        ("ids and retry", text(plain.replace("data:", "id: 1\nretry: 9\ndata:")), "Hello."),
        ("names of events", text(plain.replace("data:", "event: message\ndata:")), "Hello."),
        ("unknown fields", text(plain.replace("data:", "x-y: z\ndata:")), "Hello."),
        ("a document over several lines", text(plain.replace("{\"delta\"", "\ndata: {\"delta\"")), "Hello."),
        ("raw lines between", text(format!("{ONE}\n\n{TWO}\n")), "Hello."),
        ("raw lines after events", text(format!("data: {ONE}\n\n{TWO}\n\n")), "Hello."),
        ("documents without a gap", text(format!("{ONE}{TWO}")), "Hello."),
        ("a list of documents", text(format!("[{ONE},\n{TWO}]")), "Hello."),
        ("a whole completion", text(WHOLE.to_owned()), "Hello."),
        ("a whole completion, printed prettily", text(pretty(WHOLE)), "Hello."),
        ("a whole completion in an event", text(format!("data: {WHOLE}\n\n")), "Hello."),
        ("a byte that is not UTF-8", [b"data: {\"choices\":[{\"delta\":{\"content\":\"H\xFFi\"},\"finish_reason\":\"stop\"}]}\n\n".to_vec()].concat(), "H\u{FFFD}i"),
        ("a raw line break in a text", text("data: {\"choices\":[{\"delta\":{\"content\":\"a\nb\"},\"finish_reason\":\"stop\"}]}\n\n".into()), "a\nb"),
        ("nothing", Vec::new(), "!broken x3"),
        ("only comments", text(": keepalive\n\n: keepalive\n\n".into()), "!not understood"),
        ("a page", text("<html><body>Sign in</body></html>".into()), "!not understood"),
        ("a word", text("OK".into()), "!not understood"),
        ("JSON of something else", text("{\"hello\":1}".into()), "!not understood"),
        ("an event that is cut", text(format!("data: {ONE}\n\ndata: {{\"choices\":[{{\"del")), "Hel [CutOff]"),
        ("a whole completion that is cut", text("{\"choices\":[{\"message\":{\"content\":\"Hel".to_owned()), "!broken x3"),
        ("an event that is no JSON", text(format!("data: {ONE}\n\ndata: {{oops}}\n\n{plain}")), "!broken x3"),
        ("only the end mark", text("data: [DONE]\n\n".into()), "!not understood"),
        ("cut without an end", text(format!("data: {ONE}\n\n")), "Hel [CutOff]"),
        ("compressed unasked", vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0], "!not understood"),
    ]
}

fn pretty(json: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    format!("{value:#}")
}

fn headers() -> Vec<Behaviour> {
    let plain = format!("data: {ONE}\n\ndata: {TWO}\n\ndata: [DONE]\n\n");
    let of = |name: &str, head: &str, body: &str, expected: &str| {
        behaviour(Provider::OpenAi, name, vec![reply(head, body.as_bytes())], expected)
    };
    let too_long = format!("{:x}\r\n{plain}\r\n", plain.len());
    vec![
        of(
            "type in capitals",
            "200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8",
            &plain,
            "Hello.",
        ),
        of("type of text", "200 OK\r\ncontent-type: text/plain", &plain, "Hello."),
        of("no type", "200 OK", &plain, "Hello."),
        of(
            "type of JSON for a stream",
            "200 OK\r\ncontent-type: application/json",
            &plain,
            "Hello.",
        ),
        of("type of a stream for JSON", STREAM, WHOLE, "Hello."),
        of(
            "type of lines",
            "200 OK\r\ncontent-type: application/x-ndjson",
            &format!("{ONE}\n{TWO}\n"),
            "Hello.",
        ),
        of("created", "201 Created\r\ncontent-type: text/event-stream", &plain, "Hello."),
        of("no content", "204 No Content", "", "!broken x3"),
        of(
            "fewer bytes than promised",
            &format!("{STREAM}\r\ncontent-length: 99999"),
            &plain,
            "Hello.",
        ),
        of(
            "fewer bytes, and no end",
            &format!("{STREAM}\r\ncontent-length: 99999"),
            &format!("data: {ONE}\n\n"),
            "Hel [CutOff]",
        ),
        of(
            "chunks without their end",
            &format!("{STREAM}\r\ntransfer-encoding: chunked"),
            &too_long,
            "Hello.",
        ),
        of(
            "a page of a gateway",
            "200 OK\r\ncontent-type: text/html",
            "<!doctype html>",
            "!not understood",
        ),
    ]
}

fn messages() -> Vec<Behaviour> {
    let events = [
        (
            "message_start",
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 1}}}),
        ),
        (
            "content_block_start",
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        ),
        (
            "content_block_delta",
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}}),
        ),
        ("content_block_stop", json!({"type": "content_block_stop", "index": 0})),
        ("message_delta", json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})),
        ("message_stop", json!({"type": "message_stop"})),
    ];
    let plain: String =
        events.iter().map(|(name, event)| format!("event: {name}\ndata: {event}\n\n")).collect();
    let unnamed: String = events.iter().map(|(_, event)| format!("data: {event}\n\n")).collect();
    let untyped: String = events
        .iter()
        .map(|(name, event)| {
            let mut event = event.clone();
            event.as_object_mut().unwrap().remove("type");
            format!("event: {name}\ndata: {event}\n\n")
        })
        .collect();
    let bare: String = events
        .iter()
        .map(|(_, event)| {
            let mut event = event.clone();
            event.as_object_mut().unwrap().remove("type");
            format!("data: {event}\n\n")
        })
        .collect();
    let no_index = unnamed.replace(",\"index\":0", "");
    let whole = json!({"type": "message", "content": [{"type": "text", "text": "Hello."}], "stop_reason": "end_turn"});
    let rows = [
        ("plain", plain.clone(), "Hello."),
        ("carriage returns and line feeds", plain.replace('\n', "\r\n"), "Hello."),
        ("byte order mark", format!("\u{feff}{plain}"), "Hello."),
        ("no blank lines", plain.replace("\n\n", "\n"), "Hello."),
        ("no newline at the end", plain.trim_end().to_owned(), "Hello."),
        ("no names", unnamed.clone(), "Hello."),
        ("no types", untyped, "Hello."),
        ("neither names nor types", bare, "Hello."),
        ("no index", no_index, "Hello."),
        (
            "no last event",
            plain.replace("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", ""),
            "Hello.",
        ),
        ("no start of the block", unnamed.replace("content_block_start", "ping"), "Hello."),
        ("no start of the message", unnamed.replace("message_start", "ping"), "Hello."),
        ("pings", format!("event: ping\ndata: {{\"type\": \"ping\"}}\n\n{plain}"), "Hello."),
        (
            "new events",
            format!("data: {{\"type\":\"brand_new\",\"delta\":7}}\n\n{plain}"),
            "Hello.",
        ),
        ("a whole message", whole.to_string(), "Hello."),
        ("a whole message in an event", format!("data: {whole}\n\n"), "Hello."),
        ("cut without an end", plain.split_inclusive("\n\n").take(3).collect(), "Hello. [CutOff]"),
        ("nothing but the start", plain.split_inclusive("\n\n").take(2).collect(), "!broken x3"),
        ("an event that is no JSON", format!("data: {{oops\n\n{plain}"), "!broken x3"),
    ];
    let row = |(name, body, expected): &(&str, String, &str)| {
        behaviour(Provider::Anthropic, name, vec![reply(STREAM, body.as_bytes())], expected)
    };
    rows.iter().map(row).collect()
}

pub(super) fn rows() -> Vec<Behaviour> {
    let row = |(name, body, expected): (&str, Vec<u8>, &str)| {
        behaviour(Provider::OpenAi, name, vec![reply(STREAM, &body)], expected)
    };
    let mut rows: Vec<_> = chat_bodies().into_iter().map(row).collect();
    rows.extend(headers());
    rows.extend(messages());
    rows
}
