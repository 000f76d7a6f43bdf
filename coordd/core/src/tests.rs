//! Rules of the core as tables and short stories, one input after the other.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test looks for one thing and passes over the rest"
)]

mod agents;
mod bridge;
mod edges;
mod events;
mod host;
#[cfg(feature = "coordinator")]
mod joining;
mod journal;
mod lifecycle;
mod messages;
mod outside;
mod pty;
mod questions;
mod routing;
mod scratchpad;
mod sessions;
mod starts;
mod stories;
mod teams;
mod terminal;

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use crate::agent::{Agent, Outcome, Status, Usage};
use crate::answer::{Answer, SendRow};
use crate::denial::Denial;
use crate::id::{AgentId, MessageId, PeerId, SessionId};
use crate::input::{Credentials, Lineage};
use crate::message::{Message, State};
use crate::request::{Address, Body, NewAgent, NewSession, Request};
use crate::session::Session;
use crate::settings::{Model, Provider};
use crate::{Core, Effect, Input, Moment, Step};

/// The user's connection.
const USER: PeerId = PeerId(1);

/// A core with a user at it, and a clock.
struct Stage {
    core: Core,
    wall_ms: u64,
    mono_ms: u64,
    turns: u8,
    last_peer: u64,
    last_call: u64,
    /// What the last input led to.
    step: Step,
    /// The secrets of the last incarnations, as their processes have them.
    tokens: BTreeMap<AgentId, String>,
}

impl Stage {
    fn new() -> Self {
        let mut stage = Self {
            core: Core::default(),
            wall_ms: 1_700_000_000_000,
            mono_ms: 1_000,
            turns: 0,
            last_peer: 1,
            last_call: 0,
            step: Step::default(),
            tokens: BTreeMap::new(),
        };
        stage.input(Input::Started);
        stage.input(Input::Connected {
            peer: USER,
            credentials: None,
            lineage: Lineage::default(),
        });
        stage
    }

    /// A stage with a live session `s` in normal mode.
    fn with_session() -> Self {
        let mut stage = Self::new();
        stage.session("s", "normal", 20);
        stage
    }

    fn input(&mut self, input: Input) -> &Step {
        self.turns = self.turns.wrapping_add(1);
        self.wall_ms += 1;
        self.mono_ms += 1;
        let turns = self.turns;
        let random =
            core::array::from_fn(|i| turns.wrapping_mul(31).wrapping_add(u8::try_from(i).unwrap()));
        let now = Moment { wall_ms: self.wall_ms, mono_ms: self.mono_ms, random };
        self.step = self.core.turn(&now, input);
        for effect in &self.step.effects {
            if let Effect::Spawn { agent, token }
            | Effect::Reply { outcome: Ok(Answer::Joined { agent, token }), .. } = effect
            {
                self.tokens.insert(agent.clone(), token.clone());
            }
        }
        &self.step
    }

    /// Sends a call, and does not expect an answer.
    fn send_call(&mut self, peer: PeerId, key: Option<&str>, request: Request) -> u64 {
        self.last_call += 1;
        let call = self.last_call;
        self.input(Input::Request { peer, call, key: key.map(String::from), request });
        call
    }

    /// The answer to a call in the last step, if it is there.
    fn reply(&self, peer: PeerId, call: u64) -> Option<Result<Answer, Denial>> {
        let mut found = self.step.effects.iter().filter_map(|it| match it {
            Effect::Reply { peer: p, call: c, outcome } if (*p, *c) == (peer, call) => {
                Some(outcome)
            }
            _ => None,
        });
        let reply = found.next().cloned();
        assert!(found.next().is_none(), "answered twice");
        reply
    }

    /// A call that is answered at once.
    fn ask(&mut self, peer: PeerId, request: Request) -> Result<Answer, Denial> {
        let call = self.send_call(peer, None, request);
        self.reply(peer, call).expect("an answer at once")
    }

    fn user(&mut self, request: Request) -> Result<Answer, Denial> {
        self.ask(USER, request)
    }

    fn session(&mut self, name: &str, mode: &str, workers: u32) -> SessionId {
        let new = NewSession {
            name: name.into(),
            cwd: "/here".into(),
            model: Some(model()),
            mode: Some(mode.into()),
            workers,
            ..NewSession::default()
        };
        match self.user(Request::SessionNew(new)) {
            Ok(Answer::Session(id)) => id,
            other => panic!("{other:?}"),
        }
    }

    fn of(&self, name: &str) -> &Session {
        self.core.durable.sessions.values().find(|it| it.name.as_str() == name).unwrap()
    }

    /// The only agent of this name.
    fn agent(&self, name: &str) -> &Agent {
        self.core.durable.agents.values().find(|it| it.name.as_str() == name).unwrap()
    }

    fn id(&self, name: &str) -> AgentId {
        self.agent(name).id.clone()
    }

    fn message(&self, id: MessageId) -> &Message {
        &self.core.durable.messages[&id]
    }

    /// The agent's process says hello.
    fn connect(&mut self, name: &str) -> PeerId {
        self.last_peer += 1;
        let peer = PeerId(self.last_peer);
        let it = self.agent(name);
        let credentials = Some(Credentials {
            agent: it.id.clone(),
            incarnation: it.incarnation,
            token: self.tokens.get(&it.id).cloned().unwrap_or_default(),
        });
        self.input(Input::Connected { peer, credentials, lineage: Lineage::default() });
        peer
    }

    /// Wakes the lead of `s` with a prompt, and has its process say hello and begin its run.
    fn lead(&mut self) -> PeerId {
        self.prompt("lead");
        let peer = self.connect("lead");
        self.read(peer, "lead");
        peer
    }

    /// The process takes all its mail into its next run.
    fn read(&mut self, peer: PeerId, name: &str) {
        let it = self.agent(name);
        let (messages, run) = (it.mailbox.iter().copied().collect(), it.runs + 1);
        self.ask(peer, Request::Acknowledge { messages, run }).unwrap();
    }

    fn prompt(&mut self, agent: &str) -> MessageId {
        let agent = Some(String::from(agent));
        let sent =
            self.user(Request::Prompt { session: "s".into(), agent, text: "do this".into() });
        accepted(sent)
    }

    fn spawn(&mut self, lead: PeerId, name: &str) -> Result<Answer, Denial> {
        self.ask(lead, Request::AgentSpawn(worker(name)))
    }

    fn exit(&mut self, name: &str, outcome: Option<(u32, Outcome)>) -> &Step {
        let it = self.agent(name);
        let (agent, incarnation) = (it.id.clone(), it.incarnation);
        self.input(Input::Exited { agent, incarnation, how: "signal 9".into(), outcome })
    }

    /// The daemon dies, and another one begins with the same state.
    fn restart(&mut self) {
        let durable = core::mem::take(&mut self.core.durable);
        self.core = Core { durable, ..Core::default() };
        self.input(Input::Started);
        self.input(Input::Connected { peer: USER, credentials: None, lineage: Lineage::default() });
    }

    fn states(&self, name: &str) -> Vec<State> {
        let id = self.id(name);
        self.core.durable.messages.values().filter(|it| it.to == id).map(|it| it.state).collect()
    }
}

pub(crate) fn model() -> Model {
    let (name, base_url, rehearsal_file) = (String::new(), None, None);
    Model { provider: Provider::Rehearsal, name, base_url, rehearsal_file }
}

fn worker(name: &str) -> NewAgent {
    NewAgent {
        description: "some work".into(),
        prompt: "do the work".into(),
        name: name.into(),
        ..NewAgent::default()
    }
}

fn to(name: &str, text: &str) -> Request {
    Request::Send {
        session: "s".into(),
        to: Address::Name(name.into()),
        body: Body::Text { text: text.into() },
        summary: String::new(),
        notify_when_idle: false,
    }
}

/// The id of the one message that was accepted.
fn accepted(answer: Result<Answer, Denial>) -> MessageId {
    match answer {
        Ok(Answer::Sent(rows)) => match rows.as_slice() {
            [SendRow::Accepted { id, .. }] => *id,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn completed() -> Outcome {
    Outcome {
        status: Status::Completed,
        class: None,
        reason: String::new(),
        result: "all done".to_string(),
        usage: Usage { input_tokens: 5_000, tool_uses: 9, ..Usage::default() },
    }
}
