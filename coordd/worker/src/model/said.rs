//! What a server said about an error: its words, and how long it asks to wait, wherever these stand.

use jiff::Timestamp;
use reqwest::header::HeaderMap;
use serde_json::Value;

use super::endpoint::Endpoint;
use super::lenient::{list, number, word};
use super::retry::{retry_after_ms, span_ms};

/// What of an error is put into a message.
const SAID_LEN_MAX: usize = 400;
/// Errors in errors: gateways put a provider's error, as JSON in a text, into their own.
const NESTED_MAX: u32 = 8;

/// What a server said about an error, cleaned for a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// Its types and codes, for machines.
    pub(super) kind: String,
    pub(super) message: String,
    /// The HTTP status that it names, or would have had.
    pub(super) status: Option<u16>,
    pub(super) told_ms: Option<u64>,
}

impl Said {
    /// Reads the body of an error. Some come as an event.
    pub(super) fn from_body(endpoint: &Endpoint, body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        let data = text.lines().find_map(|line| line.trim_start().strip_prefix("data:"));
        for text in [text.trim(), data.unwrap_or_default().trim()] {
            if let Ok(value) = serde_json::from_str::<Value>(text)
                && !value.is_null()
            {
                return Self::from_value(endpoint, &value);
            }
        }
        Self { message: clean(&endpoint.redact(&text), SAID_LEN_MAX), ..Self::default() }
    }

    /// Takes the words out of an error object, in any of the shapes that are in use.
    pub(super) fn from_value(endpoint: &Endpoint, value: &Value) -> Self {
        let mut said = Self::default();
        said.add(value, NESTED_MAX);
        said.kind = clean(&said.kind, SAID_LEN_MAX);
        said.message = clean(&endpoint.redact(&said.message), SAID_LEN_MAX);
        if said.told_ms.is_none() {
            said.told_ms = told_in_words(&said.message);
        }
        said
    }

    fn add(&mut self, value: &Value, depth: u32) {
        let Some(depth) = depth.checked_sub(1) else { return };
        let value = list(Some(value)).first().unwrap_or(value);
        let Some(fields) = value.as_object() else {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            match serde_json::from_str::<Value>(&text) {
                Ok(inner @ Value::Object(_)) => self.add(&inner, depth),
                Ok(_) | Err(_) => self.say(&text),
            }
            return;
        };
        for name in ["type", "code", "status", "error_type"] {
            let field = fields.get(name);
            if let Some(text) = word(field) {
                self.kind = format!("{} {text}", self.kind).trim().to_lowercase();
            }
            self.status = self.status.or_else(|| http_status(number(field)?));
        }
        self.told_ms = self.told_ms.or_else(|| told_in_fields(value));
        let before = self.message.len();
        for name in ["message", "detail", "msg", "error_description", "reason", "title"] {
            match fields.get(name) {
                Some(inner @ (Value::String(_) | Value::Object(_) | Value::Array(_))) => {
                    self.add(inner, depth);
                    break;
                }
                Some(Value::Null | Value::Bool(_) | Value::Number(_)) | None => {}
            }
        }
        if let Some(error) = fields.get("error").filter(|it| !it.is_null()) {
            self.add(error, depth);
        }
        if let Some(raw) = fields.get("metadata").and_then(|it| it.get("raw")) {
            self.add(raw, depth);
        }
        if self.message.len() == before && self.message.is_empty() {
            self.message = value.to_string();
        }
    }

    fn say(&mut self, text: &str) {
        if self.message.contains(text) {
            return;
        }
        let gap = if self.message.is_empty() { "" } else { ": " };
        self.message = format!("{}{gap}{text}", self.message);
    }

    /// For the middle of a message: nothing, or a colon and the words.
    pub(super) fn suffix(&self) -> String {
        if self.message.is_empty() { String::new() } else { format!(": {}", self.message) }
    }

    /// The status of an error that came in a stream, or in the body of a success.
    pub(super) fn status_in_stream(&self) -> u16 {
        let known = [
            ("invalid_request", 400),
            ("invalid_argument", 400),
            ("context_length", 400),
            ("invalid_api_key", 401),
            ("authentication", 401),
            ("unauthenticated", 401),
            ("billing", 402),
            ("permission", 403),
            ("not_found", 404),
            ("request_too_large", 413),
            ("rate_limit", 429),
            ("resource_exhausted", 429),
            ("too_many_requests", 429),
            ("overloaded", 529),
            ("unavailable", 503),
            ("timeout", 504),
            ("deadline_exceeded", 504),
        ];
        let by_word = known.iter().find(|(word, _)| self.kind.contains(word));
        self.status.or(by_word.map(|(_, status)| *status)).unwrap_or(500)
    }
}

fn http_status(number: u64) -> Option<u16> {
    u16::try_from(number).ok().filter(|it| (400..=599).contains(it))
}

/// How long the server asks to wait, by its headers.
pub(super) fn told_by_headers(headers: &HeaderMap) -> Option<u64> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let in_ms = header("retry-after-ms").and_then(|it| it.trim().parse::<f64>().ok());
    let in_ms = in_ms.filter(|it| it.is_finite() && *it >= 0.0);
    in_ms
        .and_then(|it| format!("{it:.0}").parse().ok())
        .or_else(|| retry_after_ms(header("retry-after")?, Timestamp::now()))
}

/// The same in an error: Google's `retryDelay`, and what gateways write.
fn told_in_fields(error: &Value) -> Option<u64> {
    let seconds = ["retry_after", "retry_after_seconds", "retryAfter"];
    if let Some(told) = seconds.iter().find_map(|name| error.get(*name)) {
        let text = told.as_str().map_or_else(|| told.to_string(), str::to_owned);
        return retry_after_ms(&text, Timestamp::now());
    }
    let details = list(error.get("details")).iter();
    details.filter_map(|detail| word(detail.get("retryDelay"))).find_map(span_ms)
}

/// The same in words: "Please try again in 7m12s", "retry after 20 seconds".
fn told_in_words(message: &str) -> Option<u64> {
    let message = message.to_lowercase();
    let marks = ["try again in ", "retry in ", "retry after ", "try again after "];
    let behind = marks.iter().find_map(|mark| Some(message.split_once(mark)?.1))?;
    let mut words = behind.split_whitespace();
    let amount = words.next()?.trim_end_matches(['.', ',', ';', ')']);
    span_ms(amount).or_else(|| {
        let unit = words.next()?.trim_end_matches(['.', ',', ';', ')', 's']);
        let unit = match unit {
            "m" | "ms" | "millisecond" => "ms",
            "" | "sec" | "second" => "s",
            "min" | "minute" => "m",
            "hour" | "hr" => "h",
            _ => return None,
        };
        span_ms(&format!("{amount}{unit}"))
    })
}

/// One line without control characters, not longer than `len_max` characters.
pub(super) fn clean(text: &str, len_max: usize) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut out: String = words.chars().filter(|c| !c.is_control()).take(len_max).collect();
    if out.len() < words.len() && out.chars().count() == len_max {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn endpoint() -> Endpoint {
        Endpoint::openai(Some("http://127.0.0.1:1/v1"), &|_| None).unwrap()
    }

    #[test]
    fn words_are_found_in_every_shape_of_an_error() {
        for (body, kind, message, status) in [
            (json!({"error": {"type": "a", "code": "b", "message": "M"}}), "a b", "M", None),
            (json!({"error": {"code": 429, "message": "M"}}), "", "M", Some(429)),
            (json!({"error": {"code": "503", "message": "M"}}), "503", "M", Some(503)),
            (json!({"error": "M"}), "", "M", None),
            (json!({"detail": "M"}), "", "M", None),
            (json!({"detail": [{"msg": "M", "type": "missing"}]}), "missing", "M", None),
            (json!({"object": "error", "message": "M", "code": 404}), "", "M", Some(404)),
            (
                json!([{"error": {"status": "UNAVAILABLE", "message": "M"}}]),
                "unavailable",
                "M",
                None,
            ),
            (
                json!({"error": {"message": "{\"error\":{\"message\":\"M\",\"code\":400}}"}}),
                "",
                "M",
                Some(400),
            ),
            (
                json!({"error": {"message": "P", "metadata": {"raw": "{\"error\":\"M\"}"}}}),
                "",
                "P: M",
                None,
            ),
            (
                json!({"type": "error", "error": {"type": "overloaded_error", "message": "M"}}),
                "error overloaded_error",
                "M",
                None,
            ),
            (json!({"what": 1}), "", "{\"what\":1}", None),
        ] {
            let said = Said::from_body(&endpoint(), body.to_string().as_bytes());
            assert_eq!((said.kind.as_str(), said.message.as_str()), (kind, message), "{body}");
            assert_eq!(said.status, status, "{body}");
        }
        let event = Said::from_body(&endpoint(), b"event: error\ndata: {\"error\":\"M\"}\n\n");
        assert_eq!(event.message, "M");
        assert_eq!(Said::from_body(&endpoint(), b"<b>\n no </b>").message, "<b> no </b>");
    }

    /// W-8: waits are told in headers, fields and words.
    #[test]
    fn w8_how_long_to_wait_is_found_where_it_stands() {
        for (error, expected) in [
            (json!({"error": {"details": [{"retryDelay": "34.5s"}]}}), Some(34_500)),
            (json!({"error": {"message": "Please try again in 7m12s."}}), Some(432_000)),
            (json!({"error": {"message": "Please try again in 20ms. Visit"}}), Some(20)),
            (json!({"error": {"message": "Retry after 20 seconds."}}), Some(20_000)),
            (json!({"error": {"message": "try again in 2 minutes"}}), Some(120_000)),
            (json!({"error": {"message": "try again in a while"}}), None),
            (json!({"error": {"message": "slow", "retry_after": 2}}), Some(2_000)),
            (json!({"error": {"message": "slow"}}), None),
        ] {
            let said = Said::from_value(&endpoint(), &error);
            assert_eq!(said.told_ms, expected, "{error}");
        }
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", "3".parse().unwrap());
        assert_eq!(told_by_headers(&headers), Some(3_000));
        headers.insert("retry-after-ms", "250.5".parse().unwrap());
        assert_eq!(told_by_headers(&headers), Some(250));
    }
}
