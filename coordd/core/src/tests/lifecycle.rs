//! Where an agent is, times what happens: the diagram of `agent.rs` as a full table.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;

use super::{Stage, USER, completed, to};
use crate::agent::Life;
use crate::request::Request;
use crate::{Effect, Input, Record, limits};

/// Where worker `w` of session `s` is before something happens.
const STATES: [&str; 10] = [
    "Down, ran before",
    "Down, its session is stopped",
    "Waiting for a place",
    "Up, not connected",
    "Up, mail handed over",
    "Up, in a run",
    "Up, in a run, connection lost",
    "Up, after its run",
    "Stopping, by stop",
    "Stopping, with its session",
];

const INPUTS: [&str; 10] = [
    "mail",
    "connects",
    "exits",
    "exits, outcome on disk",
    "cannot be started",
    "is stopped",
    "session is stopped",
    "session is resumed",
    "deadline passes",
    "late report",
];

fn worker_that_is(place: &str) -> Stage {
    let mut stage = Stage::new();
    stage.session("s", "normal", 1);
    let lead = stage.lead();
    if place == "Waiting for a place" {
        stage.spawn(lead, "other").unwrap();
    }
    stage.spawn(lead, "w").unwrap();
    if place == "Waiting for a place" || place == "Up, not connected" {
        return stage;
    }
    if place == "Down, its session is stopped" {
        stage.send_call(USER, None, Request::SessionStop { session: "s".into() });
        stage.exit("w", None);
        stage.exit("lead", None);
        return stage;
    }
    let peer = stage.connect("w");
    if place == "Up, mail handed over" {
        return stage;
    }
    stage.read(peer, "w");
    match place {
        "Up, in a run" => {}
        "Up, in a run, connection lost" => {
            stage.input(Input::Disconnected { peer });
        }
        "Stopping, by stop" => {
            stage.send_call(USER, None, Request::AgentStop { agent: "s/w".into() });
        }
        "Stopping, with its session" => {
            stage.send_call(USER, None, Request::SessionStop { session: "s".into() });
            stage.exit("lead", None);
        }
        _ => {
            stage.ask(peer, Request::RunEnded { run: 1, outcome: completed() }).unwrap();
            if place == "Down, ran before" {
                stage.exit("w", None);
            }
        }
    }
    stage
}

fn happen(stage: &mut Stage, input: &str) {
    let runs = stage.agent("w").runs;
    match input {
        "mail" => drop(stage.user(to("w", "more"))),
        "connects" => drop(stage.connect("w")),
        "exits" => drop(stage.exit("w", None)),
        "exits, outcome on disk" => drop(stage.exit("w", Some((runs + 1, completed())))),
        "cannot be started" => {
            let it = stage.agent("w");
            let (agent, incarnation) = (it.id.clone(), it.incarnation);
            stage.input(Input::SpawnFailed { agent, incarnation, why: "no such file".into() });
        }
        "is stopped" => {
            stage.send_call(USER, None, Request::AgentStop { agent: "s/w".into() });
        }
        "session is stopped" => {
            stage.send_call(USER, None, Request::SessionStop { session: "s".into() });
        }
        "session is resumed" => {
            let session = "s".into();
            stage.send_call(USER, None, Request::SessionResume { session, mode_variable: None });
        }
        "deadline passes" => {
            stage.mono_ms += limits::RETURN_MS;
            stage.input(Input::Tick);
        }
        _ => {
            let it = stage.agent("w");
            let (agent, incarnation) = (it.id.clone(), it.incarnation.wrapping_sub(1));
            let outcome = Some((runs + 1, completed()));
            stage.input(Input::Exited { agent, incarnation, how: "late".into(), outcome });
        }
    }
}

/// Where the worker is afterwards, and what was done about it.
fn seen(stage: &Stage) -> String {
    let w = stage.agent("w");
    let life = match &w.life {
        Life::Down => "Down",
        Life::Waiting => "Waiting",
        Life::Up => "Up",
        Life::Stopping { keep_mail: true, .. } => "Stopping (mail kept)",
        Life::Stopping { .. } => "Stopping",
    };
    let mut done = Vec::from([String::from(life)]);
    let peer = stage.core.live.links.get(&w.id).and_then(|it| it.peer);
    for record in &stage.step.records {
        match record {
            Record::RunEnded { agent, run, outcome, .. } if *agent == w.id => {
                done.push(format!("run {run} {:?}", outcome.status));
            }
            Record::MessageBounced { message, .. } if stage.message(*message).to == w.id => {
                done.push("bounced".into());
            }
            Record::AgentExited { agent, again: true, .. } if *agent == w.id => {
                done.push("crash counted".into());
            }
            _ => {}
        }
    }
    for effect in &stage.step.effects {
        match effect {
            Effect::Spawn { agent, .. } if *agent == w.id => done.push("started".into()),
            Effect::Kill { agent, .. } if *agent == w.id => done.push("killed".into()),
            Effect::Deliver { message, .. } if stage.message(*message).to == w.id => {
                done.push("handed over".into());
            }
            Effect::Order { peer: to, .. } if Some(*to) == peer => done.push("told to end".into()),
            Effect::Close { .. } => done.push("closed".into()),
            _ => {}
        }
    }
    done.join(", ")
}

/// C-6, W-4 to W-7, rel-52, rel-53: every state times every input.
#[test]
fn every_state_times_every_input() {
    let mut table = String::new();
    for state in STATES {
        writeln!(table, "{state}").unwrap();
        for input in INPUTS {
            let mut stage = worker_that_is(state);
            happen(&mut stage, input);
            writeln!(table, "    {input:23}| {}", seen(&stage)).unwrap();
        }
    }
    let want = include_str!("lifecycle.txt");
    assert!(table == want, "{table}");
}
