//! M-3, M-7, rel-18, rel-72, rel-74, rel-75: accepted is kept between machines, whoever dies and
//! whatever the server loses.

use std::time::{Duration, Instant};

use tests::forwarder::{Forwarder, Way};

use super::hosts::{Host, RECOVERY_LIMIT, folder, introduce, pair, send, server};
use super::soak::Soak;

fn total(default: usize) -> usize {
    std::env::var("COORDD_TEST_MESSAGES").ok().and_then(|it| it.parse().ok()).unwrap_or(default)
}

/// Messages in both directions at once, while server, bridges and daemons are killed: 0 lost, 0
/// doubled, in order.
#[test]
fn m7_rel72_rel75_thousands_of_messages_whoever_is_killed() {
    let (_folder, mut server) = server();
    let (a, b) = pair(&server);
    let mut soak = Soak::of(a, b);
    let (total, began) = (total(2_000), Instant::now());
    let (mut step, mut next_kill) = (0, total / 13);
    while soak.said() < total {
        soak.go_on(50);
        if soak.said() < next_kill {
            continue;
        }
        next_kill += total / 13;
        match step % 6 {
            0 => {
                server.kill9();
                server.restart();
            }
            1 | 2 => soak.hosts[step % 2].bridge().kill9(),
            3 | 4 => {
                let host = &mut soak.hosts[step % 2];
                host.daemon.kill9();
                host.daemon.restart();
                host.meet_again();
            }
            _ => {
                server.copy_store("copy");
                soak.go_on(20);
                server.kill9();
                server.roll_back("copy");
                server.restart();
            }
        }
        step += 1;
    }
    soak.finish();
    assert!(step > 5, "nobody was killed");
    let took = began.elapsed();
    eprintln!("{} messages in {took:?}, {step} kills: 0 lost, 0 doubled, in order", soak.said());
}

/// A link that delays, falls silent with its connections open, and breaks, for either side in turn.
#[test]
fn m7_rel74_a_link_that_delays_falls_silent_and_breaks() {
    let (_folder, server) = server();
    let links = [0, 1].map(|_| Forwarder::to(&server.address()));
    let (mut a, mut b) = (Host::start(&[]), Host::start(&[]));
    for (host, link) in [(&a, &links[0]), (&b, &links[1])] {
        host.join_by(&link.url());
    }
    introduce(&mut a, &mut b);
    let mut soak = Soak::of(a, b);
    let slow = Way::Open { delay: Duration::from_millis(30) };
    let good = Way::Open { delay: Duration::ZERO };
    for (at, way) in [
        (0, slow),
        (1, slow),
        (0, Way::Broken),
        (1, Way::Silent),
        (0, Way::Silent),
        (1, Way::Broken),
    ] {
        links[at].turn(way);
        let until = soak.said() + 60;
        while soak.said() < until {
            soak.go_on(10);
        }
        if way == Way::Silent {
            // Its connection is open and answers nothing: that is found out, and said.
            soak.hosts[at].says("not reachable");
        }
        links[at].turn(good);
    }
    soak.finish();
}

#[test]
fn rel75_a_server_that_comes_back_without_its_store_loses_nothing_for_good() {
    let (_folder, mut server) = server();
    let (a, b) = pair(&server);
    let mut soak = Soak::of(a, b);
    soak.say(0, 10);
    soak.finish();
    // The receiver is away; what the server took for it is lost, and the receiver's position with
    // it.
    soak.hosts[1].daemon.kill9();
    server.copy_store("old");
    soak.say(0, 20);
    tests::wait::until_within(RECOVERY_LIMIT, "the server has it", || {
        (soak.hosts[0].status().rows == 20).then_some(())
    });
    server.kill9();
    server.lose_store();
    server.restart();
    soak.hosts[1].daemon.restart();
    soak.hosts[1].meet_again();
    soak.say(0, 5);
    soak.finish();
    // An older store, in which the receiver has not read what it has.
    server.kill9();
    server.roll_back("old");
    server.restart();
    soak.say(0, 5);
    soak.finish();
}

/// Local life goes on: the same work takes as long without a bridge, with one, with a server that
/// is stalled, and with none.
#[test]
fn rel74_whatever_the_server_does_local_messages_are_as_fast_and_the_outbox_ends_with_a_word() {
    let folder = folder();
    let mut server = tests::nats::Server::start(&folder.path().join("server"));
    let (mut a, mut b) = (Host::start(&[]), Host::start(&[]));
    let local = format!("bridge:{}", a.session);
    let measure = |a: &mut Host| {
        let began = Instant::now();
        for it in 0..200 {
            a.client.ok(send(&local, &format!("local {it}")));
            assert!(a.read_one().text.contains("local"));
        }
        began.elapsed()
    };
    let without = measure(&mut a);
    a.join(&server);
    b.join(&server);
    introduce(&mut a, &mut b);
    let to_b = a.address();
    let with = measure(&mut a);
    server.stall();
    for _ in 0..100 {
        a.send(&to_b, "x");
    }
    let stalled = measure(&mut a);
    server.go_on();
    server.kill9();
    let mut accepted = 0;
    let denied = loop {
        match a.lead.client.call(send(&to_b, "x")) {
            proto::Outcome::Ok(_) => accepted += 1,
            proto::Outcome::Error(error) => break error,
        }
        assert!(accepted <= 2_000, "without bound");
    };
    assert!(denied.message.contains("on their way to other machines"), "{denied:?}");
    let full = measure(&mut a);
    for (what, it) in [("with one", with), ("stalled", stalled), ("gone, outbox full", full)] {
        assert!(it < without * 3, "{what}: {it:?}, without a bridge {without:?}");
        let ratio = it.as_secs_f64() / without.as_secs_f64();
        eprintln!("200 local messages, {what}: {it:?}, {ratio:.2} of the time without a bridge");
    }
}

/// A bridge that ends again and again is started less and less often, and it is said.
#[test]
fn rel74_a_bridge_that_dies_again_and_again_is_started_less_and_less_often() {
    let (_folder, server) = server();
    let (mut a, mut b) = pair(&server);
    let mut last = 0;
    let mut waits = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        let bridge = tests::wait::until_within(RECOVERY_LIMIT, "another bridge", || {
            Some(a.bridge()).filter(|it| it.pid != last)
        });
        waits.push(began.elapsed());
        last = bridge.pid;
        bridge.kill9();
    }
    assert!(waits[4] > Duration::from_secs(1) && waits[4] > waits[2], "{waits:?}");
    a.says("signal: 9");
    a.says("restarted within");
    super::hosts::talk(&mut a, &mut b);
}
