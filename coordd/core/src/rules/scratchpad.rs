//! What the agents of a session share a folder for is told to them when it is lost: they may rely on what was there.

use alloc::borrow::ToOwned as _;
use alloc::format;

use crate::rules::mailbox::{self, Draft};
use crate::rules::turn::Turn;
use crate::state::agent::Life;
use crate::state::id::SessionId;
use crate::state::message::{Kind, Sender};

/// By which it is known that an agent is to hear of it already.
const SUMMARY: &str = "what was in the scratchpad is gone";

/// Tells each agent of the session that has a process, once until it has read it: a folder can be removed faster than
/// mail is read. An agent that is started later finds the folder as it is then.
pub(crate) fn lost(turn: &mut Turn<'_>, session: &SessionId, path: &str) {
    let durable = turn.durable;
    // A scratchpad that this session never had is only made late, as after a crash before it was made for the first time.
    if durable.sessions.get(session).is_none_or(|known| known.scratchpad.is_none()) {
        return;
    }
    for agent in durable.agents_of(session).into_iter().filter(|agent| agent.life == Life::Up) {
        let mut mail = agent.mailbox.iter().filter_map(|id| durable.messages.get(id));
        if mail.any(|it| it.from == Sender::System && it.summary == SUMMARY) {
            continue;
        }
        let text = format!(
            "What was in the scratchpad {path} is gone: it was removed from outside, or by one of this session's agents. The \
             folder is there, and empty. Do not rely on files that were in it; write down again what others still need."
        );
        let summary = SUMMARY.to_owned();
        let draft = Draft { from: Sender::System, kind: Kind::Text, text, summary };
        mailbox::accept(turn, agent, draft);
    }
}
