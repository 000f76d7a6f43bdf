//! What can be asked for, and the way from a request to its file: one for each family.

pub(super) mod agents;
pub(super) mod bridge;
pub(super) mod control;
mod joining;
pub(super) mod outside;
pub(super) mod permissions;
pub(super) mod reports;
pub(super) mod screens;
pub(super) mod sending;
pub(super) mod sessions;
pub(super) mod tasks;
pub(super) mod teams;

use crate::rules::Step;
use crate::state::answer::Answer;
use crate::state::denial::Denial;
use crate::state::id::{AgentId, PeerId};
use crate::state::live::{Caller, Waiter};
use crate::state::request::{Request, To};
use crate::state::{Durable, Effect, Live, Moment};
use alloc::string::String;

/// One call: what is asked for, by whom, on which connection.
pub(crate) struct Call<'a> {
    pub(crate) durable: &'a Durable,
    pub(crate) now: &'a Moment,
    pub(crate) caller: Caller,
    pub(crate) peer: PeerId,
    pub(crate) id: u64,
    pub(crate) key: Option<String>,
}

/// What a request's file says: an answer at once, a promise, or nothing since an effect will answer.
pub(crate) enum Said {
    /// The answer.
    Now(Answer),
    /// It comes when this has happened.
    Later(Waiter),
    /// The shell answers, as the effect says.
    ByShell,
}

pub(crate) type Verdict = Result<Said, Denial>;

impl Call<'_> {
    /// The agent that calls, for requests that only agents may make.
    pub(crate) fn agent(&self) -> Result<&AgentId, Denial> {
        match &self.caller {
            Caller::Agent(id) => Ok(id),
            Caller::User => Err(Denial::Forbidden { asker: "the user", request: "this" }),
            Caller::Bridge => Err(Denial::Forbidden { asker: "the bridge", request: "this" }),
        }
    }
}

/// Answers a call whose caller is known to be allowed to make it.
#[expect(
    clippy::too_many_lines,
    reason = "one short arm for each request, and none may be forgotten"
)]
pub(crate) fn answer(
    call: &Call<'_>,
    live: &mut Live,
    step: &mut Step,
    request: Request,
) -> Verdict {
    match request {
        Request::Ping => Ok(Said::Now(Answer::Done)),
        Request::DaemonStatus => Ok(Said::Now(Answer::Daemon)),
        Request::DaemonStop { keep_agents } => {
            Ok(control::stop_daemon(call, live, step, keep_agents))
        }
        Request::SessionNew(new) => sessions::new(call, live, step, new),
        Request::SessionList => Ok(Said::Now(Answer::Sessions)),
        Request::SessionShow { session } => sessions::show(call, &session),
        Request::SessionStop { session } => sessions::stop(call, live, step, &session),
        Request::SessionResume { session, mode_variable } => {
            sessions::resume(call, live, step, &session, mode_variable.as_deref())
        }
        Request::SessionRemove { session, force } => {
            sessions::remove(call, live, step, &session, force)
        }
        Request::Join(join) => joining::join(call, live, step, join),
        Request::Prompt { session, agent, text } => {
            sending::prompt(call, live, step, &session, agent.as_deref(), text)
        }
        Request::Interrupt { session } => control::interrupt(call, live, step, &session),
        Request::Send { session, to: To::Uds(path), body, summary, notify_when_idle } => {
            outside::send(call, step, &session, &path, &body, (&summary, notify_when_idle))
        }
        Request::Send { to: To::Bridge(id), body, summary, .. } => {
            outside::send_over(call, live, step, &id, &body, &summary)
        }
        Request::Send { session, to, body, summary, .. } => {
            sending::send(call, live, step, &session, &to, &body, &summary)
        }
        Request::PeerList => Ok(outside::peers(call, step)),
        Request::InboundList { session } => outside::list(call, &session),
        Request::InboundAnswer { message, accept, reason } => {
            outside::answer(call, live, step, &message, accept, &reason)
        }
        Request::InboundSet { session, inbound } => outside::set(call, step, &session, inbound),
        Request::Receipt { message } => sending::receipt(call, &message),
        Request::AgentSpawn(new) => agents::spawn(call, live, step, new),
        Request::AgentStop { agent } => agents::stop(call, live, step, &agent),
        Request::AgentShow { agent } => agents::show(call, &agent),
        Request::Transcript { agent, from, limit } => {
            agents::transcript(call, step, &agent, from, limit)
        }
        Request::PermissionAsk(question) => permissions::ask(call, live, step, question),
        Request::PermissionList { session } => permissions::list(call, &session),
        Request::PermissionAnswer { id, allow, always, reason } => {
            permissions::answer(call, live, step, &id, allow, always, reason)
        }
        Request::StructuredOutput { output } => control::output(call, step, output),
        Request::TeamCreate { session, name, description, agent_type } => {
            teams::create(call, step, &session, &name, description, agent_type)
        }
        Request::TeamDelete { session } => teams::delete(call, live, step, &session),
        Request::TeamList => Ok(Said::Now(Answer::Teams)),
        Request::TeamShow { team } => teams::show(call, &team),
        Request::TeamInvite(invite) => teams::invite(call, live, step, invite),
        Request::TaskCreate { team, subject, description, blocked_by } => {
            tasks::create(call, step, &team, subject, description, blocked_by)
        }
        Request::TaskList { team } => tasks::list(call, &team),
        Request::TaskGet { team, task } => tasks::get(call, &team, task),
        Request::TaskUpdate { team, task, status, owner, blocked_by } => {
            let update = tasks::Update { status, owner, blocked_by };
            tasks::update(call, live, step, &team, task, update)
        }
        Request::ScratchpadList { session } => sessions::scratchpad(call, step, &session, None),
        Request::ScratchpadShow { session, path } => {
            sessions::scratchpad(call, step, &session, Some(path))
        }
        Request::Usage { session } => sessions::usage(call, &session),
        Request::Subscribe { session, after } => control::subscribe(call, step, &session, after),
        Request::Attach { session, agent, history } => {
            control::attach(call, step, &session, &agent, history)
        }
        Request::Screen { agent, size } => screens::show(call, live, step, &agent, size),
        Request::ScreenInput { agent, size, bytes } => {
            screens::input(call, live, step, &agent, size, bytes)
        }
        Request::TerminalEnded(ended) => screens::ended(call, live, step, &ended),
        Request::Acknowledge { messages, run } => {
            reports::acknowledge(call, live, step, &messages, run)
        }
        Request::BridgeSet { on } => Ok(bridge::set(call, live, step, on)),
        Request::BridgeAllow { session, peer, inbound, outbound } => {
            bridge::allow(call, live, step, (&session, &peer), (inbound, outbound))
        }
        Request::BridgeStatus => Ok(Said::Now(Answer::Bridge)),
        Request::BridgeTold { id, fate } => Ok(bridge::told(call, live, step, id, fate)),
        Request::BridgeBring(it) => Ok(bridge::bring(call, live, step, it)),
        Request::BridgeReport(report) => Ok(bridge::report(live, report)),
        Request::RunEnded { run, outcome } => reports::run_ended(call, live, step, run, outcome),
    }
}

/// The effect that answers a call.
pub(crate) fn reply(peer: PeerId, call: u64, outcome: Result<Answer, Denial>) -> Effect {
    Effect::Reply { peer, call, outcome }
}

impl Call<'_> {
    /// Remembers what this call led to, so that its repetition leads to nothing more.
    pub(crate) fn remember(&self, step: &mut Step, to: crate::state::record::Keyed) {
        if let Some(key) = &self.key {
            step.record(crate::state::Record::Keyed {
                caller: crate::rules::decide::caller_key(&self.caller),
                key: key.clone(),
                to,
                at_ms: self.now.wall_ms,
            });
        }
    }
}
