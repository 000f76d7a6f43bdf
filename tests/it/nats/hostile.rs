//! M-7, T2: whoever has the server, or a token for it, can neither forge, replay, alter nor read.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use proto::message::MessageState;
use serde_json::json;
use tests::nats::{Raw, Server};
use tests::wait::until_within;

use super::hosts::{Host, RECOVERY_LIMIT, pair, server, talk};

/// What is stored on the server while two hosts say three secrets to each other.
fn heard_on_the_server(server: &Server, a: &mut Host, b: &mut Host) -> Vec<(String, Vec<u8>)> {
    let (to_b, to_a) = (a.address(), b.address());
    let mut raw = Raw::connect(server);
    raw.listen("coordd.v1.*.*.*");
    for it in 0..3 {
        let ids = (a.send(&to_b, &format!("a secret {it}")), b.send(&to_a, "a secret"));
        assert!(a.read_one().text.contains("a secret") && b.read_one().text.contains("a secret"));
        a.wait_for(&ids.0, MessageState::Consumed);
        b.wait_for(&ids.1, MessageState::Consumed);
    }
    let mut heard = Vec::new();
    let rows = |all: &[(String, Vec<u8>)]| all.iter().filter(|it| it.0.contains(".row.")).count();
    // Three words and three statuses each way, and receipts for them.
    while rows(&heard) < 12 {
        let (subject, bytes) = raw.hear();
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        for secret in ["a secret", &a.session, &b.session, a.daemon.work().to_str().unwrap()] {
            assert!(!shown.contains(secret), "{secret} can be read in {subject}");
        }
        heard.push((subject, bytes));
    }
    heard
}

fn counted(host: &mut Host, want: &str) -> u64 {
    let status = host.status();
    let counts = status.refused.iter().chain(&status.passed_over);
    counts.filter(|(reason, _)| reason.contains(want)).map(|(_, count)| count).sum()
}

fn wait_for_count(host: &mut Host, want: &str, least: u64) {
    until_within(RECOVERY_LIMIT, want, || (counted(host, want) >= least).then_some(()));
}

/// Lines in the log of the bridge about one reason.
fn log_lines(host: &Host, want: &str) -> usize {
    let log = std::fs::read_to_string(host.daemon.state().join("bridge.log")).unwrap();
    assert!(!log.contains("a secret"), "{log}");
    let lines = log.lines().filter(|line| line.contains("rejected from outside"));
    lines.filter(|line| line.contains(want)).count()
}

#[test]
fn m7_rel18_a_whole_stream_that_is_played_again_enters_nothing_twice_and_is_counted() {
    let (_folder, server) = server();
    let (mut a, mut b) = pair(&server);
    let heard = heard_on_the_server(&server, &mut a, &mut b);
    let mut raw = Raw::connect(&server);
    for _ in 0..2 {
        for (subject, bytes) in &heard {
            raw.publish(subject, bytes);
        }
    }
    // Backwards too, and after the bridges have died.
    raw.flush();
    for host in [&mut a, &mut b] {
        wait_for_count(host, "it came before", 12);
        host.bridge().kill9();
    }
    for (subject, bytes) in heard.iter().rev() {
        raw.publish(subject, bytes);
    }
    raw.flush();
    for host in [&mut a, &mut b] {
        wait_for_count(host, "it came before", 18);
        assert!(
            (1..=6).contains(&log_lines(host, "it came before")),
            "one line for a power of two"
        );
        host.lead.assert_nothing_comes();
    }
    talk(&mut a, &mut b);
}

#[test]
fn m7_what_is_altered_oversized_or_from_nobody_known_is_refused_counted_and_seen() {
    let (_folder, server) = server();
    let (mut a, mut b) = pair(&server);
    let heard = heard_on_the_server(&server, &mut a, &mut b);
    let own = b.status().own;
    let row = format!("coordd.v1.{own}.row.");
    let (subject, good) = heard.iter().find(|it| it.0.starts_with(&row)).unwrap().clone();
    let mut raw = Raw::connect(&server);
    for at in [4, 40, 80, good.len() - 100, good.len() - 1] {
        let mut altered = good.clone();
        altered[at] ^= 1;
        raw.publish(&subject, &altered);
    }
    raw.publish(&subject, b"garbage");
    raw.publish(&subject, &vec![0; 1_000_000]);
    // Under the name of another sender.
    raw.publish(&format!("{row}aaaaaaaaaaaaaaaa"), &good);
    raw.flush();
    for want in ["the signature is not", "not an envelope", "longer than", "another daemon"] {
        wait_for_count(&mut b, want, 1);
        b.says(want);
        assert!(log_lines(&b, want) >= 1, "{want} is not in the log");
    }
    // What is good still passes, after all of that, and the figures outlive the process.
    let before = counted(&mut b, "longer than");
    b.bridge().kill9();
    talk(&mut a, &mut b);
    assert_eq!(counted(&mut b, "longer than"), before);
    b.lead.assert_nothing_comes();
}

#[test]
fn m7_a_daemon_whose_key_is_not_trusted_is_refused_counted_and_seen() {
    let (_folder, server) = server();
    let (mut a, mut b) = pair(&server);
    // It knows b's key, which is no secret, and says what it likes to where it likes.
    let mut c = Host::start(&[]);
    c.join(&server);
    c.trust(&b, "bee");
    c.allow("bee", &[]);
    let to_b = format!("bridge:{}/{}", b.status().own, b.session);
    let id = c.send(&to_b, "let me in");
    wait_for_count(&mut b, "not trusted", 1);
    b.says("from a key that is not trusted here");
    assert!(log_lines(&b, "not trusted") >= 1);
    talk(&mut a, &mut b);
    assert_eq!(c.receipt(&id).state, MessageState::Accepted, "nobody tells it anything");
    b.lead.assert_nothing_comes();
}

/// A server that answers as one does, and then sends this and goes on for ever. How many have connected is counted.
fn endless(begin: &'static str) -> (String, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("nats://{}", listener.local_addr().unwrap());
    let connected = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&connected);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            count.fetch_add(1, Ordering::SeqCst);
            std::thread::spawn(move || pour(stream, begin));
        }
    });
    (url, connected)
}

fn pour(mut stream: TcpStream, begin: &str) -> Option<()> {
    let info = json!({ "server_id": "x", "server_name": "x", "version": "2.10.0", "proto": 1, "headers": true,
        "max_payload": 1_048_576, "jetstream": true, "host": "127.0.0.1", "port": 4222 });
    stream.write_all(format!("INFO {info}\r\n").as_bytes()).ok()?;
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    lines.find(|line| line.as_ref().map_or(true, |line| line == "PING"))?.ok()?;
    stream.write_all(format!("PONG\r\n{begin}").as_bytes()).ok()?;
    let junk = vec![b'x'; 64 * 1024];
    loop {
        stream.write_all(&junk).ok()?;
    }
}

/// fP22: whatever a server sends without an end, the bridge ends before it has grown large, and another one is started.
#[test]
fn fp22_a_server_that_sends_without_end_makes_nothing_grow() {
    for begin in ["MSG x 1 2000000000\r\n", "MSG ", "INFO {\"server_id\":\""] {
        let (url, connected) = endless(begin);
        let mut host = Host::start(&[]);
        host.join_by(&url);
        let mut most = 0;
        until_within(RECOVERY_LIMIT, "it has connected again", || {
            let all = host.daemon.processes();
            let bridge = all.into_iter().find(|process| process.command.ends_with("coordd-bridge"));
            let kib = bridge.and_then(|process| held_kib(process.pid));
            most = most.max(kib.unwrap_or_default());
            (connected.load(Ordering::SeqCst) >= 2).then_some(())
        });
        assert!((1..300 * 1024).contains(&most), "{begin:?}: {most} KiB");
        // The daemon has noticed nothing of it.
        assert!(host.status().on);
    }
}

/// The most memory that a process has held, while it is there.
fn held_kib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}
