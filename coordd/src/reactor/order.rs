//! The order of a batch: ends of processes first, then acknowledgements, stops and answers, then
//! requests.
//!
//! What one peer sent stays in its order, so a stop overtakes the mail of others and never the
//! stopper's own. A connection's end comes after all that it brought.

use std::collections::HashMap;

use coordd_core::Input;
use coordd_core::id::PeerId;
use proto::request::Request;

use super::Arrival;

/// The batch in the order in which it is to be taken; leaves the given vector empty for the next
/// one.
pub(super) fn by_urgency(arrived: &mut Vec<Arrival>) -> Vec<Arrival> {
    let mut last = HashMap::<PeerId, u8>::new();
    let mut ranked: Vec<(u8, Arrival)> = Vec::with_capacity(arrived.len());
    for arrival in arrived.drain(..) {
        let (peer, own) = rank(&arrival);
        let rank = peer.map_or(own, |peer| {
            let before = last.entry(peer).or_insert(own);
            *before = (*before).max(own);
            *before
        });
        ranked.push((rank, arrival));
    }
    // Stable: equals stay as they came.
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, arrival)| arrival).collect()
}

fn rank(arrival: &Arrival) -> (Option<PeerId>, u8) {
    match arrival {
        Arrival::Input(Input::Request { peer, .. }) | Arrival::Refused { peer, .. } => {
            (Some(*peer), 2)
        }
        Arrival::Outside { .. } => (None, 2),
        Arrival::Input(_)
        | Arrival::Alive(_)
        | Arrival::Degraded(_)
        | Arrival::Mended(_)
        | Arrival::Look
        | Arrival::Lost(_)
        | Arrival::TeamWritten(_)
        | Arrival::TeamHeld(_)
        | Arrival::InboxesServed(_) => (None, 0),
        Arrival::Opened { peer, .. } => (Some(*peer), 0),
        Arrival::Call { peer, call, .. } => {
            (Some(*peer), if is_urgent(&call.request) { 1 } else { 2 })
        }
        Arrival::Closed { peer } => (Some(*peer), 3),
    }
}

fn is_urgent(request: &Request) -> bool {
    matches!(
        request,
        Request::Acknowledge { .. }
            | Request::RunEnded { .. }
            | Request::AgentStop { .. }
            | Request::SessionStop { .. }
            | Request::Interrupt { .. }
            | Request::PermissionAnswer { .. }
            | Request::DaemonStop { .. }
    )
}

/// An input's name, for the log.
pub(super) fn name(input: &Input) -> &'static str {
    match input {
        Input::Started => "started",
        Input::Damaged => "damaged",
        Input::Connected { .. } => "connected",
        Input::Disconnected { .. } => "disconnected",
        Input::Request { request, .. } => request.kind().as_str(),
        Input::Spawned { .. } => "spawned",
        Input::SpawnFailed { .. } => "spawn_failed",
        Input::Exited { .. } => "exited",
        Input::EnvironmentChanged { .. } => "environment_changed",
        Input::ScratchpadReady { .. } => "scratchpad_ready",
        Input::ScratchpadLost { .. } => "scratchpad_lost",
        Input::TeamEdited { .. } => "team_edited",
        Input::TaskEdited { .. } => "task_edited",
        Input::TeamRemoved { .. } => "team_removed",
        Input::Outside { .. } => "outside",
        Input::BridgeStarting { .. } => "bridge_starting",
        Input::BridgeEnded { .. } => "bridge_ended",
        Input::Handed { .. } => "handed",
        Input::InboxWritten { .. } => "inbox_written",
        Input::InboxRead { .. } => "inbox_read",
        Input::InboxLeft(_) => "inbox_left",
        Input::TerminalSeen { .. } => "terminal_seen",
        Input::Terminate { .. } => "terminate",
        Input::Tick => "tick",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::LookedUp;

    fn call(peer: u64, id: u64, request: Request) -> Arrival {
        let call = Box::new(proto::Call { id, key: None, request });
        Arrival::Call { peer: PeerId(peer), call, looked_up: LookedUp::default() }
    }

    fn stop() -> Request {
        Request::AgentStop { agent: "a".into() }
    }

    /// The calls' ids; 0 for a closed connection, 99 for an input.
    fn order(mut arrived: Vec<Arrival>) -> Vec<u64> {
        let seen = by_urgency(&mut arrived);
        seen.iter()
            .map(|it| match it {
                Arrival::Call { call, .. } => call.id,
                Arrival::Closed { .. } | Arrival::Opened { .. } | Arrival::Refused { .. } => 0,
                Arrival::Input(_)
                | Arrival::Outside { .. }
                | Arrival::Alive(_)
                | Arrival::Degraded(_)
                | Arrival::Mended(_)
                | Arrival::Look
                | Arrival::Lost(_)
                | Arrival::TeamWritten(_)
                | Arrival::TeamHeld(_)
                | Arrival::InboxesServed(_) => 99,
            })
            .collect()
    }

    #[test]
    fn a38_a_stop_overtakes_the_mail_of_others() {
        let mail = || Request::Ping {};
        let arrived = vec![
            call(1, 1, mail()),
            call(1, 2, mail()),
            call(2, 3, stop()),
            Arrival::Input(Input::Tick),
        ];
        assert_eq!(order(arrived), [99, 3, 1, 2]);
    }

    #[test]
    fn a10_a_stop_never_overtakes_its_own_senders_mail() {
        let arrived = vec![call(1, 1, Request::Ping {}), call(1, 2, stop()), call(2, 3, stop())];
        assert_eq!(order(arrived), [3, 1, 2]);
    }

    #[test]
    fn what_a_connection_brought_comes_before_its_end() {
        let arrived = vec![
            call(1, 1, Request::Ping {}),
            Arrival::Closed { peer: PeerId(1) },
            call(2, 3, stop()),
        ];
        assert_eq!(order(arrived), [3, 1, 0]);
    }
}
