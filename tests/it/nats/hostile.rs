//! M-7, T2: whoever has the server, or a token for it, can neither forge, replay, alter nor read.

use proto::message::MessageState;
use tests::nats::{Raw, Server};
use tests::wait::until_within;

use super::hosts::{RECOVERY_LIMIT, pair};

#[test]
fn m7_what_is_replayed_altered_oversized_or_from_nobody_known_is_refused_counted_and_seen() {
    let folder = tempfile::Builder::new().prefix("cn.").tempdir_in("/tmp").unwrap();
    let server = Server::start(folder.path());
    let (mut a, mut b) = pair(&server);
    let to_b = a.address();
    b.address();
    let mut raw = Raw::connect(&server);
    raw.listen("coordd.v1.*.row.*");
    let mut heard = Vec::new();
    for it in 0..3 {
        let id = a.send(&to_b, &format!("a secret {it}"));
        assert!(b.read_one().text.contains("a secret"));
        a.wait_for(&id, MessageState::Consumed);
    }
    let row = format!("coordd.v1.{}.row.", to_b["bridge:".len()..].split('/').next().unwrap());
    while heard.len() < 3 {
        let (subject, bytes) = raw.hear();
        if subject.starts_with(&row) {
            let shown = String::from_utf8_lossy(&bytes).into_owned();
            assert!(!shown.contains("a secret") && !shown.contains(&b.session), "it can be read");
            heard.push((subject, bytes));
        }
    }
    // The whole stream again, twice.
    let mut raw = Raw::connect(&server);
    for (subject, bytes) in heard.iter().chain(&heard) {
        raw.publish(subject, bytes);
    }
    let (subject, good) = heard[0].clone();
    for at in [4, 40, 80, good.len() - 100, good.len() - 1] {
        let mut altered = good.clone();
        altered[at] ^= 1;
        raw.publish(&subject, &altered);
    }
    let mut stranger = good.clone();
    stranger[5..37].fill(7);
    raw.publish(&subject, &stranger);
    raw.publish(&subject, b"garbage");
    raw.publish(&subject, &vec![0; 1_000_000]);
    // Under the name of another sender.
    let elsewhere = format!("{row}aaaaaaaaaaaaaaaa");
    raw.publish(&elsewhere, &good);
    raw.flush();
    let wanted =
        ["the signature is not", "not trusted", "not an envelope", "longer than", "another daemon"];
    until_within(RECOVERY_LIMIT, "everything is counted", || {
        let refused = b.status().refused;
        wanted.iter().all(|want| refused.iter().any(|it| it.0.contains(want))).then_some(())
    });
    let shown = b.daemon.coordctl(&["bridge", "status"]).stdout;
    assert!(shown.contains("refused from outside"), "{shown}");
    let log = std::fs::read_to_string(b.daemon.state().join("bridge.log")).unwrap();
    assert!(log.contains("refused from outside") && !log.contains("a secret"), "{log}");
    // What is good still passes, after all of that.
    let id = a.send(&to_b, "the next one");
    assert!(b.read_one().text.contains("the next one"));
    a.wait_for(&id, MessageState::Consumed);
    b.lead.assert_nothing_comes();
}
