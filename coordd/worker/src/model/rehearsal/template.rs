//! Templates in a script: `{{…}}` is filled from the conversation.
//!
//! | written | becomes |
//! | --- | --- |
//! | `{{id:NAME}}` | the agent id of the worker NAME |
//! | `{{result:NAME}}` | what the worker's last notification brought |
//! | `{{status:NAME}}` | its status |
//! | `{{scratchpad}}`, `{{cwd}}` | the directory that the agent was told |
//! | `{{tool_result}}` | the text of the last tool result |
//! | `{{re:PATTERN}}` | the last match in the conversation: its group 1, or all of it |
//! | `{{open}}` | two opening braces |

use regex::Regex;
use serde_json::Value;

use super::conversation::Conversation;
use super::script::pattern;

/// A filled text is sent as an answer; results can be put into it many times.
const FILLED_LEN_MAX: usize = 4 * 1024 * 1024;

/// Why a text is no template, or cannot be filled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum TemplateError {
    #[error("`{0}` is not closed: write `}}}}` after it, or `{{{{open}}}}` for two plain braces")]
    Unclosed(String),
    #[error(
        "`{{{{{0}}}}}` is not known: write id:NAME, result:NAME, status:NAME, scratchpad, cwd, \
         tool_result, re:PATTERN, or open for two plain braces"
    )]
    Unknown(String),
    #[error("in `{{{{re:…}}}}` {0}")]
    Pattern(String),
    #[error("`{{{{{0}}}}}` cannot be filled: {1}")]
    Unfilled(String, &'static str),
    #[error("the filled text is longer than 4 MiB")]
    TooLong,
}

/// A part of a template.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    Plain(&'a str),
    /// What stands between the braces, and what it asks for.
    Field(&'a str, Field<'a>),
}

#[derive(Debug)]
pub(super) enum Field<'a> {
    Id(&'a str),
    Result(&'a str),
    Status(&'a str),
    Scratchpad,
    Cwd,
    ToolResult,
    Match(Regex),
    Open,
}

/// Cuts a text into its parts.
pub(super) fn parse(text: &str) -> Result<Vec<Piece<'_>>, TemplateError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((plain, after)) = rest.split_once("{{") {
        pieces.push(Piece::Plain(plain));
        let Some((inner, behind)) = cut(after) else {
            let start = after.chars().take(20).collect::<String>();
            return Err(TemplateError::Unclosed(format!("{{{{{start}")));
        };
        pieces.push(Piece::Field(inner, field(inner)?));
        rest = behind;
    }
    pieces.push(Piece::Plain(rest));
    Ok(pieces)
}

/// Checks all strings of a value.
pub(super) fn parse_value(value: &Value) -> Result<(), TemplateError> {
    match value {
        Value::String(text) => parse(text).map(drop),
        Value::Array(values) => values.iter().try_for_each(parse_value),
        Value::Object(fields) => fields.values().try_for_each(parse_value),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// Ends a field at the last of the braces that follow each other, so that a pattern can end in one.
fn cut(text: &str) -> Option<(&str, &str)> {
    let at = text.find("}}")?;
    let braces = text.get(at..)?.bytes().take_while(|byte| *byte == b'}').count();
    let end = at + braces - 2;
    Some((text.get(..end)?, text.get(end + 2..)?))
}

fn field(inner: &str) -> Result<Field<'_>, TemplateError> {
    let named = inner.split_once(':').map(|(kind, name)| (kind.trim(), name));
    Ok(match (inner.trim(), named) {
        ("scratchpad", _) => Field::Scratchpad,
        ("cwd", _) => Field::Cwd,
        ("tool_result", _) => Field::ToolResult,
        ("open", _) => Field::Open,
        (_, Some(("id", name))) => Field::Id(name.trim()),
        (_, Some(("result", name))) => Field::Result(name.trim()),
        (_, Some(("status", name))) => Field::Status(name.trim()),
        (_, Some(("re", text))) => Field::Match(pattern(text).map_err(TemplateError::Pattern)?),
        _ => return Err(TemplateError::Unknown(inner.to_owned())),
    })
}

/// Fills a text from the conversation.
pub(super) fn fill(text: &str, from: &Conversation) -> Result<String, TemplateError> {
    let mut filled = String::with_capacity(text.len());
    for piece in parse(text)? {
        match piece {
            Piece::Plain(plain) => filled.push_str(plain),
            Piece::Field(inner, field) => filled.push_str(
                &value(&field, from)
                    .map_err(|why| TemplateError::Unfilled(inner.to_owned(), why))?,
            ),
        }
        if filled.len() > FILLED_LEN_MAX {
            return Err(TemplateError::TooLong);
        }
    }
    Ok(filled)
}

/// Fills all strings of a value.
pub(super) fn fill_value(value: &Value, from: &Conversation) -> Result<Value, TemplateError> {
    Ok(match value {
        Value::String(text) => Value::String(fill(text, from)?),
        Value::Array(values) => {
            values.iter().map(|it| fill_value(it, from)).collect::<Result<Vec<_>, _>>()?.into()
        }
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .map(|(name, it)| Ok((name.clone(), fill_value(it, from)?)))
                .collect::<Result<_, TemplateError>>()?,
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    })
}

fn value(field: &Field<'_>, from: &Conversation) -> Result<String, &'static str> {
    let run = |name: &str| from.agent(name).and_then(|agent| agent.ended.as_ref());
    match field {
        Field::Open => Some("{{".to_owned()).ok_or(""),
        Field::Id(name) => from
            .agent(name)
            .map(|agent| agent.id.clone())
            .ok_or("no Agent result with that name came in this conversation"),
        Field::Result(name) => run(name)
            .map(|run| run.result.clone())
            .ok_or("no notification of that worker came; name it in `needs`"),
        Field::Status(name) => run(name)
            .map(|run| run.status.clone())
            .ok_or("no notification of that worker came; name it in `needs`"),
        Field::Scratchpad => from
            .told("Scratchpad directory")
            .ok_or("no line `Scratchpad directory: …` stands in the conversation"),
        Field::Cwd => from
            .told("Working directory")
            .ok_or("no line `Working directory: …` stands in the conversation"),
        Field::ToolResult => from
            .last_tool_result()
            .map(str::to_owned)
            .ok_or("no tool result came in this conversation"),
        Field::Match(pattern) => {
            from.last_match(pattern).ok_or("nothing in the conversation matches")
        }
    }
}
