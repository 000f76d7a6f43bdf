//! What a transcript tells, in the pieces that tests ask about.

use proto::entry::{Entry, Origin, What};
use proto::notification::RunStatus;

/// What entered the conversation, with where it came from.
pub fn inputs(entries: &[Entry]) -> Vec<(&Origin, &str)> {
    entries
        .iter()
        .filter_map(|entry| match &entry.what {
            What::Input { origin, text, .. } => Some((origin, text.as_str())),
            _ => None,
        })
        .collect()
}

/// What the model said.
pub fn texts(entries: &[Entry]) -> Vec<&str> {
    entries
        .iter()
        .filter_map(|entry| match &entry.what {
            What::Text { text } => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

/// What tools answered, and whether with a failure.
pub fn results(entries: &[Entry]) -> Vec<(&str, bool)> {
    entries
        .iter()
        .filter_map(|entry| match &entry.what {
            What::ToolResult { text, is_error, .. } => Some((text.as_str(), *is_error)),
            _ => None,
        })
        .collect()
}

/// The tools that were called, in order.
pub fn calls(entries: &[Entry]) -> Vec<&str> {
    entries
        .iter()
        .filter_map(|entry| match &entry.what {
            What::ToolCall { tool, .. } => Some(tool.as_str()),
            _ => None,
        })
        .collect()
}

/// The notifications that entered the conversation: whose, and how the run ended.
pub fn notifications(entries: &[Entry]) -> Vec<(&str, RunStatus, &str)> {
    inputs(entries)
        .into_iter()
        .filter_map(|(origin, text)| match origin {
            Origin::Notification { notification } => {
                Some((notification.task_id.as_str(), notification.status, text))
            }
            _ => None,
        })
        .collect()
}

/// How often the conversation has this text in what entered it.
pub fn count_inputs(entries: &[Entry], text: &str) -> usize {
    inputs(entries).iter().filter(|(_, input)| *input == text).count()
}

/// How often a text stands in what agents were told.
pub fn count_in_inputs(entries: &[Entry], text: &str) -> usize {
    inputs(entries).iter().map(|(_, it)| it.matches(text).count()).sum()
}
