//! What a session's agents are started with: which model, and what needs approval.
//!
//! The journal has both as JSON text, which outlives builds. What this build cannot read of it is kept as it is, and nothing is
//! started with it: a rule that is passed over would allow what its user forbade.

use alloc::boxed::Box;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Which model, without its key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Who serves it.
    pub provider: Provider,
    /// Its name at that provider.
    #[serde(default)]
    pub name: String,
    /// Where, when not at the provider's usual address.
    #[serde(default)]
    pub base_url: Option<String>,
    /// The script, for the rehearsal model; none means the one that is built in.
    #[serde(default)]
    pub rehearsal_file: Option<String>,
}

/// Who serves a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// The Anthropic Messages API, or a server that speaks it.
    Anthropic,
    /// OpenAI-compatible Chat Completions.
    Openai,
    /// The scripted model that is built in.
    Rehearsal,
    /// The Responses API of OpenAI, or a server that speaks it.
    Responses,
}

/// What needs approval: rules in the form `Tool` or `Tool(pattern)`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Permissions {
    /// What holds where no rule does.
    #[serde(default)]
    pub mode: ApprovalMode,
    /// Needs no approval.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Is asked for.
    #[serde(default)]
    pub ask: Vec<String>,
    /// Is refused.
    #[serde(default)]
    pub deny: Vec<String>,
    /// The box in which commands run.
    #[serde(default)]
    pub sandbox: Box<Sandbox>,
}

/// What the user chose about the box in which commands run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sandbox {
    /// There is none.
    #[serde(default)]
    pub off: bool,
    /// Hosts that can be reached from it.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Commands that run outside of it.
    #[serde(default)]
    pub outside: Vec<String>,
}

/// What needs approval where no rule says it, by the words that Claude Code has for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ApprovalMode {
    /// Nobody said; as `acceptEdits`.
    #[default]
    #[serde(rename = "")]
    Unsaid,
    /// All that changes something is asked for.
    Default,
    /// Edits in the workspace are free.
    AcceptEdits,
    /// Nothing is changed.
    Plan,
    /// What would be asked for is refused.
    DontAsk,
    /// Nothing is asked for.
    BypassPermissions,
}

impl ApprovalMode {
    /// Every mode, in the order of their documentation.
    pub const ALL: [Self; 6] = [
        Self::Unsaid,
        Self::Default,
        Self::AcceptEdits,
        Self::Plan,
        Self::DontAsk,
        Self::BypassPermissions,
    ];

    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unsaid => "",
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Plan => "plan",
            Self::DontAsk => "dontAsk",
            Self::BypassPermissions => "bypassPermissions",
        }
    }

    /// The mode that a word means.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }
}

/// A setting as the journal has it, and what this build reads in it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[serde(bound(deserialize = "T: DeserializeOwned", serialize = "T: Clone"))]
pub struct Setting<T> {
    text: String,
    read: Result<Option<T>, String>,
}

impl<T> Setting<T> {
    /// What it is, or why it cannot be read. None where nothing is set.
    pub fn read(&self) -> Result<Option<&T>, &str> {
        self.read.as_ref().map(Option::as_ref).map_err(String::as_str)
    }

    /// Whether nothing is set.
    pub fn is_none(&self) -> bool {
        self.text.is_empty()
    }

    /// Bytes that it takes in the journal.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }
}

impl<T: Serialize> Setting<T> {
    /// A setting as it is to be kept.
    pub fn of(value: Option<T>) -> Self {
        let text = value.as_ref().map(serde_json::to_string).transpose();
        match text {
            Ok(text) => Self { text: text.unwrap_or_default(), read: Ok(value) },
            Err(error) => Self { text: String::from("?"), read: Err(error.to_string()) },
        }
    }
}

impl<T> PartialEq for Setting<T> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl<T: DeserializeOwned> From<String> for Setting<T> {
    fn from(text: String) -> Self {
        let read = match text.trim_start().chars().next() {
            None => Ok(None),
            // A list would do for a struct without a word about what is missing.
            Some('{') => serde_json::from_str(&text).map(Some).map_err(|error| error.to_string()),
            Some(_) => Err(String::from("it is no object")),
        };
        Self { text, read }
    }
}

impl<T> From<Setting<T>> for String {
    fn from(setting: Setting<T>) -> Self {
        setting.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Setting<Permissions> {
        Setting::from(String::from(text))
    }

    #[test]
    fn fp20_what_is_not_known_whole_is_not_read() {
        assert_eq!(rules(r#"{"mode":"plan"}"#).read().unwrap().unwrap().mode, ApprovalMode::Plan);
        for text in [
            r#"{"mode":"yolo"}"#,
            r#"{"mode":"plan","deny":[{"rule":"Write"}]}"#,
            r#"{"mode":"plan","sandbox":"strict"}"#,
            "{",
            "[]",
        ] {
            assert!(rules(text).read().is_err(), "{text}");
            assert_eq!(String::from(rules(text)), text, "it is kept as it is");
        }
        let model: Setting<Model> = Setting::from(String::from(r#"{"provider":"somebody"}"#));
        assert!(model.read().is_err());
    }

    #[test]
    fn fp20_what_was_written_is_read_back() {
        let model = Model {
            provider: Provider::Openai,
            name: "m".into(),
            base_url: Some("http://localhost".into()),
            rehearsal_file: None,
        };
        let text = String::from(Setting::of(Some(model.clone())));
        assert_eq!(Setting::<Model>::from(text).read(), Ok(Some(&model)));
        assert!(Setting::<Model>::of(None).is_none());
        for mode in ApprovalMode::ALL {
            assert_eq!(ApprovalMode::from_word(mode.as_str()), Some(mode));
            let text = serde_json::to_string(&Permissions { mode, ..Permissions::default() });
            assert!(text.unwrap().contains(&alloc::format!("\"mode\":\"{}\"", mode.as_str())));
        }
    }
}
