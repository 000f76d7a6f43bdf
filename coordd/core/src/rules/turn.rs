//! One step of a turn: what rules read, and the one way to what they decide.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::rules::follows;
use crate::state::agent::Agent;
use crate::state::effect::Event;
use crate::state::id::{AgentId, MessageId, SessionId};
use crate::state::{Durable, Effect, Live, Moment, Record};

/// What one input led to.
#[derive(Debug, Default)]
pub struct Step {
    /// Made durable first, in this order.
    pub records: Vec<Record>,
    /// Done afterwards, in this order.
    pub effects: Vec<Effect>,
}

/// What rules are given, and where they leave what they decide.
///
/// The records of a step are applied after it, so `durable` is what was true before. What a rule must know of the step itself is
/// asked of the turn: the next number, whether a run has ended, how much is on its way.
pub(crate) struct Turn<'a> {
    pub(crate) durable: &'a Durable,
    pub(crate) live: &'a mut Live,
    pub(crate) now: &'a Moment,
    step: Step,
    decided: Decided,
}

/// What this very step has decided.
#[derive(Default)]
struct Decided {
    /// The last message number given out.
    last_message: u64,
    /// The sessions of agents that the step makes.
    made: BTreeMap<AgentId, SessionId>,
    /// The last run of each agent that the step ends.
    ended: BTreeMap<AgentId, u32>,
    /// How many messages to the outside the step puts.
    outgoing: usize,
}

impl Decided {
    fn nothing(durable: &Durable) -> Self {
        Self { last_message: durable.last_message, ..Self::default() }
    }
}

impl<'a> Turn<'a> {
    pub(crate) fn new(durable: &'a Durable, live: &'a mut Live, now: &'a Moment) -> Self {
        let decided = Decided::nothing(durable);
        Self { durable, live, now, step: Step::default(), decided }
    }

    /// What was decided.
    pub(crate) fn done(self) -> Step {
        self.step
    }

    /// Takes back all that was decided, as for a call that is denied.
    pub(crate) fn take_back(&mut self) {
        self.step = Step::default();
        self.decided = Decided::nothing(self.durable);
    }

    /// Adds a durable change. Agents that it names are looked at by `settle`, and subscribers are told of it.
    pub(crate) fn record(&mut self, record: Record) {
        self.record_because(record, "");
    }

    /// The same, where subscribers are told why.
    pub(crate) fn record_because(&mut self, record: Record, reason: &str) {
        self.see(&record);
        for agent in follows::agents_to_look_at(self, &record) {
            self.live.touch(&agent);
        }
        let events = follows::events(self, &record, reason);
        self.step.records.push(record);
        for (session, event) in events {
            self.publish(&session, event);
        }
    }

    /// Adds something to be done.
    pub(crate) fn effect(&mut self, effect: Effect) {
        self.step.effects.push(effect);
    }

    /// Tells subscribers what no record says.
    pub(crate) fn publish(&mut self, session: &SessionId, event: Event) {
        self.effect(Effect::Publish { session: session.clone(), event });
    }

    /// The number of the message that is put next.
    pub(crate) fn number(&mut self) -> MessageId {
        self.decided.last_message += 1;
        MessageId(self.decided.last_message)
    }

    /// The session of an agent, which this step may make.
    pub(crate) fn session_of(&self, agent: &AgentId) -> Option<&SessionId> {
        let known = self.durable.agents.get(agent).map(|it| &it.session);
        known.or_else(|| self.decided.made.get(agent))
    }

    /// Whether a run of an agent is over, by what is known or by what this step has decided.
    pub(crate) fn run_is_over(&self, agent: &Agent, run: u32) -> bool {
        run <= agent.runs || self.decided.ended.get(&agent.id).is_some_and(|last| run <= *last)
    }

    /// How many messages to the outside this step puts.
    pub(crate) fn outgoing_put(&self) -> usize {
        self.decided.outgoing
    }

    /// Remembers what the rest of the step may ask for.
    #[expect(clippy::wildcard_enum_match_arm, reason = "most records are not asked for")]
    fn see(&mut self, record: &Record) {
        match record {
            Record::AgentPut { agent } => {
                self.decided.made.insert(agent.id.clone(), agent.session.clone());
            }
            Record::RunEnded { agent, run, .. } => {
                self.decided.ended.insert(agent.clone(), *run);
            }
            Record::OutgoingPut { .. } => self.decided.outgoing += 1,
            _ => {}
        }
    }
}
