//! What tests ask for again and again, with the answers taken out of their envelopes.

use std::time::{Duration, Instant};

use proto::Outcome;
use proto::entry::Entry;
use proto::message::Receipt;
use proto::request::{NewSession, Request};
use proto::response::Response;
use proto::view::{AgentView, SessionView};

use crate::client::Client;
use crate::wait::CONDITION_LIMIT;

impl Client {
    pub fn new_session(&mut self, new: NewSession) -> SessionView {
        match self.ok(Request::SessionNew { session: Box::new(new) }) {
            Response::Session { session } => session,
            other => panic!("{other:?}"),
        }
    }

    pub fn sessions(&mut self) -> Vec<SessionView> {
        match self.ok(Request::SessionList {}) {
            Response::Sessions { sessions } => sessions,
            other => panic!("{other:?}"),
        }
    }

    pub fn show(&mut self, session: &str) -> (SessionView, Vec<AgentView>) {
        match self.ok(Request::SessionShow { session: session.into() }) {
            Response::SessionDetail { session, agents } => (session, agents),
            other => panic!("{other:?}"),
        }
    }

    pub fn agent(&mut self, agent: &str) -> AgentView {
        match self.ok(Request::AgentShow { agent: agent.into() }) {
            Response::Agent { agent } => agent,
            other => panic!("{other:?}"),
        }
    }

    pub fn receipt(&mut self, message: &str) -> Receipt {
        match self.ok(Request::Receipt { message: message.into() }) {
            Response::Receipt { receipt } => receipt,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until there is such an agent and it is as wanted.
    pub fn agent_until(
        &mut self,
        agent: &str,
        what: &str,
        wanted: impl Fn(&AgentView) -> bool,
    ) -> AgentView {
        let deadline = Instant::now() + CONDITION_LIMIT;
        loop {
            let answer = self.call(Request::AgentShow { agent: agent.into() });
            if let Outcome::Ok(response) = &answer
                && let Response::Agent { agent } = response.as_ref()
                && wanted(agent)
            {
                return agent.clone();
            }
            assert!(Instant::now() < deadline, "not in time: {agent} {what}; {answer:#?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn prompt(&mut self, session: &str, text: &str) {
        let response =
            self.ok(Request::Prompt { session: session.into(), agent: None, text: text.into() });
        assert!(matches!(response, Response::Sent { .. }), "{response:?}");
    }

    /// A transcript, whole.
    pub fn transcript(&mut self, agent: &str) -> Vec<Entry> {
        let mut all = Vec::new();
        loop {
            let from = all.len() as u64 + 1;
            let request = Request::Transcript { agent: agent.into(), from, limit: 200 };
            match self.ok(request) {
                Response::Transcript { entries, last } => {
                    if entries.is_empty() || entries.last().is_some_and(|entry| entry.seq >= last) {
                        all.extend(entries);
                        return all;
                    }
                    all.extend(entries);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
