//! Looking at the terminals that coordd runs, and typing into them. Nothing of it is durable.

use alloc::string::ToString as _;
use alloc::vec::Vec;

use crate::rules::call::{Call, Said, Verdict};
use crate::rules::turn::Turn;
use crate::rules::{pty, route};
use crate::state::agent::{Agent, Ended, Life};
use crate::state::answer::Answer;
use crate::state::denial::Denial;
use crate::state::effect::{Order, Size};
use crate::state::{Effect, limits};

/// The agent whose terminal is meant, where it is there or on its way.
fn terminal<'a>(call: &Call, turn: &Turn<'a>, given: &str) -> Result<&'a Agent, Denial> {
    let agent = route::agent(turn.durable, &call.caller, given)?;
    let path = route::path(turn.durable, agent);
    if !agent.has_pty() {
        return Err(Denial::NoScreen { path });
    }
    if agent.life == Life::Down {
        return Err(Denial::ScreenDark { path, why: pty::why_down(agent) });
    }
    Ok(agent)
}

pub(super) fn show(call: &Call, turn: &mut Turn<'_>, given: &str, size: Option<Size>) -> Verdict {
    let agent = terminal(call, turn, given)?;
    let viewers = turn.live.viewers.get(&agent.id);
    let is_new = viewers.is_none_or(|it| !it.contains(&call.peer));
    if is_new && viewers.is_some_and(|it| it.len() >= limits::VIEWERS_MAX) {
        return Err(Denial::Full { what: "viewers of that screen", max: limits::VIEWERS_MAX });
    }
    pty::look(turn.live, &agent.id, call.peer);
    let (session, id) = (agent.session.clone(), agent.id.clone());
    turn.effect(Effect::ShowScreen { session, agent: id, peer: call.peer, call: call.id });
    if size.is_some() {
        pty::order(turn, &agent.id, Order::ScreenInput { size, bytes: Vec::new() });
    }
    pty::order(turn, &agent.id, Order::Screen { shown: true });
    Ok(Said::ByShell)
}

pub(super) fn input(
    call: &Call,
    turn: &mut Turn<'_>,
    given: &str,
    size: Option<Size>,
    bytes: Vec<u8>,
) -> Verdict {
    let agent = terminal(call, turn, given)?;
    let (len, max) = (bytes.len(), limits::SCREEN_INPUT_LEN_MAX);
    if len > max {
        return Err(Denial::TooLarge { field: "bytes", len, max });
    }
    if !pty::order(turn, &agent.id, Order::ScreenInput { size, bytes }) {
        let why = "it is starting, stopping, or not connected".to_string();
        return Err(Denial::ScreenDark { path: route::path(turn.durable, agent), why });
    }
    Ok(Said::Now(Answer::Done))
}

pub(super) fn ended(call: &Call, turn: &mut Turn<'_>, ended: &Ended) -> Verdict {
    let agent = call.agent(turn.durable)?;
    if !agent.has_pty() {
        return Err(Denial::NoScreen { path: route::path(turn.durable, agent) });
    }
    let said = ended.said.chars().take(limits::SUMMARY_LEN_MAX).collect();
    pty::ended(turn, agent, Ended { said, ..*ended });
    Ok(Said::Now(Answer::Done))
}
