//! What the passing of time brings: what is old is forgotten, what waited too long expires, who did not show up is killed.

use crate::rules::{Step, bridge, lifecycle, outside};
use crate::state::agent::Life;
use crate::state::live::Clocks;
use crate::state::{Durable, Effect, Live, Moment, Record, limits};
use alloc::vec::Vec;

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
pub(crate) fn tick(durable: &Durable, live: &mut Live, step: &mut Step, now: &Moment) {
    if live
        .forgot_mono_ms
        .is_none_or(|at| now.mono_ms >= at.saturating_add(limits::FORGET_EVERY_MS))
    {
        live.forgot_mono_ms = Some(now.mono_ms);
        let before_ms = now.wall_ms.saturating_sub(limits::RECEIPT_KEPT_MS);
        if durable.has_older_than(before_ms) {
            step.record(Record::Forgotten { before_ms });
        }
        outside::expire(durable, step, now);
        bridge::expire(durable, live, step, now);
    }
    if live.start_due_mono_ms.take_if(|at| now.mono_ms >= *at).is_some() {
        live.place_freed = true;
    }
    let mut left = Vec::new();
    for (id, link) in &mut live.links {
        if link.deadline_mono_ms.is_none_or(|at| now.mono_ms < at) {
            continue;
        }
        link.deadline_mono_ms = None;
        let Some(agent) = durable.agents.get(id) else { continue };
        // A program of the user's may live without us; it has left.
        if agent.is_external() && agent.life == Life::Up {
            left.push(agent);
            continue;
        }
        // The end is told by `Exited`, once the shell has seen it.
        step.effect(Effect::Kill {
            agent: id.clone(),
            incarnation: link.incarnation,
            process: agent.process.clone(),
            tree: !agent.is_external(),
        });
    }
    for agent in left {
        lifecycle::gone(live, step, agent, false, "its connection was lost");
    }
}
