//! What an error means, in the words of every provider: whether waiting helps, whether something about
//! the request has to change, or whether a person has to act.

use reqwest::header::{HeaderMap, LOCATION};

use super::endpoint::Endpoint;
use super::error::{ModelError, Setback};
use super::said::{Said, clean, told_by_headers};

/// Below this no answer is worth asking for.
const OUTPUT_TOKENS_MIN: u64 = 256;
/// Where a server only says that the limit is too high.
const OUTPUT_TOKENS_SAFE: u32 = 4_096;

/// What was asked, as far as an error can be about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) model: &'a str,
    /// The output limit of the request.
    pub(super) output_limit: u32,
    /// An estimate of the tokens that went in.
    pub(super) input_tokens: u64,
}

/// Something of the request that a server refuses by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// The output limit; what the server allows.
    OutputLimit(u32),
    /// The old name of the output limit.
    LimitName,
    /// The new one.
    NewLimitName,
    StreamOptions,
    ToolChoice,
    CacheMarks,
    Reasoning,
}

/// Classifies an error by status and text. An error in the middle of a stream comes here too, with
/// the status that it would have had.
pub(super) fn judge(asked: Asked<'_>, status: u16, said: &Said, headers: &HeaderMap) -> Setback {
    let url = asked.endpoint.shown.clone();
    let suffix = said.suffix();
    let told_ms = told_by_headers(headers).or(said.told_ms);
    let words = said.message.to_lowercase();
    if !waits(status) || has_any(&said.kind, &TOO_LONG_KINDS) || status >= 500 {
        if let Some(refused) = refused(asked, &words) {
            let error = ModelError::Refused { url, status, said: suffix };
            return Setback::Adjusts { refused, error };
        }
        if too_long(said, &words, status) {
            let said =
                if said.message.is_empty() { "HTTP 413".to_owned() } else { said.message.clone() };
            return Setback::Final(ModelError::ContextTooLong { said });
        }
    }
    // A used-up account answers like a busy server, but no waiting helps.
    if has_any(&said.kind, &NO_MONEY_KINDS) || (!waits(status) && has_any(&words, &NO_MONEY)) {
        return Setback::Final(ModelError::Refused { url, status, said: suffix });
    }
    if status == 401 || status == 403 || (status == 400 && has_any(&words, &KEY_WORDS)) {
        return Setback::Final(ModelError::KeyRefused {
            url,
            status,
            said: suffix,
            variables: asked.endpoint.key_variables,
        });
    }
    let unknown = has_any(&said.kind, &["model_not_found"]) || has_any(&words, &UNKNOWN_MODEL);
    if status == 404 || (matches!(status, 400 | 422) && unknown) {
        return Setback::Final(ModelError::ModelUnknown {
            url,
            status,
            model: asked.model.to_owned(),
            said: suffix,
            base_variable: asked.endpoint.base_variable,
            offered: String::new(),
        });
    }
    match status {
        _ if waits(status) => Setback::Passing {
            error: ModelError::Busy { url, status, said: suffix, told_ms, tries: 1 },
            told_ms,
        },
        300..=399 => {
            let to = headers.get(LOCATION).and_then(|it| it.to_str().ok()).unwrap_or_default();
            let problem = format!("HTTP {status}, it points to `{}`", clean(to, 200));
            Setback::Final(not_a_model(asked.endpoint, problem))
        }
        _ => Setback::Final(ModelError::Refused { url, status, said: suffix }),
    }
}

pub(super) fn not_a_model(endpoint: &Endpoint, problem: String) -> ModelError {
    ModelError::NotAModel {
        url: endpoint.shown.clone(),
        problem,
        base_variable: endpoint.base_variable,
    }
}

/// Whether the same request may succeed later.
fn waits(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 498 | 500..=599) && !matches!(status, 501 | 505)
}

const TOO_LONG_KINDS: [&str; 6] = [
    "context_length_exceeded",
    "exceed_context_size",
    "request_too_large",
    "context_window",
    "prompt_too_long",
    "string_above_max_length",
];
const TOO_LONG: [&str; 24] = [
    "prompt is too long",
    "prompt too long",
    "prompt is longer than",
    "context length",
    "context window",
    "context size",
    "maximum context",
    "exceed context limit",
    "exceeds the context",
    "exceeds context",
    "input is too long",
    "input too long",
    "input length",
    "input token count",
    "too many input tokens",
    "too many tokens",
    "maximum number of tokens",
    "token limit",
    "reduce the length",
    "reduce your prompt",
    "reduce the prompt",
    "too large for model",
    "larger than the maximum",
    "maximum allowed length",
];
const NO_MONEY_KINDS: [&str; 4] =
    ["insufficient_quota", "billing_error", "insufficient_balance", "credit_balance"];
const NO_MONEY: [&str; 5] = [
    "credit balance",
    "insufficient balance",
    "insufficient credits",
    "insufficient funds",
    "exceeded your current quota",
];
const KEY_WORDS: [&str; 5] = [
    "api key not valid",
    "invalid api key",
    "invalid api-key",
    "incorrect api key",
    "api key is missing",
];
const UNKNOWN_MODEL: [&str; 9] = [
    "is not a valid model",
    "invalid model",
    "unknown model",
    "model not found",
    "no such model",
    "model does not exist",
    "not supported model",
    "model is not available",
    "unsupported model",
];

fn has_any(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

fn too_long(said: &Said, words: &str, status: u16) -> bool {
    let spans = ["per min", "per day", "per sec", "tpm", "rate limit"];
    let a_rate = has_any(words, &spans);
    status == 413
        || has_any(&said.kind, &TOO_LONG_KINDS)
        || (!a_rate && (has_any(words, &TOO_LONG) || model_too_small(words)))
}

/// "`inputs` tokens + `max_new_tokens` must be <= 4096", "model `x` does not exist" is none of them.
fn model_too_small(words: &str) -> bool {
    words.contains("inputs") && words.contains("must be <=")
}

/// What of the request a server does not take.
fn refused(asked: Asked<'_>, words: &str) -> Option<Refused> {
    let limit_names = [
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "maxoutputtokens",
        "max_new_tokens",
    ];
    let not_taken = [
        "unsupported",
        "not supported",
        "unknown",
        "unrecognized",
        "unexpected",
        "not permitted",
        "extra inputs",
        "extra fields",
        "not allowed",
        "does not support",
        "no longer supported",
    ];
    let is_not_taken = has_any(words, &not_taken);
    if is_not_taken && words.contains("max_tokens") && !words.contains("too large") {
        let instead = words.contains("max_completion_tokens");
        let old_is_wanted =
            words.contains("use 'max_tokens'") || words.contains("use `max_tokens`");
        return Some(if instead && !old_is_wanted {
            Refused::LimitName
        } else {
            Refused::NewLimitName
        });
    }
    if is_not_taken && words.contains("max_completion_tokens") {
        return Some(Refused::NewLimitName);
    }
    for (name, refused) in [
        ("stream_options", Refused::StreamOptions),
        ("tool_choice", Refused::ToolChoice),
        ("cache_control", Refused::CacheMarks),
    ] {
        if words.contains(name) && (is_not_taken || words.contains("invalid")) {
            return Some(refused);
        }
    }
    let reasoning = ["reasoning_content", "reasoning_details", "thinking_blocks", "signature"];
    let is_missing = words.contains("missing") || words.contains("must be passed back");
    if has_any(words, &reasoning) && !is_missing {
        return Some(Refused::Reasoning);
    }
    let of_output = has_any(words, &limit_names)
        || words.contains("in the completion")
        || words.contains("completion tokens")
        || words.contains("output tokens");
    if of_output || has_any(words, &["context length", "context window", "context size"]) {
        return lower_limit(asked, words, of_output).map(Refused::OutputLimit);
    }
    None
}

/// The output limit that would have been taken; none where the input alone is too long.
fn lower_limit(asked: Asked<'_>, words: &str, of_output: bool) -> Option<u32> {
    let limit = u64::from(asked.output_limit);
    let numbers = numbers(words);
    let others: Vec<u64> = numbers.iter().copied().filter(|it| *it != limit).collect();
    let of_window = has_any(words, &["context", "inputs", "window"]);
    if of_window {
        let room = room(asked, &numbers, &others)?;
        let fits = room >= OUTPUT_TOKENS_MIN && room < limit;
        return u32::try_from(room).ok().filter(|_| fits);
    }
    if !of_output {
        return None;
    }
    let allowed = others.iter().copied().filter(|it| *it < limit && *it >= OUTPUT_TOKENS_MIN).max();
    let allowed = match allowed {
        Some(bound) if words.contains("exclusive") => bound - 1,
        Some(bound) => bound,
        None if words.contains("too large") || words.contains("exceed") => {
            u64::from(OUTPUT_TOKENS_SAFE)
        }
        None => return None,
    };
    u32::try_from(allowed).ok().filter(|it| u64::from(*it) < limit)
}

/// What is left of the window beside the input: as the server says, else as was estimated.
fn room(asked: Asked<'_>, numbers: &[u64], others: &[u64]) -> Option<u64> {
    let limit = u64::from(asked.output_limit);
    let window = others.first().copied()?;
    if !numbers.contains(&limit) {
        // The error is not about the output; but the input may fit, and both together not.
        let room = window.checked_sub(asked.input_tokens).filter(|_| others.len() == 1)?;
        // A tenth stays free, since estimates err.
        return Some(room - room / 10);
    }
    let input = others.iter().copied().find(|it| *it < window && it.saturating_add(limit) > window);
    match (input, others.get(1)) {
        (Some(input), _) => window.checked_sub(input),
        // "190000 + 16000 > 200000": the input stands before the window.
        (None, Some(second)) if window < *second && window.saturating_add(limit) > *second => {
            second.checked_sub(window)
        }
        (None, _) => None,
    }
}

/// The whole numbers in a text, with or without marks between the thousands.
fn numbers(words: &str) -> Vec<u64> {
    let mut numbers = Vec::new();
    let mut digits = String::new();
    let mut chars = words.chars().peekable();
    let mut in_word = false;
    while let Some(c) = chars.next() {
        let next_is_digit = chars.peek().is_some_and(char::is_ascii_digit);
        if c.is_ascii_digit() && !in_word {
            digits.push(c);
        } else if matches!(c, ',' | '_') && !digits.is_empty() && next_is_digit {
        } else {
            numbers.extend(std::mem::take(&mut digits).parse::<u64>());
            // `gpt-4` and `o3` are names.
            in_word = c.is_alphabetic() || (c == '-' && in_word) || (in_word && c.is_ascii_digit());
        }
    }
    numbers.extend(digits.parse::<u64>());
    numbers
}

#[cfg(test)]
mod tests;
