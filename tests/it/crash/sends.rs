//! M-3: accepted is kept. Numbered messages from several senders to several agents, with kill -9 of
//! everybody.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use proto::request::Request;
use proto::view::{AgentState, AgentView};
use serde_json::json;
use tests::history::{self, History};
use tests::processes::Process;
use tests::rehearsal::{lead, script};
use tests::wait::until_within;
use tests::{Client, Daemon};

use super::{Random, figure, transcript};

const SENDERS: usize = 4;
const RECEIVERS: usize = 4;

/// What was killed.
#[derive(Debug, Default)]
struct Kills {
    daemon: usize,
    senders: usize,
    receivers: usize,
}

struct Sender {
    name: String,
    child: Child,
}

fn start(daemon: &Daemon, name: &str, count: usize, receivers: &[String]) -> Sender {
    let mut command: Command = daemon.command("setpriv");
    command.args(["--pdeathsig", "KILL", env!("CARGO_BIN_EXE_sender")]);
    command
        .arg(daemon.socket())
        .args([name, &count.to_string()])
        .arg(daemon.at(name))
        .args(receivers);
    Sender { name: name.to_owned(), child: command.spawn().unwrap() }
}

/// Kills somebody at random moments until all senders are through.
fn disturb(
    daemon: &mut Daemon,
    senders: &mut [Sender],
    count: usize,
    sessions: &[String],
) -> Kills {
    let (mut random, mut kills) = (Random(3), Kills::default());
    // Longer runs are killed at longer intervals: agents look for a daemon that keeps dying every
    // two seconds only.
    let pause_ms_max = 40 * (count as u64 / 60).max(1);
    // An agent that dies three times in one run has failed, so each dies once in a run.
    let mut died_in = vec![u32::MAX; sessions.len()];
    loop {
        std::thread::sleep(Duration::from_millis(random.below(pause_ms_max)));
        let mut over = true;
        for sender in senders.iter_mut() {
            match sender.child.try_wait().unwrap() {
                None => over = false,
                Some(status) => assert!(status.success(), "{}: {status}", sender.name),
            }
        }
        if over {
            return kills;
        }
        match random.below(4) {
            0 | 1 => {
                daemon.kill9();
                kills.daemon += 1;
                daemon.restart();
            }
            2 => {
                let at = usize::try_from(random.below(senders.len() as u64)).unwrap();
                let sender = &mut senders[at];
                if sender.child.try_wait().unwrap().is_none() {
                    sender.child.kill().unwrap();
                    sender.child.wait().unwrap();
                    kills.senders += 1;
                    *sender = start(daemon, &sender.name.clone(), count, sessions);
                }
            }
            _ => {
                let at = usize::try_from(random.below(sessions.len() as u64)).unwrap();
                let view = lead_of(&mut daemon.client(), &sessions[at]);
                if let Some(process) =
                    view.pid.filter(|_| view.runs != died_in[at]).and_then(Process::open)
                {
                    died_in[at] = view.runs;
                    process.kill9();
                    kills.receivers += 1;
                }
            }
        }
    }
}

fn lead_of(client: &mut Client, session: &str) -> AgentView {
    client.show(session).1.remove(0)
}

/// rel-15, rel-17, rel-18, rel-71, cases A1, A3, A4, A9, A14, A17, A39: none lost, none twice, in
/// order for each pair, none from nowhere.
#[test]
fn m3_rel71_a1_a4_accepted_is_kept_whoever_is_killed() {
    let total = figure("COORDD_TEST_MESSAGES", 1_000);
    let count = total.div_ceil(SENDERS * RECEIVERS);
    let mut daemon = Daemon::start();
    let mut client = daemon.client();
    let sessions: Vec<_> = (0..RECEIVERS)
        .map(|_| {
            client.new_session(daemon.rehearsal("normal", &script(&json!([lead(&json!([]))])))).id
        })
        .collect();
    drop(client);
    let began = Instant::now();
    let mut senders: Vec<_> =
        (0..SENDERS).map(|it| start(&daemon, &format!("s{it}"), count, &sessions)).collect();
    let kills = disturb(&mut daemon, &mut senders, count, &sessions);
    let sent = began.elapsed();
    let mut history = History::default();
    for sender in &senders {
        let notes = std::fs::read_to_string(daemon.at(&sender.name)).unwrap();
        for session in &sessions {
            let accepted = notes.lines().filter(|line| line.starts_with(session.as_str())).count();
            assert_eq!(accepted, count, "{} to {session}", sender.name);
            (1..=count as u64).for_each(|it| history.accepted(&sender.name, session, it));
        }
    }
    let mut client = daemon.client();
    until_within(Duration::from_mins(3), "all receivers have read all and rest", || {
        let views: Vec<_> = sessions.iter().map(|session| lead_of(&mut client, session)).collect();
        views.iter().all(|view| view.mail == 0 && view.state == AgentState::Idle).then_some(())
    });
    for session in &sessions {
        let view = lead_of(&mut client, session);
        history.transcript(session, &transcript(&daemon, &view));
        // What coordd says is what the disk says.
        let said = client.transcript(&view.id);
        assert_eq!(said.len(), history::entries(&transcript(&daemon, &view)).len());
    }
    let faults = history.faults();
    assert!(faults.none(), "{faults}");
    assert!(kills.daemon > 0, "nobody was killed");
    assert_eq!(history.accepted_count(), count * SENDERS * RECEIVERS);
    client.ok(Request::Ping {});
    eprintln!(
        "{} messages in {sent:?}, {kills:?}: 0 lost, 0 doubled, 0 reordered, 0 phantoms",
        history.accepted_count()
    );
}
