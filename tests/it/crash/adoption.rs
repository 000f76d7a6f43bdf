//! D-6: agents outlive the daemon, and the next one adopts them all.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use proto::entry::What;
use proto::error::ErrorCode;
use proto::request::Request;
use proto::response::Response;
use proto::view::{AgentState, AgentView};
use rustix::process::Signal;
use serde_json::json;
use tests::agents::{Agents, credentials};
use tests::kept::Kept;
use tests::processes::Process;
use tests::rehearsal::{self, bash, call, lead, say, script, start, worker};
use tests::stubborn::Stubborn;
use tests::wait::{until, until_within};
use tests::{Client, Codec, Daemon, Sandbox, story};

use super::{Random, figure, transcript, with_failpoint};

/// Counts in a file of its own until it is told to end. Each line names the shell, so that a second
/// copy shows.
const COUNT: &str = "n=0; until test -e enough; do n=$((n+1)); echo \"$n $$\" >>count-$COORDD_AGENT; \
                     read -t 0.03 <>wait; done; echo counted to $n";

/// A session whose workers count. Returns its id, and the lead with its workers once all of them
/// do.
fn counters(daemon: &Daemon, count: usize) -> (String, Vec<AgentView>) {
    let names: Vec<_> = (1..=count).map(|it| format!("c{it}")).collect();
    let starts: Vec<_> = names.iter().map(|name| start(name, "count")).collect();
    let lead_steps =
        json!([call("All count.", &json!(starts)), { "needs": names, "text": "All are done." }]);
    let mut tool = bash(COUNT);
    tool["input"]["timeout"] = json!(600_000);
    let steps = json!([call("I count.", &json!([tool])), say("Counted.")]);
    let mut new =
        daemon.rehearsal("coordinator", &script(&json!([lead(&lead_steps), worker(&steps)])));
    new.permissions.allow = vec!["Bash".into()];
    new.workers = u32::try_from(count).unwrap();
    new.prompt = "go".into();
    let made = daemon.shell("mkfifo wait");
    assert_eq!(made.code, 0, "{made:?}");
    let mut client = daemon.client();
    let session = client.new_session(new).id;
    until_within(Duration::from_mins(1), "all workers count", || {
        let counting = names.iter().all(|name| daemon.at(&format!("w/count-{name}")).exists());
        let agents = client.show(&session).1;
        (counting && agents.len() == count + 1).then_some(())
    });
    let agents = connected(&mut client, &session, count + 1);
    (session, agents)
}

/// All agents, once all of them are connected.
fn connected(client: &mut Client, session: &str, count: usize) -> Vec<AgentView> {
    until("all agents are connected", || {
        let agents = client.show(session).1;
        let back = |it: &AgentView| matches!(it.state, AgentState::Running | AgentState::Idle);
        (agents.len() == count && agents.iter().all(back)).then_some(agents)
    })
}

/// Which process is whose.
fn processes(agents: &[AgentView]) -> BTreeMap<String, (Option<u32>, u32)> {
    agents.iter().map(|agent| (agent.name.clone(), (agent.pid, agent.incarnation))).collect()
}

/// Each counter has gone on without a gap, in one shell. Returns how far they are.
fn assert_no_gap(daemon: &Daemon, agents: &[AgentView]) -> Vec<u64> {
    let workers = agents.iter().filter(|agent| agent.name != "lead");
    workers
        .map(|worker| {
            let text = fs::read_to_string(daemon.at(&format!("w/count-{}", worker.name))).unwrap();
            let lines = text.split_inclusive('\n').filter(|it| it.ends_with('\n'));
            let lines: Vec<_> = lines.map(|line| line.trim().split_once(' ').unwrap()).collect();
            for (at, (number, shell)) in lines.iter().enumerate() {
                assert_eq!(number.parse(), Ok(at + 1), "{}: a gap or a second copy", worker.name);
                assert_eq!(*shell, lines[0].1, "{}: another shell", worker.name);
            }
            lines.len() as u64
        })
        .collect()
}

/// Lets them come to their end, which the lead must be told once for each.
fn finish(daemon: &Daemon, session: &str, before: &[AgentView]) {
    daemon.write("w/enough", "");
    let mut client = daemon.client();
    let lead = &before[0].id;
    until_within(Duration::from_mins(1), "the lead has read of all of them and rests", || {
        let view = client.agent(lead);
        let entries = client.transcript(lead);
        let read = story::notifications(&entries).len() >= before.len() - 1;
        let rests = matches!(entries.last().map(|entry| &entry.what), Some(What::RunEnded { .. }));
        (read && rests && view.mail == 0).then_some(())
    });
    let entries = client.transcript(lead);
    let told = story::notifications(&entries);
    let ids: BTreeSet<_> = told.iter().map(|it| it.0).collect();
    assert_eq!((told.len(), ids.len()), (before.len() - 1, before.len() - 1), "once for each");
    let agents = client.show(session).1;
    for worker in agents.iter().filter(|agent| agent.name != "lead") {
        assert_eq!((worker.runs, worker.incarnation), (1, 1), "{worker:?}");
    }
}

/// rel-24, case D1: again and again, and every agent is adopted, with its tools going on.
#[test]
fn d6_rel24_d1_every_agent_is_adopted_after_each_kill() {
    let (count, kills) = (figure("COORDD_TEST_AGENTS", 10), figure("COORDD_TEST_KILLS", 20));
    let mut daemon = Daemon::start();
    let (session, before) = counters(&daemon, count);
    let mut random = Random(24);
    let mut slowest = Duration::ZERO;
    for _ in 0..kills {
        // At any moment: in the middle of reports, or of the adoption after the last one.
        std::thread::sleep(Duration::from_millis(random.below(60)));
        daemon.kill9();
        let began = Instant::now();
        daemon.restart();
        if random.below(3) > 0 {
            let agents = connected(&mut daemon.client(), &session, count + 1);
            assert_eq!(processes(&agents), processes(&before), "the same processes");
            slowest = slowest.max(began.elapsed());
        }
    }
    let agents = connected(&mut daemon.client(), &session, count + 1);
    assert_eq!(processes(&agents), processes(&before), "the same processes");
    let reached = assert_no_gap(&daemon, &agents);
    finish(&daemon, &session, &before);
    assert_no_gap(&daemon, &before);
    eprintln!(
        "{kills} kills x {count} workers: all adopted each time, slowest {slowest:?} after the kill; \
         counters at {:?} to {:?} without a gap",
        reached.iter().min().unwrap(),
        reached.iter().max().unwrap()
    );
}

/// rel-24, rel-57, case D5: what a person does on purpose; the program may be another one
/// afterwards.
#[test]
fn d6_rel57_d5_a_restart_and_a_replaced_program_leave_agents_running() {
    let mut sandbox = Sandbox::new();
    fs::create_dir(sandbox.at("bin")).unwrap();
    let copy = |name: &str| {
        // Written beside it and renamed, as installers do.
        let (new, to) = (sandbox.at("bin/new"), sandbox.at("bin").join(name));
        fs::copy(tests::sandbox::program(name), &new).unwrap();
        fs::rename(&new, &to).unwrap();
        to
    };
    let coordd = copy("coordd");
    copy("coordd-worker");
    sandbox.set("COORDD_BIN", coordd.to_str().unwrap());
    assert_eq!(sandbox.coordctl(&["daemon", "start"]).code, 0);
    let steps = json!([call("I count.", &json!([bash(COUNT)])), say("Counted.")]);
    assert_eq!(sandbox.shell("mkfifo wait").code, 0);
    let mut new = rehearsal::session(&sandbox, "normal", &script(&json!([lead(&steps)])));
    new.permissions.allow = vec!["Bash".into()];
    new.prompt = "go".into();
    let session = Client::connect(&sandbox.socket(), Codec::Frames).new_session(new).id;
    until("it counts", || sandbox.at("w/count-lead").exists().then_some(()));
    let status = |sandbox: &Sandbox| {
        let status = sandbox.coordctl_json(&["daemon", "status"]);
        let pid = status["daemon"]["daemon"]["pid"].as_u64().unwrap();
        (pid, fs::read_link(format!("/proc/{pid}/exe")).unwrap())
    };
    let (mut pid, _) = status(&sandbox);
    let before = connected(&mut Client::connect(&sandbox.socket(), Codec::Frames), &session, 1);
    for replaced in [false, true, true] {
        if replaced {
            fs::copy(tests::sandbox::program("coordd"), sandbox.at("bin/new")).unwrap();
            fs::rename(sandbox.at("bin/new"), &coordd).unwrap();
        }
        let ran = sandbox.coordctl(&["daemon", "restart"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let (now, program) = status(&sandbox);
        assert_ne!(now, pid, "another daemon");
        assert_eq!(program, coordd, "the program that is there now");
        pid = now;
        let agents = connected(&mut Client::connect(&sandbox.socket(), Codec::Frames), &session, 1);
        assert_eq!(processes(&agents), processes(&before));
    }
    sandbox.write("w/enough", "");
    let mut client = Client::connect(&sandbox.socket(), Codec::Frames);
    let lead = client.agent_until(&before[0].id, "has ended its run", |agent| agent.runs == 1);
    let said = client.transcript(&lead.id);
    assert_eq!(story::texts(&said), ["I count.", "Counted."]);
    assert_eq!(sandbox.coordctl(&["daemon", "stop"]).code, 0);
    sandbox.assert_nothing_runs();
}

/// rel-31, case B1: they end, and their processes too, while nobody is there to be told.
#[test]
fn d6_rel31_what_ended_while_no_daemon_ran_is_told_once() {
    let mut daemon = Daemon::start();
    let (session, before) = counters(&daemon, 5);
    let ended = |daemon: &Daemon, agent: &AgentView| {
        let entries = tests::history::entries(&transcript(daemon, agent));
        matches!(entries.last().map(|entry| &entry.what), Some(What::RunEnded { .. }))
    };
    daemon.kill9();
    daemon.write("w/enough", "");
    until("all workers have ended their runs", || {
        before[1..].iter().all(|it| ended(&daemon, it)).then_some(())
    });
    // Two of them do not live to see the next daemon.
    for worker in &before[1..3] {
        Process::open(worker.pid.unwrap()).unwrap().kill9();
    }
    daemon.restart();
    finish(&daemon, &session, &before);
    daemon.kill9();
    daemon.restart();
    finish(&daemon, &session, &before);
}

/// rel-49, rel-51, case D14: the stopped and the dead hold up nobody.
#[test]
fn d6_rel49_d14_adoption_is_parallel() {
    let mut daemon = Daemon::start();
    let (session, before) = counters(&daemon, 20);
    daemon.kill9();
    let of = |at: usize| Process::open(before[at].pid.unwrap()).unwrap();
    let (stopped, dead) = (1..=5, 6..=10);
    stopped.clone().for_each(|at| of(at).signal(Signal::STOP));
    dead.clone().for_each(|at| of(at).kill9());
    let began = Instant::now();
    daemon.restart();
    let ready = began.elapsed();
    assert!(ready < Duration::from_secs(1), "ready after {ready:?}");
    let mut client = daemon.client();
    until("the others are back", || {
        let agents = client.show(&session).1;
        let back = |it: &AgentView| it.state == AgentState::Running;
        (agents[11..].iter().all(back)).then_some(())
    });
    let served = began.elapsed();
    // coordctl too is answered at once, whoever hangs.
    let status = Instant::now();
    assert_eq!(daemon.coordctl(&["status", &session]).code, 0);
    assert!(status.elapsed() < Duration::from_secs(1), "{:?}", status.elapsed());
    let agents = client.show(&session).1;
    for at in stopped.clone() {
        assert_eq!(agents[at].state, AgentState::Starting, "expected back: {:?}", agents[at]);
        assert_eq!(agents[at].incarnation, 1, "a process that lives is not replaced");
    }
    // They go on in their runs, and may have come to an end already: nobody knows what became of
    // the call that they were in.
    until("the dead are replaced", || {
        let agents = client.show(&session).1;
        dead.clone().all(|at| agents[at].incarnation == 2).then_some(())
    });
    // One that goes on is adopted as if nothing had been.
    stopped.clone().for_each(|at| of(at).signal(Signal::CONT));
    until("those that went on are back", || {
        let agents = client.show(&session).1;
        let back = |at: usize| {
            let (it, was) = (&agents[at], &before[at]);
            it.state == AgentState::Running && (it.pid, it.incarnation) == (was.pid, 1)
        };
        stopped.clone().chain(11..=20).all(back).then_some(())
    });
    assert!(served < Duration::from_secs(3), "served after {served:?}");
    eprintln!(
        "20 agents, 5 stopped, 5 dead: ready after {ready:?}, the others served after {served:?}"
    );
}

/// rel-50, cases A33 and G9: an agent is who its secret says, in its present incarnation alone.
#[test]
fn d6_rel50_a33_credentials_of_another_are_refused() {
    let (mut daemon, mut agents) = Agents::start();
    let mut lead = agents.lead(&daemon, "coordinator");
    let mut one = agents.worker(&daemon, &mut lead, "one");
    let two = agents.worker(&daemon, &mut lead, "two");
    for round in 0..2 {
        let own = credentials(&one.boot, one.pid);
        let other = credentials(&two.boot, two.pid);
        let mut forged = Vec::new();
        let mut change = |what: &dyn Fn(&mut proto::hello::Credentials)| {
            let mut it = own.clone();
            what(&mut it);
            forged.push(it);
        };
        change(&|it| it.token.clone_from(&other.token));
        change(&|it| it.agent.clone_from(&other.agent));
        change(&|it| it.agent = "a0000000000000000".into());
        change(&|it| it.token = String::new());
        change(&|it| it.token = own.token[..own.token.len() - 1].to_owned());
        change(&|it| it.incarnation += 1);
        change(&|it| it.incarnation = 0);
        for credentials in forged {
            let error =
                Client::connect_as(&daemon.socket(), Codec::Frames, credentials).unwrap_err();
            assert_eq!(error.code, ErrorCode::BadCredentials);
        }
        // The true one did not notice.
        assert_eq!(one.client.ok(Request::Ping {}), Response::Done {});
        if round == 0 {
            daemon.kill9();
            daemon.restart();
            one.reconnect(&daemon);
        }
    }
    // An incarnation that is over is nobody.
    let old = credentials(&one.boot, one.pid);
    one.exit();
    let again = agents.next(&daemon);
    assert_eq!((&again.boot.agent, again.boot.incarnation), (&old.agent, 2));
    let error = Client::connect_as(&daemon.socket(), Codec::Frames, old).unwrap_err();
    assert_eq!(error.code, ErrorCode::BadCredentials);
}

/// A session whose lead waits in a tool, under a daemon that has this failpoint.
fn under(point: &str) -> (Kept, Stubborn, String) {
    let sandbox = Sandbox::new();
    let script = script(&json!([lead(&json!([
        call(
            "I wait.",
            &json!([bash("touch reached; until test -e enough; do read -t 0.02 <>wait; done")])
        ),
        say("Waited.")
    ]))]));
    assert_eq!(sandbox.shell("mkfifo wait").code, 0);
    let mut new = rehearsal::session(&sandbox, "normal", &script);
    let kept = Kept::start(sandbox, with_failpoint(point));
    new.permissions.allow = vec!["Bash".into()];
    new.prompt = "go".into();
    let mut client = Stubborn::new(&kept.socket());
    let request = Request::SessionNew { session: Box::new(new) };
    let session = match client.ok(&request, Some("new")) {
        Response::Session { session } => session.id,
        other => panic!("{other:?}"),
    };
    (kept, client, session)
}

/// The lead, once it waits in its tool, has its process in the records, and is connected.
fn waiting_lead(kept: &Kept, client: &mut Stubborn, session: &str) -> AgentView {
    until("the lead waits in its tool", || {
        let lead = super::agents(client, session).remove(0);
        let waits = lead.state == AgentState::Running && lead.pid.is_some();
        (waits && kept.at("w/reached").exists()).then_some(lead)
    })
}

/// Processes that are an agent's own, not a tool's.
fn workers(kept: &Kept) -> Vec<u32> {
    let is_worker = |it: &Process| it.command.ends_with("coordd-worker");
    kept.processes()
        .iter()
        .filter(|process| is_worker(process))
        .map(|process| process.pid)
        .collect()
}

/// rel-56, case D11: the daemon dies between the start of a process and the record of it. A process
/// without its bootstrap ends by itself, and one is started in its place.
#[test]
fn d6_rel56_d11_a_process_that_no_record_names_is_not_doubled() {
    let (mut kept, mut client, session) = under("after-spawn=abort@1");
    let lead = waiting_lead(&kept, &mut client, &session);
    assert_eq!(workers(&kept), [lead.pid.unwrap()], "one process, the one that is recorded");
    kept.write("w/enough", "");
    until("its run has ended", || {
        (super::agents(&mut client, &session)[0].runs == 1).then_some(())
    });
    let said = tests::history::entries(&transcript(&kept, &lead));
    assert_eq!(story::texts(&said), ["I wait.", "Waited."]);
    assert_eq!(kept.end(), 1, "the failpoint was reached");
}

/// rel-56, case D11: the same where the process has all that it needs. It is adopted, its end is
/// seen, and it can be ended.
#[test]
fn d6_rel56_d11_a_process_that_no_record_names_is_adopted() {
    let (mut kept, mut client, session) = under("spawned-report=skip@1");
    let pid = until("it waits in its tool", || {
        let found = workers(&kept);
        (found.len() == 1 && kept.at("w/reached").exists()).then(|| found[0])
    });
    assert_eq!(super::agents(&mut client, &session)[0].pid, None, "no record names it");
    let daemon =
        kept.processes().into_iter().find(|process| process.command.ends_with("--foreground"));
    daemon.expect("the daemon").kill9();
    let lead = waiting_lead(&kept, &mut client, &session);
    assert_eq!((lead.pid, lead.incarnation), (Some(pid), 1), "adopted, and written down");
    assert_eq!(workers(&kept), [pid]);
    // Its end is seen.
    Process::open(pid).unwrap().kill9();
    until("it is replaced", || {
        let lead = super::agents(&mut client, &session).remove(0);
        (lead.incarnation == 2).then_some(())
    });
    // Nothing of it is left after a stop.
    client.ok(&Request::SessionStop { session: session.clone() }, None);
    assert!(workers(&kept).is_empty());
    assert_eq!(kept.end(), 1);
}

/// W-6, case D11: a stop that comes while a process is being started. When it is answered, nothing
/// runs.
#[test]
fn w6_d11_a_stop_in_the_middle_of_a_start_leaves_nothing() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let script = script(&json!([lead(&json!([say("Here.")]))]));
    let is_worker = |it: &Process| it.command.ends_with("coordd-worker");
    for round in 0..20 {
        let mut new = daemon.rehearsal("normal", &script);
        new.prompt = "go".into();
        let session = client.new_session(new).id;
        std::thread::sleep(Duration::from_millis(round / 2));
        client.ok(Request::SessionStop { session });
        let left: Vec<_> = daemon.processes().into_iter().filter(is_worker).collect();
        assert!(left.is_empty(), "round {round}: {left:?}");
    }
}
