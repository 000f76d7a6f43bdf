//! What passes between coordd and its bridge process, and what people are told of it.

use std::collections::BTreeMap;

use coordd_core::Core;
use coordd_core::agent::Outcome;
use coordd_core::bridge::{self, Brought};
use coordd_core::far::{Told, Work};
use coordd_core::id::{AgentId, MessageId};
use coordd_core::input;
use coordd_core::message::{self, Sender};
use coordd_core::outgoing::{Kind, Outgoing, Verdict};
use coordd_core::request::Request;
use proto::address::Place;
use proto::bridge as wire;
use proto::response::Response;
use proto::view::{PeerKind, PeerView};

use super::view;

/// Peers that a report may name, and sessions of each; the bridge has the same bounds.
const PEERS_MAX: usize = 1_024;
const SESSIONS_MAX: usize = 256;
/// Reasons of refusals that are kept.
const REASONS_MAX: usize = 64;
/// Dead letters of each direction that are told.
const LETTERS_MAX: usize = 64;

/// How daemons of before `late` said it. They still do, and read nothing else: so it goes with the flag.
const READ_BEFORE: &str = "read in an earlier run";
/// The same for `had_nothing`.
const NOTHING_TO_STOP: &str = "it had nothing to do when it was to be stopped";

pub(super) fn told(id: u64, fate: wire::Fate, reason: String) -> Request {
    let fate = match fate {
        wire::Fate::Taken => bridge::Fate::Taken,
        wire::Fate::Refused => bridge::Fate::Refused(reason),
        wire::Fate::Expired => bridge::Fate::Expired,
    };
    Request::BridgeTold { id: MessageId(id), fate }
}

pub(super) fn brought(peer: String, peer_name: String, row: wire::Row) -> Request {
    let wire::Row { to, from, name, bypasses, message, says } = row;
    let says = match says {
        wire::Says::Words { text, summary } => input::Says::Words { text, summary },
        wire::Says::Status { of, verdict, reason, late } => {
            let late = late || reason == READ_BEFORE;
            input::Says::Status { of, verdict: core_verdict(verdict, late), reason }
        }
        wire::Says::Work(work) => input::Says::Host(Told::Work(work)),
        wire::Says::Stop { agent, by } => input::Says::Host(Told::Stop { agent, by }),
        wire::Says::Ended { agent, outcome, had_nothing } => {
            let had_nothing = had_nothing || outcome.reason == NOTHING_TO_STOP;
            input::Says::Host(Told::Ended { agent, outcome, had_nothing })
        }
    };
    Request::BridgeBring(Brought { peer, peer_name, to, from, name, bypasses, message, says })
}

fn core_verdict(it: wire::Verdict, late: bool) -> Verdict {
    match it {
        wire::Verdict::Held => Verdict::Held,
        wire::Verdict::Consumed if late => Verdict::ReadBefore,
        wire::Verdict::Consumed => Verdict::Consumed,
        wire::Verdict::Expired => Verdict::Expired,
        wire::Verdict::Refused => Verdict::Refused,
    }
}

fn wire_verdict(it: Verdict) -> wire::Verdict {
    match it {
        Verdict::Held => wire::Verdict::Held,
        Verdict::Consumed | Verdict::ReadBefore => wire::Verdict::Consumed,
        Verdict::Expired => wire::Verdict::Expired,
        Verdict::Refused => wire::Verdict::Refused,
    }
}

pub(super) fn report(mut report: wire::BridgeView) -> Request {
    report.peers.truncate(PEERS_MAX);
    report.peers.iter_mut().for_each(|peer| peer.sessions.truncate(SESSIONS_MAX));
    report.refused.truncate(REASONS_MAX);
    report.passed_over.truncate(REASONS_MAX);
    report.letters.truncate(LETTERS_MAX);
    // Only what coordd was not let in by others: its own letters are in its outbox.
    report.letters.iter_mut().for_each(|letter| letter.is_ours = false);
    Request::BridgeReport(report)
}

pub(super) fn decided(it: bridge::Decision) -> Response {
    let (decision, reason) = match it {
        bridge::Decision::Taken => (wire::Decision::Taken, String::new()),
        bridge::Decision::Refused(reason) => (wire::Decision::Refused, reason),
        bridge::Decision::Later => (wire::Decision::Later, String::new()),
    };
    Response::Brought { decision, reason }
}

/// How the bridge stands, for people.
pub(super) fn view(core: &Core) -> wire::BridgeView {
    let (live, report) = (&core.live.bridge, &core.live.bridge.report);
    let count = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
    let mut rows = BTreeMap::<&str, u32>::new();
    for it in core.durable.outbox.carried() {
        if let Some((peer, _)) = address(it) {
            *rows.entry(peer).or_default() += 1;
        }
    }
    let peers = report.peers.iter().map(|it| wire::BridgePeerView {
        rows: rows.get(it.fingerprint.as_str()).copied().unwrap_or_default(),
        ..it.clone()
    });
    wire::BridgeView {
        on: core.durable.bridge.is_some_and(|it| it.on),
        running: live.peer.is_some(),
        trouble: if live.peer.is_some() { report.trouble.clone() } else { live.ended.clone() },
        rows: count(core.durable.outbox.carried_len()),
        peers: peers.collect(),
        letters: letters(core),
        ..report.clone()
    }
}

/// The latest messages that were not let in: theirs by the bridge's word, ours by their receipts.
fn letters(core: &Core) -> Vec<wire::LetterView> {
    let theirs = core.live.bridge.report.letters.iter().cloned();
    let ours = core.durable.outbox.dead_letters().take(LETTERS_MAX).map(|it| wire::LetterView {
        is_ours: true,
        at_ms: it.ended_ms.unwrap_or(it.accepted_ms),
        address: it.to.to_string(),
        message: it.id.to_string(),
        reason: it.reason.clone(),
    });
    let mut all: Vec<_> = theirs.chain(ours).collect();
    all.sort_by_key(|it| it.at_ms);
    all
}

/// Sessions on other machines, for the list of whom one can write to.
pub(crate) fn peers(core: &Core) -> impl Iterator<Item = PeerView> {
    core.live.bridge.report.peers.iter().flat_map(|peer| {
        peer.sessions.iter().map(|it| PeerView {
            id: it.session.clone(),
            name: format!("{}@{}", it.name, peer.name),
            kind: if it.hosts { PeerKind::Host } else { PeerKind::Bridge },
            address: if it.hosts {
                format!("{}/{}", peer.name, it.name)
            } else {
                remote(&peer.fingerprint, &it.session).to_string()
            },
            state: it.state.clone(),
            cwd: it.cwd.clone(),
            heard_ms: peer.heard_ms,
        })
    })
}

/// What the bridge is to tell each daemon: the sessions of ours that it may write to.
pub(crate) fn announce(core: &Core) -> wire::Order {
    let mut sessions = BTreeMap::<String, Vec<wire::RemoteView>>::new();
    for session in core.durable.sessions.values() {
        let open = session.bridged.iter().filter(|it| it.inbound);
        for allowed in open {
            let it = view::peer(core, session);
            let told = wire::RemoteView {
                session: session.id.to_string(),
                name: it.name,
                cwd: it.cwd,
                state: it.state,
                hosts: session.host_for.as_ref() == Some(&allowed.peer),
            };
            sessions.entry(allowed.peer.clone()).or_default().push(told);
        }
    }
    wire::Order::Announce { sessions: sessions.into_iter().collect() }
}

fn remote(peer: &str, session: &str) -> Place {
    Place::Remote { peer: peer.to_owned(), session: session.to_owned() }
}

/// The other daemon and the session there that an outgoing message is for.
fn address(it: &Outgoing) -> Option<(&str, &str)> {
    match &it.to {
        Place::Remote { peer, session } => Some((peer, session)),
        Place::Socket(_) | Place::Local(_) | Place::Other(_) => None,
    }
}

/// A message of a worker's mailbox, with what the worker is made of. Nothing if the message has
/// come to its end.
fn work(core: &Core, agent: &AgentId, message: MessageId) -> Option<wire::Says> {
    let agent = core.durable.agents.get(agent)?;
    let it = core.durable.messages.get(&message).filter(|it| !it.state.is_final())?;
    Some(wire::Says::Work(Box::new(Work {
        agent: agent.id.to_string(),
        name: agent.name.to_string(),
        description: agent.description.clone(),
        phase: agent.phase.clone(),
        runtime: agent.far_runtime,
        is_task: it.kind == message::Kind::Prompt,
        text: it.text.clone(),
        summary: it.summary.clone(),
    })))
}

/// A message for another machine, or nothing if its text is gone.
pub(crate) fn carry(core: &Core, id: MessageId) -> Option<wire::Order> {
    let it = core.durable.outbox.get(id).filter(|it| !it.state.is_final())?;
    let (peer, to) = address(it)?;
    let session = it.session.as_ref().and_then(|id| core.durable.sessions.get(id));
    let says = match &it.kind {
        Kind::Words { summary, .. } => {
            wire::Says::Words { text: it.text.clone(), summary: summary.clone() }
        }
        Kind::Status { of, verdict } => wire::Says::Status {
            of: of.clone(),
            verdict: wire_verdict(*verdict),
            reason: match verdict {
                Verdict::ReadBefore => READ_BEFORE.to_owned(),
                Verdict::Held | Verdict::Consumed | Verdict::Expired | Verdict::Refused => {
                    it.text.clone()
                }
            },
            late: *verdict == Verdict::ReadBefore,
        },
        // Nobody on another machine can ask for it.
        Kind::Idle { .. } => return None,
        Kind::Work { agent, message } => work(core, agent, *message)?,
        Kind::Stop { agent } => wire::Says::Stop { agent: agent.to_string(), by: it.text.clone() },
        Kind::Ended { agent, outcome, had_nothing } => {
            let result = it.text.clone();
            let mut outcome = Outcome { result, ..outcome.clone() };
            if *had_nothing {
                NOTHING_TO_STOP.clone_into(&mut outcome.reason);
            }
            wire::Says::Ended { agent: agent.clone(), outcome, had_nothing: *had_nothing }
        }
    };
    let name = match (&it.from, session) {
        (Sender::User, _) | (_, None) => "user".to_owned(),
        (Sender::Agent(_) | Sender::System | Sender::Outside(_), Some(session)) => {
            session.name.to_string()
        }
    };
    let row = wire::Row {
        to: to.to_owned(),
        from: it.session.as_ref().map(ToString::to_string).unwrap_or_default(),
        name,
        bypasses: session.is_some_and(|it| it.bypasses),
        message: it.wire_id.clone(),
        says,
    };
    let expires_ms = it.accepted_ms.saturating_add(it.kept_ms());
    Some(wire::Order::Carry { id: id.0, peer: peer.to_owned(), expires_ms, row: Box::new(row) })
}

#[cfg(test)]
mod tests {
    use proto::agent::RunOutcome;
    use proto::notification::{RunStatus, Usage};

    use super::*;

    fn brought_says(says: wire::Says) -> input::Says {
        let row = wire::Row {
            to: "s1".into(),
            from: "s9".into(),
            name: "far".into(),
            bypasses: false,
            message: "m".into(),
            says,
        };
        let Request::BridgeBring(it) = brought("aaaaaaaaaaaaaaaa".into(), "desk".into(), row)
        else {
            panic!("a row is brought");
        };
        it.says
    }

    /// A daemon of before the flags says them in words alone.
    #[test]
    fn m7_what_an_older_daemon_says_in_words_is_understood() {
        for (reason, late) in [("", true), (READ_BEFORE, false), (READ_BEFORE, true)] {
            let (of, verdict) = ("m1".into(), wire::Verdict::Consumed);
            let says = wire::Says::Status { of, verdict, reason: reason.into(), late };
            let input::Says::Status { verdict, .. } = brought_says(says) else { panic!() };
            assert_eq!(verdict, Verdict::ReadBefore, "{reason:?} {late}");
        }
        for (reason, flag) in [("", true), (NOTHING_TO_STOP, false), (NOTHING_TO_STOP, true)] {
            let outcome = RunOutcome {
                status: RunStatus::Killed,
                class: None,
                reason: reason.into(),
                result: String::new(),
                usage: Usage::default(),
            };
            let says = wire::Says::Ended { agent: "a1".into(), outcome, had_nothing: flag };
            let input::Says::Host(Told::Ended { had_nothing, .. }) = brought_says(says) else {
                panic!()
            };
            assert!(had_nothing, "{reason:?} {flag}");
        }
        let (of, verdict) = ("m1".into(), wire::Verdict::Consumed);
        let says = wire::Says::Status { of, verdict, reason: "read it".into(), late: false };
        let input::Says::Status { verdict, .. } = brought_says(says) else { panic!() };
        assert_eq!(verdict, Verdict::Consumed);
    }
}
