//! The bridge's status as one call to coordd, cut to what a line can hold. It is for people and for
//! the list of sessions; no message depends on it.

use std::collections::BTreeMap;

use proto::bridge::{BridgeView, RemoteView};
use serde::Serialize;

/// What machines' names, letters and sessions may come to together as JSON: half of the longest
/// line. The other half is more than the rest needs, which is this user's own words and numbers:
/// 1,024 peers with a name of 64 bytes each.
const WORDS_LEN_MAX: usize = 512 * 1024;

/// How many bytes are left.
struct Room(usize);

impl Room {
    /// Whether an item still fits; if so, its room is taken.
    fn take(&mut self, it: &impl Serialize) -> bool {
        // One more for the comma.
        let len = serde_json::to_vec(it).map_or(usize::MAX, |it| it.len().saturating_add(1));
        let left = self.0.checked_sub(len);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// As much of it as fits. What has no room is left out: the oldest letters, and of each peer's sessions the last ones, so
/// that one peer with many takes no room from those with few.
pub(super) fn fitted(mut report: BridgeView) -> BridgeView {
    let mut room = Room(WORDS_LEN_MAX);
    let fitting = report.letters.iter().rev().take_while(|letter| room.take(letter)).count();
    report.letters.drain(..report.letters.len() - fitting);
    let mut all_sessions = Vec::new();
    for peer in &mut report.peers {
        if !room.take(&peer.machine) {
            peer.machine.clear();
        }
        all_sessions.push(std::mem::take(&mut peer.sessions));
    }
    for (peer, sessions) in report.peers.iter_mut().zip(in_turn(all_sessions, &mut room)) {
        peer.sessions = sessions;
    }
    report
}

/// Each peer's first session, then each one's second, until there is no room.
fn in_turn(all: Vec<Vec<RemoteView>>, room: &mut Room) -> Vec<Vec<RemoteView>> {
    let mut kept: Vec<Vec<_>> = all.iter().map(|_| Vec::new()).collect();
    let mut left: BTreeMap<usize, _> =
        all.into_iter().map(IntoIterator::into_iter).enumerate().collect();
    while !left.is_empty() {
        // A peer without further sessions, or whose next one does not fit, is done.
        left.retain(|at, sessions| {
            let next = sessions.next().filter(|session| room.take(session));
            let Some((next, kept)) = next.zip(kept.get_mut(*at)) else { return false };
            kept.push(next);
            true
        });
    }
    kept
}

#[cfg(test)]
mod tests {
    use proto::bridge::{BridgePeerView, LetterView};

    use super::*;
    use crate::limits::{FIELD_LEN_MAX, PEERS_MAX, SESSIONS_TOLD_MAX};

    fn told(len: usize) -> RemoteView {
        let long = "\u{1}".repeat(len);
        RemoteView {
            session: long.clone(),
            name: long.clone(),
            cwd: long.clone(),
            state: long,
            hosts: true,
        }
    }

    fn peer(at: usize, sessions: Vec<RemoteView>) -> BridgePeerView {
        BridgePeerView {
            fingerprint: format!("{at:016}"),
            name: "n".repeat(64),
            machine: "\u{1}".repeat(FIELD_LEN_MAX),
            sessions,
            ..BridgePeerView::default()
        }
    }

    fn line_len(report: BridgeView) -> usize {
        let request = proto::request::Request::BridgeReport { report: fitted(report) };
        let call = proto::ToDaemon::Call(proto::Call { id: u64::MAX, key: None, request });
        proto::line::encode(&call).unwrap().len()
    }

    #[test]
    fn m7_the_longest_report_fits_in_a_line() {
        let long = "\u{1}".repeat(FIELD_LEN_MAX);
        let letter = LetterView {
            is_ours: false,
            at_ms: 1,
            address: long.clone(),
            message: long.clone(),
            reason: long,
        };
        let peers = (0..PEERS_MAX).map(|it| peer(it, vec![told(FIELD_LEN_MAX); 2])).collect();
        let report = BridgeView { peers, letters: vec![letter; 64], ..BridgeView::default() };
        assert!(line_len(report) > WORDS_LEN_MAX, "room was left unused");
    }

    #[test]
    fn l1_a_peer_with_many_sessions_leaves_room_for_those_with_few() {
        let many = vec![told(FIELD_LEN_MAX); SESSIONS_TOLD_MAX];
        let peers = vec![peer(0, many.clone()), peer(1, many), peer(2, vec![told(1)])];
        let seen: Vec<_> = fitted(BridgeView { peers, ..BridgeView::default() })
            .peers
            .iter()
            .map(|peer| peer.sessions.len())
            .collect();
        assert_eq!(seen.get(2), Some(&1));
        assert!(seen.iter().take(2).all(|it| (10..SESSIONS_TOLD_MAX).contains(it)), "{seen:?}");
    }

    #[test]
    fn m7_a_report_of_usual_size_is_told_whole() {
        let peers = vec![peer(0, vec![told(8); 20]), peer(1, vec![]), peer(2, vec![told(9); 3])];
        let letters = (0..5).map(|at_ms| LetterView { at_ms, ..LetterView::default() }).collect();
        let seen = fitted(BridgeView { peers, letters, ..BridgeView::default() });
        let sessions: Vec<_> = seen.peers.iter().map(|peer| peer.sessions.len()).collect();
        assert_eq!(sessions, [20, 0, 3]);
        assert!(seen.peers.iter().all(|peer| !peer.machine.is_empty()));
        let at: Vec<_> = seen.letters.iter().map(|letter| letter.at_ms).collect();
        assert_eq!(at, [0, 1, 2, 3, 4]);
    }
}
