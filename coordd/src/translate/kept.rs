//! What of a session is there when it goes on: agents by what becomes of them, and what is gone
//! (E1).

use std::path::Path;

use coordd_core::Core;
use coordd_core::agent::{Agent, Runtime, Status};
use coordd_core::session::Session;

use super::Facts;

/// In a session's state folder: its scratchpad was gone once, and an empty one was made.
pub(crate) const SCRATCHPAD_LOST: &str = "scratchpad-lost";

/// The three lists of `resumed`.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) restored: Vec<String>,
    pub(super) restartable: Vec<String>,
    pub(super) lost: Vec<String>,
}

/// Looks at the state, and at the disk for what should be on it.
pub(super) fn kept(core: &Core, facts: &Facts, session: &Session) -> Kept {
    let mut kept = Kept::default();
    for agent in core.durable.agents_of(&session.id) {
        // Its conversation is in its terminal, which goes on by itself.
        if agent.runtime == Runtime::Terminal {
            continue;
        }
        let has_spoken = agent.runs > 0 || agent.run_is_open();
        if has_spoken && !Path::new(&facts.transcript(agent)).exists() {
            kept.lost.push(format!("the conversation of {}", agent.name));
        } else if was_cut(agent) {
            kept.restartable.push(agent.name.to_string());
        } else {
            kept.restored.push(agent.name.to_string());
        }
    }
    let noted =
        Path::new(&facts.state_dir).join("sessions").join(&session.id.0).join(SCRATCHPAD_LOST);
    if let Some(path) = session.scratchpad.as_deref().filter(|it| !it.is_empty())
        && (noted.exists() || !Path::new(path).exists())
    {
        kept.lost.push(format!("what was in the scratchpad {path}"));
    }
    kept
}

fn was_cut(agent: &Agent) -> bool {
    let killed = |it: &coordd_core::agent::LastRun| it.outcome.status == Status::Killed;
    !agent.run_is_open() && agent.mailbox.is_empty() && agent.last.as_ref().is_some_and(killed)
}
