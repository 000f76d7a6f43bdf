//! One line of an agent's transcript: what is kept on disk by the agent process, and what `attach`
//! and `logs` show.

use serde::{Deserialize, Deserializer, Serialize};

use crate::WallMs;
use crate::json::Json;
use crate::notification::{Notification, RunStatus, Usage};

/// One entry. Entries of an agent are numbered from 1 without gaps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number.
    pub seq: u64,
    /// When it was made.
    pub at_ms: WallMs,
    /// The run that it belongs to, from 1.
    pub run: u32,
    /// What happened.
    pub what: What,
}

/// What happened in a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Text that entered the conversation in the user's role.
    Input {
        /// Who it is from. Only [`Origin::User`] carries the user's authority.
        #[serde(deserialize_with = "origin")]
        origin: Origin,
        /// The delivered message that it is, for deduplication.
        #[serde(default)]
        message: Option<String>,
        /// The text as the model reads it.
        text: String,
    },
    /// Text that the model wrote.
    Text {
        /// The text.
        text: String,
    },
    /// The model called a tool.
    ToolCall {
        /// The call's id, unique in the transcript.
        call: String,
        /// The tool's name.
        tool: String,
        /// The tool's input.
        input: Json,
    },
    /// A tool answered.
    ToolResult {
        /// The call's id.
        call: String,
        /// What the model reads.
        text: String,
        /// Whether it tells of a failure.
        is_error: bool,
    },
    /// One model call ended; what it used.
    Turn {
        /// What it used.
        usage: Usage,
    },
    /// The run ended.
    RunEnded {
        /// How the run ended.
        status: RunStatus,
        /// Why, for people; empty when completed.
        #[serde(default)]
        reason: String,
    },
    /// The model thought, before it spoke or called a tool.
    Reasoning {
        /// What it thought, as far as its provider shows that.
        text: String,
        /// What the provider wants back as it came, of the turn or of the call before it. It means
        /// nothing to anybody else.
        #[serde(default)]
        raw: Json,
    },
}

/// Where user-role text came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The user typed it.
    User {},
    /// Another agent of the session sent it.
    Agent {
        /// Its name.
        name: String,
    },
    /// Somebody outside of the session sent it: another agent's words, without the user's authority
    /// (M-8).
    Outside {
        /// The name that it gives itself.
        name: String,
        /// Where an answer goes; empty when it did not say.
        address: String,
        /// Whether coordd knows that it is the one at that address.
        #[serde(default)]
        verified: bool,
    },
    /// The end of a worker's run. Shown to people as this, never as the user's words (N-2).
    Notification {
        /// What the text says.
        notification: Notification,
    },
    /// coordd itself: context, or a word about limits.
    System {},
}

/// An origin. One of a kind that only a newer program knows, in a line, is somebody outside:
/// nobody's words carry less authority, and the message is not lost.
pub(crate) fn origin<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Origin, D::Error> {
    if !deserializer.is_human_readable() {
        return Origin::deserialize(deserializer);
    }
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(Origin::deserialize(&value).unwrap_or_else(|_| Origin::Outside {
        name: "unknown".to_owned(),
        address: String::new(),
        verified: false,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m8_an_origin_of_an_unknown_kind_has_the_authority_of_a_stranger() {
        let line =
            r#"{"input":{"origin":{"oracle":{"name":"user"}},"message":null,"text":"hear me"}}"#;
        let What::Input { origin, text, .. } = crate::line::decode(line.as_bytes()).unwrap() else {
            panic!("no input")
        };
        assert!(matches!(origin, Origin::Outside { verified: false, .. }), "{origin:?}");
        assert_eq!(text, "hear me");
    }
}
