//! D-8, D-10, M-4, rel-68, rel-69, rel-81, rel-94, rel-96, cases D9, H5: one that floods, dawdles
//! or hangs costs only itself. What that means for everybody else is measured against the same
//! before, in the same run.

use std::fs;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use proto::Outcome;
use proto::error::ErrorCode;
use proto::message::{Body, SendResult};
use proto::request::Request;
use proto::response::Response;
use rustix::process::Signal;
use serde_json::json;
use tests::agents::Agents;
use tests::client::Codec;
use tests::processes::Process;
use tests::rehearsal::{bash, call, lead, say, script};
use tests::wait::until_within;
use tests::{Client, Daemon, story};

/// How much worse it may get for others. Loose, since the machine may be busy with something else;
/// what is not bounded is worse by far more.
const WORSE_MAX: u32 = 50;
/// And never this long, whatever it was before.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// The floor of a comparison: less than this is noise.
const NOISE: Duration = Duration::from_millis(2);
/// Of the daemon, in kilobytes, at its largest.
const MEMORY_KB_MAX: u64 = 150 * 1024;

/// The slowest but one of some answers to `ping`.
fn answer_time(client: &mut Client) -> Duration {
    let mut times: Vec<_> = (0..20)
        .map(|_| {
            let begun = Instant::now();
            assert_eq!(client.ok(Request::Ping {}), Response::Done {});
            begun.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() - 2]
}

fn assert_no_worse(what: &str, before: Duration, after: Duration) {
    let ratio = after.as_secs_f64() / before.as_secs_f64();
    eprintln!("{what}: {before:?} before, {after:?} meanwhile ({ratio:.1}x)");
    assert!(
        after < before.max(NOISE) * WORSE_MAX && after < ANSWER_LIMIT,
        "{what}: {before:?}, then {after:?}"
    );
}

fn memory_kb(daemon: &Daemon) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim_end_matches("kB").trim().parse().unwrap()
}

fn assert_small(what: &str, daemon: &Daemon) {
    let memory = memory_kb(daemon);
    eprintln!("{what}: at most {} MiB", memory / 1024);
    assert!(memory < MEMORY_KB_MAX, "{what}: {memory} kB");
}

fn text(session: &str, to: &str, text: &str) -> Request {
    let (session, to, body) = (session.to_owned(), to.to_owned(), Body::Text { text: text.into() });
    Request::Send { session, to, body, summary: String::new(), notify_when_idle: false }
}

/// rel-81, D9: 300 that connect and dribble, or say nothing. Who is served is served on, and who
/// comes is let in at once.
#[test]
fn d10_rel81_three_hundred_silent_connections_keep_nobody_waiting() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let before = answer_time(&mut client);
    let mut crowd = Vec::new();
    for number in 0..300 {
        let mut stream = UnixStream::connect(daemon.socket()).unwrap();
        let _refused = stream.write_all(if number % 2 == 0 { b"{" } else { b"" });
        crowd.push(stream);
    }
    assert_no_worse("300 silent connections", before, answer_time(&mut client));
    let mut slowest = Duration::ZERO;
    for codec in Codec::ALL.into_iter().cycle().take(20) {
        for stream in crowd.iter_mut().take(5) {
            let _refused = stream.write_all(b" ");
        }
        let begun = Instant::now();
        assert_eq!(daemon.client_in(codec).ok(Request::Ping {}), Response::Done {});
        slowest = slowest.max(begun.elapsed());
    }
    eprintln!("a new client is served after at most {slowest:?}");
    assert!(slowest < ANSWER_LIMIT, "{slowest:?}");
    assert_small("300 silent connections", &daemon);
    drop(crowd);
    drop(client);
    daemon.stop_and_leave_nothing();
}

/// D-3: whatever is sent in one piece with the hello, the welcome comes first. A refusal that needs
/// no thought, too.
#[test]
fn d3_no_answer_comes_before_the_welcome() {
    let daemon = Daemon::start();
    for round in 0..100 {
        let mut client = Client::open(&daemon.socket(), Codec::Lines);
        client.send_raw(b"{\"hello\":{}}\n{\"call\":{\"id\":1,\"request\":{\"teleport\":{}}}}\n");
        let mut client = client.greeted().unwrap_or_else(|said| panic!("round {round}: {said:?}"));
        let Some(Outcome::Error(error)) = client.reply_within(1, ANSWER_LIMIT) else {
            panic!("granted")
        };
        assert_eq!(error.code, ErrorCode::Malformed);
    }
}

/// rel-68, M-4: one mailbox is flooded. It says so, keeps what it accepted, and everybody else has
/// theirs.
#[test]
fn m4_rel68_a_flood_to_one_mailbox_is_refused_and_hurts_nobody() {
    const SENDS: usize = 10_000;
    const AT_ONCE: usize = 200;
    let (daemon, mut agents) = Agents::start();
    let mut lead = agents.lead(&daemon, "coordinator");
    let session = lead.boot.session.clone();
    let mut flooded = agents.worker(&daemon, &mut lead, "flooded");
    flooded.disconnect();
    let mut other = agents.worker(&daemon, &mut lead, "other");
    let mut bystander = daemon.client();
    let before = answer_time(&mut bystander);
    let (socket, to) = (daemon.socket(), session.clone());
    let flood = std::thread::spawn(move || {
        let mut client = Client::connect(&socket, Codec::Frames);
        let (mut accepted, mut full) = (0, 0);
        for round in 0..SENDS / AT_ONCE {
            let calls: Vec<_> = (0..AT_ONCE)
                .map(|number| {
                    client.start_call(text(&to, "flooded", &format!("{round}/{number}")), None)
                })
                .collect();
            for id in calls {
                match client.reply(id) {
                    Outcome::Ok(response) => match *response {
                        Response::Sent { results } => match &results[..] {
                            [SendResult::Accepted { .. }] => accepted += 1,
                            [SendResult::Refused { reason, .. }] => {
                                assert!(reason.contains("full"), "{reason}");
                                full += 1;
                            }
                            rows => panic!("{rows:?}"),
                        },
                        other => panic!("{other:?}"),
                    },
                    Outcome::Error(error) => {
                        assert_eq!(error.code, ErrorCode::MailboxFull, "{error:?}");
                        full += 1;
                    }
                }
            }
        }
        (accepted, full)
    });
    let mut worst = Duration::ZERO;
    let mut delivered = 0;
    while !flood.is_finished() {
        worst = worst.max(answer_time(&mut bystander));
        let begun = Instant::now();
        bystander.ok(text(&session, "other", "hello"));
        let message = other.deliver();
        worst = worst.max(begun.elapsed());
        other.acknowledge(&[&message.message], 1);
        delivered += 1;
    }
    let (accepted, full) = flood.join().unwrap();
    eprintln!("{accepted} accepted, {full} refused; meanwhile {delivered} delivered to another");
    assert_eq!((accepted, full), (1_000, SENDS - 1_000));
    assert_no_worse("a flood to one mailbox", before, worst);
    flooded.reconnect(&daemon);
    for number in 0..accepted {
        let got = flooded.deliver().text;
        assert!(
            got.contains(&format!("{}/{}", number / AT_ONCE, number % AT_ONCE)),
            "{number}: {got}"
        );
    }
    assert_small("a flood to one mailbox", &daemon);
}

/// rel-69: a viewer is stopped in the middle of much output. The agent works on, others see all of
/// it.
#[test]
fn d8_rel69_a_stopped_viewer_slows_nobody() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let long = "a long answer, in many pieces ".repeat(500);
    let steps: Vec<_> =
        (0..40).map(|_| call(&long, &json!([bash("true")]))).chain([say("Done.")]).collect();
    let mut new = daemon.rehearsal("normal", &script(&json!([lead(&json!(steps))])));
    new.permissions.allow = vec!["Bash".into()];
    let session = client.new_session(new);
    let mut command = daemon.command(tests::sandbox::program("coordctl"));
    command.args(["attach", &session.name]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut viewer = command.spawn().unwrap();
    let stopped = Process::open(viewer.id()).unwrap();
    let before = answer_time(&mut client);
    client.prompt(&session.id, "go");
    let agent = format!("{}/lead", session.name);
    client.agent_until(&agent, "works", |agent| agent.activity.is_some());
    stopped.signal(Signal::STOP);
    let mut worst = Duration::ZERO;
    until_within(Duration::from_secs(30), "the agent is done", || {
        worst = worst.max(answer_time(&mut client));
        (client.agent(&agent).runs == 1).then_some(())
    });
    assert_no_worse("a stopped viewer", before, worst);
    assert_eq!(story::texts(&client.transcript(&agent)).len(), 41);
    assert_small("a stopped viewer", &daemon);
    stopped.kill9();
    viewer.wait().unwrap();
}

/// rel-94, H5: a tool prints 100 MB. The agent reads some of it, and neither memory nor the
/// transcript has the rest.
#[test]
fn rel94_a_hundred_megabytes_of_output_are_bounded() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let steps = json!([
        call(
            "Much.",
            &json!([bash("head -c 100000000 /dev/zero | tr '\\0' x; echo; echo the end")])
        ),
        say("Done.")
    ]);
    let mut new = daemon.rehearsal("normal", &script(&json!([lead(&steps)])));
    new.permissions.allow = vec!["Bash".into()];
    let session = client.new_session(new);
    let before = answer_time(&mut client);
    client.prompt(&session.id, "go");
    let agent = format!("{}/lead", session.name);
    let mut worst = Duration::ZERO;
    let mut largest = 0;
    until_within(Duration::from_mins(1), "the agent is done", || {
        worst = worst.max(answer_time(&mut client));
        let view = client.agent(&agent);
        let status = view.pid.map(|pid| fs::read_to_string(format!("/proc/{pid}/status")));
        let status = status.and_then(Result::ok).unwrap_or_default();
        let own = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        largest = largest.max(own.unwrap_or(0_u64));
        (view.runs == 1).then_some(())
    });
    assert_no_worse("100 MB of output", before, worst);
    assert_small("100 MB of output", &daemon);
    eprintln!("the agent's process: at most {} MiB", largest / 1024);
    assert!(largest < MEMORY_KB_MAX, "the agent's process: {largest} kB");
    let entries = client.transcript(&agent);
    let (result, _) = story::results(&entries)[0];
    assert!(result.len() < 1024 * 1024, "{}", result.len());
    let bytes: u64 = walk(&daemon.state());
    assert!(bytes < 16 << 20, "{bytes} bytes of state");
}

fn walk(folder: &std::path::Path) -> u64 {
    let all = fs::read_dir(folder).into_iter().flatten().flatten();
    all.map(|it| {
        if it.path().is_dir() {
            walk(&it.path())
        } else {
            it.metadata().map_or(0, |metadata| metadata.len())
        }
    })
    .sum()
}
