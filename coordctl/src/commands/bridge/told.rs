//! How the bridge stands, in words and tables for people. It asks nobody.

use proto::address::Place;
use proto::bridge::{BridgePeerView, BridgeView, LetterView};

use crate::format;
use crate::table::Table;

/// A daemon that is silent for this long is away: several times the interval of its signs of life.
const AWAY_MS: u64 = 20_000;

/// The list of trusted daemons is in the bridge's own file; their state comes from the running
/// bridge.
pub(super) fn table(known: &str, peers: &[BridgePeerView], now_ms: u64) -> Table {
    let mut table = Table::new(&["NAME", "FINGERPRINT", "MACHINE", "HEARD", "WAITING", "SESSIONS"]);
    for (fingerprint, name) in known.lines().filter_map(|line| line.split_once(' ')) {
        let it = peers.iter().find(|peer| peer.fingerprint == fingerprint);
        let count = |of: fn(&BridgePeerView) -> usize| it.map_or(0, of).to_string();
        table.row([
            name.to_owned(),
            fingerprint.to_owned(),
            it.map(|it| it.machine.clone()).unwrap_or_default(),
            match it.map_or(0, |it| it.heard_ms) {
                0 => "never".to_owned(),
                at => format::ago(now_ms, at),
            },
            count(|it| it.rows as usize),
            count(|it| it.sessions.len()),
        ]);
    }
    table
}

pub(super) fn letters_table(letters: &[LetterView], now_ms: u64) -> Table {
    let mut table = Table::new(&["WHEN", "WAY", "ADDRESS", "MESSAGE", "WHY"]);
    for it in letters {
        table.row([
            format::ago(now_ms, it.at_ms),
            if it.is_ours { "to" } else { "from" }.to_owned(),
            it.address.clone(),
            it.message.clone(),
            it.reason.clone(),
        ]);
    }
    table
}

/// How it stands, a line each.
pub(super) fn said(it: &BridgeView) -> Vec<String> {
    if let Some(why) = broken(it) {
        let waiting = if it.rows == 0 { Vec::new() } else { vec![waiting(it)] };
        return [vec![why], waiting].concat();
    }
    let copies = match it.replicas {
        0 | 1 => "one server keeps messages in transit; what it loses is sent again".to_owned(),
        more => format!("{more} servers keep messages in transit"),
    };
    let mut lines = vec![
        format!("connected to {} as {}", it.server, it.own),
        copies,
        waiting(it),
        format!("trusted daemons: {}", it.peers.len()),
    ];
    for (word, counts) in [("rejected from outside", &it.refused), ("passed over", &it.passed_over)]
    {
        lines.extend(counts.iter().map(|(reason, count)| format!("{word}: {reason}: {count}")));
    }
    let ours = it.letters.iter().filter(|letter| letter.is_ours).count();
    if ours > 0 {
        lines.push(format!(
            "messages from here that were rejected there: {ours}; see `coordctl bridge letters`"
        ));
    }
    lines
}

fn waiting(it: &BridgeView) -> String {
    format!("messages in transit: {}", it.rows)
}

/// What keeps everything from passing, if something does.
fn broken(it: &BridgeView) -> Option<String> {
    if !it.on {
        return Some(
            "there is no bridge; `coordctl bridge add nats://HOST:4222` sets one up".into(),
        );
    }
    if !it.running {
        let why = if it.trouble.is_empty() { "it is being started" } else { &it.trouble };
        return Some(format!(
            "the bridge process does not run: {why}; its log is bridge.log in the state folder"
        ));
    }
    if !it.trouble.is_empty() {
        return Some(format!("{}: {}", it.server, it.trouble));
    }
    (!it.connected).then(|| format!("{}: the server does not answer yet", it.server))
}

/// Why an address is reachable or not (L2).
pub(super) fn reach(it: &BridgeView, address: &str, now_ms: u64) -> String {
    if let Some(why) = broken(it) {
        return why;
    }
    let Place::Remote { peer: fingerprint, session } = Place::from(address) else {
        return "this is not an address on another machine; `coordctl peers` lists them".to_owned();
    };
    let Some(peer) = it.peers.iter().find(|peer| peer.fingerprint == fingerprint) else {
        return "unknown: no daemon with that fingerprint is trusted; see `coordctl bridge ls`"
            .to_owned();
    };
    if peer.heard_ms == 0 || now_ms.saturating_sub(peer.heard_ms) > AWAY_MS {
        let since = match peer.heard_ms {
            0 => "has not been heard since the bridge started".to_owned(),
            at => format!("was last heard {}", format::ago(now_ms, at)),
        };
        return format!(
            "{} {since}: it is asleep or off, or does not trust this daemon; messages wait for it",
            peer.name
        );
    }
    if peer.sessions.iter().any(|it| it.session == session) {
        return format!("reachable on {}", peer.name);
    }
    format!(
        "{} is reachable, but shows no such session: there is none, or its user has not allowed it with `coordctl bridge allow`",
        peer.name
    )
}

#[cfg(test)]
mod tests {
    use proto::bridge::RemoteView;

    use super::*;

    fn view() -> BridgeView {
        let session =
            RemoteView { session: "s1".into(), name: "dates".into(), ..RemoteView::default() };
        let peer = BridgePeerView {
            fingerprint: "aaaaaaaaaaaaaaaa".into(),
            name: "desk".into(),
            heard_ms: 1_000_000,
            sessions: vec![session],
            ..BridgePeerView::default()
        };
        BridgeView {
            on: true,
            running: true,
            connected: true,
            server: "nats://hub".into(),
            peers: vec![peer],
            ..BridgeView::default()
        }
    }

    #[test]
    fn l2_each_cause_has_its_own_words() {
        let address = "bridge:aaaaaaaaaaaaaaaa/s1";
        let why = |it: &BridgeView, address: &str| reach(it, address, 1_000_500);
        assert_eq!(why(&view(), address), "reachable on desk");
        let cases = [
            (BridgeView { on: false, ..view() }, address, "bridge add"),
            (BridgeView { running: false, ..view() }, address, "bridge.log"),
            (BridgeView { connected: false, ..view() }, address, "does not answer"),
            (
                BridgeView { trouble: "the server refuses the credentials".into(), ..view() },
                address,
                "credentials",
            ),
            (view(), "bridge:bbbbbbbbbbbbbbbb/s1", "no daemon with that fingerprint"),
            (view(), "bridge:aaaaaaaaaaaaaaaa/s2", "bridge allow"),
            (view(), "s1", "not an address"),
        ];
        for (it, address, want) in cases {
            assert!(why(&it, address).contains(want), "{want}: {}", why(&it, address));
        }
        assert!(reach(&view(), address, 1_000_000 + AWAY_MS + 1).contains("asleep"));
    }

    #[test]
    fn l2_what_only_came_again_is_told_apart_from_what_was_refused() {
        let refused = vec![("forged".into(), 2)];
        let passed_over = vec![("it came before, and is not taken again".into(), 3)];
        let lines = said(&BridgeView { refused, passed_over, ..view() });
        let has = |want: &str| lines.iter().any(|line| line.starts_with(want));
        assert!(has("rejected from outside: forged: 2"), "{lines:?}");
        assert!(has("passed over: it came before"), "{lines:?}");
    }

    #[test]
    fn m7_dead_letters_are_listed_with_why() {
        let letter = |is_ours, message: &str| LetterView {
            is_ours,
            at_ms: 1_000_000,
            address: "bridge:aaaaaaaaaaaaaaaa/s1".into(),
            message: message.into(),
            reason: "no".into(),
        };
        let letters = vec![letter(true, "m7"), letter(false, "x-1")];
        assert_eq!(
            letters_table(&letters, 1_000_000).render(None),
            "WHEN      WAY   ADDRESS                     MESSAGE  WHY\n\
             just now  to    bridge:aaaaaaaaaaaaaaaa/s1  m7       no\n\
             just now  from  bridge:aaaaaaaaaaaaaaaa/s1  x-1      no\n"
        );
        let lines = said(&BridgeView { letters, ..view() });
        assert!(
            lines
                .iter()
                .any(|line| line.starts_with("messages from here that were rejected there: 1")),
            "{lines:?}"
        );
    }

    #[test]
    fn l1_trusted_daemons_are_listed_whether_or_not_they_are_there() {
        let known = "aaaaaaaaaaaaaaaa desk\nbbbbbbbbbbbbbbbb tower";
        assert_eq!(
            table(known, &view().peers, 1_000_000).render(None),
            "NAME   FINGERPRINT       MACHINE  HEARD     WAITING  SESSIONS\n\
             desk   aaaaaaaaaaaaaaaa           just now  0        1\n\
             tower  bbbbbbbbbbbbbbbb           never     0        0\n"
        );
    }
}
