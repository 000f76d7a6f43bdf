//! N-4: one notification for each run, with whoever dying between "finished" and "in the lead's
//! conversation".

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

use proto::entry::{Entry, What};
use proto::view::AgentState;
use rustix::process::Signal;
use serde_json::json;
use tests::processes::Process;
use tests::rehearsal::{bash, call, lead, say, script, start, worker};
use tests::wait::{until, until_within};
use tests::{Client, Daemon, story};

/// The lead's transcript once it has said its last word and rests.
fn ended(client: &mut Client, session: &str) -> Vec<Entry> {
    until_within(Duration::from_secs(30), "the lead has read the notification and rests", || {
        let agents = client.show(session).1;
        // One that died with nothing left to do is not started again.
        let rests = matches!(agents[0].state, AgentState::Idle | AgentState::Stopped);
        let entries = client.transcript(&agents[0].id);
        let told = !story::notifications(&entries).is_empty();
        let over = matches!(entries.last().map(|entry| &entry.what), Some(What::RunEnded { .. }));
        let read = agents[0].mail == 0
            && agents[1..].iter().all(|agent| agent.state == AgentState::Stopped);
        (rests && told && over && read).then_some(entries)
    })
}

/// One worker with two steps and its lead, one of which has this failpoint.
fn dies(point: &str) {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let lead_steps = json!([
        call("I send one.", &json!([start("w", "do it")])),
        { "needs": ["w"], "text": "It says: {{result:w}}" }
    ]);
    let steps = json!([call("First.", &json!([bash("echo x >>did")])), say("Once.")]);
    let mut new =
        daemon.rehearsal("coordinator", &script(&json!([lead(&lead_steps), worker(&steps)])));
    new.env.insert("COORDD_AGENT_FAILPOINT".into(), point.into());
    new.permissions.allow = vec!["Bash".into()];
    new.prompt = "go".into();
    let session = client.new_session(new).id;
    let entries = ended(&mut client, &session);
    let agents = client.show(&session).1;
    let of = |name: &str| agents.iter().find(|agent| agent.name == name).unwrap();
    until(&format!("{point} is reached, once"), || {
        (daemon.log_text().matches("how=\"signal 9\"").count() == 1).then_some(())
    });
    assert_eq!(story::notifications(&entries).len(), 1, "{point}");
    assert_eq!(story::notifications(&entries)[0].2.matches("<result>Once.</result>").count(), 1);
    assert_eq!(story::count_inputs(&entries, "go"), 1, "{point}: the prompt");
    assert_eq!(story::calls(&entries), ["Agent"], "{point}: one call");
    assert_eq!(
        story::texts(&entries).iter().filter(|it| **it == "It says: Once.").count(),
        1,
        "{point}"
    );
    let own = client.transcript(&of("w").id);
    assert_eq!((story::inputs(&own).len(), of("w").runs), (1, 1), "{point}");
    assert_eq!(story::texts(&own), ["First.", "Once."], "{point}");
    let did = std::fs::read_to_string(daemon.at("w/did")).unwrap();
    assert_eq!(did, "x\n", "{point}: the tool ran once");
}

#[test]
fn n4_rel31_the_worker_dies_at_each_point() {
    for point in [
        "w/1:after-transcript=abort@1",
        "w/1:after-outcome-file=abort@1",
        "w/1:after-run-closed=abort@1",
        "w/1:after-run-ended=abort@1",
    ] {
        dies(point);
    }
}

/// The notification is the second thing that enters the lead's conversation.
#[test]
fn n4_rel17_the_lead_dies_at_each_point() {
    for point in [
        "lead/1:after-transcript=abort@1",
        "lead/1:after-transcript=abort@2",
        "lead/1:after-outcome-file=abort@1",
        "lead/1:after-run-closed=abort@1",
        "lead/1:after-run-ended=abort@1",
        "lead/1:after-run-ended=abort@2",
    ] {
        dies(point);
    }
}

/// Case B1: 50 workers end in the same instant, while the lead is busy.
#[test]
fn n4_b1_fifty_that_end_at_once_are_fifty_notifications() {
    const WORKERS: u32 = 50;
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let names: Vec<_> = (1..=WORKERS).map(|it| format!("w{it}")).collect();
    let starts: Vec<_> = names.iter().map(|name| start(name, "do it")).collect();
    assert_eq!(daemon.shell("mkfifo gate").code, 0);
    let lead_steps =
        json!([call("All of you.", &json!(starts)), { "needs": names, "text": "All are done." }]);
    let steps = json!([
        call("I wait.", &json!([bash("touch at-$COORDD_AGENT; read -r line <gate; true")])),
        say("Done.")
    ]);
    let mut new =
        daemon.rehearsal("coordinator", &script(&json!([lead(&lead_steps), worker(&steps)])));
    new.permissions.allow = vec!["Bash".into()];
    new.workers = WORKERS;
    new.prompt = "go".into();
    let session = client.new_session(new).id;
    until_within(Duration::from_mins(1), "all wait", || {
        names.iter().all(|name| daemon.at(&format!("w/at-{name}")).exists()).then_some(())
    });
    let lead =
        client.agent_until(&format!("{session}/lead"), "has come to rest", |agent| agent.runs == 1);
    // It hears nothing for a while, and nobody can tell that from a long tool call.
    let process = Process::open(lead.pid.unwrap()).unwrap();
    process.signal(Signal::STOP);
    let mut gate = File::options().read(true).write(true).open(daemon.at("w/gate")).unwrap();
    gate.write_all("go\n".repeat(names.len()).as_bytes()).unwrap();
    until_within(Duration::from_mins(1), "all have ended", || {
        let agents = client.show(&session).1;
        agents[1..]
            .iter()
            .all(|agent| agent.state == AgentState::Stopped && agent.runs == 1)
            .then_some(())
    });
    assert_eq!(client.agent(&lead.id).mail, WORKERS, "all of them wait for the lead");
    process.signal(Signal::CONT);
    let entries = ended(&mut client, &session);
    let told = story::notifications(&entries);
    let ids: BTreeSet<_> = told.iter().map(|it| it.0).collect();
    assert_eq!((told.len(), ids.len()), (names.len(), names.len()), "once for each");
    let order: Vec<_> = told.iter().map(|it| it.0).collect();
    let mut agents = client.show(&session).1.split_off(1);
    agents.sort_by_key(|agent| agent.last.as_ref().unwrap().ended_ms);
    let ended_at = |id: &str| {
        agents.iter().find(|agent| agent.id == id).unwrap().last.as_ref().unwrap().ended_ms
    };
    assert!(order.is_sorted_by_key(|it| ended_at(it)), "in the order of their ends (N-5)");
    assert_eq!(story::texts(&entries).last(), Some(&"All are done."));
}

/// A lead is killed in the middle of its run, with mail on its way, and goes on where it was;
/// nothing is doubled.
#[test]
fn n4_e10_a_lead_goes_on_in_the_middle_of_its_run() {
    let daemon = Daemon::start();
    let mut client = daemon.client();
    let steps = json!([
        call("First.", &json!([bash("echo x >>did")])),
        call(
            "Second.",
            &json!([bash("touch reached; until test -e enough; do read -rt 0.02 <>wait; done")])
        ),
        say("Survived.")
    ]);
    assert_eq!(daemon.shell("mkfifo wait").code, 0);
    let mut new = daemon.rehearsal("normal", &script(&json!([lead(&steps)])));
    new.permissions.allow = vec!["Bash".into()];
    new.prompt = "go".into();
    let session = client.new_session(new).id;
    until("it is in its second call", || daemon.at("w/reached").exists().then_some(()));
    client.prompt(&session, "and this");
    let before = client.show(&session).1.remove(0);
    Process::open(before.pid.unwrap()).unwrap().kill9();
    daemon.write("w/enough", "");
    let lead = client
        .agent_until(&before.id, "has ended its run", |agent| agent.runs == 1 && agent.mail == 0);
    assert_eq!(lead.incarnation, 2);
    let entries = client.transcript(&lead.id);
    // A message that came after its last word gets one more.
    let said: Vec<_> =
        story::texts(&entries).into_iter().filter(|it| *it != "Nothing more to do.").collect();
    assert_eq!(said, ["First.", "Second.", "Survived."]);
    assert_eq!(std::fs::read_to_string(daemon.at("w/did")).unwrap(), "x\n");
    for text in ["go", "and this"] {
        assert_eq!(
            story::inputs(&entries).iter().filter(|input| input.1.contains(text)).count(),
            1,
            "{text}"
        );
    }
}
