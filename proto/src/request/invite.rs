//! What makes a member in a terminal.

use serde::{Deserialize, Serialize};

/// Who is invited into a team, and who runs the terminal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Invite {
    /// The team or session.
    pub team: String,
    /// Its name, new in the session.
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// Whether coordd runs the terminal; otherwise the user starts the program in one of their own.
    #[serde(default)]
    pub start: bool,
    /// More arguments for the program that coordd starts.
    #[serde(default)]
    pub arguments: Vec<String>,
}
