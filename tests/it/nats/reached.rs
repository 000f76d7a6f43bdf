//! L1, L2, M-11: addresses are copied from a list, either side may begin, receipts are true, and
//! every cause has its words.

use proto::entry::Origin;
use proto::message::MessageState;
use tests::wait::until_within;

use super::hosts::{Host, RECOVERY_LIMIT, pair, send, server};

#[test]
fn l1_m7_m11_an_address_from_the_list_reaches_and_the_receipt_says_so() {
    let (_folder, server) = server();
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

/// What a person reads about an address, in the end.
fn is_said(host: &Host, address: &str, want: &str) {
    let mut last = String::new();
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        until_within(RECOVERY_LIMIT, want, || {
            last = host.why(address);
            last.contains(want).then_some(())
        });
    }));
    assert!(found.is_ok(), "{want:?} is not said: {last}");
}

const NOWHERE: &str = "bridge:aaaaaaaaaaaaaaaa/s1";

#[test]
fn l2_no_bridge_is_said_with_the_command_that_adds_one() {
    let mut a = Host::start(&[]);
    is_said(&a, NOWHERE, "there is no bridge; `coordctl bridge add nats://");
    let denied = a.client.denied(send(NOWHERE, "x"));
    assert!(denied.hint.contains("coordctl bridge add nats://"), "{denied:?}");
    let sent = a.daemon.coordctl(&["send", NOWHERE, "x"]);
    assert!(sent.code != 0 && sent.stderr.contains("coordctl bridge add nats://"), "{sent:?}");
}

#[test]
fn l2_no_server_is_said() {
    let (_folder, mut server) = server();
    let (mut a, _b) = pair(&server);
    let to_b = a.address();
    is_said(&a, &to_b, "reachable on bee");
    server.kill9();
    is_said(&a, &to_b, "the server is not reachable");
    // And where there never was one.
    let c = Host::start(&[]);
    c.join_with(&["nats://127.0.0.1:9"]);
    is_said(&c, NOWHERE, "the server is not reachable");
}

#[test]
fn l2_no_permission_is_said() {
    let (_folder, mut server) = server();
    let (mut a, _b) = pair(&server);
    let to_b = a.address();
    let pair = nkeys::KeyPair::new_user();
    // It may connect, and nothing else.
    let nothing = "permissions: { publish: [\"x\"], subscribe: [\"x\"] }";
    server.kill9();
    let users = format!("users: [ {{ nkey: {}, {nothing} }} ]", pair.public_key());
    server.configure(&format!("authorization {{ {users} }}"));
    server.restart();
    let seed = a.secret("seed", &pair.seed().unwrap());
    a.join_with(&[&server.url(), "--nkey-file", &seed]);
    is_said(&a, &to_b, "the server does not allow this user enough");
    server.kill9();
    server.configure("authorization { token: \"another\" }");
    server.restart();
    is_said(&a, &to_b, "refuses the credentials; check them with `coordctl bridge add`");
}

#[test]
fn l2_denied_by_policy_is_said_on_either_side() {
    let (_folder, server) = server();
    let (mut a, b) = pair(&server);
    let to_b = a.address();
    let ran = b.daemon.coordctl(&["bridge", "deny", &b.session, "ay"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    is_said(&a, &to_b, "its user has not allowed it with `coordctl bridge allow`");
    b.allow("ay", &[]);
    is_said(&a, &to_b, "reachable on bee");
    let ran = a.daemon.coordctl(&["bridge", "deny", &a.session, "bee"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let denied = a.lead.client.denied(send(&to_b, "x"));
    assert!(denied.hint.contains("bridge allow"), "{denied:?}");
}

#[test]
fn l2_a_machine_that_is_asleep_is_said_to_be() {
    let (_folder, server) = server();
    let (mut a, mut b) = pair(&server);
    let to_b = a.address();
    b.daemon.kill9();
    is_said(&a, &to_b, "asleep or off");
    b.daemon.restart();
    b.meet_again();
    is_said(&a, &to_b, "reachable on bee");
}

#[test]
fn l2_an_unknown_machine_and_an_unknown_session_are_told_apart() {
    let (_folder, server) = server();
    let (mut a, _b) = pair(&server);
    let to_b = a.address();
    is_said(&a, NOWHERE, "unknown: no daemon with that fingerprint is trusted");
    is_said(&a, &format!("{to_b}x"), "shows no such session");
    is_said(&a, "bridge:s1", "not an address on another machine");
}

#[test]
fn m4_m7_dead_letters_are_listed_on_both_sides_with_why() {
    let (_folder, server) = server();
    let (mut a, mut b) = pair(&server);
    let (to_b, to_a) = (a.address(), b.address());
    let set = b.daemon.coordctl(&["inbound", "set", &b.session, "refuse"]);
    assert_eq!(set.code, 0, "{set:?}");
    let id = a.send(&to_b, "not wanted");
    let receipt = a.wait_for(&id, MessageState::Bounced);
    let ours = a.daemon.coordctl(&["bridge", "letters"]).stdout;
    assert!(ours.contains(&id) && ours.contains(&to_b) && ours.contains(&receipt.reason), "{ours}");
    a.says("messages from here that were rejected there: 1");
    let listed = |host: &Host| host.daemon.coordctl_json(&["bridge", "letters"]);
    let theirs = until_within(RECOVERY_LIMIT, "it is listed", || {
        let all = listed(&b)["bridge"]["bridge"]["letters"].clone();
        all.get(0).cloned()
    });
    assert_eq!((&theirs["address"], &theirs["is_ours"]), (&to_a.into(), &false.into()));
    assert_eq!(theirs["reason"], receipt.reason);
    b.bridge().kill9();
    until_within(RECOVERY_LIMIT, "it is listed after a restart", || {
        (listed(&b)["bridge"]["bridge"]["letters"][0] == theirs).then_some(())
    });
    b.lead.assert_nothing_comes();
}

#[test]
fn m8_l5_without_leave_nothing_passes_and_the_sender_is_told() {
    let (_folder, server) = server();
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
    let (_folder, server) = server();
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
