//! Providers' own words, as they were seen or are documented, and what is made of them.

use super::*;

fn judged(status: u16, kind: &str, message: &str) -> Setback {
    let endpoint = Endpoint::openai(Some("http://127.0.0.1:1/v1"), &|_| None).unwrap();
    let body = serde_json::json!({ "error": { "type": kind, "message": message } });
    let said = Said::from_value(&endpoint, &body);
    let asked =
        Asked { endpoint: &endpoint, model: "m", output_limit: 16_000, input_tokens: 5_000 };
    judge(asked, status, &said, &HeaderMap::new())
}

fn word(setback: &Setback) -> String {
    match setback {
        Setback::Adjusts { refused, .. } => format!("{refused:?}"),
        Setback::Passing { told_ms: Some(ms), .. } => format!("waits {ms}"),
        Setback::Passing { .. } => "waits".to_owned(),
        Setback::Final(ModelError::ContextTooLong { .. }) => "too long".to_owned(),
        Setback::Final(ModelError::KeyRefused { .. }) => "key".to_owned(),
        Setback::Final(ModelError::ModelUnknown { .. }) => "model".to_owned(),
        Setback::Final(ModelError::Refused { .. }) => "refused".to_owned(),
        Setback::Final(error) => format!("{error:?}"),
        Setback::Empty(_) => "empty".to_owned(),
    }
}

/// fM11: that the conversation is too long, in a dozen providers' words.
#[test]
fn fm11_too_long_is_understood_in_every_providers_words() {
    for (status, kind, message) in [
        (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        (
            400,
            "context_length_exceeded",
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
        ),
        (
            400,
            "invalid_request_error",
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens. Please reduce the length of the messages.",
        ),
        (
            400,
            "",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048575).",
        ),
        (
            400,
            "exceed_context_size_error",
            "the request exceeds the available context size. try increasing the context size or enable context shift",
        ),
        (500, "server_error", "the request exceeds the available context size"),
        (
            400,
            "",
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        ),
        (
            413,
            "tokens",
            "Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 8000",
        ),
        (400, "", "Please reduce the length of the messages or completion."),
        (
            422,
            "",
            "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000; input length",
        ),
        (400, "", "Range of input length should be [1, 4000]"),
        (400, "", "input is too long for requested model."),
        (413, "request_too_large", "Request exceeds the maximum size"),
        (413, "", ""),
    ] {
        assert_eq!(word(&judged(status, kind, message)), "too long", "{status} {message}");
    }
}

/// fM11: that the output limit is too high, and what the server would take.
#[test]
fn fm11_an_output_limit_that_is_refused_is_lowered_to_what_is_allowed() {
    for (message, limit) in [
        (
            "max_tokens: 16000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-sonnet-20241022",
            8_192,
        ),
        (
            "max_tokens is too large: 16000. This model supports at most 4096 completion tokens, whereas you provided 16000.",
            4_096,
        ),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8_192),
        (
            "`max_tokens` must be less than or equal to `8,192`, the maximum value for `max_tokens` for this model",
            8_192,
        ),
        ("Range of max_tokens should be [1, 8192]", 8_192),
        (
            "Unable to submit request because it has a maxOutputTokens value of 16000 but the supported range is from 1 (inclusive) to 8193 (exclusive).",
            8_192,
        ),
        (
            "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 4096, but got 16000 instead.",
            4_096,
        ),
        ("max_tokens is too large", 4_096),
        (
            "This model's maximum context length is 16384 tokens. However, you requested 21000 tokens (5000 in the messages, 16000 in the completion). Please reduce the length of the messages or completion.",
            11_384,
        ),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 16000. This model's maximum context length is 16384 tokens and your request has 5000 input tokens (16000 > 16384 - 5000).",
            11_384,
        ),
        (
            "input length and `max_tokens` exceed context limit: 190000 + 16000 > 200000, decrease input length or `max_tokens` and try again",
            10_000,
        ),
        (
            "`inputs` tokens + `max_new_tokens` must be <= 16384. Given: 5000 `inputs` tokens and 16000 `max_new_tokens`",
            11_384,
        ),
        ("This model's maximum context length is 16384 tokens.", 10_246),
    ] {
        let expected = format!("{:?}", Refused::OutputLimit(limit));
        assert_eq!(word(&judged(400, "invalid_request_error", message)), expected, "{message}");
    }
}

#[test]
fn what_a_server_does_not_take_is_left_out() {
    for (message, refused) in [
        (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            Refused::LimitName,
        ),
        ("Unrecognized request argument supplied: max_completion_tokens", Refused::NewLimitName),
        (
            "[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options'), 'msg': 'Extra inputs are not permitted'}]",
            Refused::StreamOptions,
        ),
        ("tool_choice 'required' is not supported", Refused::ToolChoice),
        ("system.0.cache_control: Extra inputs are not permitted", Refused::CacheMarks),
        ("messages.1.reasoning_content: property is unsupported", Refused::Reasoning),
        ("messages.1.content.0: Invalid `signature` in `thinking` block", Refused::Reasoning),
    ] {
        let expected = format!("{refused:?}");
        assert_eq!(word(&judged(400, "invalid_request_error", message)), expected, "{message}");
    }
    let missing = "The `reasoning_content` in the thinking mode must be passed back to the API.";
    assert_eq!(word(&judged(400, "", missing)), "refused");
}

#[test]
fn whether_waiting_helps_is_seen_behind_the_status() {
    for (status, kind, message, expected) in [
        (
            429,
            "rate_limit_error",
            "Number of tokens has exceeded your per-minute rate limit",
            "waits",
        ),
        (429, "", "Rate limit reached: too many tokens. Please try again in 1.5s.", "waits 1500"),
        (429, "insufficient_quota", "You exceeded your current quota", "refused"),
        (
            429,
            "resource_exhausted",
            "You exceeded your current quota, please check your plan",
            "waits",
        ),
        (
            400,
            "invalid_request_error",
            "Your credit balance is too low to access the API",
            "refused",
        ),
        (402, "", "Insufficient Balance", "refused"),
        (401, "", "", "key"),
        (400, "", "API key not valid. Please pass a valid API key.", "key"),
        (404, "", "model: x", "model"),
        (400, "", "foo/bar is not a valid model ID", "model"),
        (
            400,
            "",
            "/chat/completions: Invalid model name passed in model=x. Call `/v1/models`",
            "model",
        ),
        (400, "model_not_found", "The model `x` does not exist", "model"),
        (500, "", "oops", "waits"),
        (501, "", "streaming is not implemented", "refused"),
        (498, "", "capacity exceeded", "waits"),
        (529, "overloaded_error", "Overloaded", "waits"),
        (400, "", "odd", "refused"),
        (418, "", "teapot", "refused"),
    ] {
        assert_eq!(word(&judged(status, kind, message)), expected, "{status} {kind} {message}");
    }
}
