//! kill -9 in the middle: of the daemon, of agents, of senders, at random, at named points and at
//! every n-th syscall.
//!
//! Needs programs with the feature `failpoints`, as `tests/run` builds them. The figures of long
//! runs are in `tests/README.md`; `COORDD_TEST_KILLS`, `COORDD_TEST_AGENTS`, `COORDD_TEST_MESSAGES`
//! and `COORDD_TEST_EVERY_SYSCALL` make them.

mod adoption;
mod notified;
mod peers;
mod points;
mod resume;
mod sends;
mod syscalls;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use proto::message::Body;
use proto::request::Request;
use proto::response::Response;
use proto::view::{AgentState, AgentView};
use serde_json::json;
use tests::history::{self, History};
use tests::kept::Kept;
use tests::rehearsal::{self, call, lead, say, script, start, worker};
use tests::stubborn::Stubborn;
use tests::wait::until_within;
use tests::{Daemon, Sandbox, story};

/// A figure that a long run sets higher.
fn figure(variable: &str, usual: usize) -> usize {
    std::env::var(variable).ok().map_or(usual, |it| it.parse().expect(variable))
}

/// Numbers that look random and are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// The command for a daemon that has this failpoint.
fn with_failpoint(point: &str) -> impl FnOnce(&Sandbox) -> Command {
    let point = point.to_owned();
    move |sandbox| {
        let mut command = Daemon::foreground(sandbox);
        command.env("COORDD_FAILPOINT", point);
        command
    }
}

/// An agent's transcript on the disk.
fn transcript(sandbox: &Sandbox, agent: &AgentView) -> PathBuf {
    let folder = sandbox.state().join("sessions").join(&agent.session).join("agents");
    let file = folder.join(&agent.id).join("transcript.jsonl");
    assert_eq!(Path::new(&agent.transcript), file);
    file
}

/// The agents of a session, over restarts of the daemon.
fn agents(client: &mut Stubborn, session: &str) -> Vec<AgentView> {
    match client.ok(&Request::SessionShow { session: session.into() }, None) {
        Response::SessionDetail { agents, .. } => agents,
        other => panic!("{other:?}"),
    }
}

/// Messages that the small story sends to its lead.
const STORY_MESSAGES: u64 = 3;

/// A small story that touches all that is kept: a session, a worker with its notification,
/// messages, a team with a task. It goes through whatever the daemon does meanwhile, and afterwards
/// all of it must have happened once.
fn play(kept: &mut Kept) {
    let steps = json!([
        call("I send one.", &json!([start("w", "do it")])),
        { "needs": ["w"], "text": "It says: {{result:w}}" }
    ]);
    let script = script(&json!([lead(&steps), worker(&json!([say("Once.")]))]));
    let mut new = rehearsal::session(kept, "coordinator", &script);
    new.prompt = "go".into();
    let mut client = Stubborn::new(&kept.socket());
    let request = Request::SessionNew { session: Box::new(new) };
    let Response::Session { session } = client.ok(&request, Some("new")) else {
        panic!("no session")
    };
    let session = session.id;
    let mut history = History::default();
    for number in 1..=STORY_MESSAGES {
        let body = Body::text(history::text("s", &session, number));
        let request = Request::Send {
            session: session.clone(),
            to: "lead".into(),
            body,
            summary: String::new(),
            notify_when_idle: false,
        };
        client.ok(&request, Some(&format!("send-{number}")));
        history.accepted("s", &session, number);
        if number == 1 {
            let request = Request::TeamCreate {
                session: session.clone(),
                name: "t".into(),
                description: String::new(),
                agent_type: String::new(),
            };
            client.ok(&request, Some("team"));
            let request = Request::TaskCreate {
                team: "t".into(),
                subject: "one".into(),
                description: String::new(),
                blocked_by: vec![],
            };
            client.ok(&request, Some("task"));
        }
    }
    until_within(Duration::from_secs(30), "the story has come to its end", || {
        let agents = agents(&mut client, &session);
        let [lead, w] = agents.as_slice() else { return None };
        let entries = history::entries(&transcript(kept, lead));
        let told = !story::notifications(&entries).is_empty();
        let rests = lead.state == AgentState::Idle && lead.mail == 0;
        (told && rests && w.state == AgentState::Stopped).then_some(())
    });
    assert_told_once(kept, &mut client, &session, history);
    client.ok(&Request::SessionStop { session: session.clone() }, Some("stop"));
}

/// What was accepted is there once, in its order, in memory and on the disk, and after one more
/// restart.
fn assert_told_once(kept: &mut Kept, client: &mut Stubborn, session: &str, mut history: History) {
    let agents = agents(client, session);
    let names: Vec<_> = agents.iter().map(|agent| (agent.name.as_str(), agent.runs >= 1)).collect();
    assert_eq!(names, [("lead", true), ("w", true)]);
    let (lead, w) = (&agents[0], &agents[1]);
    assert_eq!(w.runs, 1, "{w:?}");
    let file = transcript(kept, lead);
    let entries = history::entries(&file);
    let told = story::notifications(&entries);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        (told[0].0, told[0].2.matches("<result>Once.</result>").count()),
        (w.id.as_str(), 1)
    );
    assert_eq!(story::count_inputs(&entries, "go"), 1, "the prompt");
    assert_eq!(story::calls(&entries), ["Agent"], "one call, one worker");
    let entries = history::entries(&transcript(kept, w));
    assert_eq!((story::inputs(&entries).len(), story::texts(&entries)), (1, vec!["Once."]));
    history.transcript(session, &file);
    let faults = history.faults();
    assert!(faults.none(), "{faults}");
    let Response::Sessions { sessions } = client.ok(&Request::SessionList {}, None) else {
        panic!("no sessions")
    };
    assert_eq!(sessions.len(), 1);
    let Response::Tasks { tasks } = client.ok(&Request::TaskList { team: "t".into() }, None) else {
        panic!("no tasks")
    };
    assert_eq!(tasks.len(), 1);
}
