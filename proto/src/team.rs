//! The files of a team, in the layout that Claude Code uses, so that its terminals can take part.
//!
//! Observed with Claude Code 2.1.100 to 2.1.332: `~/.claude/teams/<team>/config.json` and
//! `~/.claude/tasks/<team>/<n>.json`, JSON indented by two spaces. Read leniently, written
//! strictly; what is not known here is kept.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// `config.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TeamFile {
    /// The team's name, `[a-z0-9-]`.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// When it was made, in milliseconds.
    #[serde(default)]
    pub created_at: u64,
    /// `<lead>@<team>`.
    #[serde(default)]
    pub lead_agent_id: String,
    /// The session that leads it.
    #[serde(default)]
    pub lead_session_id: String,
    /// Its members, the lead first.
    #[serde(default)]
    pub members: Vec<MemberFile>,
    /// What this build does not know.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// A member in `config.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberFile {
    /// `<name>@<team>`.
    pub agent_id: String,
    /// Its name.
    pub name: String,
    /// Its definition.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent_type: String,
    /// Its model.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// When it joined, in milliseconds.
    #[serde(default)]
    pub joined_at: u64,
    /// Its terminal, where it has one.
    #[serde(default)]
    pub tmux_pane_id: String,
    /// Where it works.
    #[serde(default)]
    pub cwd: String,
    /// Whether it works on something now.
    #[serde(default)]
    pub is_active: bool,
    /// What this build does not know.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// `tasks/<team>/<n>.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskFile {
    /// Its number, as text.
    pub id: String,
    /// In a few words.
    pub subject: String,
    /// In full.
    #[serde(default)]
    pub description: String,
    /// `pending`, `in_progress` or `completed`.
    pub status: String,
    /// Tasks that wait for it.
    #[serde(default)]
    pub blocks: Vec<String>,
    /// Tasks that it waits for.
    #[serde(default)]
    pub blocked_by: Vec<String>,
    /// Who has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// What this build does not know.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t2_d24_unknown_fields_survive_a_rewrite() {
        let text = r#"{"name":"alpha","createdAt":5,"leadAgentId":"l@alpha","leadSessionId":"s","members":[
            {"agentId":"m1@alpha","name":"m1","joinedAt":6,"tmuxPaneId":"%1","cwd":"/x","subscriptions":[],"color":"blue"}],
            "leadProcess":{"pid":7}}"#;
        let file: TeamFile = serde_json::from_str(text).unwrap();
        let again: Value = serde_json::to_value(&file).unwrap();
        assert_eq!(again["leadProcess"]["pid"], 7);
        assert_eq!(again["members"][0]["color"], "blue");
        assert_eq!(again["members"][0]["subscriptions"], serde_json::json!([]));
    }
}
