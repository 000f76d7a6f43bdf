//! Two daemons whose bridges are of different builds. The later one says more than the other knows,
//! in fields and in kinds of things (`coordd-bridge`'s feature `skew`): what both know passes in
//! both directions, the rest is refused with a word.

use std::path::Path;

use proto::message::MessageState;
use tests::Sandbox;
use tests::nats::Server;
use tests::wait::until_within;

use super::hosts::{Host, RECOVERY_LIMIT, introduce, server, talk};

/// Puts this build, or a later one, in the place from which the next bridge process is started.
fn put_build(at: &Path, is_later: bool) {
    let bridge = tests::sandbox::program("coordd-bridge");
    let marked = if is_later { "COORDD_TEST_LATER_BUILD=1" } else { "" };
    std::fs::write(at, format!("#!/bin/sh\n{marked} exec {} \"$@\"\n", bridge.display())).unwrap();
}

/// A host with a later build, and where its build can be changed.
fn later_host(server: &Server) -> (Host, std::path::PathBuf) {
    let mut sandbox = Sandbox::new();
    let at = sandbox.write_program("builds/coordd-bridge", "");
    put_build(&at, true);
    sandbox.set("COORDD_BRIDGE", at.to_str().unwrap());
    let host = Host::start_in(sandbox, &[]);
    host.join(server);
    (host, at)
}

#[test]
fn m7_two_builds_exchange_what_both_know_and_refuse_the_rest_with_a_word() {
    let (_folder, server) = server();
    let (mut a, _) = later_host(&server);
    let mut b = Host::start(&[]);
    b.join(&server);
    introduce(&mut a, &mut b);
    for _ in 0..3 {
        talk(&mut a, &mut b);
    }
    let seen = b.far().remove(0);
    assert_eq!((&seen.id, seen.cwd.as_str()), (&a.session, a.daemon.work().to_str().unwrap()));

    let to_b = a.address();
    let id = a.send(&to_b, "look at this (in a later way)");
    let receipt = a.wait_for(&id, MessageState::Bounced);
    assert!(receipt.reason.contains("too old to understand"), "{receipt:?}");
    assert!(a.read_one().text.contains(&id), "its sender is told");
    let id = a.send(&to_b, "and in the old way");
    assert!(b.read_one().text.contains("in the old way"));
    a.wait_for(&id, MessageState::Consumed);
    // Counted: envelopes of an unknown kind and version, a receipt of an unknown kind, the message.
    for want in ["not an envelope of this version", "the body is not understood", "rejected"] {
        b.says(want);
    }
    assert!(b.daemon.coordctl(&["bridge", "letters"]).stdout.contains("too old to understand"));
    b.lead.assert_nothing_comes();
}

#[test]
fn m7_what_a_later_build_wrote_is_read_by_an_older_one_and_back() {
    let (_folder, server) = server();
    let (mut a, at) = later_host(&server);
    let mut b = Host::start(&[]);
    b.join(&server);
    introduce(&mut a, &mut b);
    talk(&mut a, &mut b);
    let folder = a.daemon.state().join("bridge");
    let cursor = || {
        let all = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let mut all =
            all.filter(|it| it.file_name().unwrap().to_str().unwrap().starts_with("from-"));
        std::fs::read_to_string(all.next().unwrap()).unwrap()
    };
    assert!(cursor().contains("of_a_later_build"), "{}", cursor());
    let settings = folder.join("server.toml");
    let text = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, format!("of_a_later_build = true\n{text}")).unwrap();
    for is_later in [false, true, false] {
        put_build(&at, is_later);
        let old = a.bridge();
        old.kill9();
        until_within(RECOVERY_LIMIT, "another bridge runs", || {
            (a.bridge().pid != old.pid).then_some(())
        });
        talk(&mut a, &mut b);
        assert_eq!(cursor().contains("of_a_later_build"), is_later, "{}", cursor());
        a.lead.assert_nothing_comes();
        b.lead.assert_nothing_comes();
    }
}
