//! A session's team (T-1 to T-3). Its members are the session's lead and workers, and those that joined from outside.

use alloc::collections::BTreeMap;
use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::state::id::SessionId;
use crate::state::name::Name;
use crate::state::task::Task;

/// A team.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Team {
    /// Its name, `[a-z0-9-]`, unique.
    pub name: Name,
    /// What it is for.
    pub description: String,
    /// The session that leads it.
    pub session: SessionId,
    /// The lead's type in the team file.
    pub agent_type: String,
    /// When it was made.
    pub created_ms: u64,
    /// Whether its removal has begun; a second request finishes it.
    #[serde(default)]
    pub deleting: bool,
    /// Its tasks by number.
    #[serde(default)]
    pub tasks: BTreeMap<u32, Task>,
    /// The last number given out.
    #[serde(default)]
    pub last_task: u32,
    /// What others wrote into the team file and this build does not know, as JSON text.
    #[serde(default)]
    pub outside: String,
}

/// A team's name as its folder has it: lower case, only `[a-z0-9-]`. Other forms have split into two folders in other tools.
pub fn folder_name(words: &str) -> Option<Name> {
    let mut slug = String::new();
    for c in words.chars().take(48) {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    Name::new(slug.trim_end_matches('-')).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t1_team_names_become_folder_names() {
        assert_eq!(folder_name("My Team_1.x").unwrap().as_str(), "my-team-1-x");
        assert_eq!(folder_name("../../etc").unwrap().as_str(), "etc");
        assert_eq!(folder_name("…"), None);
    }
}
