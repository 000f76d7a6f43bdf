//! Any bytes as a stream: the answer is whole, or what was wrong is said. From a seeded generator, which mixes
//! good events with everything that breaks them.

use serde_json::json;

use super::super::assembly::Assembly;
use super::super::decode::{Decoder, Dialect, Progress};
use super::super::framing::Framing;
use super::{Provider, STREAM, Server, ask, behaviour, reply};

/// A generator that gives the same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        // xorshift: good enough to be everywhere.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(sides).unwrap()).unwrap()
    }
}

const SCRAPS: [&[u8]; 24] = [
    b"data: ",
    b"data:",
    b"event: error\n",
    b"event: ping\n",
    b"\n",
    b"\r\n",
    b"\r",
    b"\n\n",
    b"[DONE]",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\",
    b"\\ud83d",
    b"\xEF\xBB\xBF",
    b"\xFF\xFE",
    b": x\n",
    b"null",
    b"-1e999",
    b",",
    b"{\"error\":{\"code\":429}}",
    b"<think>",
];

fn body(dice: &mut Dice) -> Vec<u8> {
    let events = [
        json!({"choices": [{"index": 0, "delta": {"content": "Hi"}}]}),
        json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "Read", "arguments": "{\"x\""}}]}}]}),
        json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}}]}),
        json!({"choices": [{"delta": {"reasoning_content": "hm"}, "finish_reason": "stop"}]}),
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 3}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "a", "name": "Read"}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{}"}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hi"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
        json!({"type": "message_stop"}),
        json!({"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"}),
        json!({"type": "response.completed", "response": {"status": "completed", "output": [{"type": "message", "content": "Hi"}]}}),
    ];
    let mut body = Vec::new();
    for _ in 0..dice.roll(12) {
        match dice.roll(4) {
            0 => body.extend_from_slice(SCRAPS[dice.roll(SCRAPS.len())]),
            1 => body.push(u8::try_from(dice.roll(256)).unwrap()),
            _ => {
                let mut event =
                    format!("data: {}\n\n", events[dice.roll(events.len())]).into_bytes();
                if dice.roll(3) == 0 {
                    let at = dice.roll(event.len());
                    match dice.roll(3) {
                        0 => event.truncate(at),
                        1 => event[at] = u8::try_from(dice.roll(256)).unwrap(),
                        _ => event.insert(at, u8::try_from(dice.roll(256)).unwrap()),
                    }
                }
                body.extend_from_slice(&event);
            }
        }
    }
    body
}

/// What the pieces of an answer come to, for a body in chunks of one size.
fn read(body: &[u8], size: usize, dialect: Dialect) -> String {
    let (mut framing, mut assembly) = (Framing::new(), Assembly::default());
    let mut decoder = Decoder::new(dialect, vec!["Read".to_owned()]);
    let mut shown = String::new();
    let mut out = String::new();
    let mut on_delta = |delta: super::Delta<'_>| {
        if let super::Delta::Text(text) = delta {
            shown.push_str(text);
        }
    };
    body.chunks(size).for_each(|piece| framing.feed(piece).unwrap());
    framing.end();
    while let Some(event) = framing.next() {
        let progress = decoder.take(&event, &mut assembly, &mut on_delta).unwrap();
        if !matches!(progress, Progress::More) {
            out = format!("{progress:?}");
            break;
        }
    }
    format!("{out} {shown}")
}

/// Thousands of bodies for each dialect: none panics, and how it is cut into chunks changes nothing.
#[test]
fn fm31_any_bytes_are_read_alike_in_chunks_of_any_size() {
    for seed in 1..=3_000_u64 {
        let body = body(&mut Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        for dialect in [Dialect::Chat, Dialect::Messages, Dialect::Responses] {
            let whole = read(&body, body.len().max(1), dialect);
            for size in [1, 3] {
                let text = String::from_utf8_lossy(&body);
                assert_eq!(read(&body, size, dialect), whole, "seed {seed}: {text}");
            }
        }
    }
}

/// The same over HTTP: an answer that was told as whole has said its end, and nothing hangs.
#[tokio::test]
async fn fm31_any_bytes_as_a_stream_end_in_an_answer_or_an_error() {
    let providers = [Provider::OpenAi, Provider::Anthropic, Provider::Responses];
    let bodies: Vec<Vec<u8>> = (1..=150_u64)
        .map(|seed| body(&mut Dice(seed.wrapping_mul(0xD6E8_FEB8_6659_FD93))))
        .collect();
    let behaviours: Vec<_> = bodies
        .iter()
        .enumerate()
        .map(|(at, body)| {
            behaviour(providers[at % 3], &at.to_string(), vec![reply(STREAM, body)], "")
        })
        .collect();
    let server = Server::start(&behaviours).await;
    for (at, body) in bodies.iter().enumerate() {
        let mut client = server.client(at, providers[at % 3]);
        client.policy.tries_max = 1;
        let came = tokio::time::timeout(std::time::Duration::from_secs(10), ask(&client)).await;
        let came = came.unwrap_or_else(|_| panic!("{at} hangs"));
        let text = String::from_utf8_lossy(body);
        let ends =
            ["[DONE]", "[done]", "finish_reason", "stop_reason", "message_stop", "completed"];
        let said_its_end = ends.iter().any(|word| text.contains(word));
        let is_whole = !came.starts_with('!') && !came.ends_with(']');
        assert!(!is_whole || said_its_end, "{at}: {came:?} from {text}");
    }
}
