//! The rehearsal script as a file: its shape, its bounds, and errors that say where and what.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use regex::{Regex, RegexBuilder};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::super::Usage;
use super::template;

/// How a waiting turn begins that has no words of its own.
pub(super) const WAITING_PREFIX: &str = "Still waiting for: ";

/// A script is written by hand; the longest real ones have a few dozen steps.
const SCRIPT_LEN_MAX: u64 = 1024 * 1024;
/// Compiled size of one pattern.
const PATTERN_SIZE_MAX: usize = 1024 * 1024;
/// A chunk that is held back longer looks like a hang.
const PACE_MS_MAX: u64 = 10_000;
/// A pause is for watching, or for a test that stops the agent in it.
const PAUSE_MS_MAX: u64 = 600_000;
/// Comfortable to read along.
const PACE_MS_DEFAULT: u64 = 15;

/// A rehearsal script.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Script {
    /// A comment for readers of the file; agents do not see it.
    #[serde(default, rename = "about")]
    _about: String,
    #[serde(default = "pace_ms_default", deserialize_with = "pace_ms")]
    pub(super) pace_ms: u64,
    #[serde(deserialize_with = "agents")]
    pub(super) agents: Vec<Part>,
}

/// What one kind of agent says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    #[serde(default)]
    pub(super) when: When,
    #[serde(deserialize_with = "steps")]
    pub(super) steps: Vec<Step>,
    pub(super) waiting_text: Option<Template>,
    pub(super) after: Option<Template>,
}

/// Which agents a part is for. All that is given must hold.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct When {
    pub(super) has_tool: Option<String>,
    pub(super) lacks_tool: Option<String>,
    pub(super) prompt_matches: Option<Pattern>,
}

/// One turn of the agent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    #[serde(default)]
    pub(super) needs: Vec<String>,
    /// Said at first while the needs are missing. A waiting turn is known by it, so nothing is
    /// filled in.
    pub(super) waiting_text: Option<String>,
    pub(super) text: Option<Template>,
    #[serde(default)]
    pub(super) tools: Vec<Call>,
    pub(super) stop: Option<ScriptedStop>,
    pub(super) usage: Option<Usage>,
    pub(super) error: Option<ScriptedError>,
    #[serde(default, deserialize_with = "pause_ms")]
    pub(super) pause_ms: u64,
}

/// A tool call of a step.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    pub(super) name: String,
    #[serde(default)]
    pub(super) input: Input,
}

/// A stop reason other than the one that follows from the step.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ScriptedStop {
    EndTurn,
    ToolUse,
    MaxTokens,
    Refusal,
}

/// An HTTP error in place of an answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptedError {
    #[serde(deserialize_with = "status")]
    pub(super) status: u16,
    #[serde(default)]
    pub(super) message: String,
    pub(super) retry_after_s: Option<u64>,
    /// After so many times the step goes on; without it the error always comes.
    pub(super) times: Option<u32>,
}

/// A text that was checked to be a template.
#[derive(Debug, Clone)]
pub(super) struct Template(pub(super) String);

/// Tool input whose strings were checked to be templates.
#[derive(Debug, Clone)]
pub(super) struct Input(pub(super) Value);

/// A regular expression.
#[derive(Debug, Clone)]
pub(super) struct Pattern(pub(super) Regex);

/// Why a script cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScriptError {
    #[error("cannot read the rehearsal file {file}: check the path and its permissions")]
    Unreadable {
        file: String,
        #[source]
        source: io::Error,
    },
    #[error("the rehearsal file {file} is longer than 1 MiB: split it, or shorten its texts")]
    TooLong { file: String },
    #[error("the rehearsal file {file} is not UTF-8: save it as UTF-8")]
    NotText { file: String },
    #[error("{file}:{line}:{column}: {problem}")]
    Invalid { file: String, line: usize, column: usize, problem: String },
}

/// Checks the text of a script.
pub(crate) fn check(text: &str) -> Result<Script, ScriptError> {
    check_in("rehearsal script", text)
}

/// Reads and checks a script's file.
pub(super) fn read(path: &Path) -> Result<Script, ScriptError> {
    let file = path.display().to_string();
    let mut bytes = Vec::new();
    let opened = File::open(path).map(|it| it.take(SCRIPT_LEN_MAX + 1));
    match opened.and_then(|mut it| it.read_to_end(&mut bytes)) {
        Ok(_) => {}
        Err(source) => return Err(ScriptError::Unreadable { file, source }),
    }
    match String::from_utf8(bytes) {
        Ok(text) => check_in(&file, &text),
        Err(error) if error.as_bytes().len() as u64 > SCRIPT_LEN_MAX => {
            Err(ScriptError::TooLong { file })
        }
        Err(_) => Err(ScriptError::NotText { file }),
    }
}

fn check_in(file: &str, text: &str) -> Result<Script, ScriptError> {
    if text.len() as u64 > SCRIPT_LEN_MAX {
        return Err(ScriptError::TooLong { file: file.to_owned() });
    }
    serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let problem = error.to_string();
        let problem = problem.strip_suffix(&format!(" at line {line} column {column}"));
        let problem = problem.map_or_else(|| error.to_string(), str::to_owned);
        let hint =
            if error.is_eof() { ": the file ends too early, close what is open" } else { "" };
        ScriptError::Invalid {
            file: file.to_owned(),
            line,
            column,
            problem: format!("{problem}{hint}"),
        }
    })
}

impl Default for Input {
    fn default() -> Self {
        Self(Value::Object(serde_json::Map::new()))
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        template::parse(&text).map_err(D::Error::custom)?;
        Ok(Self(text))
    }
}

impl<'de> Deserialize<'de> for Input {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if !value.is_object() {
            return Err(D::Error::custom("`input` is not an object: write { \"field\": … }"));
        }
        template::parse_value(&value).map_err(D::Error::custom)?;
        Ok(Self(value))
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        pattern(&String::deserialize(deserializer)?).map(Self).map_err(D::Error::custom)
    }
}

/// Compiles a pattern within its bound.
pub(super) fn pattern(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(text).size_limit(PATTERN_SIZE_MAX).build().map_err(|error| {
        // The library draws the place over several lines; its last line says what is wrong.
        let drawn = error.to_string();
        let last = drawn.lines().last().unwrap_or_default().trim_start_matches("error: ");
        format!("`{text}` is no regular expression: {last}")
    })
}

fn pace_ms_default() -> u64 {
    PACE_MS_DEFAULT
}

fn pace_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    at_most(deserializer, "pace_ms", PACE_MS_MAX)
}

fn pause_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    at_most(deserializer, "pause_ms", PAUSE_MS_MAX)
}

fn at_most<'de, D: Deserializer<'de>>(
    deserializer: D,
    field: &str,
    limit: u64,
) -> Result<u64, D::Error> {
    let value = u64::deserialize(deserializer)?;
    if value > limit {
        return Err(D::Error::custom(format!("`{field}` is {value}: write at most {limit}")));
    }
    Ok(value)
}

fn status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let status = u16::deserialize(deserializer)?;
    if !(400..=599).contains(&status) {
        return Err(D::Error::custom(format!("`status` is {status}: write one of 400 to 599")));
    }
    Ok(status)
}

fn agents<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Part>, D::Error> {
    let agents = Vec::<Part>::deserialize(deserializer)?;
    if agents.is_empty() {
        return Err(D::Error::custom("`agents` is empty: write at least one { \"steps\": [ … ] }"));
    }
    Ok(agents)
}

fn steps<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Step>, D::Error> {
    let steps = Vec::<Checked>::deserialize(deserializer)?;
    let steps: Vec<Step> = steps.into_iter().map(|Checked(step)| step).collect();
    let mut waiting = steps.iter().filter_map(|step| step.waiting_text.as_ref());
    let is_said = |text: &&String| {
        steps.iter().any(|step| step.text.as_ref().is_some_and(|said| said.0 == **text))
    };
    if let Some(text) = waiting.find(is_said) {
        return Err(D::Error::custom(format!(
            "`{text}` is both a `text` and a `waiting_text`: write one of them differently"
        )));
    }
    Ok(steps)
}

/// A step that was checked where it stands, so that the error has its line.
struct Checked(Step);

impl<'de> Deserialize<'de> for Checked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let step = Step::deserialize(deserializer)?;
        match step.check() {
            Ok(()) => Ok(Self(step)),
            Err(problem) => Err(D::Error::custom(format!("the step before this place: {problem}"))),
        }
    }
}

impl Part {
    /// Whether a turn that calls no tool only waits. Such a turn does not advance the script.
    pub(super) fn is_waiting(&self, text: &str) -> bool {
        text.starts_with(WAITING_PREFIX)
            || self.steps.iter().any(|step| step.waiting_text.as_deref() == Some(text))
    }
}

impl Step {
    /// A step must make exactly one turn of the conversation, or the next one would never come.
    fn check(&self) -> Result<(), &'static str> {
        let says = self.text.as_ref().is_some_and(|text| !text.0.trim().is_empty());
        let acts = says || !self.tools.is_empty();
        if self.tools.iter().any(|call| call.name.trim().is_empty()) {
            return Err("a tool has no name: write { \"name\": \"Read\", \"input\": { … } }");
        }
        match &self.waiting_text {
            Some(_) if self.needs.is_empty() => {
                return Err("it has a `waiting_text` and waits for nobody: write `needs`");
            }
            Some(it) if it.trim().is_empty() || it.contains("{{") => {
                return Err("its `waiting_text` must be plain words, without `{{`");
            }
            Some(_) | None => {}
        }
        match &self.error {
            None if !acts => Err("it says and does nothing: write `text`, `tools` or `error`"),
            Some(ScriptedError { times: None, .. }) if acts => {
                Err("its error always comes, so the rest is never said: give the error `times`")
            }
            Some(ScriptedError { times: Some(_), .. }) if !acts => {
                Err("its error ends after `times`, then it says nothing: write `text` or `tools`")
            }
            Some(_) | None => Ok(()),
        }
    }
}
