//! M-3, M-7, rel-18, rel-72, rel-74, rel-75: accepted is kept between machines, whoever dies and whatever the server loses.

use std::time::{Duration, Instant};

use proto::message::MessageState;
use tests::nats::Server;
use tests::processes;

use super::hosts::{Host, RECOVERY_LIMIT, pair};

/// Numbers that the one said and the other read.
#[derive(Default)]
struct Said {
    next: u64,
    ids: Vec<String>,
    got: Vec<u64>,
}

impl Said {
    /// Says more, as far as it is accepted.
    fn say(&mut self, from: &mut Host, to: &str, count: u64) {
        for _ in 0..count {
            let Some(id) = from.try_send(to, &format!("[[{}]]", self.next)) else { return };
            self.ids.push(id);
            self.next += 1;
        }
    }

    /// Reads what comes within a time.
    fn hear(&mut self, at: &mut Host, within: Duration) -> bool {
        let mut any = false;
        for it in at.read(within) {
            let number = it.text.split("[[").nth(1).and_then(|it| it.split("]]").next());
            self.got.push(number.expect("a number").parse().unwrap());
            any = true;
        }
        any
    }

    /// Everything arrives, once and in order, and its sender knows.
    fn finish(&mut self, from: &mut Host, at: &mut Host) {
        let mut last = Instant::now();
        while self.got.len() < self.ids.len() {
            if self.hear(at, Duration::from_millis(500)) {
                last = Instant::now();
            }
            assert!(
                last.elapsed() < RECOVERY_LIMIT * 2,
                "{} of {}",
                self.got.len(),
                self.ids.len()
            );
        }
        let want: Vec<_> = (0..self.next).collect();
        assert_eq!(self.got, want, "lost, doubled or out of order");
        // However long it takes in all, it goes on.
        let mut open = self.ids.clone();
        let mut last = Instant::now();
        while !open.is_empty() {
            let before = open.len();
            open.retain(|id| from.receipt(id).state != MessageState::Consumed);
            if open.len() < before {
                last = Instant::now();
            }
            assert!(
                last.elapsed() < RECOVERY_LIMIT * 2,
                "{open:?} are not told of as read; {:?}, {:?}",
                from.status(),
                at.status()
            );
        }
        at.lead.assert_nothing_comes();
    }
}

fn bridge_of(host: &Host) -> processes::Process {
    let all = host.daemon.processes();
    all.into_iter().find(|it| it.command.ends_with("coordd-bridge")).expect("a bridge runs")
}

fn total(default: u64) -> u64 {
    std::env::var("COORDD_TEST_MESSAGES").ok().and_then(|it| it.parse().ok()).unwrap_or(default)
}

/// 10,000 messages, while server, bridges and daemons are killed: 0 lost, 0 doubled, in order.
#[test]
fn m7_rel72_rel75_ten_thousand_messages_whoever_is_killed() {
    let folder = tempfile::Builder::new().prefix("cn.").tempdir_in("/tmp").unwrap();
    let mut server = Server::start(folder.path());
    let (mut a, mut b) = pair(&server);
    let to_b = a.address();
    b.address();
    let (mut said, total) = (Said::default(), total(10_000));
    let (mut step, began) = (0, Instant::now());
    let mut next_kill = total / 12;
    while said.next < total {
        let room = 500_u64.saturating_sub(said.next - said.got.len() as u64);
        said.say(&mut a, &to_b, room.min(total - said.next).min(50));
        while said.hear(&mut b, Duration::from_millis(if room == 0 { 200 } else { 1 })) {}
        if said.next < next_kill {
            continue;
        }
        next_kill += total / 12;
        match step % 6 {
            0 => server.kill9(),
            1 => bridge_of(&a).kill9(),
            2 => bridge_of(&b).kill9(),
            3 => b.daemon.kill9(),
            4 => a.daemon.kill9(),
            _ => server.copy_store("copy"),
        }
        match step % 6 {
            0 => server.restart(),
            3 => {
                b.daemon.restart();
                b.meet_again();
            }
            4 => {
                a.daemon.restart();
                a.meet_again();
            }
            5 => {
                server.kill9();
                server.roll_back("copy");
                server.restart();
            }
            _ => {}
        }
        step += 1;
    }
    said.finish(&mut a, &mut b);
    assert!(step > 5, "nobody was killed");
    eprintln!(
        "{total} messages in {:?}, {step} kills: 0 lost, 0 doubled, in order",
        began.elapsed()
    );
}

#[test]
fn rel75_a_server_that_comes_back_without_its_store_loses_nothing_for_good() {
    let folder = tempfile::Builder::new().prefix("cn.").tempdir_in("/tmp").unwrap();
    let mut server = Server::start(folder.path());
    let (mut a, mut b) = pair(&server);
    let to_b = a.address();
    b.address();
    let mut said = Said::default();
    said.say(&mut a, &to_b, 10);
    said.finish(&mut a, &mut b);
    // The receiver is away; what the server took for it is lost, and the receiver's position with it.
    b.daemon.kill9();
    server.copy_store("old");
    said.say(&mut a, &to_b, 20);
    tests::wait::until_within(RECOVERY_LIMIT, "the server has it", || {
        (a.status().rows == 20).then_some(())
    });
    server.kill9();
    server.lose_store();
    server.restart();
    b.daemon.restart();
    b.meet_again();
    said.say(&mut a, &to_b, 5);
    said.finish(&mut a, &mut b);
    // An older store, in which the receiver has not read what it has.
    server.kill9();
    server.roll_back("old");
    server.restart();
    said.say(&mut a, &to_b, 5);
    said.finish(&mut a, &mut b);
}

/// Local life goes on: the same work with the server gone takes as long as with it there.
#[test]
fn rel74_without_a_server_local_messages_are_as_fast_and_the_outbox_ends_with_a_word() {
    let folder = tempfile::Builder::new().prefix("cn.").tempdir_in("/tmp").unwrap();
    let mut server = Server::start(folder.path());
    let (mut a, b) = pair(&server);
    let to_b = a.address();
    let local = format!("bridge:{}", a.session);
    let measure = |a: &mut Host| {
        let began = Instant::now();
        for it in 0..200 {
            a.client.ok(super::hosts::send(&local, &format!("local {it}")));
            assert!(a.read_one().text.contains("local"));
        }
        began.elapsed()
    };
    let with = measure(&mut a);
    server.kill9();
    let mut accepted = 0;
    let denied = loop {
        match a.lead.client.call(super::hosts::send(&to_b, "x")) {
            proto::Outcome::Ok(_) => accepted += 1,
            proto::Outcome::Error(error) => break error,
        }
        assert!(accepted <= 2_000, "without bound");
    };
    assert!(denied.message.contains("on their way to other machines"), "{denied:?}");
    let without = measure(&mut a);
    assert!(without < with * 3, "{with:?} with the server, {without:?} without");
    eprintln!("{with:?} with the server, {without:?} without, {accepted} messages wait");
    drop(b);
}
