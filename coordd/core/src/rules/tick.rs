//! What the passing of time brings: what is old is forgotten, what waited too long expires, who did not show up is killed.

use alloc::vec::Vec;

use crate::rules::turn::Turn;
use crate::rules::{bridge, lifecycle, outside};
use crate::state::agent::Life;
use crate::state::live::Clocks;
use crate::state::{Effect, Live, Moment, Record, limits};

/// After a jump of the wall clock everything looks old; who is about to repeat a call is given the time to.
pub(crate) fn watch_clocks(live: &mut Live, now: &Moment) {
    let jumped = live.seen.is_some_and(|it| {
        let passed = now.mono_ms.saturating_sub(it.mono_ms);
        now.wall_ms > it.wall_ms.saturating_add(passed).saturating_add(limits::CLOCK_JUMP_MS)
    });
    live.seen = Some(Clocks { wall_ms: now.wall_ms, mono_ms: now.mono_ms });
    if jumped {
        live.forgot_mono_ms = Some(now.mono_ms);
    }
}

/// Some time has passed.
pub(crate) fn tick(turn: &mut Turn<'_>) {
    if turn
        .live
        .forgot_mono_ms
        .is_none_or(|at| turn.now.mono_ms >= at.saturating_add(limits::FORGET_EVERY_MS))
    {
        turn.live.forgot_mono_ms = Some(turn.now.mono_ms);
        let before_ms = turn.now.wall_ms.saturating_sub(limits::RECEIPT_KEPT_MS);
        if turn.durable.has_older_than(before_ms) {
            turn.record(Record::Forgotten { before_ms });
        }
        outside::expire(turn);
        bridge::expire(turn);
    }
    if turn.live.start_due_mono_ms.take_if(|at| turn.now.mono_ms >= *at).is_some() {
        turn.live.place_freed = true;
    }
    let (mut left, mut kills) = (Vec::new(), Vec::new());
    for (id, link) in &mut turn.live.links {
        if link.deadline_mono_ms.is_none_or(|at| turn.now.mono_ms < at) {
            continue;
        }
        link.deadline_mono_ms = None;
        let Some(agent) = turn.durable.agents.get(id) else { continue };
        // A program of the user's may live without us; it has left.
        if agent.is_external() && agent.life == Life::Up {
            left.push(agent);
            continue;
        }
        // The end is told by `Exited`, once the shell has seen it.
        let (incarnation, process) = (link.incarnation, agent.process.clone());
        let tree = !agent.is_external();
        kills.push(Effect::Kill { agent: id.clone(), incarnation, process, tree });
    }
    for kill in kills {
        turn.effect(kill);
    }
    for agent in left {
        lifecycle::gone(turn, agent, false, "its connection was lost");
    }
}
