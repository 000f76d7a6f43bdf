//! L1, L2, M-11: addresses are copied from a list, either side may begin, receipts are true, and every cause has its words.

use proto::entry::Origin;
use proto::message::MessageState;
use tests::nats::Server;
use tests::wait::until_within;

use super::hosts::{Host, RECOVERY_LIMIT, introduce, pair, send};

fn server(name: &str) -> (tempfile::TempDir, Server) {
    let folder = tempfile::Builder::new().prefix(name).tempdir_in("/tmp").unwrap();
    let server = Server::start(folder.path());
    (folder, server)
}

#[test]
fn l1_m7_m11_an_address_from_the_list_reaches_and_the_receipt_says_so() {
    let (_folder, server) = server("cn.");
    let (mut a, mut b) = pair(&server);
    let (to_b, to_a) = (a.address(), b.address());
    let seen = a.far().remove(0);
    assert_eq!(seen.id, b.session);
    assert_eq!(seen.cwd, b.daemon.work().to_str().unwrap());
    assert!(seen.heard_ms > 0 && seen.name.ends_with("@bee"), "{seen:?}");

    let id = a.send(&to_b, "are you there?");
    let got = b.read_one();
    assert!(got.text.contains("are you there?"), "{got:?}");
    let Origin::Outside { address, verified, name } = &got.origin else { panic!("{got:?}") };
    assert_eq!((address, *verified), (&to_a, true));
    assert!(name.ends_with("@ay"), "{name}");
    let receipt = a.wait_for(&id, MessageState::Consumed);
    assert_eq!(receipt.to, to_b);
    // The answer goes to the address that stands in the message.
    let id = b.send(address, "I am");
    assert!(a.read_one().text.contains("I am"));
    b.wait_for(&id, MessageState::Consumed);
}

#[test]
fn l2_every_cause_that_something_is_not_reachable_has_its_own_words() {
    let (_folder, mut server) = server("cn.");
    let (mut a, mut b) = (Host::start(&[]), Host::start(&[]));
    let nowhere = "bridge:aaaaaaaaaaaaaaaa/s1";
    assert!(a.why(nowhere).contains("there is no bridge"), "{}", a.why(nowhere));
    let denied = a.client.denied(send(nowhere, "x"));
    assert!(denied.hint.contains("coordctl bridge add nats://"), "{denied:?}");

    a.join(&server);
    b.join(&server);
    introduce(&mut a, &mut b);
    let to_b = a.address();
    let said = |host: &Host, address: &str, want: &str| {
        until_within(RECOVERY_LIMIT, want, || host.why(address).contains(want).then_some(()));
    };
    said(&a, &to_b, "reachable on bee");
    said(&a, nowhere, "no daemon of that fingerprint");
    let unknown = format!("{to_b}x");
    said(&a, &unknown, "no such session");
    let ran = b.daemon.coordctl(&["bridge", "deny", &b.session, "ay"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    said(&a, &to_b, "bridge allow");
    b.allow("ay", &[]);
    said(&a, &to_b, "reachable");
    assert_eq!(b.daemon.coordctl(&["bridge", "rm"]).code, 0);
    said(&a, &to_b, "asleep or off");

    server.kill9();
    said(&a, &to_b, "not reachable");
    server.configure("authorization { token: \"another\" }");
    server.restart();
    said(&a, &to_b, "refuses the credentials");
}

#[test]
fn m8_l5_without_leave_nothing_passes_and_the_sender_is_told() {
    let (_folder, server) = server("cn.");
    let (mut a, mut b) = pair(&server);
    let (to_b, _) = (a.address(), b.address());
    a.allow("bee", &["--in"]);
    let denied = a.lead.client.denied(send(&to_b, "x"));
    assert!(denied.hint.contains("bridge allow"), "{denied:?}");
    a.allow("bee", &["--out"]);
    b.allow("ay", &["--out"]);
    let id = a.send(&to_b, "let me in");
    let receipt = a.wait_for(&id, MessageState::Bounced);
    assert!(receipt.reason.contains("takes messages from this machine"), "{receipt:?}");
    let told = a.read_one();
    assert!(matches!(told.origin, Origin::System {}) && told.text.contains(&id), "{told:?}");
    b.lead.assert_nothing_comes();
}

#[test]
fn m7_an_offline_machine_gets_its_mail_when_it_returns() {
    let (_folder, server) = server("cn.");
    let (mut a, mut b) = pair(&server);
    let to_b = a.address();
    b.address();
    b.daemon.kill9();
    let ids: Vec<_> = (0..5).map(|it| a.send(&to_b, &format!("number {it}"))).collect();
    a.daemon.kill9();
    a.daemon.restart();
    a.meet_again();
    b.daemon.restart();
    b.meet_again();
    for it in 0..5 {
        assert!(b.read_one().text.contains(&format!("number {it}")));
    }
    for id in ids {
        a.wait_for(&id, MessageState::Consumed);
    }
}
